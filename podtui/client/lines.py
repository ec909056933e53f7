"""Split arriving bytes into lines."""

from __future__ import annotations


class LineSplitter:
    """Removes the line feeds. Splits a line longer than ``limit`` bytes into pieces."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now."""
        lines = chunk.split(b"\n")
        lines[0] = self._tail + lines[0]
        if max(map(len, lines)) > self._limit:
            lines = [piece for line in lines for piece in self._pieces(line)]
        self._tail = lines.pop()
        return lines

    def finish(self) -> list[bytes]:
        """Return the rest without a line feed."""
        rest, self._tail = self._tail, b""
        return [rest] if rest else []

    def _pieces(self, line: bytes) -> list[bytes]:
        starts = range(0, len(line), self._limit) or (0,)
        return [line[start : start + self._limit] for start in starts]
