"""Log lines in little memory: bytes in chunks, four bytes of index a line, oldest dropped first.

A line is known by its sequence number, which never changes and is never reused; `first` and `end`
bound those still kept. Nothing here knows a screen.
"""

from __future__ import annotations

import os
import re
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final

CHUNK_BYTES: Final = 256 * 1024
DEFAULT_BYTES: Final = 200 * 1024 * 1024


class Chunk:
    """Consecutive lines, each ended by a line feed, in one run of bytes.

    ``ends[i]`` is where line ``first + i`` ends in ``data``, its line feed included.
    """

    __slots__ = ("data", "ends", "first")

    def __init__(self, first: int) -> None:
        self.first = first
        self.data = bytearray()
        self.ends = array("I")

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def nbytes(self) -> int:
        return len(self.data) + self.ends.itemsize * len(self.ends)

    def line(self, index: int) -> bytes:
        start = self.ends[index - 1] if index else 0
        return bytes(self.data[start : self.ends[index] - 1])

    def lines(self) -> Iterator[bytes]:
        start = 0
        for end in self.ends:
            yield bytes(self.data[start : end - 1])
            start = end

    def append(self, lines: Sequence[bytes]) -> None:
        base = len(self.data)
        self.data += b"\n".join(lines)
        self.data += b"\n"
        self.ends.extend(accumulate((len(line) + 1 for line in lines), initial=base))
        # ``accumulate`` begins with the base itself, which is no line's end.
        del self.ends[-len(lines) - 1]


class LineBuffer:
    """An ordered store of lines within ``max_bytes``; what had to go is counted, never silent."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self.chunks: deque[Chunk] = deque([Chunk(0)])
        self.nbytes = 0
        self.longest = 0
        """Bytes of the longest line ever appended."""

    @property
    def first(self) -> int:
        """Sequence number of the oldest line kept: so many were dropped before it."""
        return self.chunks[0].first

    @property
    def end(self) -> int:
        """One past the sequence number of the newest line."""
        last = self.chunks[-1]
        return last.first + len(last)

    @property
    def dropped(self) -> int:
        return self.first

    def __len__(self) -> int:
        return self.end - self.first

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines, without line feeds; a line feed inside one becomes a space."""
        if not lines:
            return
        clean = [line.replace(b"\n", b" ") if b"\n" in line else line for line in lines]
        self.longest = max(self.longest, max(map(len, clean)))
        for part in _by_bytes(clean, CHUNK_BYTES):
            chunk = self.chunks[-1]
            if len(chunk.data) >= CHUNK_BYTES:
                chunk = Chunk(self.end)
                self.chunks.append(chunk)
            before = chunk.nbytes
            chunk.append(part)
            self.nbytes += chunk.nbytes - before
        while self.nbytes > self.max_bytes and len(self.chunks) > 1:
            self.nbytes -= self.chunks.popleft().nbytes

    def clear(self) -> None:
        """Forget every line; sequence numbers go on."""
        self.chunks = deque([Chunk(self.end)])
        self.nbytes = 0
        self.longest = 0

    def chunk_of(self, sequence: int) -> Chunk:
        """Raises IndexError for a line that is not kept."""
        if not self.first <= sequence < self.end:
            raise IndexError(sequence)
        return self.chunks[bisect_right(self.chunks, sequence, key=lambda c: c.first) - 1]

    def __getitem__(self, sequence: int) -> bytes:
        chunk = self.chunk_of(sequence)
        return chunk.line(sequence - chunk.first)

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self.chunks:
            yield from chunk.lines()

    def save(self, path: Path) -> int:
        """Write every kept line to ``path``, readable by the owner alone; returns how many."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for chunk in self.chunks:
                file.write(chunk.data)
        return len(self)


def _by_bytes(lines: Sequence[bytes], limit: int) -> Iterator[Sequence[bytes]]:
    start = size = 0
    for index, line in enumerate(lines):
        size += len(line)
        if size >= limit:
            yield lines[start : index + 1]
            start, size = index + 1, 0
    if start < len(lines):
        yield lines[start:]


def compile_search(pattern: str) -> re.Pattern[bytes]:
    """A search as users type it: a regular expression if it is one, else its plain text; lower
    case finds either case."""
    flags = 0 if pattern != pattern.lower() else re.IGNORECASE
    source = pattern.encode()
    try:
        return re.compile(source, flags)
    except re.error:
        return re.compile(re.escape(source), flags)


def matching_lines(chunk: Chunk, pattern: re.Pattern[bytes], since: int = 0) -> Iterable[int]:
    """Sequence numbers of the chunk's lines, from ``since`` on, that match."""
    start_index = max(0, since - chunk.first)
    if start_index >= len(chunk):
        return
    position = chunk.ends[start_index - 1] if start_index else 0
    ends = chunk.ends
    while (match := pattern.search(chunk.data, position)) is not None:
        index = bisect_right(ends, match.start())
        if index >= len(ends):
            return
        # A match that runs over a line's end is a match only if the line matches by itself.
        if match.end() < ends[index] or pattern.search(chunk.line(index)):
            yield chunk.first + index
        position = ends[index]
