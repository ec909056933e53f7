"""Delete the objects whose owners are gone, like the garbage collector of Kubernetes.

Only owners in the object's namespace, of a kind that the API serves, can be looked up. An object
with another owner is left alone.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any, Final

from msgspec import structs

from podtui.api.objects import Object
from podtui.api.v1 import ObjectMeta, OwnerReference
from podtui.clock import Clock
from podtui.errors import NotFound
from podtui.manifest.strategies.strategy import Strategy, with_meta
from podtui.server.resources.control_loop import run_control_loop
from podtui.server.resources.definitions import ALL
from podtui.server.resources.deletion import FOREGROUND, ORPHAN, delete_record, update_record
from podtui.server.resources.resource import AnyResource
from podtui.store.protocol import Change, Records, WatchType
from podtui.store.resources import Resource as RecordName

log = logging.getLogger(__name__)


class OwnerState(Enum):
    SOLID = auto()
    WAITING = auto()
    """It waits until its dependents are deleted."""
    GONE = auto()


def _collected() -> Iterator[tuple[RecordName, AnyResource, Strategy[Any]]]:
    for resource in ALL:
        if resource.record is not None and resource.strategy is not None and resource.strategy.owns:
            yield resource.record, resource, resource.strategy


_STRATEGIES: Final[Mapping[RecordName, Strategy[Any]]] = {
    record: strategy for record, _, strategy in _collected()
}
_KINDS: Final[Mapping[tuple[str, str], RecordName]] = {
    (resource.api_version, resource.kind): record
    for record, resource, _ in _collected()
    if resource.namespaced
}
Dependent = tuple[RecordName, Object]


class GarbageCollector:
    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._owned: dict[str, set[str]] = {}
        """The UIDs of the dependents of each owner, by its UID."""

    async def run(self) -> None:
        """Collect whenever an owner or a dependent changes. Runs forever."""
        await run_control_loop(
            "garbage collector",
            self._records,
            _STRATEGIES,
            matters=self._matters,
            sync=self._pass,
        )

    async def _matters(self, _: RecordName, change: Change) -> bool:
        """Return whether a change needs a pass, which reads all objects. Most changes do not: those
        of objects whose owners exist, and of owners without dependents."""
        if change.object is None:
            return False
        meta = change.object.metadata
        before = change.previous.metadata if change.previous is not None else None
        if before is not None:
            self._forget(before)
        if change.type is WatchType.DELETED:
            self._forget(meta)
            owned = self._owned.pop(meta.uid, None)
            return bool(owned) or OwnerState.WAITING in await self._owners(meta)
        self._remember(meta)
        if _state(meta) == _state(before):
            return False
        if is_waiting(meta, FOREGROUND) or is_waiting(meta, ORPHAN):
            return True
        return any(state is not OwnerState.SOLID for state in await self._owners(meta))

    def _remember(self, meta: ObjectMeta) -> None:
        for reference in references(meta):
            self._owned.setdefault(reference.uid, set()).add(meta.uid)

    def _forget(self, meta: ObjectMeta) -> None:
        for reference in references(meta):
            owned = self._owned.get(reference.uid, set())
            owned.discard(meta.uid)
            if not owned:
                self._owned.pop(reference.uid, None)

    async def _owners(self, meta: ObjectMeta) -> list[OwnerState]:
        return [await self._owner(each, meta.namespace) for each in references(meta)]

    async def _pass(self) -> None:
        dependents: list[Dependent] = []
        deleted: list[Dependent] = []
        for record in _STRATEGIES:
            for item in (await self._records.list(record)).items:
                if references(item.metadata):
                    dependents.append((record, item))
                if is_waiting(item.metadata, FOREGROUND) or is_waiting(item.metadata, ORPHAN):
                    deleted.append((record, item))
        # Nothing is removed: a dependent may have come while the objects were read.
        for _, item in dependents:
            self._remember(item.metadata)
        for record, item in dependents:
            with contextlib.suppress(NotFound):
                await self._collect(record, item, dependents)
        for record, item in deleted:
            with contextlib.suppress(NotFound):
                await self._release(record, item, dependents)

    async def _collect(
        self, record: RecordName, item: Object, dependents: Iterable[Dependent]
    ) -> None:
        """Delete an object without owners, or remove the references to those that are gone."""
        meta = item.metadata
        referenced = references(meta)
        if len(referenced) < len(meta.ownerReferences):
            return
        owners = [
            (reference, await self._owner(reference, meta.namespace)) for reference in referenced
        ]
        lost = {reference.uid for reference, owner in owners if owner is not OwnerState.SOLID}
        if not lost:
            return
        if any(owner is OwnerState.SOLID for _, owner in owners):
            await self._disown(record, item, lost)
            return
        if meta.deletionTimestamp is not None:
            return
        # The default of Jobs and ReplicationControllers is for users; it would orphan their pods.
        policy = "" if {FOREGROUND, ORPHAN} & {*meta.finalizers} else "Background"
        owned = list(dependents_of(meta.uid, dependents))
        if owned and any(owner is OwnerState.WAITING for _, owner in owners):
            policy = "Foreground"
            if any(is_waiting(dependent.metadata, FOREGROUND) for _, dependent in owned):
                # The objects own each other: each would wait for the other.
                item = await self._unblock(record, item)
        await self._delete(record, item, policy)

    async def _owner(self, reference: OwnerReference, namespace: str) -> OwnerState:
        record = _KINDS[reference.apiVersion, reference.kind]
        owner = await self._records.get(record, namespace, reference.name)
        if owner is None or owner.metadata.uid != reference.uid:
            return OwnerState.GONE
        return OwnerState.WAITING if is_waiting(owner.metadata, FOREGROUND) else OwnerState.SOLID

    async def _release(
        self, record: RecordName, item: Object, dependents: Iterable[Dependent]
    ) -> None:
        """Remove the finalizer of a deleted object, unless it still waits for its dependents."""
        meta = item.metadata
        owned = list(dependents_of(meta.uid, dependents))
        if ORPHAN in meta.finalizers:
            for resource, dependent in owned:
                with contextlib.suppress(NotFound):
                    await self._disown(resource, dependent, {meta.uid})
        elif any(_blocks(dependent.metadata, meta.uid) for _, dependent in owned):
            return

        def released(current: Object) -> Object:
            finalizers = current.metadata.finalizers
            kept = (name for name in finalizers if name not in (FOREGROUND, ORPHAN))
            return with_meta(current, finalizers=tuple(kept))

        await self._update(record, item, released)

    async def _disown(self, record: RecordName, item: Object, owners: set[str]) -> None:
        def disowned(current: Object) -> Object:
            owned_by = current.metadata.ownerReferences
            kept = (owner for owner in owned_by if owner.uid not in owners)
            return with_meta(current, ownerReferences=tuple(kept))

        await self._update(record, item, disowned)

    async def _unblock(self, record: RecordName, item: Object) -> Object:
        def unblocked(current: Object) -> Object:
            owners = current.metadata.ownerReferences
            return with_meta(
                current,
                ownerReferences=tuple(
                    structs.replace(owner, blockOwnerDeletion=False) for owner in owners
                ),
            )

        return await self._update(record, item, unblocked)

    async def _update(
        self, record: RecordName, item: Object, change: Callable[[Object], Object]
    ) -> Object:
        meta = item.metadata

        def checked(current: Object) -> Object:
            _require_uid(current, meta.uid)
            return change(current)

        return await update_record(
            self._records, record, _STRATEGIES[record], meta.namespace, meta.name, checked
        )

    async def _delete(self, record: RecordName, item: Object, policy: str) -> None:
        meta = item.metadata

        def check(current: Object) -> None:
            _require_uid(current, meta.uid)
            if current.metadata.ownerReferences != meta.ownerReferences:
                # The change of the references wakes the next pass.
                raise NotFound(meta.name)

        await delete_record(
            self._records,
            record,
            _STRATEGIES[record],
            item,
            seconds=None,
            now=self._clock.now(),
            policy=policy,
            check=check,
        )
        log.info("%s %s/%s: its owner no longer exists", record, meta.namespace, meta.name)


def references(meta: ObjectMeta) -> tuple[OwnerReference, ...]:
    """Return the references to owners that can be looked up."""
    owners = meta.ownerReferences
    return tuple(owner for owner in owners if (owner.apiVersion, owner.kind) in _KINDS)


def is_waiting(meta: ObjectMeta, finalizer: str) -> bool:
    """Return whether a deleted object waits for the garbage collector."""
    return meta.deletionTimestamp is not None and finalizer in meta.finalizers


def dependents_of(uid: str, dependents: Iterable[Dependent]) -> Iterator[Dependent]:
    for record, item in dependents:
        if any(owner.uid == uid for owner in item.metadata.ownerReferences):
            yield record, item


def _blocks(meta: ObjectMeta, uid: str) -> bool:
    return any(owner.uid == uid and owner.blockOwnerDeletion for owner in meta.ownerReferences)


def _state(meta: ObjectMeta | None) -> tuple[object, ...]:
    """Return the part of the metadata that the collector acts on."""
    if meta is None:
        return ()
    waiting = (is_waiting(meta, FOREGROUND), is_waiting(meta, ORPHAN))
    owners = references(meta)
    return (owners, waiting) if owners or any(waiting) else ()


def _require_uid(item: Object, uid: str) -> None:
    if item.metadata.uid != uid:
        raise NotFound(item.metadata.name)
