"""The objects that a component knows: one watch for each kind, shared by all its parts.

A controller must see its own writes, or it would create the same pods twice. Real controllers count
the changes that they expect. Here, the answer of a write is put into the cache at once, and a later
watch event with an older version is ignored. Deleted objects are remembered by their UIDs, so that
the late answer of a write, or a late change that a watch reports, does not bring them back.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

from podtui.api.objects import Object
from podtui.api.v1 import ObjectMeta, OwnerReference
from podtui.client.protocol import Changed, Follower, Lost, Removed, Synced

_LOG = logging.getLogger(__name__)
T = TypeVar("T", bound=Object)
Kind = type[Object]
Key = tuple[str, str]
"""Namespace and name."""
_Objects = tuple[Object, ...]
_MAX_DELETED: Final = 10_000
_NOBODY: Final = ""
"""Stands for the UID of the owner of objects that no owner controls."""
Observer = Callable[[Object | None, Object | None], None]
"""Called with an object before and after a change; None if it did not or does not exist."""


class Cache:
    """The objects of the followed kinds, by kind, namespace and name, and by controlling owner."""

    def __init__(self) -> None:
        self._objects: dict[Kind, dict[Key, Object]] = {}
        self._owned: dict[Kind, defaultdict[str, dict[Key, Object]]] = {}
        self._observers: defaultdict[Kind, list[Observer]] = defaultdict(list)
        self._deleted: dict[str, float] = {}
        """The UIDs of the objects that were deleted last, and their last versions. A static pod
        that returns has the same UID and a newer version."""
        self._listed: dict[Kind, asyncio.Event] = {}

    def add_kind(self, kind: Kind) -> None:
        """Keep the objects of a kind; without effect if they are kept already."""
        if kind not in self._objects:
            self._objects[kind] = {}
            self._owned[kind] = defaultdict(dict)
            self._listed[kind] = asyncio.Event()

    def observe(self, kind: Kind, observer: Observer) -> None:
        """Call ``observer`` after each change of the kind's objects."""
        self.add_kind(kind)
        self._observers[kind].append(observer)

    def forget(self, kind: Kind, observer: Observer) -> None:
        """Undo `observe`."""
        self._observers[kind].remove(observer)

    async def listed(self, kinds: Iterable[Kind]) -> None:
        """Wait until the objects of the kinds have been listed."""
        for kind in kinds:
            await self._listed[kind].wait()

    # --- reading

    def get(self, kind: type[T], namespace: str, name: str) -> T | None:
        return cast("T | None", self._objects[kind].get((namespace, name)))

    def list(self, kind: type[T], namespace: str = "") -> list[T]:
        """Return the objects of a namespace, or of all."""
        items = cast("Iterable[T]", self._objects[kind].values())
        return [item for item in items if namespace in ("", item.metadata.namespace)]

    def owned(self, kind: type[T], uid: str) -> list[T]:
        """Return the objects that the owner with ``uid`` controls."""
        owned = self._owned[kind].get(uid)
        return [] if owned is None else cast("list[T]", [*owned.values()])

    def claimable(self, kind: type[T], owner: Object) -> list[T]:
        """Return the objects that ``owner`` controls, and those of its namespace that no owner
        controls."""
        namespace = owner.metadata.namespace
        orphans = self.owned(kind, _NOBODY)
        return [
            *self.owned(kind, owner.metadata.uid),
            *(item for item in orphans if item.metadata.namespace == namespace),
        ]

    # --- changes

    def put(self, item: Object) -> None:
        """Add or replace an object, unless the cache has a newer version of it."""
        kind, meta = type(item), item.metadata
        key = (meta.namespace, meta.name)
        before = self._objects[kind].get(key)
        if version(item) <= self._deleted.get(meta.uid, -1):
            return
        if before is not None and version(before) >= version(item):
            return
        self._objects[kind][key] = item
        self._index(kind, key, before, item)
        self._notify(kind, before, item)

    def remove(self, item: Object) -> None:
        """Remove an object that a write has deleted. Its last version is not known yet."""
        self._remove(item, self._deleted.get(item.metadata.uid, math.inf))

    def report_deleted(self, item: Object) -> None:
        """Remove an object whose last version a watch reports."""
        self._remove(item, version(item))

    def _remove(self, item: Object, last: float) -> None:
        uid = item.metadata.uid
        self._deleted.pop(uid, None)
        self._deleted[uid] = last
        if len(self._deleted) > _MAX_DELETED:
            del self._deleted[next(iter(self._deleted))]
        self._drop(item)

    def replace(self, kind: Kind, items: Iterable[Object]) -> None:
        """Replace all objects of a kind by those of a new list."""
        listed = {(item.metadata.namespace, item.metadata.name): item for item in items}
        for key, item in list(self._objects[kind].items()):
            if key not in listed:
                self._drop(item)
        for item in listed.values():
            self.put(item)
        self._listed[kind].set()

    def _drop(self, item: Object) -> None:
        kind, meta = type(item), item.metadata
        key = (meta.namespace, meta.name)
        before = self._objects[kind].get(key)
        if before is None or before.metadata.uid != meta.uid:
            return
        del self._objects[kind][key]
        self._index(kind, key, before, None)
        self._notify(kind, before, None)

    def _index(self, kind: Kind, key: Key, before: Object | None, after: Object | None) -> None:
        owned = self._owned[kind]
        if before is not None:
            uid = _owner_uid(before)
            owned[uid].pop(key, None)
            if not owned[uid]:
                del owned[uid]
        if after is not None:
            owned[_owner_uid(after)][key] = after

    def _notify(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        for observer in self._observers[kind]:
            observer(before, after)

    # --- following the objects

    async def run(self, objects: Follower) -> None:
        """Follow all kinds. Runs forever."""
        async with asyncio.TaskGroup() as group:
            for kind in self._objects:
                group.create_task(self._follow(objects, kind), name=f"follow {kind.__name__}")

    async def _follow(self, objects: Follower, kind: Kind) -> None:
        async for delta in objects.follow(cast("Any", kind)):
            match delta:
                case Synced(items):
                    self.replace(kind, cast("_Objects", items))
                case Changed(items):
                    for item in cast("_Objects", items):
                        self.put(item)
                case Removed(items):
                    for item in cast("_Objects", items):
                        self.report_deleted(item)
                case Lost(reason):
                    _LOG.warning("lost the %s: %s", kind.__name__, reason)


def version(item: Object) -> int:
    """Return the resource version as a number, by which versions of an object are compared."""
    text = item.metadata.resourceVersion
    return int(text) if text.isdecimal() else 0


def _owner_uid(item: Object) -> str:
    owner = controller_of(item)
    return _NOBODY if owner is None else owner.uid


def controller_of(item: Object | None) -> OwnerReference | None:
    """Return the reference to the owner that controls an object."""
    if item is None:
        return None
    meta: ObjectMeta = item.metadata
    return next((owner for owner in meta.ownerReferences if owner.controller), None)
