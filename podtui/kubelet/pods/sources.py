"""Turn folder snapshots into pod updates: added, changed and removed pods (reference §1.6)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import structs

from podtui.api.local import Manifest
from podtui.api.names import (
    CONFIG_MIRROR,
    CONFIG_SEEN,
    CONFIG_SOURCE,
    KILLS,
    LACKS,
    PULL_PROGRESS,
    WOULD_FIT,
)
from podtui.api.pods import full_name
from podtui.api.v1 import Pod, PodStatus
from podtui.kubelet.base.types import PodOperation, PodUpdate
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
SOURCE: Final = "file"
_OF_RECORDS: Final = (CONFIG_MIRROR, KILLS, PULL_PROGRESS, WOULD_FIT, LACKS)
_LOCAL: Final = frozenset({CONFIG_SOURCE, CONFIG_MIRROR, CONFIG_SEEN})


class FolderSource:
    """Compares each set of pods with the one before.

    Updates come in the order REMOVE, ADD, UPDATE, RECONCILE. ``duplicates`` holds the pods that the
    last call dropped because another pod has the same full name.
    """

    def __init__(self) -> None:
        self._raw: dict[str, Pod] = {}
        self._stamped: dict[str, Pod] = {}
        self._names: dict[str, str] = {}
        self.duplicates: tuple[Pod, ...] = ()

    def diff(self, pods: Mapping[str, Pod], now: datetime) -> tuple[PodUpdate, ...]:
        """Replace the known pods by ``pods`` (by UID) and return the resulting updates."""
        changed = [uid for uid, pod in pods.items() if self._raw.get(uid) is not pod]
        gone = self._raw.keys() - pods.keys()
        # A renamed pod with a fixed UID cannot be updated: its containers have the old name.
        renamed = [
            uid
            for uid in changed
            if (old := self._raw.get(uid)) is not None and full_name(old) != full_name(pods[uid])
        ]
        removed = tuple([self._forget(uid) for uid in (*gone, *renamed)])
        added: list[Pod] = []
        updated: list[Pod] = []
        reconciled: list[Pod] = []
        duplicates: list[Pod] = []
        for uid in changed:
            pod, before = pods[uid], self._raw.get(uid)
            if self._names.setdefault(full_name(pod), uid) != uid:
                duplicates.append(pod)
                continue
            self._raw[uid] = pod
            if before is None:
                self._stamped[uid] = _stamp(pod, seen_now(now))
                added.append(self._stamped[uid])
                continue
            seen = self._stamped[uid].metadata.annotations[CONFIG_SEEN]
            self._stamped[uid] = _stamp(pod, seen)
            if _differs(before, pod):
                updated.append(self._stamped[uid])
            elif before.status != pod.status:
                reconciled.append(self._stamped[uid])
        self.duplicates = tuple(duplicates)
        groups = (
            (PodOperation.REMOVE, removed),
            (PodOperation.ADD, tuple(added)),
            (PodOperation.UPDATE, tuple(updated)),
            (PodOperation.RECONCILE, tuple(reconciled)),
        )
        return tuple(
            [PodUpdate(operation=op, pods=group, source=SOURCE) for op, group in groups if group]
        )

    def _forget(self, uid: str) -> Pod:
        self._names.pop(full_name(self._raw.pop(uid)), None)
        return self._stamped.pop(uid)


def seen_now(now: datetime) -> str:
    """Format a time like ``config.seen``: RFC 3339 with nine digits of a second."""
    return f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"


def _stamp(pod: Pod, seen: str) -> Pod:
    """Mark a pod as read from the folder and drop the fields that only its record has."""
    meta = pod.metadata
    annotations = {CONFIG_SEEN: seen, **meta.annotations, CONFIG_SOURCE: SOURCE}
    for ours in _OF_RECORDS:
        annotations.pop(ours, None)
    return structs.replace(
        pod,
        metadata=structs.replace(
            meta,
            annotations=annotations,
            ownerReferences=(),
            resourceVersion="",
            creationTimestamp=None,
            deletionTimestamp=None,
            deletionGracePeriodSeconds=None,
        ),
        status=PodStatus(phase="Pending"),
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
