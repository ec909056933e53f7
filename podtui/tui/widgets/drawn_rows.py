"""What the rows of a table say, kept while nothing that they say may have changed.

A row is composed once for all who ask: the tick that looks for ages that read otherwise now, the
comparison that finds the cells to draw, and the drawing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from rich.style import Style
from textual.strip import Strip

from podtui.tui.widgets.cells import Column, Fitted, Line, Row
from podtui.tui.widgets.table_lines import changed_cells, holds_until, row_line


class _Kept(Struct):
    """``at`` and ``until`` (epoch seconds): when it was composed, how long its ages read so."""

    row: Row
    marked: bool
    at: float
    until: float
    line: Line
    strip: Strip | None = None
    look: tuple[str, Style] | None = None
    """The gutter and the style that the strip was made with."""


class DrawnRows:
    """Lines by the key of their row."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.composed = 0
        """Lines composed since the start; what tests count instead of time."""
        self._columns = columns
        self._fitted: tuple[Fitted, ...] = ()
        self._width = 0
        self._kept: dict[str, _Kept] = {}

    def lay_out(self, fitted: tuple[Fitted, ...], width: int) -> bool:
        """Compose for these columns in ``width`` cells from now on; whether that is new."""
        if (fitted, width) == (self._fitted, self._width):
            return False
        self._fitted, self._width = fitted, width
        self._kept.clear()
        return True

    def forget(self, keys: Iterable[str]) -> None:
        """These rows are gone."""
        for key in keys:
            self._kept.pop(key, None)

    def forget_looks(self) -> None:
        """Colours are others now."""
        for kept in self._kept.values():
            kept.strip = None

    def line(self, row: Row, now: float, *, marked: bool) -> Line:
        """What a row says behind its gutter."""
        return self._compose(row, now, marked).line

    def change(self, row: Row, now: float, *, marked: bool) -> tuple[int, int] | None:
        """The first cell that a row differs in from what it said when it was composed last and the
        one behind the last, as far as the table is wide; None where it says the same."""
        before = self._kept.get(row.key)
        if before is None:
            self._compose(row, now, marked)
            return 0, self._width
        after = self._compose(row, now, marked)
        return None if after is before else changed_cells(before.line, after.line)

    def strip(self, key: str, gutter: str, base: Style) -> Strip | None:
        """What was drawn of the line that `line` gave last, where it looked the same."""
        kept = self._kept[key]
        return kept.strip if kept.look == (gutter, base) else None

    def keep_strip(self, key: str, gutter: str, base: Style, strip: Strip) -> None:
        """Take down what was drawn."""
        kept = self._kept[key]
        kept.strip, kept.look = strip, (gutter, base)

    def _compose(self, row: Row, now: float, marked: bool) -> _Kept:
        kept = self._kept.get(row.key)
        if (
            kept is not None
            and kept.row is row
            and kept.marked is marked
            and kept.at <= now < kept.until
        ):
            return kept
        self.composed += 1
        until = holds_until(row, self._fitted, now)
        line = row_line(row, self._columns, self._fitted, now=now, width=self._width, marked=marked)
        if kept is not None and kept.line == line:
            kept.row, kept.marked, kept.at, kept.until = row, marked, now, until
            return kept
        fresh = self._kept[row.key] = _Kept(row, marked, now, until, line)
        return fresh
