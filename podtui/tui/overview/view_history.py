"""Where one has been: panes, their filters, opened pods; to go back and forth in."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

KEPT: Final = 50


class Place(Struct, frozen=True):
    """``pod`` is the key of a pod that is open over the panes, if one is."""

    pane: str
    filter: str = ""
    pod: str = ""


class ViewHistory:
    def __init__(self, start: Place) -> None:
        self._places = [start]
        self._at = 0
        self._last: Place | None = None

    @property
    def here(self) -> Place:
        return self._places[self._at]

    def visit(self, place: Place) -> None:
        """Somebody went to a place: what lay ahead is forgotten."""
        if place == self.here:
            return
        self._last = self.here
        self._places = [*self._places[: self._at + 1], place][-KEPT:]
        self._at = len(self._places) - 1

    def step(self, by: int) -> Place | None:
        """One back (-1) or forth (1) again; None at the end."""
        if not 0 <= self._at + by < len(self._places):
            return None
        self._last = self.here
        self._at += by
        return self.here

    def last(self) -> Place | None:
        """The place before this one, whichever way one came; again leads back here."""
        if self._last is not None:
            self.visit(self._last)
            return self.here
        return None


class Typed:
    """What was typed in a prompt before, to be asked for again with the arrow keys."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._at = 0
        self._draft = ""

    def add(self, line: str) -> None:
        """Keep a line, once, as the newest; and go back to the end."""
        if line.strip():
            self._lines = [*(old for old in self._lines if old != line), line][-KEPT:]
        self._at = len(self._lines)

    def step(self, by: int, current: str) -> str:
        """The line before (-1) or after (1); ``current``, half typed, waits at the end."""
        if self._at == len(self._lines):
            self._draft = current
        self._at = max(0, min(len(self._lines), self._at + by))
        return self._draft if self._at == len(self._lines) else self._lines[self._at]
