"""The embedded store: every record in memory, every change numbered, the file written behind.

resourceVersions come from one counter that begins, at each start, above both the file's last number
and the clock's microseconds. So it never goes back: not when the last 50 ms were lost to a
crash, not when the file was, and a watch from before a restart is refused rather than misled.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import cast
from uuid import uuid4

from msgspec import structs

from podtui.api.insight import Timeline
from podtui.api.local import Manifest
from podtui.api.times import rfc3339
from podtui.api.v1 import Event, Node, Pod
from podtui.clock import Clock
from podtui.errors import PodtuiError, StoreGone
from podtui.store.database import Loaded, Object, Row, load
from podtui.store.history import History
from podtui.store.protocol import Change, Listing, Resource, T, WatchType
from podtui.store.writer import Writer

EVENTS_LIMIT = 10_000
HISTORY: Mapping[Resource, int] = {
    "pods": 4096,
    "events": 4096,
    "manifests": 1024,
    "nodes": 256,
    "timelines": 256,
}
"""Changes kept for watches. Few of nodes, whose heartbeats nobody replays, and of timelines, which
are told whole."""
_TYPES: Mapping[Resource, type[Object]] = {
    "pods": Pod,
    "nodes": Node,
    "events": Event,
    "manifests": Manifest,
    "timelines": Timeline,
}
_RESTART_GAP = 1 << 20
"""More changes than can ever be waiting for the disk when the process dies."""


@dataclass(slots=True)
class _Table:
    """One resource: its objects, their order once asked for, its recent changes."""

    history: History
    objects: dict[tuple[str, str], Object] = field(
        default_factory=dict[tuple[str, str], Pod | Node | Event | Manifest | Timeline]
    )
    order: list[tuple[str, str]] | None = None

    def in_order(self, namespace: str) -> tuple[Object, ...]:
        if self.order is None:
            self.order = sorted(self.objects)
        if not namespace:
            return tuple([self.objects[key] for key in self.order])
        return tuple([self.objects[key] for key in self.order if key[0] == namespace])


class Store:
    """`Records` of one root directory. Belongs to one event loop; made by `open_store`.

    ``recovered`` says what was given up to open the file; empty where nothing was.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        loaded: Loaded,
        writer: Writer | None,
        events_ttl: float,
        events_limit: int,
        history: Mapping[Resource, int],
    ) -> None:
        self.recovered = loaded.recovered
        self._clock = clock
        self._writer = writer
        self._events_ttl = events_ttl
        self._events_limit = events_limit
        self._version = max(
            loaded.resource_version + _RESTART_GAP if loaded.resource_version else 1,
            int(clock.now().timestamp() * 1e6),
        )
        kept = {**HISTORY, **history}
        self._tables = {
            resource: _Table(History(kept[resource], self._version)) for resource in _TYPES
        }
        # Events by the time of their last write, oldest first: what ageing takes from the front.
        self._ages: OrderedDict[tuple[str, str], float] = OrderedDict()
        for (resource, namespace, name), row in loaded.rows.items():
            if row.object is not None:
                self._tables[resource].objects[namespace, name] = row.object
            if resource == "events":
                self._ages[namespace, name] = row.written
        self._age_events()

    async def put(self, resource: Resource, item: T) -> T:
        """Create or replace; raises `ValueError` for an object without a name."""
        if not isinstance(item, _TYPES[resource]):
            raise TypeError(f"{type(item).__name__} is not one of {resource}")
        meta = item.metadata
        if not meta.name:
            raise ValueError(f"{resource} need metadata.name")
        key = (meta.namespace, meta.name)
        table = self._tables[resource]
        now = self._clock.now()
        before = cast("T | None", table.objects.get(key))
        if before is None:
            version = self._version + 1
            meta = structs.replace(
                meta,
                resourceVersion=str(version),
                uid=meta.uid or str(uuid4()),
                creationTimestamp=meta.creationTimestamp or rfc3339(now),
            )
            stored = structs.replace(item, metadata=meta)
            table.order = None
            change = WatchType.ADDED
        else:
            known = before.metadata
            meta = structs.replace(
                meta,
                resourceVersion=known.resourceVersion,
                uid=meta.uid or known.uid,
                creationTimestamp=meta.creationTimestamp or known.creationTimestamp,
            )
            stored = structs.replace(item, metadata=meta)
            if stored == before:
                return before
            version = self._version + 1
            meta = structs.replace(meta, resourceVersion=str(version))
            stored = structs.replace(item, metadata=meta)
            change = WatchType.MODIFIED
        self._version = version
        table.objects[key] = stored
        self._record(resource, key, Change(change, stored, version, before), now.timestamp())
        if resource == "events":
            self._ages[key] = now.timestamp()
            self._ages.move_to_end(key)
            self._age_events()
        return stored

    async def delete(self, resource: Resource, namespace: str, name: str) -> bool:
        return self._delete(resource, (namespace, name), self._clock.now().timestamp())

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        if resource == "events":
            self._age_events()
        return self._tables[resource].objects.get((namespace, name))

    async def list(self, resource: Resource, namespace: str = "") -> Listing:
        if resource == "events":
            self._age_events()
        return Listing(self._tables[resource].in_order(namespace), self._version)

    def watch(
        self, resource: Resource, namespace: str = "", since: int | None = None
    ) -> AsyncIterator[Change]:
        """See `Records.watch`; a ``since`` that cannot be served raises here, not on reading."""
        if since is not None and since > self._version:
            raise StoreGone(f"resource version {since} is not of this store ({self._version})")
        history = self._tables[resource].history
        changes = history.read(history.position(since))
        return _of_namespace(changes, namespace) if namespace else changes

    async def run(self) -> None:
        """Age events while nothing else happens, so that watches see them go. Endless; a task for
        the agent's group. Without it they age with the next put, get or list of events."""
        while True:
            await self._clock.sleep(max(1.0, min(60.0, self._events_ttl / 10)))
            self._age_events()

    async def flush(self) -> None:
        """Wait until all that was written is on disk. Raises `PodtuiError` where it cannot be."""
        if self._writer is None:
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()

        def settle(problem: str) -> None:
            if not done.done():
                done.set_result(problem)

        def from_thread(problem: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended; nobody waits any more
                loop.call_soon_threadsafe(settle, problem)

        self._writer.notify(from_thread)
        if problem := await done:
            raise PodtuiError(f"the records are not on disk: {problem}")

    async def close(self) -> None:
        """End the watches and write what is pending. Idempotent."""
        for table in self._tables.values():
            table.history.close()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)

    def _delete(self, resource: Resource, key: tuple[str, str], now: float) -> bool:
        table = self._tables[resource]
        before = table.objects.pop(key, None)
        if before is None:
            return False
        table.order = None
        if resource == "events":
            self._ages.pop(key, None)
        self._version += 1
        meta = structs.replace(before.metadata, resourceVersion=str(self._version))
        last = structs.replace(before, metadata=meta)
        self._record(resource, key, Change(WatchType.DELETED, last, self._version, before), now)
        return True

    def _record(
        self, resource: Resource, key: tuple[str, str], change: Change, written: float
    ) -> None:
        self._tables[resource].history.append(change)
        if self._writer is not None:
            kept = None if change.type is WatchType.DELETED else change.object
            row = Row(kept, change.resource_version, written)
            self._writer.submit((resource, *key), row)

    def _age_events(self) -> None:
        now = self._clock.now().timestamp()
        while self._ages:
            key, written = next(iter(self._ages.items()))
            if len(self._ages) <= self._events_limit and written + self._events_ttl > now:
                return
            self._delete("events", key, now)


def open_store(
    path: str | None,
    *,
    clock: Clock,
    events_ttl: float = 3600.0,
    events_limit: int = EVENTS_LIMIT,
    history: Mapping[Resource, int] = HISTORY,
) -> Store:
    """Open the records at ``path`` (None: in memory only). Blocks while it reads the file.

    ``events_ttl`` is in seconds; ``history`` names what differs from `HISTORY`. A damaged file is
    moved aside and `Store.recovered` says so. Raises `PodtuiError` when the place cannot be used.
    """
    loaded = load(path, clock.now()) if path is not None else Loaded()
    return Store(
        clock=clock,
        loaded=loaded,
        writer=Writer(path) if path is not None else None,
        events_ttl=events_ttl,
        events_limit=events_limit,
        history=history,
    )


async def _of_namespace(changes: AsyncIterator[Change], namespace: str) -> AsyncIterator[Change]:
    async for change in changes:
        if change.object is not None and change.object.metadata.namespace == namespace:
            yield change
