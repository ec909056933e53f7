"""The injected clock: the kubelet reads time only from a clock that tests can control."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time, monotonic time and sleep from a single source."""

    def now(self) -> datetime:
        """Return the wall time as an aware datetime in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never decrease."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep; ``asyncio.timeout`` uses the same time."""
        ...


class SystemClock:
    """The machine's clock, with the event loop's time as monotonic time.

    Because ``monotonic`` is the loop's time, an event loop with virtual time (see
    ``tests/support/virtual_time.py``) also advances everything that waits on this clock.
    """

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
