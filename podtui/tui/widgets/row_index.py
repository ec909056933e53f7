"""Which screen row shows which line, where a line may take several rows or none.

Counting the rows of a million lines at each change of width would block the screen, so counts are
made a chunk at a time, when there is time for it, newest first. A chunk not yet counted is taken to
have one row for each line that is shown; as it is counted the rows below it move, and the view
moves with them. The total of each chunk is kept; the rows of each line only for chunks looked at.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from podtui.tui.logs.line_buffer import CHUNK_LINES, Chunk, LineBuffer
from podtui.tui.logs.line_set import LineSet

RowCount = Callable[[Chunk, int], int]
"""How many rows a line takes, by its chunk and its index there."""
DETAILED: Final = 256
"""Chunks whose rows are kept line by line."""
AT_ONCE: Final = 512
"""Lines counted in one go where nobody waits for them."""


def _always(chunk: Chunk) -> bool:
    return True


class RowIndex:
    """Rows of a `LineBuffer`, or of those of its lines that are ``shown``.

    ``count`` None gives each line one row; else it is asked about the lines of chunks that
    ``uneven`` names.
    """

    def __init__(
        self,
        buffer: LineBuffer,
        shown: LineSet | None = None,
        count: RowCount | None = None,
        uneven: Callable[[Chunk], bool] = _always,
    ) -> None:
        self._buffer = buffer
        self.shown = shown
        self._count = count
        self._uneven = uneven
        # By a chunk's first sequence number: its rows, and how many of its lines they are of.
        self._rows: dict[int, tuple[int, int]] = {}
        # Running row totals of the lines shown, beginning with those of the first of them.
        self._details: OrderedDict[int, tuple[int, array[int]]] = OrderedDict()
        self._starts: list[int] | None = None
        # Chunks from here on are counted.
        self._below = 0
        self.refresh()

    @property
    def rows(self) -> int:
        """All rows, those of uncounted lines estimated at one each."""
        return self.starts[-1]

    @property
    def starts(self) -> list[int]:
        if self._starts is None:
            self._starts = list(accumulate(map(self._rows_in, self._buffer.chunks), initial=0))
        return self._starts

    def refresh(self) -> None:
        """Take in lines appended, dropped or scanned; the newest chunk is counted at once."""
        self._starts = None
        self._below = len(self._buffer.chunks)
        first = self._buffer.first
        for gone in [key for key in self._rows if key < first]:
            del self._rows[gone]
            self._details.pop(gone, None)
        for chunk in self._buffer.chunks[-2:]:
            if chunk is self._buffer.chunks[-1] or chunk.first in self._rows:
                self._take_in(chunk)

    def recount(self, sequence: int) -> None:
        """The rows of this line are others now."""
        chunk = self._buffer.chunk_of(sequence)
        self._rows.pop(chunk.first, None)
        self._details.pop(chunk.first, None)
        self._starts = None
        self._take_in(chunk)

    def count_more(self) -> bool:
        """Count a few lines that are not yet counted; whether there were any."""
        if self._count is None:
            return False
        while self._below:
            chunk = self._buffer.chunks[self._below - 1]
            if self._uneven(chunk) and self._stale(chunk):
                self._take_in(chunk, AT_ONCE)
                return True
            self._below -= 1
        return False

    def row_of(self, sequence: int) -> int:
        """The first row of a line; of one that is not shown, where it would be."""
        place = self._buffer.place_of(sequence)
        chunk = self._buffer.chunks[place]
        rank = self._rank(chunk, sequence - chunk.first)
        totals = self._totals(chunk)
        start = self.starts[place]
        if totals is None or rank == 0 or not totals:
            return start + rank
        counted = min(rank, len(totals))
        return start + totals[counted - 1] + rank - counted

    def line_at(self, row: int) -> tuple[int, int] | None:
        """(sequence, row inside the line), None past the end."""
        if not 0 <= row < self.rows:
            return None
        place = bisect_right(self.starts, row) - 1
        chunk = self._buffer.chunks[place]
        inside = row - self.starts[place]
        totals = self._totals(chunk)
        rank = inside
        if not totals:
            inside = 0
        elif inside >= totals[-1]:
            rank, inside = len(totals) + inside - totals[-1], 0
        else:
            rank = bisect_right(totals, inside)
            inside -= totals[rank - 1] if rank else 0
        index = self.shown.members(chunk)[rank] if self.shown is not None else rank
        return chunk.first + index, inside

    # --- chunks

    def _rank(self, chunk: Chunk, index: int) -> int:
        if self.shown is None:
            return min(index, chunk.count)
        return bisect_left(self.shown.members(chunk), index)

    def _lines_in(self, chunk: Chunk) -> int:
        return chunk.count if self.shown is None else len(self.shown.members(chunk))

    def _rows_in(self, chunk: Chunk) -> int:
        found = self._rows.get(chunk.first)
        # Lines that came after the count have a row each until they are counted.
        return (
            self._lines_in(chunk) if found is None else found[0] + self._lines_in(chunk) - found[1]
        )

    def _stale(self, chunk: Chunk) -> bool:
        found = self._rows.get(chunk.first)
        return found is None or found[1] != self._lines_in(chunk)

    def _totals(self, chunk: Chunk) -> array[int] | None:
        """Running totals of a chunk that was counted, None where each line has one row."""
        if self._count is None or chunk.first not in self._rows:
            return None
        if chunk.first not in self._details:
            self._take_in(chunk)
        self._details.move_to_end(chunk.first)
        return self._details[chunk.first][1]

    def _take_in(self, chunk: Chunk, most: int = CHUNK_LINES) -> None:
        if self._count is None or not self._uneven(chunk):
            return
        members = self.shown.members(chunk) if self.shown is not None else range(chunk.count)
        begin = members[0] if members else 0
        was, totals = self._details.get(chunk.first, (begin, array("I")))
        if was != begin or len(totals) > len(members):
            # Context was put before what had been counted.
            totals = array("I")
        known = len(totals)
        until = min(len(members), known + most)
        counts = (self._count(chunk, members[rank]) for rank in range(known, until))
        running = accumulate(counts, initial=totals[-1] if totals else 0)
        next(running)
        totals.extend(running)
        self._details[chunk.first] = (begin, totals)
        self._rows[chunk.first] = (totals[-1] if totals else 0, len(totals))
        self._starts = None
        while len(self._details) > DETAILED:
            self._details.popitem(last=False)
