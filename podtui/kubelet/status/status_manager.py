"""Pod statuses, and the records that publish them (kubelet.md §2, 7).

The record of an API pod belongs to the API: only its status is written, and the record is removed
when the pod was deleted and has ended. A static pod has a mirror record of the same namespace and
name; while an old version still terminates, it shows the new version.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from podtui.api.kills import Kill, with_kill
from podtui.api.names import (
    CONFIG_HASH,
    CONFIG_MIRROR,
    KILLS,
    LACKS,
    PULL_PROGRESS,
    WOULD_FIT,
)
from podtui.api.pod_resources import is_static
from podtui.api.pods import is_mirror, source_uid
from podtui.api.times import rfc3339
from podtui.api.v1 import OwnerReference, Pod, PodCondition, PodStatus
from podtui.clock import Clock
from podtui.errors import NotFound, PodtuiError
from podtui.kubelet.events.recorder import EventRecorder
from podtui.kubelet.events.timelines import Timelines
from podtui.kubelet.kubelet_metrics import TERMINATED_CONTAINERS
from podtui.kubelet.ports import PodClient
from podtui.kubelet.status.conditions import DISRUPTION_TARGET, OWNED, RESIZE
from podtui.kubelet.status.phase import TERMINAL

_LOG = logging.getLogger(__name__)
_Key = tuple[str, str]
SYNC_SECONDS: Final = 10.0
"""After this time, failed writes are retried, and statuses that API clients changed are written
again: not at once, so that two writers of a status do not answer each other without pause."""
_OWN: Final = frozenset({KILLS, LACKS, PULL_PROGRESS, WOULD_FIT})
"""Annotations of the record that do not come from the manifest."""


@dataclass(slots=True)
class _Entry:
    pod: Pod
    created: str
    status: PodStatus | None = None
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    deleted_at: str | None = None
    grace: int | None = None
    ended: bool = False
    """True if nothing of the pod runs and its final status is set."""


class StatusManager:
    """Statuses are set at once and written later by `run`; only the latest one is written.

    ``node_uid`` returns the UID of the node's own record, which owns every mirror record.
    ``may_run`` returns whether containers of a pod may still run, by UID.
    """

    def __init__(
        self,
        pods: PodClient,
        clock: Clock,
        node_name: str,
        node_uid: Callable[[], str],
        may_run: Callable[[str], bool],
    ) -> None:
        self._pods = pods
        self._clock = clock
        self._node_name = node_name
        self._node_uid = node_uid
        self._may_run = may_run
        self._entries: dict[str, _Entry] = {}
        self._claims: dict[_Key, list[str]] = {}
        """The static pods of each name, by UID; the record shows the last one."""
        self._api: dict[_Key, str] = {}
        """The API pod of each name."""
        self._written: dict[_Key, str] = {}
        """The static pods that the mirror records show."""
        self._seeds: dict[str, Pod] = {}
        self._ended: set[_Key] = set()
        self._dirty: dict[_Key | str, None] = {}
        """Names of mirror records and UIDs of API pods to write."""
        self._failed: dict[_Key | str, str] = {}
        """The records whose last write failed, and the error."""
        self._changed_by_others: dict[str, float] = {}
        """When each API pod's record was first seen with a status that is not ours."""
        self._sources_ready = False
        self._wake = asyncio.Event()

    async def load(self) -> None:
        """Load the existing records: which pod has which name, and since when."""
        for pod in await self._pods.list():
            self._seeds[source_uid(pod)] = pod
            if is_mirror(pod):
                self._written[_key(pod)] = source_uid(pod)

    def seed(self, uid: str) -> Pod | None:
        """Return the pod's record from before this kubelet started."""
        return self._seeds.get(uid)

    # --- statuses

    def get(self, uid: str) -> PodStatus | None:
        entry = self._entries.get(uid)
        return None if entry is None else entry.status

    def reason(self, uid: str) -> str:
        """Return the reason of the pod's status; empty without a status."""
        status = self.get(uid)
        return "" if status is None else status.reason

    def record_of(self, uid: str) -> Pod | None:
        """Return the pod as its record shows it, even if that is not yet written."""
        entry = self._entries.get(uid)
        if entry is None:
            return None
        if is_static(entry.pod):
            return mirror_pod(self._mirror(entry))
        return structs.replace(entry.pod, status=entry.status or entry.pod.status)

    def find(self, namespace: str, name: str) -> str | None:
        """Return the UID of the pod that the record of this name shows."""
        key = (namespace, name)
        claims = self._claims.get(key)
        return self._api.get(key) or (claims[-1] if claims else None)

    def claim(self, pod: Pod) -> None:
        """Let the record of this name show this pod from now on.

        An API pod starts with the status of its record, a static pod with none.
        """
        uid = pod.metadata.uid
        if not is_static(pod):
            created = pod.metadata.creationTimestamp or ""
            self._entries[uid] = _Entry(pod, created, status=pod.status)
            self._api[_key(pod)] = uid
            return
        seed = self._seeds.get(uid)
        created = seed.metadata.creationTimestamp if seed is not None else None
        before = self._entries.get(uid)
        if before is not None and before.deleted_at is None:
            created = before.created
        elif before is not None:
            # The record says that the pod is being deleted, and that cannot be taken back.
            self._ended.add(_key(pod))
        entry = _Entry(pod, created or rfc3339(self._clock.now()))
        kills = seed.metadata.annotations.get(KILLS) if before is None and seed is not None else ""
        if kills:
            # The killed containers still exist.
            entry.annotations[KILLS] = kills
        self._entries[uid] = entry
        claims = self._claims.setdefault(_key(pod), [])
        if uid in claims:
            claims.remove(uid)
        claims.append(uid)

    def set(self, pod: Pod, status: PodStatus) -> None:
        entry = self._entries.get(pod.metadata.uid)
        if entry is None:
            return
        entry.pod = pod
        if entry.status != status:
            _count_terminations(entry.status or PodStatus(), status)
            entry.status = status
        self._mark(entry)

    def annotate(self, uid: str, key: str, value: str | None) -> None:
        """Set or remove an annotation of a mirror record that does not come from the manifest.

        The annotations of an API pod belong to its owner: they are left alone.
        """
        entry = self._entries.get(uid)
        if entry is None or not is_static(entry.pod) or entry.annotations.get(key) == value:
            return
        if value is None:
            del entry.annotations[key]
        else:
            entry.annotations[key] = value
        self._mark(entry)

    def record_kill(self, uid: str, container: str, kill: Kill) -> None:
        """Record why the kubelet stops a container."""
        entry = self._entries.get(uid)
        if entry is not None:
            self.annotate(uid, KILLS, with_kill(entry.annotations, container, kill))

    def mark_deleted(self, uid: str, grace: int) -> None:
        """Record that a static pod terminates because its manifest is gone; ``grace`` is in
        seconds."""
        entry = self._entries.get(uid)
        if entry is not None and is_static(entry.pod) and entry.deleted_at is None:
            entry.deleted_at = rfc3339(self._clock.now())
            entry.grace = grace
            self._mark(entry)

    def mark_ended(self, uid: str) -> None:
        """Record that nothing of the pod runs: if it was deleted, its record may go."""
        entry = self._entries.get(uid)
        if entry is not None:
            entry.ended = True
            self._mark(entry)

    def remove(self, uid: str) -> None:
        """Forget a pod that is gone, and remove its mirror record."""
        self._seeds.pop(uid, None)
        self._changed_by_others.pop(uid, None)
        entry = self._entries.pop(uid, None)
        if entry is None:
            return
        key = _key(entry.pod)
        if not is_static(entry.pod):
            if self._api.get(key) == uid:
                del self._api[key]
            if key in self._claims:
                # The name is free for the mirror record of a static pod.
                self._mark_name(key)
            return
        claims = self._claims.get(key, [])
        if uid in claims:
            claims.remove(uid)
        if not claims:
            self._claims.pop(key, None)
        if self._written.get(key) == uid:
            self._ended.add(key)
        self._mark_name(key)

    def record_changed(self, record: Pod) -> None:
        """Compare the status of an API pod's record with the one that is set here. If a client
        changed it, it is written again within `SYNC_SECONDS`."""
        uid = record.metadata.uid
        status = self.get(uid)
        if status is None or uid in self._dirty or uid in self._changed_by_others:
            return
        if merged_status(record.status, status, may_run=self._may_run(uid)) != record.status:
            self._changed_by_others[uid] = self._clock.monotonic()
            self._wake.set()

    # --- mirror records

    def remove_orphans(self, wanted: Collection[str]) -> None:
        """Remove the mirror records of static pods that are no longer wanted, now that all sources
        are known."""
        self._sources_ready = True
        self._seeds = {uid: pod for uid, pod in self._seeds.items() if uid in wanted}
        for key, uid in self._written.items():
            if uid not in wanted and key not in self._claims:
                self._mark_name(key)

    def mirror_changed(self, namespace: str, name: str) -> None:
        """Compare a mirror record with its static pod: it was changed or removed, possibly by an
        API client."""
        if self._sources_ready:
            self._mark_name((namespace, name))

    def _mirror(self, entry: _Entry) -> Mirror:
        return Mirror(
            pod=entry.pod,
            status=entry.status or entry.pod.status,
            annotations=entry.annotations,
            created=entry.created,
            deleted_at=entry.deleted_at,
            grace=entry.grace,
            node_name=self._node_name,
            node_uid=self._node_uid(),
        )

    # --- writing

    async def run(self) -> None:
        """Write changed records, forever. A write that failed is retried with the next change, or
        after `SYNC_SECONDS`."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._next_sync()):
                    await self._wake.wait()
            self._wake.clear()
            now = self._clock.monotonic()
            for uid, since in list(self._changed_by_others.items()):
                if now >= since + SYNC_SECONDS:
                    del self._changed_by_others[uid]
                    self._dirty[uid] = None
            await self.drain()

    def _next_sync(self) -> float | None:
        """Return the seconds until records are written without a new status; None for never."""
        waits = [
            since + SYNC_SECONDS - self._clock.monotonic()
            for since in self._changed_by_others.values()
        ]
        if self._failed:
            waits.append(SYNC_SECONDS)
        return max(min(waits), 0.0) if waits else None

    async def drain(self) -> None:
        """Write the records that have changed so far, and those whose last write failed."""
        failed, self._failed = self._failed, {}
        self._dirty |= dict.fromkeys(failed)
        while self._dirty:
            target = next(iter(self._dirty))
            del self._dirty[target]
            try:
                if isinstance(target, str):
                    await self._write_status(target)
                else:
                    await self._write_mirror(target)
            except PodtuiError as error:
                self._failed[target] = str(error)
                if failed.get(target) != str(error):
                    _LOG.warning("cannot write the record of %s: %s", target, error)
            except Exception as error:
                self._failed[target] = str(error)
                raise

    async def _write_status(self, uid: str) -> None:
        entry = self._entries.get(uid)
        if entry is None or entry.status is None:
            return
        status, may_run = entry.status, self._may_run(uid)
        try:
            record = await self._pods.update(
                entry.pod,
                lambda current: structs.replace(
                    current, status=merged_status(current.status, status, may_run=may_run)
                ),
            )
        except NotFound:
            # The pod was deleted by force: its source removes it.
            return
        if entry.ended and record.metadata.deletionTimestamp is not None:
            await self._pods.delete(record)

    async def _write_mirror(self, key: _Key) -> None:
        claims = self._claims.get(key)
        entry = self._entries.get(claims[-1]) if claims else None
        record = await self._pods.get(*key)
        if record is not None and not is_mirror(record):
            if entry is not None:
                _LOG.warning("static pod %s/%s has no record: an API pod has the same name", *key)
            self._written.pop(key, None)
            return
        if key in self._ended:
            # If the pod runs again, it gets a new record.
            self._written.pop(key, None)
        if record is not None and (
            key in self._ended or entry is None or not self._shows(record, entry)
        ):
            await self._pods.delete(record)
            record = None
        self._ended.discard(key)
        if entry is None:
            self._written.pop(key, None)
            return
        if entry.status is None:
            return
        uid, mirror = entry.pod.metadata.uid, self._mirror(entry)
        if record is not None:
            await self._pods.update(record, lambda current: renewed_mirror(current, mirror))
        else:
            # The first record has the UID of the static pod. After a deletion by a client, the
            # client must be able to see that this is another record.
            deleted = self._written.get(key) == uid
            await self._pods.create(mirror_pod(mirror, uid="" if deleted else uid))
        self._written[key] = uid

    def _shows(self, record: Pod, entry: _Entry) -> bool:
        """Return whether the record is a mirror of this version, and not deleted by a client."""
        same = record.metadata.annotations[CONFIG_MIRROR] == mirror_hash(entry.pod)
        return same and (record.metadata.deletionTimestamp is None or entry.deleted_at is not None)

    def _mark(self, entry: _Entry) -> None:
        target = _key(entry.pod) if is_static(entry.pod) else entry.pod.metadata.uid
        self._dirty[target] = None
        self._wake.set()

    def _mark_name(self, key: _Key) -> None:
        self._dirty[key] = None
        self._wake.set()


def _count_terminations(before: PodStatus, after: PodStatus) -> None:
    of_type = {
        "init_container": (before.initContainerStatuses, after.initContainerStatuses),
        "container": (before.containerStatuses, after.containerStatuses),
        "ephemeral_container": (
            before.ephemeralContainerStatuses,
            after.ephemeralContainerStatuses,
        ),
    }
    for container_type, (old, new) in of_type.items():
        ended_before = {status.name for status in old if status.state.terminated is not None}
        for status in new:
            ended = status.state.terminated
            if ended is not None and status.name not in ended_before:
                TERMINATED_CONTAINERS.labels(container_type, ended.exitCode, ended.reason).inc()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecords:
    """The kubelet's reports about pods: statuses, events and timelines of their starts."""

    statuses: StatusManager
    events: EventRecorder
    timelines: Timelines


