"""Notify all waiting tasks of a change."""

from __future__ import annotations

import asyncio


class Turn:
    """``number`` counts the changes, so that a late caller can detect missed ones."""

    def __init__(self) -> None:
        self.number = 0
        self._event = asyncio.Event()

    def over(self) -> None:
        """Wake all waiting tasks."""
        self.number += 1
        before, self._event = self._event, asyncio.Event()
        before.set()

    async def next(self, seconds: float) -> None:
        """Wait for the next change, for at most ``seconds``."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
