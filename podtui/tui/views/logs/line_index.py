"""Two indexes over the lines of a buffer: a subset of them, and the screen rows that they take.

Both are filled one chunk at a time, newest first, when the event loop is free: scanning or counting
a million lines at once would block the screen.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Final

from podtui.tui.views.logs.line_buffer import CHUNK_LINES, Chunk, LineBuffer

Hits = Callable[[Chunk, int], Iterable[int]]
"""Callback: return the indexes of matching lines of a chunk, from a given index on, in order."""


class LineSet:
    """A set of the lines that ``hits`` returns.

    ``context`` lines before and after each hit belong to the set as well, but only within the
    hit's chunk and the two adjacent chunks.
    """

    def __init__(self, buffer: LineBuffer, hits: Hits, context: int = 0) -> None:
        self._buffer = buffer
        self._find = hits
        self._context = context
        # All three are keyed by the first sequence number of a chunk.
        self._hits: dict[int, array[int]] = {}
        self._members: dict[int, array[int]] = {}
        self._known: dict[int, int] = {}
        # A stack: the newest chunk is on top and scanned first, because users look at the newest
        # lines.
        self._waiting: list[int] = []
        self._seen = buffer.first
        self._starts: list[int] | None = None
        self.scanned = 0
        """Number of scanned lines among the lines that are kept."""
        self.refresh()

    def refresh(self) -> None:
        """Register lines that were added or dropped; `scan_more` scans the new ones."""
        buffer = self._buffer
        for gone in [key for key in self._known if key < buffer.first]:
            self.scanned -= self._known.pop(gone)
            self._hits.pop(gone, None)
            self._members.pop(gone, None)
        # From the chunk on that was the last one: it may have grown.
        number = buffer.place_of(max(self._seen - 1, buffer.first))
        for chunk in buffer.chunks[number:]:
            waits = bool(self._waiting) and chunk.first <= self._waiting[-1]
            if self._known.get(chunk.first, 0) < chunk.count and not waits:
                self._waiting.append(chunk.first)
        self._seen = buffer.end
        self._starts = None

    def forget_head(self, until: int) -> None:
        """Register that all lines before ``until`` were replaced; `scan_more` scans them last."""
        for gone in [key for key in self._known if key < until]:
            self.scanned -= self._known.pop(gone)
            self._hits.pop(gone, None)
            self._members.pop(gone, None)
        head = self._buffer.chunks[: self._buffer.place_of(until) + 1]
        fresh = [c.first for c in head if self._known.get(c.first, 0) < c.count]
        self._waiting = [*fresh, *(w for w in self._waiting if w > until)]
        self._starts = None

    def scan_more(self) -> bool:
        """Scan one chunk. Returns False if no chunk was waiting."""
        while self._waiting:
            first = self._waiting.pop()
            if first >= self._buffer.first:
                self.scan(self._buffer.chunks[self._buffer.place_of(first)])
                return True
        return False

    def scan(self, chunk: Chunk) -> None:
        """Scan the new lines of a chunk."""
        start = self._known.get(chunk.first, 0)
        if start == chunk.count:
            return
        self._hits.setdefault(chunk.first, array("H")).extend(self._find(chunk, start))
        self._known[chunk.first] = chunk.count
        self.scanned += chunk.count - start
        self._starts = None
        if self._context:
            # A hit near the edge of a chunk needs context from its neighbours.
            number = self._buffer.place_of(chunk.first)
            for near in range(max(0, number - 1), min(number + 2, len(self._buffer.chunks))):
                self._widen(near)

    def _widen(self, number: int) -> None:
        chunk, n = self._buffer.chunks[number], self._context
        if chunk.first not in self._hits:
            return
        around = array("H")
        for near in range(max(0, number - 1), min(number + 2, len(self._buffer.chunks))):
            other = self._buffer.chunks[near]
            shift = other.first - chunk.first
            for hit in self._hits.get(other.first, ()):
                # Beginning after the last member, overlapping contexts contain each line once.
                low = max(0, hit + shift - n, around[-1] + 1 if around else 0)
                around.extend(range(low, min(hit + shift + n + 1, self._known[chunk.first])))
        self._members[chunk.first] = around

    # --- members

    def members(self, chunk: Chunk) -> array[int]:
        """Return the indexes of the chunk's lines in the set, as far as scanned."""
        indexes = self._members if self._context else self._hits
        return indexes.get(chunk.first) or array("H")

    def is_hit(self, sequence: int) -> bool:
        """Return True if the line itself is a hit, not only context of another line."""
        first = self._buffer.chunk_of(sequence).first
        hits = self._hits.get(first)
        index = bisect_left(hits, sequence - first) if hits else 0
        return bool(hits) and index < len(hits) and hits[index] == sequence - first

    @property
    def starts(self) -> list[int]:
        """The number of members before each chunk; the additional last item is the total."""
        if self._starts is None:
            indexes = self._members if self._context else self._hits
            sizes = (len(indexes.get(chunk.first, ())) for chunk in self._buffer.chunks)
            self._starts = list(accumulate(sizes, initial=0))
        return self._starts

    @property
    def count(self) -> int:
        return self.starts[-1]

    def rank(self, sequence: int) -> int:
        """Return the number of members before this line."""
        if sequence >= self._buffer.end:
            return self.count
        number = self._buffer.place_of(sequence)
        chunk = self._buffer.chunks[number]
        return self.starts[number] + bisect_left(self.members(chunk), sequence - chunk.first)

    def at(self, rank: int) -> int:
        """Return the sequence number of the member with this rank. Raises IndexError."""
        if not 0 <= rank < self.count:
            raise IndexError(rank)
        number = bisect_right(self.starts, rank) - 1
        chunk = self._buffer.chunks[number]
        return chunk.first + self.members(chunk)[rank - self.starts[number]]

    def __contains__(self, sequence: int) -> bool:
        rank = self.rank(sequence)
        return rank < self.count and self.at(rank) == sequence


