"""The writes that bring the API's objects to what the folder states: a pure function."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from podtui.api.names import FOLDER_MANAGER, MANIFEST_PATH
from podtui.api.objects import Object
from podtui.manifest.objects import Claim, FolderDocument
from podtui.patching.errors import PatchError
from podtui.patching.field_set import decode, path_text
from podtui.patching.managed_fields import APPLY

KEPT: Final = frozenset({"Namespace", "PersistentVolume", "PersistentVolumeClaim"})
"""Kinds whose objects stay when their document goes: they hold data, or the objects of others."""
_RANKS: Final = {
    "Namespace": 0,
    **dict.fromkeys(
        """ServiceAccount ClusterRole ClusterRoleBinding Role RoleBinding ConfigMap Secret
        PriorityClass RuntimeClass CSIDriver StorageClass PersistentVolume PersistentVolumeClaim
        LimitRange ResourceQuota IngressClass""".split(),
        1,
    ),
    **dict.fromkeys("Service Endpoints EndpointSlice NetworkPolicy".split(), 2),
}
_LAST: Final = 3
_REPLICAS: Final = ("f:spec", "f:replicas")
Fields = Any
"""The fields of a manager, as ``managedFields`` has them."""


@dataclass(frozen=True, slots=True)
class Desired:
    """A document of the folder, and the absolute path of its file."""

    document: FolderDocument
    file: str


@dataclass(frozen=True, slots=True)
class Live:
    """The state of an object in the API. ``file`` is the file that it came from, and ``fields``
    are those that the folder manages; None if it manages none."""

    uid: str
    file: str
    fields: Fields | None
    terminating: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """The last write: the configuration, the object's UID, and the fields managed then."""

    configuration: Mapping[str, Any]
    uid: str
    fields: Fields


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply the configuration. ``changed`` are the fields that someone else changed;
    ``recreates`` is true if someone deleted the object."""

    key: Claim
    desired: Desired
    configuration: Mapping[str, Any]
    changed: tuple[str, ...] = ()
    recreates: bool = False
    is_new: bool = False
    """True if the document is new or was changed."""


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete the object whose document went."""

    key: Claim
    uid: str
    file: str


def live_of(item: Object) -> Live:
    meta = item.metadata
    entries = (
        e for e in meta.managedFields if e.manager == FOLDER_MANAGER and e.operation == APPLY
    )
    entry = next(entries, None)
    return Live(
        uid=meta.uid,
        file=meta.annotations.get(MANIFEST_PATH, ""),
        fields=entry.fieldsV1 if entry is not None else None,
        terminating=meta.deletionTimestamp is not None,
    )


def plan_applies(
    desired: Mapping[Claim, Desired],
    live: Mapping[Claim, Live],
    applied: Mapping[Claim, Applied],
    scaled: Collection[Claim] = (),
) -> list[Apply]:
    """Return the configurations to apply, in order: what others need first. ``applied`` are those
    of this run; the others are applied once, because their content is unknown. ``scaled`` are the
    objects whose replicas an autoscaler sets."""
    applies: list[Apply] = []
    for key in sorted(desired, key=lambda key: (_RANKS.get(key[0], _LAST), key)):
        here, there, before = desired[key], live.get(key), applied.get(key)
        if there is not None and there.terminating:
            continue
        configuration = _configuration(here, there, is_scaled=key in scaled)
        if before is None or before.configuration != configuration:
            applies.append(Apply(key, here, configuration, is_new=True))
        elif there is None or there.uid != before.uid:
            applies.append(Apply(key, here, configuration, recreates=there is None))
        elif there.fields != before.fields:
            changed = tuple(_lost(before.fields, there.fields))
            applies.append(Apply(key, here, configuration, changed=changed))
    return applies


def plan_prunes(
    desired: Collection[Claim], live: Mapping[Claim, Live], undecided: Collection[str]
) -> list[Prune]:
    """Return the objects to delete: those that the folder applied and no document states any more.
    ``undecided`` are the files whose last good version is unknown: their objects stay."""
    return [
        Prune(key, item.uid, item.file)
        for key, item in sorted(
            live.items(), key=lambda pair: (-_RANKS.get(pair[0][0], _LAST), pair[0])
        )
        if item.fields is not None
        and item.file
        and not item.terminating
        and key not in desired
        and item.file not in undecided
        and key[0] not in KEPT
    ]


def _configuration(desired: Desired, live: Live | None, *, is_scaled: bool) -> Mapping[str, Any]:
    """Return what to apply: the document with the annotation of its file.

    The replicas of an autoscaled object are left to the autoscaler as soon as it has set them. A
    finished Job stays: if it were deleted, it would run again.
    """
    stated = desired.document.configuration
    metadata = stated.get("metadata", {})
    annotations = {**metadata.get("annotations", {}), MANIFEST_PATH: desired.file}
    configuration = {**stated, "metadata": {**metadata, "annotations": annotations}}
    spec = configuration.get("spec")
    if not isinstance(spec, dict):
        return configuration
    omitted: set[str] = set()
    if configuration["kind"] == "Job":
        omitted.add("ttlSecondsAfterFinished")
    if is_scaled and live is not None and not _has(live.fields, _REPLICAS):
        omitted.add("replicas")
    tree = cast("dict[str, Any]", spec)
    return configuration | {"spec": {k: v for k, v in tree.items() if k not in omitted}}


def _has(fields: Fields | None, path: tuple[str, ...]) -> bool:
    here: Any = fields
    for step in path:
        if not isinstance(here, dict) or step not in here:
            return False
        here = cast("dict[str, Any]", here)[step]
    return True


def _lost(before: Fields, after: Fields | None) -> Iterator[str]:
    """Yield the fields that the folder no longer manages."""
    try:
        lost = decode(before) - decode(after or {})
    except PatchError:
        # Someone wrote an invalid entry into the managers.
        return
    for path in lost:
        yield path_text(path)
