"""Notifications with sanitized, limited text, whatever their source."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Self

from textual.app import App
from textual.markup import escape
from textual.notifications import Notification, Notifications, SeverityLevel

from podtui.tui.widgets.cells import prefix, width_of
from podtui.tui.widgets.sanitize import clean, clean_lines

MOST: Final = 3

_Words = tuple[str, str, str]


class Toasts(Notifications):
    """Keeps the newest `MOST` notifications.

    Repeated notifications are merged into one with a count (``×3``) and the timeout of the last.
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[str, tuple[_Words, int]] = {}
        """By identity: (original title, message and severity; count)."""

    def add(self, notification: Notification) -> Self:
        standing = tuple(self)
        words = (notification.title, notification.message, notification.severity)
        count = 1
        for before in standing:
            known, times = self._said.get(before.identity, (None, 0))
            if known == words:
                count += times
                del self[before]
        super().add(counted(notification, count))
        shown = tuple(self)
        for oldest in shown[:-MOST]:
            del self[oldest]
        self._said = {
            one.identity: self._said[one.identity]
            for one in shown[-MOST:]
            if one.identity in self._said
        }
        self._said[notification.identity] = (words, count)
        return self


def counted(notification: Notification, count: int) -> Notification:
    """Append the count to the title of a notification, or to its message if it has no title."""
    if count < 2:
        return notification
    if notification.title:
        return replace(notification, title=f"{notification.title} ×{count}")
    return replace(notification, message=f"{notification.message} ×{count}")


MOST_LINES: Final = 12
WIDEST: Final = 800
"""Maximum cells of one line: a longer one would cover too much of the screen."""


class Notices(App[None]):
    """An app base class that sanitizes notifications and limits their length and number.

    The message of a notification with markup is passed on unchanged.
    """

    def __init__(self) -> None:
        super().__init__()
        self._notifications = Toasts()

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
