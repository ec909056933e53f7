"""Receive folder snapshots, and turn them into pod updates (kubelet.md §1.6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

from podtui.api.local import Manifest
from podtui.api.names import CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE
from podtui.api.pods import full_name
from podtui.api.v1 import Pod
from podtui.kubelet.base.types import PodOperation, PodUpdate
from podtui.manifest.types import Folder
from podtui.store.protocol import Records

SOURCE: Final = "file"
_LOCAL: Final = frozenset({CONFIG_SOURCE, CONFIG_MIRROR, CONFIG_SEEN})


class FolderProvider(Protocol):
    """A source of folder snapshots."""

    def snapshots(self) -> AsyncIterator[Folder]: ...


class FolderReader:
    """Receives folder snapshots and records their manifests.

    Each snapshot is complete, so only the newest one counts. ``changed`` is set when there is one
    that was not taken.
    """

    def __init__(self, folders: AsyncIterator[Folder] | FolderProvider, records: Records) -> None:
        self._folders = folders
        self._manifests = ManifestRecorder(records)
        self._newest = Folder()
        self.changed = asyncio.Event()

    async def run(self) -> None:
        """Receive snapshots until there are no more."""
        folders = self._folders
        if not isinstance(folders, AsyncIterator):
            folders = folders.snapshots()
        async for folder in folders:
            self._newest = folder
            self.changed.set()
            await self._manifests.record(folder.manifests)

    def take(self) -> Folder:
        """Return the newest snapshot."""
        self.changed.clear()
        return self._newest


class FolderSource:
    """Compares each set of pods with the one before.

    Updates come in the order REMOVE, ADD, UPDATE, RECONCILE. The folder gives no two pods the same
    full name.
    """

    def __init__(self) -> None:
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
                PodUpdate(operation=operation, pods=tuple(group), source=SOURCE)
                for operation, group in groups
                if group
            ]
        )


def _differs(old: Pod, new: Pod) -> bool:
    """Return True if a change of the manifest matters to a pod worker."""
    return (
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
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
