"""Receive the desired pods from the folder and the API, and turn them into updates
(kubelet.md §1.6)."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

from msgspec import structs

from podtui.api.local import UNUSABLE, Manifest, ManifestState
from podtui.api.names import CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE
from podtui.api.pods import full_name, is_mirror
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.kubelet_metrics import MANIFESTS
from podtui.kubelet.ports import PodChanges, PodClient
from podtui.kubelet.types import PodOperation, PodUpdate
from podtui.kubelet.volumes.documents import Documents
from podtui.manifest.folder_state import Folder
from podtui.manifest.identity import seen_text
from podtui.manifest.objects import ObjectKey
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
INVALID_MANIFEST: Final = "InvalidManifest"
"""The reason of an event of the node that a kubelet does not have."""
FILE: Final = "file"
API: Final = "api"
_LOCAL: Final = frozenset({CONFIG_SOURCE, CONFIG_MIRROR, CONFIG_SEEN})


class FolderProvider(Protocol):
    """A source of folder snapshots."""

    def snapshots(self) -> AsyncGenerator[Folder]: ...


class FolderReader:
    """Receives folder snapshots, records their manifests, and reports files that cannot be used.

    Each snapshot is complete, so only the newest one counts. ``changed`` is set for each.
    """

    def __init__(
        self,
        folders: AsyncIterator[Folder] | FolderProvider,
        records: Records,
        changed: asyncio.Event,
        events: EventRecorder,
    ) -> None:
        self._folders = folders
        self._unusable = UnusableFiles(events)
        self._manifests = ManifestRecorder(records)
        self._newest: Folder | None = None
        self._changed = changed

    async def run(self) -> None:
        """Receive snapshots until there are no more."""
        if isinstance(self._folders, AsyncIterator):
            await self._receive(self._folders)
            return
        async with aclosing(self._folders.snapshots()) as folders:
            await self._receive(folders)

    async def _receive(self, folders: AsyncIterator[Folder]) -> None:
        async for folder in folders:
            self._newest = folder
            self._changed.set()
            self._unusable.report(folder.manifests)
            await self._manifests.record(folder.manifests)

    def take(self) -> Folder | None:
        """Return the newest snapshot; None if it was taken before."""
        newest, self._newest = self._newest, None
        return newest


class UnusableFiles:
    """Reports each file that cannot be used, when it changes: in the log, as a kubelet does, and as
    an event of the node."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events
        self._known: dict[str, Manifest] = {}

    def report(self, manifests: Mapping[str, Manifest]) -> None:
        before, self._known = self._known, dict(manifests)
        for name, manifest in manifests.items():
            old = before.get(name)
            if manifest is old or manifest.status.state not in UNUSABLE:
                continue
            if old is None or _error_of(old) != _error_of(manifest):
                text = f"manifest file {manifest.spec.path!r}: {manifest.status.message}"
                _LOG.error("Could not process %s", text)
                self._events.node(WARNING, INVALID_MANIFEST, f"Could not process {text}")
        states = Counter(manifest.status.state for manifest in manifests.values())
        for state in ManifestState:
            MANIFESTS.labels(state).set(states[state])


def _error_of(manifest: Manifest) -> tuple[ManifestState, str]:
    return manifest.status.state, manifest.status.message


