"""The recent changes of one resource, which all its watches read at their own pace.

All readers share one ring buffer: a reader is a position in it, not a queue. So memory is bounded
for any number of readers, and a slow reader does not slow down the writer. A reader that the ring
has overtaken gets `StoreGone`.

Readers do not see a change that is held, nor the changes after it, until it is released.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncIterator, Iterator

from podtui.errors import StoreGone
from podtui.store.protocol import Change


class History:
    """A ring buffer of at most ``size`` changes in ascending resourceVersion order."""

    def __init__(self, size: int, floor: int) -> None:
        self._ring: list[Change | None] = [None] * size
        self._next = 0
        self._held: deque[tuple[int, int]] = deque()
        """The positions and versions of the changes that are held."""
        self._floor = floor
        self._closed = False
        self._waiting: list[asyncio.Future[None]] = []

    def append(self, change: Change, *, held: bool = False) -> None:
        """Append the change and wake the readers; drops the oldest change if the ring is full."""
        if held:
            self._held.append((self._next, change.resource_version))
        slot = self._next % len(self._ring)
        dropped = self._ring[slot]
        if dropped is not None:
            self._floor = dropped.resource_version
        self._ring[slot] = change
        self._next += 1
        if not self._held:
            self._wake()

    def release(self, version: int) -> None:
        """Show the changes up to ``version``, and those after it up to the next one that is
        held."""
        if not self._held or self._held[0][1] > version:
            return
        while self._held and self._held[0][1] <= version:
            self._held.popleft()
        self._wake()

    def close(self) -> None:
        """End every reader after it has read the remaining changes."""
        self._closed = True
        self._wake()

    def position(self, since: int | None) -> int:
        """Return the start position of a reader that has seen everything up to ``since`` (None:
        everything).

        Raises `StoreGone` if changes after ``since`` have been dropped.
        """
        if since is None:
            return self._next
        if since < self._floor:
            raise StoreGone(f"too old resource version: {since} ({self._floor})")
        oldest = max(0, self._next - len(self._ring))
        return bisect_right(range(oldest, self._next), since, key=self._version_at) + oldest

    def newest_first(self, since: int) -> Iterator[Change]:
        """Yield the changes after ``since``, the newest first. Raises `StoreGone`."""
        position = self.position(since)
        for index in range(self._next - 1, position - 1, -1):
            change = self._ring[index % len(self._ring)]
            assert change is not None
            yield change

    async def read(self, position: int) -> AsyncIterator[Change]:
        """Yield every change from ``position`` on, forever. Raises `StoreGone` when overtaken."""
        loop = asyncio.get_running_loop()
        while True:
            if self._next - position > len(self._ring):
                raise StoreGone("the watch fell too far behind")
            if position < (self._held[0][0] if self._held else self._next):
                change = self._ring[position % len(self._ring)]
                assert change is not None
                position += 1
                yield change
            elif self._closed:
                return
            else:
                # Readers wake for each change: plain futures cost less than events.
                waiting = loop.create_future()
                self._waiting.append(waiting)
                await waiting

    def _version_at(self, position: int) -> int:
        change = self._ring[position % len(self._ring)]
        assert change is not None
        return change.resource_version

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():  # the reader was cancelled
                future.set_result(None)
