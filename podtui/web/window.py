"""How far the program may be ahead of the page: a slow page makes it wait, not the memory grow."""

from __future__ import annotations

import asyncio
from typing import Final

WINDOW: Final = 64 * 1024
"""Bytes that may be on their way. A full screen of colours is about 20 KiB, and what is on its way
when a key is pressed is drawn before the answer."""


class Window:
    """Counts bytes sent and bytes drawn."""

    def __init__(self, size: int = WINDOW) -> None:
        self._size = size
        self._sent = 0
        self._taken = 0
        self._room = asyncio.Event()
        self._room.set()

    def sent(self, count: int) -> None:
        self._sent += count
        self._look()

    def taken(self, total: int) -> None:
        """The page has drawn ``total`` bytes in all. What was never sent does not count."""
        self._taken = max(self._taken, min(total, self._sent))
        self._look()

    async def room(self) -> None:
        """Wait until more may be sent, for as long as the page is there: a tab in the background
        may draw but once a minute."""
        await self._room.wait()

    def _look(self) -> None:
        if self._sent - self._taken < self._size:
            self._room.set()
        else:
            self._room.clear()
