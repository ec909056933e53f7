"""Which screen row shows which line when long lines are wrapped.

Counting the rows of a million lines at each change of width would block the screen, so counts are
kept a chunk at a time, made when there is time for it, newest first. A chunk not yet counted is
taken to have one row a line; as it is counted the rows below it move, and the view moves with them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate

from podtui.tui.line_buffer import Chunk, LineBuffer

RowCount = Callable[[bytes], int]


class RowIndex:
    """Rows of a `LineBuffer` at one width; ``count(line)`` is how many rows a line takes."""

    def __init__(self, buffer: LineBuffer, count: RowCount) -> None:
        self._buffer = buffer
        self._count = count
        # By a chunk's first sequence number: running row totals of its counted lines.
        self._totals: dict[int, array[int]] = {}
        self._starts: list[int] = [0]
        self._firsts: list[int] = [buffer.first]
        self.refresh()

    @property
    def rows(self) -> int:
        """All rows, those of uncounted lines estimated at one each."""
        return self._starts[-1]

    def refresh(self) -> None:
        """Take in lines appended or dropped; the newest chunk is counted at once."""
        newest = self._buffer.chunks[-1]
        if newest.first not in self._totals:
            self._totals[newest.first] = array("I")
        self._extend(newest)
        if len(self._buffer.chunks) > 1:
            previous = self._buffer.chunks[-2]
            if previous.first in self._totals:
                self._extend(previous)
        first = self._buffer.first
        for gone in [key for key in self._totals if key < first]:
            del self._totals[gone]
        self._restart()

    def count_more(self) -> bool:
        """Count one chunk that is not yet counted; whether there was one."""
        for chunk in reversed(self._buffer.chunks):
            if chunk.first not in self._totals:
                self._totals[chunk.first] = array("I")
                self._extend(chunk)
                self._restart()
                return True
        return False

    def row_of(self, sequence: int) -> int:
        """The first row of a line."""
        position = max(0, bisect_right(self._firsts, sequence) - 1)
        totals = self._totals.get(self._firsts[position])
        inside = sequence - self._firsts[position]
        if totals is None or inside == 0:
            return self._starts[position] + inside
        return self._starts[position] + totals[min(inside, len(totals)) - 1]

    def line_at(self, row: int) -> tuple[int, int] | None:
        """(sequence, row inside the line), None past the end."""
        if not 0 <= row < self.rows:
            return None
        position = bisect_right(self._starts, row) - 1
        first = self._firsts[position]
        inside = row - self._starts[position]
        totals = self._totals.get(first)
        if totals is None:
            return first + inside, 0
        index = bisect_right(totals, inside)
        return first + index, inside - (totals[index - 1] if index else 0)

    def _extend(self, chunk: Chunk) -> None:
        totals = self._totals[chunk.first]
        known = len(totals)
        if known < len(chunk):
            counts = (self._count(chunk.line(i)) for i in range(known, len(chunk)))
            totals.extend(list(accumulate(counts, initial=totals[-1] if totals else 0))[1:])

    def _restart(self) -> None:
        self._firsts = [chunk.first for chunk in self._buffer.chunks]
        self._starts = list(accumulate(map(self._rows_of, self._buffer.chunks), initial=0))

    def _rows_of(self, chunk: Chunk) -> int:
        totals = self._totals.get(chunk.first)
        if totals is None:
            return len(chunk)
        return totals[-1] if totals else 0
