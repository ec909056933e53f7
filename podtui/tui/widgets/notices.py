"""Notifications with sanitized, limited text, whatever their source."""

from __future__ import annotations

from typing import Final

from textual.app import App
from textual.markup import escape
from textual.notifications import SeverityLevel

from podtui.tui.widgets.cells import prefix, width_of
from podtui.tui.widgets.sanitize import clean, clean_lines
from podtui.tui.widgets.toasts import Toasts

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
