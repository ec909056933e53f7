"""Notifications with sanitized, limited text, without duplicates, and only a few at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, cast
from uuid import uuid4

from msgspec import Struct
from textual.app import App
from textual.markup import escape
from textual.notifications import Notification, Notify, SeverityLevel
from textual.screen import ModalScreen, Screen
from textual.signal import Signal

from podtui.tui.widgets.cells import prefix, width_of
from podtui.tui.widgets.sanitize import clean, clean_lines

MOST: Final = 3
"""Maximum number of notifications on the screen."""
MOST_LINES: Final = 12
WIDEST: Final = 800
"""Maximum cells of one line: a longer one would cover too much of the screen."""


class _Notice(Struct):
    """A notification as shown, with the title, message and severity that were given."""

    given: tuple[str, str, SeverityLevel]
    count: int
    shown: Notification

    @property
    def fresh(self) -> Notification:
        """The notification as it was given, to be shown from now on."""
        title, message, severity = self.given
        return Notification(message, title, severity, self.shown.timeout, self.shown.markup)


class Notices(App[None]):
    """An app base class that sanitizes notifications and limits their length and number.

    The newest `MOST` are shown. Repeated ones are merged into one with a count (``×3``) and the
    timeout of the last. The message of a notification with markup is passed on unchanged. A dialog
    is never covered: notifications wait until it is closed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._notices: list[_Notice] = []
        self._posted: set[str] = set()
        """The identities of notifications that `on_notify` has posted."""
        self._held: list[_Notice] = []
        self._counts: dict[str, int] = {}
        """The number of equal notifications that waited, by the identity of the posted one."""

    @property
    def notices(self) -> list[Notification]:
        """The notifications on the screen, the newest last."""
        return [each.shown for each in self._notices if not each.shown.has_expired]

    @property
    def held(self) -> list[Notification]:
        """The notifications that wait until the dialog is closed."""
        return [each.shown for each in self._held]

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        super().notify(
            message if markup else short(message),
            title=short(title),
            severity=severity,
            timeout=timeout,
            markup=markup,
        )

    def on_mount(self) -> None:
        changed = cast("Signal[Screen[Any]]", cast("Any", self).screen_change_signal)
        changed.subscribe(self, self._screen_changed, immediate=True)

    def _screen_changed(self, _: Screen[Any]) -> None:
        if self._shows_dialog:
            self._hold_shown()
        else:
            self._show_held()

    @property
    def _shows_dialog(self) -> bool:
        return bool(self.screen_stack) and isinstance(self.screen_stack[-1], ModalScreen)

    def _hold_shown(self) -> None:
        """Take the notifications off the screen until the dialog is closed."""
        self._held += [each for each in self._notices if not each.shown.has_expired]
        self.clear_notifications()

    def _show_held(self) -> None:
        """Show the notifications that waited for the end of a dialog."""
        held, self._held = self._held, []
        for notice in held:
            note = notice.fresh
            self._counts[note.identity] = notice.count
            self.post_message(Notify(note))

    def clear_notifications(self) -> None:
        self._notices.clear()
        super().clear_notifications()

    def on_notify(self, event: Notify) -> None:
        """Merge and limit the notifications, before Textual adds the new one."""
        note = event.notification
        given = (note.title, note.message, note.severity)
        if self._shows_dialog:
            event.prevent_default()
            if note.identity in self._posted:
                # It is among those that `_hold_shown` took off the screen.
                self._posted.discard(note.identity)
            else:
                self._held = _merged(self._held, given, self._counts.pop(note.identity, 1), note)
            return
        live = [each for each in self._notices if not each.shown.has_expired]
        if note.identity in self._posted:
            self._posted.discard(note.identity)
            if not any(each.shown is note for each in live):
                # A newer notification has replaced it meanwhile.
                event.prevent_default()
            return
        self._notices = _merged(live, given, self._counts.pop(note.identity, 1), note)
        if len(self._notices) > len(live):
            return
        # Textual removes either one that has expired or all.
        event.prevent_default()
        super().clear_notifications()
        for each in self._notices:
            each.shown = replace(each.shown, identity=str(uuid4()))
            self._posted.add(each.shown.identity)
            self.post_message(Notify(each.shown))


def _merged(
    notices: Sequence[_Notice],
    given: tuple[str, str, SeverityLevel],
    count: int,
    note: Notification,
) -> list[_Notice]:
    """Return the newest `MOST` notices after ``note`` was given ``count`` times."""
    count += sum(notice.count for notice in notices if notice.given == given)
    kept = [notice for notice in notices if notice.given != given]
    return [*kept, _Notice(given, count, _counted(note, count))][-MOST:]


def _counted(notification: Notification, count: int) -> Notification:
    """Append the count to the title of a notification, or to its message if it has no title."""
    if count < 2:
        return notification
    if notification.title:
        return replace(notification, title=f"{notification.title} ×{count}")
    return replace(notification, message=f"{notification.message} ×{count}")


def short(text: str) -> str:
    """Sanitize a text and limit it to `MOST_LINES` lines of at most `WIDEST` cells."""
    lines = clean_lines(text)
    kept = [
        line if width_of(line) <= WIDEST else prefix(line, WIDEST - 1) + "…"
        for line in lines[:MOST_LINES]
    ]
    return "\n".join(kept + ["…"] * (len(lines) > MOST_LINES))


def unmarked(text: str) -> str:
    """Sanitize a text and escape markup in it, for functions that accept only markup strings."""
    return escape(clean(text))
