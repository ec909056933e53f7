"""The recent changes of one resource, which every watch of it reads at its own pace.

One ring serves all readers: a reader is a position in it, not a queue. So memory is bounded however
many readers there are, a slow one costs the writer nothing, and one that the ring has overtaken is
told so with `StoreGone`.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator

from podtui.errors import StoreGone
from podtui.store.protocol import Change


class History:
    """A ring of at most ``size`` changes, oldest first, by rising resourceVersion."""

    def __init__(self, size: int, floor: int) -> None:
        self._ring: list[Change | None] = [None] * size
        self._next = 0
        self._floor = floor
        self._closed = False
        self._grown = asyncio.Event()

    def append(self, change: Change) -> None:
        """Keep the change, forget the oldest when full, and wake the readers."""
        slot = self._next % len(self._ring)
        dropped = self._ring[slot]
        if dropped is not None:
            self._floor = dropped.resource_version
        self._ring[slot] = change
        self._next += 1
        self._wake()

    def close(self) -> None:
        """End every reader once it has read what is there."""
        self._closed = True
        self._wake()

    def position(self, since: int | None) -> int:
        """Where a reader begins that has seen everything up to ``since`` (None: everything).

        Raises `StoreGone` when changes after ``since`` are no longer kept.
        """
        if since is None:
            return self._next
        if since < self._floor:
            raise StoreGone(f"too old resource version: {since} ({self._floor})")
        oldest = max(0, self._next - len(self._ring))
        return bisect_right(range(oldest, self._next), since, key=self._version_at) + oldest

    async def read(self, position: int) -> AsyncIterator[Change]:
        """Every change from ``position`` on, endless. Raises `StoreGone` when overtaken."""
        while True:
            if self._next - position > len(self._ring):
                raise StoreGone("the watch fell too far behind")
            if position < self._next:
                change = self._ring[position % len(self._ring)]
                assert change is not None
                position += 1
                yield change
            elif self._closed:
                return
            else:
                await self._grown.wait()

    def _version_at(self, position: int) -> int:
        change = self._ring[position % len(self._ring)]
        assert change is not None
        return change.resource_version

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()