RowCount = Callable[[Chunk, int], int]
"""Callback: return the number of rows of a line, given its chunk and its index in the chunk."""
DETAILED: Final = 256
"""Maximum number of chunks whose rows are kept for each line."""
AT_ONCE: Final = 512
"""Number of lines counted in one step of background work."""


def _always(chunk: Chunk) -> bool:
    return True


class RowIndex:
    """The rows of a `LineBuffer`, or of its ``shown`` lines.

    With a ``count`` of None, each line has one row. Otherwise ``count`` is called for the lines of
    chunks for which ``uneven`` returns True.
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
        # By the first sequence number of a chunk: (number of rows, number of counted lines).
        self._rows: dict[int, tuple[int, int]] = {}
        # By the same key: (index of the first shown line, running row totals of the shown lines).
        self._details: OrderedDict[int, tuple[int, array[int]]] = OrderedDict()
        self._starts: list[int] | None = None
        # All chunks from this index on are counted.
        self._below = 0
        self.refresh()

    @property
    def rows(self) -> int:
        """The number of rows, assuming one row for each line that is not counted yet."""
        return self.starts[-1]

    @property
    def starts(self) -> list[int]:
        if self._starts is None:
            self._starts = list(accumulate(map(self._rows_in, self._buffer.chunks), initial=0))
        return self._starts

    def refresh(self) -> None:
        """Register appended, dropped or scanned lines; count the newest chunk at once."""
        self._starts = None
        self._below = len(self._buffer.chunks)
        first = self._buffer.first
        for gone in [key for key in self._rows if key < first]:
            del self._rows[gone]
            self._details.pop(gone, None)
        for chunk in self._buffer.chunks[-2:]:
            if chunk is self._buffer.chunks[-1] or chunk.first in self._rows:
                self._add_rows(chunk)

    def forget_head(self, until: int) -> None:
        """Register that all lines before ``until`` were replaced."""
        for gone in [key for key in self._rows if key < until]:
            del self._rows[gone]
            self._details.pop(gone, None)
        self.refresh()

    def recount(self, sequence: int) -> None:
        """Count the rows of the chunk of a line again."""
        chunk = self._buffer.chunk_of(sequence)
        self._rows.pop(chunk.first, None)
        self._details.pop(chunk.first, None)
        self._starts = None
        self._add_rows(chunk)

    def count_more(self) -> bool:
        """Count up to `AT_ONCE` uncounted lines. Returns False if there were none."""
        if self._count is None:
            return False
        while self._below:
            chunk = self._buffer.chunks[self._below - 1]
            if self._uneven(chunk) and self._stale(chunk):
                self._add_rows(chunk, AT_ONCE)
                return True
            self._below -= 1
        return False

    def row_of(self, sequence: int) -> int:
        """Return the first row of a line, or where it would be if it is not shown."""
        number = self._buffer.place_of(sequence)
        chunk = self._buffer.chunks[number]
        rank = self._rank(chunk, sequence - chunk.first)
        totals = self._totals(chunk)
        start = self.starts[number]
        if totals is None or rank == 0 or not totals:
            return start + rank
        # Lines that are not counted yet count as one row each.
        counted = min(rank, len(totals))
        return start + totals[counted - 1] + rank - counted

    def line_at(self, row: int) -> tuple[int, int] | None:
        """Return (sequence number, row within the line), or None past the end."""
        if not 0 <= row < self.rows:
            return None
        number = bisect_right(self.starts, row) - 1
        chunk = self._buffer.chunks[number]
        inside = row - self.starts[number]
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
        counted = self._rows.get(chunk.first)
        # Assume one row for each line that was added after the count.
        return (
            self._lines_in(chunk)
            if counted is None
            else counted[0] + self._lines_in(chunk) - counted[1]
        )

    def _stale(self, chunk: Chunk) -> bool:
        counted = self._rows.get(chunk.first)
        return counted is None or counted[1] != self._lines_in(chunk)

    def _totals(self, chunk: Chunk) -> array[int] | None:
        """Return the running totals of a counted chunk; None if each line has one row."""
        if self._count is None or chunk.first not in self._rows:
            return None
        if chunk.first not in self._details:
            self._add_rows(chunk)
        self._details.move_to_end(chunk.first)
        return self._details[chunk.first][1]

    def _add_rows(self, chunk: Chunk, most: int = CHUNK_LINES) -> None:
        if self._count is None or not self._uneven(chunk):
            return
        members = self.shown.members(chunk) if self.shown is not None else range(chunk.count)
        begin = members[0] if members else 0
        was, totals = self._details.get(chunk.first, (begin, array("I")))
        if was != begin or len(totals) > len(members):
            # Context lines were inserted before the counted lines: count again.
            totals = array("I")
        start = len(totals)
        until = min(len(members), start + most)
        counts = (self._count(chunk, members[rank]) for rank in range(start, until))
        running = accumulate(counts, initial=totals[-1] if totals else 0)
        next(running)
        totals.extend(running)
        self._details[chunk.first] = (begin, totals)
        self._rows[chunk.first] = (totals[-1] if totals else 0, len(totals))
        self._starts = None
        while len(self._details) > DETAILED:
            self._details.popitem(last=False)
