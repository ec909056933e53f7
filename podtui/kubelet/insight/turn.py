"""Tells everybody who waits that something is other than before."""

from __future__ import annotations

import asyncio


class Turn:
    """``number`` counts the turns, so that who comes late knows that it missed some."""

    def __init__(self) -> None:
        self.number = 0
        self._event = asyncio.Event()

    def over(self) -> None:
        """Wake all who wait."""
        self.number += 1
        before, self._event = self._event, asyncio.Event()
        before.set()

    async def next(self, seconds: float) -> None:
        """Until the next turn, for ``seconds`` at most."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return
