"""A cache of the drawn rows of a table.

A row is composed only once for all three uses: the tick that finds changed ages, the comparison
that finds the cells to redraw, and the drawing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from rich.style import Style
from textual.strip import Strip

from podtui.tui.widgets.cells import Column, Fitted, Line, Row
from podtui.tui.widgets.table_lines import changed_cells, holds_until, row_line


class _Kept(Struct):
    """A cached row, composed ``at`` a time; its ages are valid ``until`` a time (epoch seconds)."""

    row: Row
    marked: bool
    at: float
    until: float
    line: Line
    strip: Strip | None = None
    look: tuple[str, Style] | None = None
    """The gutter text and the base style of ``strip``."""


class DrawnRows:
    """Composed lines by row key."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.composed = 0
        """Number of lines composed since the start; tests check it instead of the time."""
        self._columns = columns
        self._fitted: tuple[Fitted, ...] = ()
        self._width = 0
        self._kept: dict[str, _Kept] = {}

    def lay_out(self, fitted: tuple[Fitted, ...], width: int) -> bool:
        """Set the columns and the total width in cells. Returns True if they changed."""
        if (fitted, width) == (self._fitted, self._width):
            return False
        self._fitted, self._width = fitted, width
        self._kept.clear()
        return True

    def forget(self, keys: Iterable[str]) -> None:
        """Remove rows from the cache."""
        for key in keys:
            self._kept.pop(key, None)

    def forget_looks(self) -> None:
        """Drop all strips, after a change of colours."""
        for kept in self._kept.values():
            kept.strip = None

    def line(self, row: Row, now: float, *, marked: bool) -> Line:
        """Return the line of a row, without its gutter."""
        return self._compose(row, now, marked).line

    def change(self, row: Row, now: float, *, marked: bool) -> tuple[int, int] | None:
        """Compose a row and return the range of cells that changed since it was last composed.

        The end of the range is exclusive. Returns the whole width for a new row, None if nothing
        changed.
        """
        before = self._kept.get(row.key)
        if before is None:
            self._compose(row, now, marked)
            return 0, self._width
        after = self._compose(row, now, marked)
        return None if after is before else changed_cells(before.line, after.line)

    def strip(self, key: str, gutter: str, base: Style) -> Strip | None:
        """Return the strip of the last composed line if it has this gutter and style, else None."""
        kept = self._kept[key]
        return kept.strip if kept.look == (gutter, base) else None

    def keep_strip(self, key: str, gutter: str, base: Style, strip: Strip) -> None:
        """Store the strip of the last composed line."""
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
