"""What was typed and the program has not taken yet.

Kept apart from the socket: behind a long paste come the words that let the program go on writing,
and one that cannot write may not read either.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Typed:
    """Pieces in their order, and how much they are."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._some = asyncio.Event()
        self.waiting = 0
        """Bytes that have been put and not been asked for."""

    def put(self, data: bytes) -> None:
        self._pieces.append(data)
        self.waiting += len(data)
        self._some.set()

    async def get(self) -> bytes:
        """The next piece, once there is one."""
        while not self._pieces:
            self._some.clear()
            await self._some.wait()
        data = self._pieces.popleft()
        self.waiting -= len(data)
        return data
