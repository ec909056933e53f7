"""The keys that a controller has to synchronize: each key once, and never by two workers at a time.

A key that is added while a worker has it is given out again afterwards. A key that failed returns
after a back-off, from 5 ms to 1,000 s, doubled with each failure in a row, as in client-go.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from podtui.client.cache import Key

FIRST_RETRY_SECONDS = 0.005
MAX_RETRY_SECONDS = 1000.0
_MAX_DOUBLINGS = 30


class WorkQueue:
    """``monotonic`` returns seconds that never decrease."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._ready: dict[Key, None] = {}
        self._working: set[Key] = set()
        self._again: set[Key] = set()
        """Keys that were added while a worker has them."""
        self._later: list[tuple[float, Key]] = []
        """A heap; `_due` has the valid time of each key."""
        self._due: dict[Key, float] = {}
        self._failures: dict[Key, int] = {}
        self._wake = asyncio.Event()

    def add(self, key: Key) -> None:
        """Give out the key as soon as a worker is free."""
        if key in self._working:
            self._again.add(key)
        else:
            self._ready[key] = None
            self._wake.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Add the key later; an earlier time replaces a later one."""
        due = self._monotonic() + seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._later, (due, key))
            self._wake.set()

    def retry(self, key: Key) -> float:
        """Add the key after its back-off; return the seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        doubled = FIRST_RETRY_SECONDS * 2 ** min(failures, _MAX_DOUBLINGS)
        seconds = min(doubled, MAX_RETRY_SECONDS)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: Key) -> None:
        """End the back-off of a key that was synchronized."""
        self._failures.pop(key, None)

    async def take(self) -> Key:
        """Wait for a key. The caller must call `done` with it."""
        while True:
            self._wake.clear()
            seconds = self._move_due()
            if self._ready:
                key = next(iter(self._ready))
                del self._ready[key]
                self._working.add(key)
                if self._ready:
                    self._wake.set()
                return key
            try:
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def done(self, key: Key) -> None:
        self._working.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _move_due(self) -> float | None:
        """Add the keys that are due; return the seconds until the next one."""
        now = self._monotonic()
        while self._later:
            due, key = self._later[0]
            if due > now and self._due.get(key) == due:
                return due - now
            heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)
        return None
