"""A buffer of input that the program has not yet read.

It is separate from the socket: a long paste may be followed by messages that let the program
continue to write, and a program that is blocked in a write may not read either.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Typed:
    """A queue of input pieces with their total size."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._some = asyncio.Event()
        self.waiting = 0
        """Bytes that are still in the queue."""

    def put(self, data: bytes) -> None:
        self._pieces.append(data)
        self.waiting += len(data)
        self._some.set()

    async def get(self) -> bytes:
        """Wait for the next piece, and return it."""
        while not self._pieces:
            self._some.clear()
            await self._some.wait()
        data = self._pieces.popleft()
        self.waiting -= len(data)
        return data
