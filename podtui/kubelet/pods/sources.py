"""Receive the desired pods from the folder and the API, and turn them into updates
(kubelet.md §1.6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, Protocol

from msgspec import structs

from podtui.api.local import Manifest
from podtui.api.names import CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE
from podtui.api.pods import full_name, is_mirror
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.base.ports import PodClient
from podtui.kubelet.base.types import PodOperation, PodUpdate
from podtui.manifest.identity import seen_text
from podtui.manifest.types import Folder
from podtui.store.protocol import Records

FILE: Final = "file"
API: Final = "api"
_LOCAL: Final = frozenset({CONFIG_SOURCE, CONFIG_MIRROR, CONFIG_SEEN})


class FolderProvider(Protocol):
    """A source of folder snapshots."""

    def snapshots(self) -> AsyncIterator[Folder]: ...


class FolderReader:
    """Receives folder snapshots and records their manifests.

    Each snapshot is complete, so only the newest one counts. ``changed`` is set for each.
    """

    def __init__(
        self,
        folders: AsyncIterator[Folder] | FolderProvider,
        records: Records,
        changed: asyncio.Event,
    ) -> None:
        self._folders = folders
        self._manifests = ManifestRecorder(records)
        self._newest: Folder | None = None
        self._changed = changed

    async def run(self) -> None:
        """Receive snapshots until there are no more."""
        folders = self._folders
        if not isinstance(folders, AsyncIterator):
            folders = folders.snapshots()
        async for folder in folders:
            self._newest = folder
            self._changed.set()
            await self._manifests.record(folder.manifests)

    def take(self) -> Folder | None:
        """Return the newest snapshot; None if it was taken before."""
        newest, self._newest = self._newest, None
        return newest


class PodReader:
    """Receives the pods that the API has bound to this node, and tells mirror pods from the others.

    ``on_mirror`` is called with the namespace and name of each mirror pod that changed. ``changed``
    is set for each new set of other pods.
    """

    def __init__(
        self,
        pods: PodClient,
        clock: Clock,
        changed: asyncio.Event,
        on_mirror: Callable[[str, str], None],
    ) -> None:
        self._pods = pods
        self._clock = clock
        self._changed = changed
        self._on_mirror = on_mirror
        self._records: Mapping[str, Pod] = {}
        self._known: dict[str, Pod] = {}
        self._taken = True

    async def run(self) -> None:
        """Receive snapshots until there are no more."""
        first = True
        async for records in self._pods.snapshots():
            if self._apply(records) or first:
                self._taken = first = False
                self._changed.set()

    def take(self) -> Mapping[str, Pod] | None:
        """Return the newest API pods by UID; None if they were taken before."""
        if self._taken:
            return None
        self._taken = True
        return dict(self._known)

    def _apply(self, records: Mapping[str, Pod]) -> bool:
        """Take over a snapshot. Return whether API pods changed."""
        before, self._records = self._records, records
        gone = [before[uid] for uid in before.keys() - records.keys()]
        changed = [pod for uid, pod in records.items() if before.get(uid) is not pod]
        for pod in (*gone, *changed):
            if is_mirror(pod):
                self._on_mirror(pod.metadata.namespace, pod.metadata.name)
        for pod in gone:
            self._known.pop(pod.metadata.uid, None)
        for pod in changed:
            if not is_mirror(pod):
                self._known[pod.metadata.uid] = self._as_source(pod)
        return any(not is_mirror(pod) for pod in (*gone, *changed))

    def _as_source(self, pod: Pod) -> Pod:
        """Return the pod with the annotations that a kubelet adds to its own copy."""
        known = self._known.get(pod.metadata.uid)
        seen = None if known is None else known.metadata.annotations.get(CONFIG_SEEN)
        annotations = {
            **pod.metadata.annotations,
            CONFIG_SOURCE: API,
            CONFIG_SEEN: seen or seen_text(self._clock.now()),
        }
        return structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations))


class SourceDiff:
    """Compares each set of pods of one source with the one before.

    Updates come in the order REMOVE, ADD, UPDATE, RECONCILE. A source gives no two pods the same
    full name.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._pods: dict[str, Pod] = {}

    def diff(self, pods: Mapping[str, Pod]) -> tuple[PodUpdate, ...]:
        """Replace the known pods by ``pods`` (by UID) and return the resulting updates."""
        before, self._pods = self._pods, dict(pods)
        changed = [
            (before.get(uid), pod) for uid, pod in pods.items() if before.get(uid) is not pod
        ]
        removed = [pod for uid, pod in before.items() if uid not in pods]
        added: list[Pod] = []
        updated: list[Pod] = []
        reconciled: list[Pod] = []
        for old, new in changed:
            if old is None:
                added.append(new)
            elif full_name(old) != full_name(new):
                # A renamed pod with a fixed UID cannot be updated: its containers have the old
                # name.
                removed.append(old)
                added.append(new)
            elif _differs(old, new):
                updated.append(new)
            elif old.status != new.status:
                reconciled.append(new)
        groups = (
            (PodOperation.REMOVE, removed),
            (PodOperation.ADD, added),
            (PodOperation.UPDATE, updated),
            (PodOperation.RECONCILE, reconciled),
        )
        return tuple(
            [
                PodUpdate(operation=operation, pods=tuple(group), source=self._source)
                for operation, group in groups
                if group
            ]
        )


def _differs(old: Pod, new: Pod) -> bool:
    """Return True if a change matters to a pod worker."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletionTimestamp != new.metadata.deletionTimestamp
        or old.metadata.deletionGracePeriodSeconds != new.metadata.deletionGracePeriodSeconds
        or _foreign(old) != _foreign(new)
    )


def _foreign(pod: Pod) -> dict[str, str]:
    return {key: value for key, value in pod.metadata.annotations.items() if key not in _LOCAL}


class ManifestRecorder:
    """Keeps the ``manifests`` records in sync with the folder."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._known: dict[str, Manifest] | None = None
        self._stored: dict[str, tuple[str, str]] = {}

    async def record(self, manifests: Mapping[str, Manifest]) -> None:
        if self._known is None:
            listing = await self._records.list("manifests")
            keys = [(i.metadata.namespace, i.metadata.name) for i in listing.items]
            wanted = {(m.metadata.namespace, m.metadata.name) for m in manifests.values()}
            for namespace, name in keys:
                if (namespace, name) not in wanted:
                    await self._records.delete("manifests", namespace, name)
            self._known = {}
        for name, manifest in manifests.items():
            if self._known.get(name) is not manifest:
                await self._records.put("manifests", manifest)
                self._stored[name] = (manifest.metadata.namespace, manifest.metadata.name)
        for name in self._known.keys() - manifests.keys():
            await self._records.delete("manifests", *self._stored.pop(name))
        self._known = dict(manifests)
