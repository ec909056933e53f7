"""A subset of the lines of a buffer: the lines that pass a filter or match a search.

A set is filled by scanning one chunk at a time, newest chunk first, when the event loop is free.
It takes two bytes per member.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate

from podtui.tui.views.logs.line_buffer import Chunk, LineBuffer

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
        place = buffer.place_of(max(self._seen - 1, buffer.first))
        for chunk in buffer.chunks[place:]:
            waits = bool(self._waiting) and chunk.first <= self._waiting[-1]
            if self._known.get(chunk.first, 0) < chunk.count and not waits:
                self._waiting.append(chunk.first)
        self._seen = buffer.end
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
        known = self._known.get(chunk.first, 0)
        if known == chunk.count:
            return
        self._hits.setdefault(chunk.first, array("H")).extend(self._find(chunk, known))
        self._known[chunk.first] = chunk.count
        self.scanned += chunk.count - known
        self._starts = None
        if self._context:
            place = self._buffer.place_of(chunk.first)
            for near in range(max(0, place - 1), min(place + 2, len(self._buffer.chunks))):
                self._widen(near)

    def _widen(self, place: int) -> None:
        chunk, n = self._buffer.chunks[place], self._context
        if chunk.first not in self._hits:
            return
        around = array("H")
        for near in range(max(0, place - 1), min(place + 2, len(self._buffer.chunks))):
            other = self._buffer.chunks[near]
            shift = other.first - chunk.first
            for hit in self._hits.get(other.first, ()):
                low = max(0, hit + shift - n, around[-1] + 1 if around else 0)
                around.extend(range(low, min(hit + shift + n + 1, self._known[chunk.first])))
        self._members[chunk.first] = around

    # --- members

    def members(self, chunk: Chunk) -> array[int]:
        """Return the indexes of the chunk's lines in the set, as far as scanned."""
        found = self._members if self._context else self._hits
        return found.get(chunk.first) or array("H")

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
            found = self._members if self._context else self._hits
            sizes = (len(found.get(chunk.first, ())) for chunk in self._buffer.chunks)
            self._starts = list(accumulate(sizes, initial=0))
        return self._starts

    @property
    def count(self) -> int:
        return self.starts[-1]

    def rank(self, sequence: int) -> int:
        """Return the number of members before this line."""
        if sequence >= self._buffer.end:
            return self.count
        place = self._buffer.place_of(sequence)
        chunk = self._buffer.chunks[place]
        return self.starts[place] + bisect_left(self.members(chunk), sequence - chunk.first)

    def at(self, rank: int) -> int:
        """Return the sequence number of the member with this rank. Raises IndexError."""
        if not 0 <= rank < self.count:
            raise IndexError(rank)
        place = bisect_right(self.starts, rank) - 1
        chunk = self._buffer.chunks[place]
        return chunk.first + self.members(chunk)[rank - self.starts[place]]

    def __contains__(self, sequence: int) -> bool:
        rank = self.rank(sequence)
        return rank < self.count and self.at(rank) == sequence
