"""The history of views (pane, filter, opened pod), and of the lines typed in a prompt."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

KEPT: Final = 50


class HistoryEntry(Struct, frozen=True):
    """A view; ``pod`` is the key of the pod that is open over the panes, if any."""

    pane: str
    filter: str = ""
    pod: str = ""


class ViewHistory:
    def __init__(self, start: HistoryEntry) -> None:
        self._places = [start]
        self._at = 0
        self._last: HistoryEntry | None = None

    @property
    def here(self) -> HistoryEntry:
        return self._places[self._at]

    def visit(self, place: HistoryEntry) -> None:
        """Add a place, and drop the places that were ahead."""
        if place == self.here:
            return
        self._last = self.here
        self._places = [*self._places[: self._at + 1], place][-KEPT:]
        self._at = len(self._places) - 1

    def step(self, by: int) -> HistoryEntry | None:
        """Go back (-1) or forward (1); return None at the end."""
        if not 0 <= self._at + by < len(self._places):
            return None
        self._last = self.here
        self._at += by
        return self.here

    def last(self) -> HistoryEntry | None:
        """Go to the previous place; a second call returns to this one."""
        if self._last is not None:
            self.visit(self._last)
            return self.here
        return None
