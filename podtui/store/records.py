"""The embedded store: all records in memory, numbered changes, written to the file in the
background.

resourceVersions come from one counter. Each start sets it above both the last number in the file
and the clock's microseconds. So it never decreases, even if a crash lost the last 50 ms of changes
or the file was lost, and a watch from before a restart is rejected instead of silently missing
changes.

A watch shows a change when it is on disk, as etcd does: what acts on it, such as the kubelet that
stops a container, must not act on a change that a crash takes back. Shown at once is what only
reports (`_is_report`), and every change while the file cannot be written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import cast
from uuid import uuid4

from msgspec import structs

from podtui.api.objects import Object, T
from podtui.api.pods import is_mirror
from podtui.api.times import rfc3339
from podtui.api.v1 import ObjectMeta, Pod
from podtui.clock import Clock
from podtui.errors import AlreadyExists, NotFound, PodtuiError, StoreGone
from podtui.store.database import Loaded, RecordRow, Writer, load
from podtui.store.history import History
from podtui.store.protocol import Change, RecordList, WatchType
from podtui.store.resources import RESOURCES, Key, Resource

EVENTS_LIMIT = 10_000
_RESTART_GAP = 1 << 20
"""An upper bound on the changes that are not yet on disk when the process dies."""


@dataclass(slots=True)
class _Table:
    """The objects of one resource, their cached order, and the recent changes."""

    history: History
    objects: dict[tuple[str, str], Object] = field(default_factory=dict[tuple[str, str], Object])
    order: list[tuple[str, str]] | None = None

    def in_order(self, namespace: str) -> tuple[Object, ...]:
        if self.order is None:
            self.order = sorted(self.objects)
        return tuple(
            [self.objects[key] for key in self.order if not namespace or key[0] == namespace]
        )

    def at(self, version: int) -> _Table:
        """Return the table as it was, by undoing the changes since. Raises `StoreGone`."""
        objects = dict(self.objects)
        # Earlier states are not kept. Only lists of an exact version need them, such as the next
        # page of a long list, and undoing the few changes since is cheap.
        for change in self.history.newest_first(version):
            item = change.previous or change.object
            assert item is not None
            key = (item.metadata.namespace, item.metadata.name)
            if change.previous is None:
                del objects[key]
            else:
                objects[key] = change.previous
        return _Table(self.history, objects)


class Store:
    """Implements `Records` for one root directory. Belongs to one event loop; created by
    `open_store`.

    ``recovered`` says what was dropped to open the file; empty if nothing was.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        loaded: Loaded,
        path: str | None,
        events_ttl: float,
        events_limit: int,
        history: Mapping[Resource, int],
    ) -> None:
        self.recovered = loaded.recovered
        self._clock = clock
        self._writer = (
            Writer(path, clock, self._rows, self._from_writer) if path is not None else None
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events_ttl = events_ttl
        self._events_limit = events_limit
        # The file may lack the last commits, and the clock may have been set back; neither may make
        # numbers repeat.
        self._version = max(
            loaded.resource_version + _RESTART_GAP if loaded.resource_version else 1,
            int(clock.now().timestamp() * 1e6),
        )
        self._tables: dict[Resource, _Table] = {
            resource: _Table(History(history.get(resource, kept.history), self._version))
            for resource, kept in RESOURCES.items()
        }
        # Events by the time of their last write, oldest first; expired from the front.
        self._ages: OrderedDict[tuple[str, str], float] = OrderedDict()
        for (resource, namespace, name), row in loaded.rows.items():
            if row.object is not None:
                self._tables[resource].objects[namespace, name] = row.object
            if resource == "events":
                self._ages[namespace, name] = row.written
        self._age_events()

    # These methods never wait, although the protocol makes them coroutines: reading, checking and
    # changing is one step of the event loop, so that no lock is needed.
    async def put(self, resource: Resource, item: T) -> T:
        """Create or replace an object. Raises `ValueError` for an object without a name, and
        `TypeError` for an object of another resource."""
        before = self._tables[resource].objects.get(_key(item))
        return self._set(resource, item, cast("T | None", before))

    async def create(self, resource: Resource, item: T) -> T:
        """See `Records.create`. Raises `ValueError` and `TypeError` as `put` does."""
        if _key(item) in self._tables[resource].objects:
            raise AlreadyExists(f'{resource} "{item.metadata.name}" already exists')
        return self._set(resource, item, None)

    async def update(
        self, resource: Resource, namespace: str, name: str, change: Callable[[T], T]
    ) -> T:
        """See `Records.update`. Raises `ValueError` if the change moves the object."""
        stored = self._tables[resource].objects.get((namespace, name))
        if stored is None:
            raise NotFound(f'{resource} "{name}" not found')
        before = cast("T", stored)
        after = change(before)
        if _key(after) != (namespace, name):
            raise ValueError(f"an update cannot move {resource} {namespace}/{name}")
        return self._set(resource, after, before)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        check: Callable[[Object], None] | None = None,
    ) -> bool:
        stored = self._tables[resource].objects.get((namespace, name))
        if stored is not None and check is not None:
            check(stored)
        return self._delete(resource, (namespace, name), self._clock.now().timestamp())

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        if resource == "events":
            self._age_events()
        return self._tables[resource].objects.get((namespace, name))

    async def list(
        self, resource: Resource, namespace: str = "", at: int | None = None
    ) -> RecordList:
        if resource == "events":
            self._age_events()
        table = self._tables[resource]
        if at is None or at == self._version:
            return RecordList(table.in_order(namespace), self._version)
        self._check_version(at)
        return RecordList(table.at(at).in_order(namespace), at)

    def watch(
        self, resource: Resource, namespace: str = "", since: int | None = None
    ) -> AsyncIterator[Change]:
        """See `Records.watch`. Raises `StoreGone` here, not on reading, if ``since`` cannot be
        served."""
        if since is not None:
            self._check_version(since)
        # This is no generator, so that the position is taken now: a generator would begin with its
        # first read, and miss the changes before.
        history = self._tables[resource].history
        changes = history.read(history.position(since))
        return _of_namespace(changes, namespace) if namespace else changes

    async def run(self) -> None:
        """Expire events periodically, so that watches see them go. Runs forever, as a task of the
        agent. Without it, events expire only on the next put, get or list of events."""
        while True:
            await self._clock.sleep(max(1.0, min(60.0, self._events_ttl / 10)))
            self._age_events()

    def problem(self) -> str:
        """Return why changes are not on disk; empty if they are."""
        return "" if self._writer is None else self._writer.problem()

    async def flush(self, key: Key | None = None) -> None:
        """See `Records.flush`. Raises `PodtuiError` if the changes cannot be written."""
        if self._writer is None:
            return
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()

        def settle(problem: str) -> None:
            if not done.done():
                done.set_result(problem)

        # The writer's thread calls this. Only the loop's thread may touch the future.
        def from_thread(problem: str) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, so there is no waiter
                loop.call_soon_threadsafe(settle, problem)

        self._writer.notify(from_thread, key)
        if problem := await done:
            raise PodtuiError(f"the records are not on disk: {problem}")

    async def close(self) -> None:
        """End the watches and write pending changes. Idempotent."""
        for table in self._tables.values():
            table.history.close()
        if self._writer is not None:
            await asyncio.to_thread(self._writer.close)

    def _rows(self) -> dict[Key, RecordRow]:
        """Return all records. Called from the writer's thread."""
        now = self._clock.now().timestamp()
        rows: dict[Key, RecordRow] = {}
        for resource, table in self._tables.items():
            # Copied at once, because the event loop goes on.
            for (namespace, name), item in list(table.objects.items()):
                written = self._ages.get((namespace, name), now) if resource == "events" else now
                version = int(item.metadata.resourceVersion)
                rows[resource, namespace, name] = RecordRow(item, version, written)
        return rows

    def _check_version(self, version: int) -> None:
        if version > self._version:
            raise StoreGone(f"resource version {version} is newer than the store ({self._version})")

    def _set(self, resource: Resource, item: T, before: T | None) -> T:
        """Store an object that replaces ``before``."""
        if not isinstance(item, RESOURCES[resource].type):
            raise TypeError(f"{type(item).__name__} is not one of {resource}")
        meta = item.metadata
        if not meta.name:
            raise ValueError(f"{resource} need metadata.name")
        now = self._clock.now()
        previous = before.metadata if before is not None else ObjectMeta()
        meta = structs.replace(
            meta,
            resourceVersion=previous.resourceVersion,
            uid=meta.uid or previous.uid or str(uuid4()),
            creationTimestamp=meta.creationTimestamp or previous.creationTimestamp or rfc3339(now),
        )
        stored = structs.replace(item, metadata=meta)
        # Compared while it has the earlier version: a write that changes nothing gets no version,
        # and wakes no watch.
        if before is not None and stored == before:
            return before
        self._version = version = self._version + 1
        meta = structs.replace(meta, resourceVersion=str(version))
        stored = structs.replace(item, metadata=meta)
        key, table = _key(stored), self._tables[resource]
        table.objects[key] = stored
        kind = WatchType.MODIFIED
        if before is None:
            # Replacing an object does not change the order of the names.
            table.order, kind = None, WatchType.ADDED
        self._record(resource, key, Change(kind, stored, version, before), now.timestamp())
        if resource == "events":
            self._ages[key] = now.timestamp()
            self._ages.move_to_end(key)
            self._age_events()
        return stored

    def _delete(self, resource: Resource, key: tuple[str, str], now: float) -> bool:
        table = self._tables[resource]
        before = table.objects.pop(key, None)
        if before is None:
            return False
        table.order = None
        if resource == "events":
            self._ages.pop(key, None)
        self._version += 1
        # As in the API, the object of a DELETED event has the version of its deletion.
        meta = structs.replace(before.metadata, resourceVersion=str(self._version))
        last = structs.replace(before, metadata=meta)
        self._record(resource, key, Change(WatchType.DELETED, last, self._version, before), now)
        return True

    def _record(
        self, resource: Resource, key: tuple[str, str], change: Change, written: float
    ) -> None:
        held = self._writer is not None and not _is_report(resource, change)
        self._tables[resource].history.append(change, held=held)
        if self._writer is not None:
            if held and self._loop is None:
                self._loop = asyncio.get_running_loop()
            kept = None if change.type is WatchType.DELETED else change.object
            row = RecordRow(kept, change.resource_version, written)
            self._writer.submit((resource, *key), row, urgent=held)

    def _from_writer(self, version: int) -> None:
        """Called from the writer's thread."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # the loop has ended, so there is no reader
            self._loop.call_soon_threadsafe(self._release, version)

    def _release(self, version: int) -> None:
        for table in self._tables.values():
            table.history.release(version)

    def _age_events(self) -> None:
        now = self._clock.now().timestamp()
        while self._ages:
            # The oldest write is first, so that the first event that stays ends the loop.
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
    history: Mapping[Resource, int] | None = None,
) -> Store:
    """Open the records at ``path`` (None: in memory only). Blocks while reading the file.

    ``events_ttl`` is in seconds; ``history`` overrides the number of changes kept. A damaged file
    is moved aside, and `Store.recovered` says so. Raises `PodtuiError` if the path cannot be used.
    """
    loaded = load(path, clock.now()) if path is not None else Loaded()
    return Store(
        clock=clock,
        loaded=loaded,
        path=path,
        events_ttl=events_ttl,
        events_limit=events_limit,
        history=history or {},
    )


def _key(item: Object) -> tuple[str, str]:
    return (item.metadata.namespace, item.metadata.name)


def _is_report(resource: Resource, change: Change) -> bool:
    """Return whether a change only reports what has happened already. If a crash takes it back, it
    is reported again."""
    pod, before = change.object, change.previous
    if not isinstance(pod, Pod):
        return not RESOURCES[resource].durable
    if is_mirror(pod):
        return True
    if not isinstance(before, Pod):
        return False
    if change.type is WatchType.DELETED:
        # The kubelet removes the record of a pod that has ended.
        return before.metadata.deletionTimestamp is not None
    meta = structs.replace(
        pod.metadata,
        resourceVersion=before.metadata.resourceVersion,
        managedFields=before.metadata.managedFields,
    )
    return pod.spec == before.spec and meta == before.metadata


async def _of_namespace(changes: AsyncIterator[Change], namespace: str) -> AsyncIterator[Change]:
    async for change in changes:
        if change.object is not None and change.object.metadata.namespace == namespace:
            yield change
