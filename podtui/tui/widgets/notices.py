"""What is told in passing, fit to be drawn: whoever tells it, and whatever is in it."""

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
"""Cells of one line: more than that covers what it is about."""


class Notices(App[None]):
    """An app whose notices are clean, short and few."""

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
    """A clean text of at most `MOST_LINES` lines, each of at most `WIDEST` cells."""
    lines = clean_lines(text)
    kept = [
        line if width_of(line) <= WIDEST else prefix(line, WIDEST - 1) + "…"
        for line in lines[:MOST_LINES]
    ]
    return "\n".join(kept + ["…"] * (len(lines) > MOST_LINES))


def unmarked(text: str) -> str:
    """A clean text for whatever reads markup and takes nothing but a string."""
    return escape(clean(text))