class PodReader:
    """Receives the pods that the API has bound to this node, and separates mirror pods from the
    others.

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
        self._records: dict[str, Pod] = {}
        self._known: dict[str, Pod] = {}
        self._taken = True

    async def run(self) -> None:
        """Receive changes until there are no more."""
        first = True
        async for changes in self._pods.changes():
            if self._apply(changes) or first:
                self._taken = first = False
                self._changed.set()

    def take(self) -> Mapping[str, Pod] | None:
        """Return the newest API pods by UID; None if they were taken before."""
        if self._taken:
            return None
        self._taken = True
        return dict(self._known)

    def _apply(self, changes: PodChanges) -> bool:
        """Take over changes. Return whether API pods changed."""
        pods = changes.pods
        if changes.complete:
            gone = dict.fromkeys(self._records.keys() - pods.keys())
            pods = {**gone, **pods}
        changed = False
        for uid, pod in pods.items():
            before = self._records.get(uid)
            either = pod or before
            if either is None or pod is before:
                continue
            if pod is None:
                self._known.pop(uid, None)
                del self._records[uid]
            else:
                self._records[uid] = pod
            if is_mirror(either):
                self._on_mirror(either.metadata.namespace, either.metadata.name)
                continue
            changed = True
            if pod is not None:
                self._known[uid] = self._as_source(pod)
        return changed

    def _as_source(self, pod: Pod) -> Pod:
        """Return the pod with the annotations that a kubelet adds to its own copy."""
        # The time at which the pod was first seen, not that of its last change.
        previous = self._known.get(pod.metadata.uid)
        seen = None if previous is None else previous.metadata.annotations.get(CONFIG_SEEN)
        annotations = {
            **pod.metadata.annotations,
            CONFIG_SOURCE: API,
            CONFIG_SEEN: seen or seen_text(self._clock.now()),
        }
        return structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChanges:
    """The changes since the last time; ``documents`` are ConfigMaps and Secrets."""

    updates: tuple[PodUpdate, ...]
    documents: frozenset[ObjectKey]


class PodSources:
    """The folder and the API. ``changed`` is set when one of them has something new.

    ``documents`` takes the ConfigMaps and Secrets of the folder; ``on_mirror`` is that of
    `PodReader`, ``events`` that of `UnusableFiles`.
    """

    def __init__(
        self,
        folders: AsyncIterator[Folder] | FolderProvider,
        records: Records,
        *,
        client: PodClient,
        documents: Documents,
        clock: Clock,
        on_mirror: Callable[[str, str], None],
        events: EventRecorder,
    ) -> None:
        self.changed = asyncio.Event()
        self.folder = FolderReader(folders, records, self.changed, events)
        self.api = PodReader(client, clock, self.changed, on_mirror)
        self._documents = documents
        self._diffs = {source: SourceDiff(source) for source in (FILE, API)}
        self._wanted: dict[str, frozenset[str]] = {}
        """The UIDs of each source that was read."""

    @property
    def ready(self) -> bool:
        """True when both sources were read. Before, running pods must not be treated as
        unwanted."""
        return self._wanted.keys() == self._diffs.keys()

    @property
    def wanted(self) -> frozenset[str]:
        """The UIDs of the desired pods."""
        return frozenset[str]().union(*self._wanted.values())

    def take(self) -> SourceChanges:
        """Return what changed since the last call."""
        self.changed.clear()
        updates: list[PodUpdate] = []
        documents: frozenset[ObjectKey] = frozenset()
        folder, pods = self.folder.take(), self.api.take()
        if folder is not None and self._is_read(folder):
            documents = self._documents.take(folder)
            updates += self._diff(FILE, folder.pods)
        if pods is not None:
            updates += self._diff(API, pods)
        return SourceChanges(updates=tuple(updates), documents=documents)

    def _diff(self, source: str, pods: Mapping[str, Pod]) -> tuple[PodUpdate, ...]:
        self._wanted[source] = frozenset(pods)
        return self._diffs[source].diff(pods)

    def _is_read(self, folder: Folder) -> bool:
        """Return False if the folder was never read: then running pods may still be wanted."""
        if folder.error:
            _LOG.warning("the static-pod folder: %s", folder.error)
        return not folder.error or bool(folder.pods) or FILE in self._wanted


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
        # Sources keep the objects of unchanged pods, so that most need no comparison.
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
        # Removals first: they free names and resources for what is added.
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
        # An earlier run may have left records of files that are gone since.
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
        for name in self._stored.keys() - manifests.keys():
            await self._records.delete("manifests", *self._stored[name])
            del self._stored[name]
        self._known = dict(manifests)
