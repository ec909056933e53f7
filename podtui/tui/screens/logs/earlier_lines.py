"""Read the lines of a log before the first one that is shown, page by page.

The API can only be asked for the last lines of a log. A page is therefore requested as the last
``n`` lines, where ``n`` includes those that are shown; reading ends at the first of these, before
any of them is sent.

An end of the range in the API would not help: Kubernetes has none, and Docker applies ``until`` to
the lines that ``tail`` has selected from the end of the log. Without ``tail`` it decodes the log
from its beginning. To find the last ``n`` lines, it only searches line feeds backwards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import aclosing
from itertools import takewhile
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from podtui.api.names import LOG_GAP
from podtui.client.protocol import Client, LogQuery
from podtui.tui.views.logs.target import LogTarget
from podtui.tui.views.logs.times import parse_stamp

PAGE_LINES: Final = 5000
MAX_PAGE_BYTES: Final = 16 * 1024 * 1024
PART_BYTES: Final = 16 * 1024
"""Servers split longer lines, and count each part as a line."""
READ_SECONDS: Final = 60.0
_GAP: Final = LOG_GAP.encode()


class Page(Struct, frozen=True):
    """Lines before the first one that is shown. ``more`` is False if the log begins with them;
    ``gap`` then is what the agent reports about older lines."""

    lines: Sequence[bytes] = ()
    more: bool = False
    gap: str = ""


class EarlierLines:
    """The earlier lines of one log; `add` counts the lines that are shown."""

    def __init__(self, client: Client, target: LogTarget) -> None:
        self._client = client
        self._target = target
        self._first = b""
        # The number of lines with the time of the first one, and whether others follow them.
        self._same = 0
        self._passed = False
        self._instance = ""
        self._entries = 0
        self.loaded = 0
        """Number of lines of all pages so far."""

    @property
    def instance(self) -> str:
        """The id of the container that wrote the first line; empty if it is not known."""
        return self._instance

    @property
    def first(self) -> int:
        """The time of the first line in nanoseconds; 0 if it has none."""
        return parse_stamp(to_rfc3339(self._first))

    @property
    def may_exist(self) -> bool:
        """True if the requested range may have left out lines."""
        if not self.first:
            return False
        tail, since = self._target.range.tail, self._target.range.since
        return since is not None or (tail is not None and self._entries >= tail)

    def add(self, lines: Sequence[bytes], instance: str) -> None:
        """Count new lines below the first one, which a container with this id wrote."""
        if not self._first:
            self._first, self._instance = stamp_of(lines[0]), instance
        elif instance and self._instance and instance != self._instance:
            return
        if not self._passed:
            same = sum(1 for _ in takewhile(self._is_first, lines))
            self._same += same
            self._passed = same < len(lines)
        self._entries += _entries(lines)

    def _is_first(self, line: bytes) -> bool:
        return stamp_of(line) == self._first

    async def exist(self, *, previous: bool) -> bool:
        """Return whether the log has lines before the first one. Raises what the client raises,
        and TimeoutError."""
        query = self._query(previous, tail=2 * self._entries + PAGE_LINES)
        oldest = await self._oldest(query)
        return oldest is not None and stamp_of(oldest) < self._first

    async def page(self, *, previous: bool) -> Page:
        """Return the page before the first line, at least `PAGE_LINES` if the log has as many. The
        next page is before that. Raises like `exist`."""
        tail = self._entries + PAGE_LINES
        lines, oldest = await self._read(self._query(previous, tail=tail))
        while not lines and oldest > self._first:
            # More lines came than expected. If more lines do not reach further back, they are gone.
            tail *= 2
            lines, again = await self._read(self._query(previous, tail=tail))
            if again == oldest:
                return Page(gap="Earlier lines are gone: the engine deleted them")
            oldest = again
        more = bool(lines)
        if 0 < len(lines) < PAGE_LINES:
            # New lines took the place of earlier ones, or the log begins here: then more lines
            # begin at the same place.
            wider, begin = await self._read(self._query(previous, tail=tail + PAGE_LINES))
            lines = max(lines, wider, key=len)
            more = begin != oldest or stamp_of(lines[0]) != begin
        if lines:
            shown = self._same if stamp_of(lines[0]) == self._first else 0
            self._first = stamp_of(lines[0])
            self._same = shown + sum(1 for _ in takewhile(self._is_first, lines))
            self._passed = True
            self._entries += _entries(lines)
            self.loaded += len(lines)
        return Page(lines, more, "" if more else await self._gap(previous))

    async def _read(self, query: LogQuery) -> tuple[list[bytes], bytes]:
        """Return the last lines before the first one, and the time of the oldest line."""
        lines: deque[bytes] = deque()
        same: list[bytes] = []
        oldest, size = b"", 0
        async with asyncio.timeout(READ_SECONDS), aclosing(self._batches(query)) as batches:
            async for batch in batches:
                for line in batch:
                    stamp = stamp_of(line)
                    oldest = oldest or stamp
                    if stamp == self._first:
                        same.append(line)
                    elif stamp < self._first:
                        lines.append(line)
                        size += len(line)
                        while size > MAX_PAGE_BYTES and len(lines) > 1:
                            size -= len(lines.popleft())
                    else:
                        break
                else:
                    continue
                break
        # Of the lines with the time of the first one, the last ones are shown already.
        return [*lines, *same[: len(same) - self._same]], oldest

    async def _gap(self, previous: bool) -> str:
        """Return what the agent reports about lines before the oldest one."""
        oldest = await self._oldest(replace(self._query(previous), gaps=True))
        if oldest is None or not oldest.startswith(_GAP):
            return ""
        return oldest[len(_GAP) :].decode(errors="replace")

    async def _oldest(self, query: LogQuery) -> bytes | None:
        async with asyncio.timeout(READ_SECONDS), aclosing(self._batches(query)) as batches:
            async for batch in batches:
                for line in batch:
                    return line
        return None

    def _batches(self, query: LogQuery) -> Any:
        return cast("Any", self._client.logs(self._target.namespace, self._target.pod, query))

    def _query(self, previous: bool, *, tail: int | None = None) -> LogQuery:
        return LogQuery(
            container=self._target.container, follow=False, previous=previous, tail=tail
        )


def _entries(lines: Sequence[bytes]) -> int:
    """Return the number of lines as servers count them."""
    if max(map(len, lines), default=0) <= PART_BYTES:
        return len(lines)
    return sum(1 + len(line) // PART_BYTES for line in lines)


def stamp_of(line: bytes) -> bytes:
    """Return the time stamp without its ``Z``, so that more digits compare as later."""
    return line.partition(b" ")[0].removesuffix(b"Z")


def to_rfc3339(stamp: bytes) -> bytes:
    """Convert a value of `stamp_of` back to an RFC 3339 time.

    A time with a zone offset stays as it is: engines write one if their zone is not UTC.
    """
    return stamp if stamp[-6:-5] in (b"+", b"-") else stamp + b"Z"
