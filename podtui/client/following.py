"""List, watch, and do it again: how a client keeps a picture of one kind of object.

A watch that ends in peace goes on from the last version seen. One whose version is too old begins
again with a list. A connection that breaks is told once (`Lost`), then tried again ever less often,
and the list that follows replaces all that was known.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec

from podtui.client.connection import Connection
from podtui.client.kinds import Kind, ObjectList, Versioned, WatchEvent
from podtui.client.lines import LineSplitter
from podtui.client.protocol import Changed, Delta, Lost, Removed, Synced
from podtui.clock import Clock
from podtui.errors import AgentUnavailable, ApiError

FIRST_DELAY = 0.2
LAST_DELAY = 5.0
SILENCE_SECONDS = 150.0
"""More than three of the server's bookmarks missing: the connection is dead."""
COALESCE_SECONDS = 0.04
"""The least time between two reads of a watch: the first change is told at once, those that come
close behind it are told together."""
MAX_EVENT = 64 * 1024 * 1024

_EVENTS = msgspec.json.Decoder(WatchEvent)
_LISTS = msgspec.json.Decoder(ObjectList)
_VERSIONS = msgspec.json.Decoder(Versioned)
_Key = tuple[str, str, str]


@dataclass(slots=True)
class _Batch:
    """What one read brought: each object once, by namespace, name and uid, latest change last."""

    objects: dict[_Key, tuple[bool, Any]] = field(default_factory=dict[_Key, tuple[bool, Any]])

    def add(self, item: Any, *, removed: bool) -> None:
        key = (item.metadata.namespace, item.metadata.name, item.metadata.uid)
        self.objects.pop(key, None)
        self.objects[key] = (removed, item)

    def deltas(self) -> Iterable[Delta]:
        """Removals first: a pod that was replaced is gone before its successor is there."""
        if gone := tuple([item for removed, item in self.objects.values() if removed]):
            yield Removed(gone)
        if here := tuple([item for removed, item in self.objects.values() if not removed]):
            yield Changed(here)


class Following:
    """One `podtui.client.protocol.Client.follow`."""

    def __init__(self, connection: Connection, kind: Kind, namespace: str, clock: Clock) -> None:
        self._connection = connection
        self._kind = kind
        self._path = kind.collection(namespace)
        self._clock = clock
        self._version = ""
        self._delay = FIRST_DELAY

    async def run(self) -> AsyncGenerator[Delta]:
        """Endless until the connection is closed."""
        lost = False
        while True:
            try:
                if not self._version:
                    synced = await self._list()
                    lost = False
                    yield synced
                async with aclosing(self._watch()) as deltas:
                    async for delta in deltas:
                        yield delta
            except (AgentUnavailable, ApiError, msgspec.MsgspecError) as error:
                if self._connection.closed:
                    return
                self._version = ""
                expired = isinstance(error, ApiError) and error.code == 410
                if not expired and not lost:
                    lost = True
                    yield Lost(str(error))
            await self._clock.sleep(self._delay)
            self._delay = min(self._delay * 2, LAST_DELAY)

    async def _list(self) -> Synced:
        listing = _LISTS.decode(await self._connection.get(self._path))
        self._version = listing.metadata.resourceVersion
        return Synced(tuple([self._kind.decoder.decode(item) for item in listing.items]))

    async def _watch(self) -> AsyncGenerator[Delta]:
        params = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
        }
        splitter = LineSplitter(MAX_EVENT)
        async with self._connection.stream(
            "GET", self._path, params, silence=SILENCE_SECONDS
        ) as response:
            self._delay = FIRST_DELAY
            while chunk := await response.content.readany():
                batch = _Batch()
                for line in splitter.feed(chunk):
                    self._take(line, batch)
                for delta in batch.deltas():
                    yield delta
                await self._clock.sleep(COALESCE_SECONDS)

    def _take(self, line: bytes, batch: _Batch) -> None:
        """Raises `ApiError` for an ERROR, and then what the batch held is in the list to come."""
        event = _EVENTS.decode(line)
        if event.type == "ERROR":
            status = msgspec.json.decode(event.object)
            raise ApiError(status.get("code", 500), status.get("reason", ""), status["message"])
        if event.type == "BOOKMARK":
            self._version = _VERSIONS.decode(event.object).metadata.resourceVersion
            return
        item = self._kind.decoder.decode(event.object)
        self._version = item.metadata.resourceVersion
        batch.add(item, removed=event.type == "DELETED")