def _key(pod: Pod) -> _Key:
    return pod.metadata.namespace, pod.metadata.name


# --- the content of records, as API clients see them


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A static pod and what its record adds to it."""

    pod: Pod
    status: PodStatus
    annotations: Mapping[str, str]
    created: str
    deleted_at: str | None
    grace: int | None
    node_name: str
    node_uid: str


def mirror_hash(pod: Pod) -> str:
    """Return the value that ties a mirror record to this version of the static pod."""
    return pod.metadata.annotations.get(CONFIG_HASH, pod.metadata.uid)


def mirror_pod(mirror: Mirror, *, uid: str | None = None) -> Pod:
    """Return a new record, by default with the UID of the static pod."""
    meta = mirror.pod.metadata
    owner = OwnerReference(
        apiVersion="v1",
        kind="Node",
        name=mirror.node_name,
        uid=mirror.node_uid,
        controller=True,
    )
    return structs.replace(
        mirror.pod,
        apiVersion="v1",
        kind="Pod",
        metadata=structs.replace(
            meta,
            uid=meta.uid if uid is None else uid,
            annotations={
                **meta.annotations,
                CONFIG_MIRROR: mirror_hash(mirror.pod),
                **mirror.annotations,
            },
            ownerReferences=(owner,),
            creationTimestamp=mirror.created if uid != "" else None,
            deletionTimestamp=mirror.deleted_at,
            deletionGracePeriodSeconds=mirror.grace,
        ),
        status=mirror.status,
    )


def renewed_mirror(record: Pod, mirror: Mirror) -> Pod:
    """Return an existing record with the present state of the static pod.

    Labels, annotations and conditions that API clients added are kept; the rest follows the
    manifest.
    """
    fresh = mirror_pod(mirror)
    conditions = fresh.status.conditions
    computed = {*OWNED, *RESIZE, DISRUPTION_TARGET, *(item.type for item in conditions)}
    added = [item for item in record.status.conditions if item.type not in computed]
    former, meta = record.metadata, fresh.metadata
    kept = {name: value for name, value in former.annotations.items() if name not in _OWN}
    return structs.replace(
        fresh,
        metadata=structs.replace(
            former,
            labels={**former.labels, **meta.labels},
            annotations={**kept, **meta.annotations},
            ownerReferences=meta.ownerReferences,
            deletionTimestamp=meta.deletionTimestamp,
            deletionGracePeriodSeconds=meta.deletionGracePeriodSeconds,
        ),
        status=structs.replace(fresh.status, conditions=(*added, *conditions)),
    )


def merged_status(old: PodStatus, new: PodStatus, *, may_run: bool) -> PodStatus:
    """Return the status to write; ``old`` is the record's.

    The conditions and fields of other components are kept. With ``may_run``, containers of the pod
    may still run: then its phase does not become Succeeded or Failed yet.
    """
    ending = old.phase not in TERMINAL and new.phase in TERMINAL
    delayed = ending and may_run
    return structs.replace(
        new,
        phase=old.phase if delayed else new.phase,
        reason=old.reason if delayed else new.reason,
        message=old.message if delayed else new.message,
        conditions=_merged_conditions(old.conditions, new.conditions, ended=ending and not may_run),
        nominatedNodeName=old.nominatedNodeName,
        resourceClaimStatuses=old.resourceClaimStatuses,
        extendedResourceClaimStatus=old.extendedResourceClaimStatus,
        nodeAllocatableResourceClaimStatuses=old.nodeAllocatableResourceClaimStatuses,
    )


def _merged_conditions(
    old: tuple[PodCondition, ...], new: tuple[PodCondition, ...], *, ended: bool
) -> tuple[PodCondition, ...]:
    """Keep the conditions of others, and add DisruptionTarget once the pod has ended."""
    disruption = [condition for condition in new if condition.type == DISRUPTION_TARGET and ended]
    kept = [condition for condition in old if condition.type not in (*OWNED, *RESIZE)]
    if disruption:
        kept = [condition for condition in kept if condition.type != DISRUPTION_TARGET]
    return (
        *kept,
        *disruption,
        *(condition for condition in new if condition.type in (*OWNED, *RESIZE)),
    )
