"""The watch of one client: encode record changes as lines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from podtui.errors import StoreGone
from podtui.server.objects import ApiObject, ObjectChange
from podtui.server.query import Query
from podtui.server.rendering import Rendering
from podtui.server.status import expired
from podtui.server.stream import Outflow, closed_after
from podtui.store.protocol import WatchType


class Beginning(NamedTuple):
    """The start of a watch: objects to send first, then the changes after ``version``."""

    initial: list[ApiObject]
    version: int
    changes: AsyncIterator[ObjectChange]


class Watch:
    """The watch of one client. An object that stops or starts matching the selector is reported as
    a deletion or an addition."""

    def __init__(
        self, query: Query, beginning: Beginning, rendering: Rendering, bookmark_seconds: float
    ) -> None:
        self._query = query
        self._beginning = beginning
        self._rendering = rendering
        self._bookmark_seconds = bookmark_seconds
        self._version = beginning.version
        self._first = True

    async def produce(self, outflow: Outflow) -> None:
        for item in self._beginning.initial:
            if not self._send(outflow, WatchType.ADDED, item):
                await outflow.room()
        if self._query.initial_events and self._query.bookmarks:
            self._bookmark(outflow, initial_end=True)
        async with asyncio.TaskGroup() as group:
            bookmarks = None
            if self._query.bookmarks:
                bookmarks = group.create_task(self._bookmarks(outflow))
            try:
                await self._follow(outflow)
            except StoreGone as error:
                status = msgspec.json.encode(expired(str(error)).status())
                outflow.add(b'{"type":"ERROR","object":%s}\n' % status)
            if bookmarks is not None:
                bookmarks.cancel()
        outflow.end()

    async def _follow(self, outflow: Outflow) -> None:
        async with closed_after(self._beginning.changes) as changes:
            async for change in changes:
                self._version = change.resource_version
                kind = self._seen_as(change)
                if kind is None or change.object is None:
                    continue
                if not self._send(outflow, kind, change.object):
                    await outflow.room()

    def _seen_as(self, change: ObjectChange) -> WatchType | None:
        """Return the change type for this client; None if the change is not relevant."""
        if change.type is WatchType.BOOKMARK:
            return None
        now = change.type is not WatchType.DELETED and self._query.selects(change.object)
        # Without a previous state, assume that the selector matched before as it does now.
        known = None if change.type is WatchType.ADDED else change.previous or change.object
        before = self._query.selects(known)
        if now:
            return WatchType.MODIFIED if before else WatchType.ADDED
        return WatchType.DELETED if before else None

    def _send(self, outflow: Outflow, kind: WatchType, item: ApiObject) -> bool:
        body = self._rendering.watched(self._query, item, first=self._first)
        self._first = False
        return outflow.add(b'{"type":"%s","object":%s}\n' % (kind.value.encode(), body))

    def _bookmark(self, outflow: Outflow, *, initial_end: bool = False) -> None:
        body = self._rendering.bookmark(self._query, self._version, initial_end=initial_end)
        outflow.add(b'{"type":"BOOKMARK","object":%s}\n' % body)

    async def _bookmarks(self, outflow: Outflow) -> None:
        while True:
            await asyncio.sleep(self._bookmark_seconds)
            await outflow.room()
            self._bookmark(outflow)
