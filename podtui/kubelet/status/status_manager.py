"""Pod statuses, and the mirror records that publish them (kubelet.md §2).

There is one record per namespace and name: the static pod itself under its own UID, with the
annotations and the owner of a mirror pod. While an old version still terminates, the record shows
the new version.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from msgspec import structs

from podtui.api.kills import Kill, with_kill
from podtui.api.names import CONFIG_HASH, CONFIG_MIRROR, KILLS
from podtui.api.times import rfc3339
from podtui.api.v1 import OwnerReference, Pod, PodStatus
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.events.recorder import EventRecorder
from podtui.kubelet.events.timelines import Timelines
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
_Key = tuple[str, str]


@dataclass(slots=True)
class _Entry:
    pod: Pod
    created: str
    status: PodStatus | None = None
    annotations: dict[str, str] = field(default_factory=dict[str, str])
    deleted_at: str | None = None
    grace: int | None = None


class StatusManager:
    """Statuses are set at once and written later by `run`; only the latest one is written.

    ``node_uid`` returns the UID of the node's own record, which owns every mirror record.
    """

    def __init__(
        self, records: Records, clock: Clock, node_name: str, node_uid: Callable[[], str]
    ) -> None:
        self._records = records
        self._clock = clock
        self._node_name = node_name
        self._node_uid = node_uid
        self._entries: dict[str, _Entry] = {}
        self._claims: dict[_Key, list[str]] = {}
        self._written: dict[_Key, str] = {}
        self._seeds: dict[str, Pod] = {}
        self._ended: set[_Key] = set()
        self._dirty: dict[_Key, None] = {}
        self._wake = asyncio.Event()

    async def load(self) -> None:
        """Load the existing records: which pod has which name, and since when."""
        listing = await self._records.list("pods")
        for item in listing.items:
            if isinstance(item, Pod):
                self._written[_key(item)] = item.metadata.uid
                self._seeds[item.metadata.uid] = item

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
        return None if entry is None else self._compose(entry)

    def find(self, namespace: str, name: str) -> str | None:
        """Return the UID of the pod that the record of this name shows."""
        claims = self._claims.get((namespace, name))
        return claims[-1] if claims else None

    def claim(self, pod: Pod) -> None:
        """Let the record of this name show this pod from now on, starting with no status."""
        uid = pod.metadata.uid
        seed = self._seeds.get(uid)
        created = seed.metadata.creationTimestamp if seed is not None else None
        before = self._entries.get(uid)
        if before is not None and before.deleted_at is None:
            created = before.created
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
            entry.status = status
        self._mark(_key(pod))

    def annotate(self, uid: str, key: str, value: str | None) -> None:
        """Set or remove an annotation of the record that does not come from the manifest."""
        entry = self._entries.get(uid)
        if entry is None or entry.annotations.get(key) == value:
            return
        if value is None:
            del entry.annotations[key]
        else:
            entry.annotations[key] = value
        self._mark(_key(entry.pod))

    def record_kill(self, uid: str, container: str, kill: Kill) -> None:
        """Record why the kubelet stops a container."""
        entry = self._entries.get(uid)
        if entry is not None:
            self.annotate(uid, KILLS, with_kill(entry.annotations, container, kill))

    def mark_deleted(self, uid: str, grace: int) -> None:
        """Record that the pod terminates because its manifest is gone; ``grace`` is in seconds."""
        entry = self._entries.get(uid)
        if entry is not None and entry.deleted_at is None:
            entry.deleted_at = rfc3339(self._clock.now())
            entry.grace = grace
            self._mark(_key(entry.pod))

    def remove(self, uid: str) -> None:
        """Remove the record of a pod that is gone."""
        self._seeds.pop(uid, None)
        entry = self._entries.pop(uid, None)
        if entry is None:
            return
        key = _key(entry.pod)
        claims = self._claims.get(key, [])
        if uid in claims:
            claims.remove(uid)
        if not claims:
            self._claims.pop(key, None)
        if self._written.get(key) == uid:
            self._ended.add(key)
        self._mark(key)

    def remove_orphans(self, wanted: Collection[str]) -> None:
        """Remove the records of pods that are no longer wanted."""
        self._seeds = {uid: pod for uid, pod in self._seeds.items() if uid in wanted}
        for key, uid in self._written.items():
            if uid not in wanted and key not in self._claims:
                self._mark(key)

    # --- writing

    async def run(self) -> None:
        """Write changed records, forever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self.drain()

    async def drain(self) -> None:
        """Write the records that have changed so far."""
        while self._dirty:
            key = next(iter(self._dirty))
            del self._dirty[key]
            try:
                await self._write(key)
            except PodtuiError as error:
                _LOG.warning("record %s/%s is not written: %s", *key, error)

    async def _write(self, key: _Key) -> None:
        claims = self._claims.get(key)
        entry = self._entries.get(claims[-1]) if claims else None
        written = self._written.get(key)
        if written is not None and key in self._ended:
            # The recorded pod is gone. If it runs again, it gets a new record.
            written = None
            del self._written[key]
            await self._records.delete("pods", *key)
        self._ended.discard(key)
        if entry is None:
            if written is not None:
                del self._written[key]
                await self._records.delete("pods", *key)
            return
        if entry.status is None:
            return
        uid = entry.pod.metadata.uid
        if written is not None and written != uid:
            await self._records.delete("pods", *key)
        self._written[key] = uid
        await self._records.put("pods", self._compose(entry))

    def _compose(self, entry: _Entry) -> Pod:
        meta = entry.pod.metadata
        annotations = {
            **meta.annotations,
            CONFIG_MIRROR: meta.annotations.get(CONFIG_HASH, meta.uid),
            **entry.annotations,
        }
        owner = OwnerReference(
            apiVersion="v1",
            kind="Node",
            name=self._node_name,
            uid=self._node_uid(),
            controller=True,
        )
        return structs.replace(
            entry.pod,
            apiVersion="v1",
            kind="Pod",
            metadata=structs.replace(
                meta,
                annotations=annotations,
                ownerReferences=(owner,),
                creationTimestamp=entry.created,
                deletionTimestamp=entry.deleted_at,
                deletionGracePeriodSeconds=entry.grace,
            ),
            status=entry.status or entry.pod.status,
        )

    def _mark(self, key: _Key) -> None:
        self._dirty[key] = None
        self._wake.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecords:
    """Read access to the pods and their statuses."""

    statuses: StatusManager
    events: EventRecorder
    timelines: Timelines


def _key(pod: Pod) -> _Key:
    return pod.metadata.namespace, pod.metadata.name
