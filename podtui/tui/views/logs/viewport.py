"""The visible rows of a log, and how the cursor and the view move over lines of several rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import Struct

from podtui.tui.views.logs.line_index import RowIndex


class Anchor(NamedTuple):
    """A place that stays when rows are added or removed: a line, and the rows from its first row to
    the top of the view."""

    line: int
    offset: int


class Step(NamedTuple):
    """A move by one step: the cursor's line, and the row at the top; each None if it stays."""

    line: int | None
    top: int | None


class Viewport(Struct, frozen=True):
    """``height`` rows from the row ``top`` on. Lines are given by their sequence numbers.

    ``head`` rows above the first line report dropped lines; ``first`` is the first line that is
    kept. ``rows_of`` returns the number of rows of a line.
    """

    rows: RowIndex
    rows_of: Callable[[int], int]
    first: int
    head: int
    top: int
    height: int

    @property
    def total(self) -> int:
        """The number of all rows, visible or not."""
        return self.rows.rows + self.head

    def line_at(self, row: int) -> tuple[int, int] | None:
        """Return the line in a row, and the index of the row within the line."""
        return self.rows.line_at(row - self.head)

    def row_of(self, line: int) -> int:
        """Return the first row of a line."""
        return self.rows.row_of(line) + self.head

    def last_row_of(self, line: int) -> int:
        return self.row_of(line) + self.rows_of(line) - 1

    def lines(self) -> Iterator[tuple[int, int]]:
        """Yield each visible row, counted from the top of the view, with its line."""
        for y in range(self.height):
            position = self.line_at(self.top + y)
            if position is not None:
                yield y, position[0]

    @property
    def anchor(self) -> Anchor | None:
        """The place of the top row; None if no line is there."""
        position = self.line_at(self.top)
        if position is None:
            return None
        return Anchor(position[0], self.top - self.row_of(position[0]))

    def row_of_anchor(self, anchor: Anchor) -> int:
        """Return the top row that shows ``anchor``, or the first line if its line was dropped."""
        return self.row_of(max(anchor.line, self.first)) + anchor.offset

    @property
    def last_line(self) -> int | None:
        position = self.rows.line_at(self.rows.rows - 1)
        return position[0] if position is not None else None

    def nearest(self, line: int | None) -> int | None:
        """Return the visible line nearest to ``line``, by default the lowest one."""
        if not self.rows.rows:
            return None
        bottom = min(self.top + max(1, self.height), self.total) - 1
        row = bottom if line is None else self.row_of(max(line, self.first))
        position = self.line_at(max(self.top, self.head, min(row, bottom)))
        return position[0] if position is not None else None

    def top_for(self, line: int) -> int | None:
        """Return the top row that shows a line at a third of the height; None if its first row is
        visible already."""
        row = self.row_of(line)
        return None if self.top <= row < self.top + self.height else row - self.height // 3

    def step(self, line: int, direction: int) -> Step | None:
        """Return the move from ``line`` up (-1) or down (1); None at the end of the log.

        A line that extends beyond the view is scrolled through row by row.
        """
        down, end = direction > 0, self.top + self.height
        first, last = self.row_of(line), self.last_row_of(line)
        if last >= end if down else first < self.top:
            return Step(None, self.top + direction)
        position = self.line_at(last + 1 if down else first - 1)
        if position is None:
            return None
        target = position[0]
        first, last = self.row_of(target), self.last_row_of(target)
        if down and last >= end:
            return Step(target, min(first, last - self.height + 1))
        if not down and first < self.top:
            return Step(target, max(first, last - self.height + 1))
        return Step(target, None)
