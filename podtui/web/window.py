"""Flow control for output: a slow page makes the program wait, instead of filling memory."""

from __future__ import annotations

import asyncio
from typing import Final

WINDOW: Final = 64 * 1024
"""The maximum number of bytes in transit. A full screen with colours has about 20 KiB, and all
bytes in transit when a key is pressed are drawn before the response to the key."""


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
        """Record that the page has drawn ``total`` bytes; limited to the number of bytes sent."""
        self._taken = max(self._taken, min(total, self._sent))
        self._look()

    async def room(self) -> None:
        """Wait until more may be sent. There is no timeout, because a background tab may draw only
        once a minute."""
        await self._room.wait()

    def _look(self) -> None:
        if self._sent - self._taken < self._size:
            self._room.set()
        else:
            self._room.clear()
