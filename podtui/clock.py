"""Time, injected: nothing in the kubelet reads a clock that a test cannot own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic seconds and sleep, all of one source."""

    def now(self) -> datetime:
        """The wall time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; ``asyncio.timeout`` and this agree on what a second is."""
        ...


class SystemClock:
    """The machine's clock, with the event loop's own idea of monotonic time.

    Because ``monotonic`` is the loop's time, a loop that runs on virtual time (see
    ``tests/virtual_time.py``) moves everything that waits on this clock along with it.
    """

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
