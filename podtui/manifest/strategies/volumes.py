"""Persistent volumes, claims, and storage classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from msgspec import structs

from podtui.api.storage import StorageClass
from podtui.api.v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
    TypedLocalObjectReference,
    TypedObjectReference,
)
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy, no_warnings, with_old_spec
from podtui.manifest.validation.persistent_volumes import (
    validate_volume,
    volume_update,
    volume_warnings,
)
from podtui.manifest.validation.storage_classes import (
    storage_class_update,
    validate_storage_class,
)
from podtui.manifest.validation.volume_claims import (
    claim_status_update,
    claim_update,
    validate_claim,
)
from podtui.manifest.warnings import claim_warnings

_OF_A_CLAIM: Final = ("", "PersistentVolumeClaim")
_OF_A_SNAPSHOT: Final = ("snapshot.storage.k8s.io", "VolumeSnapshot")


# --- volumes


def _volume_defaults(tree: Tree) -> None:
    spec: Tree = tree.setdefault("spec", {})
    spec["persistentVolumeReclaimPolicy"] = spec.get("persistentVolumeReclaimPolicy") or "Retain"
    spec.setdefault("volumeMode", "Filesystem")


def _prepare_volume(item: PersistentVolume) -> PersistentVolume:
    since = item.metadata.creationTimestamp
    status = PersistentVolumeStatus(phase="Pending", lastPhaseTransitionTime=since)
    return structs.replace(item, status=status)


def _old_volume_status(new: PersistentVolume, old: PersistentVolume) -> PersistentVolume:
    return structs.replace(new, status=old.status)


def transition_time(new: PersistentVolume, old: PersistentVolume, now: str) -> PersistentVolume:
    """Set the time of a change of the phase in an update of the status, unless the client did."""
    status, before = new.status, old.status
    if status.phase == before.phase:
        since = status.lastPhaseTransitionTime or before.lastPhaseTransitionTime
    elif status.lastPhaseTransitionTime in (None, before.lastPhaseTransitionTime):
        since = now
    else:
        return new
    return structs.replace(new, status=structs.replace(status, lastPhaseTransitionTime=since))


def _volume_warnings(new: PersistentVolume, old: PersistentVolume | None) -> Iterable[str]:
    return volume_warnings(new)


# --- claims


def _claim_defaults(tree: Tree) -> None:
    tree.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _prepare_claim(item: PersistentVolumeClaim) -> PersistentVolumeClaim:
    status = PersistentVolumeClaimStatus(phase="Pending")
    return structs.replace(item, status=status, spec=_with_both_sources(item.spec))


def _prepare_claim_update(
    new: PersistentVolumeClaim, old: PersistentVolumeClaim
) -> PersistentVolumeClaim:
    return structs.replace(new, status=old.status, spec=_with_both_sources(new.spec))


def _with_both_sources(spec: PersistentVolumeClaimSpec) -> PersistentVolumeClaimSpec:
    """Fill ``dataSource`` and ``dataSourceRef`` from each other. A source of a type that only
    ``dataSourceRef`` may name, and a reference to another namespace, is dropped."""
    source, ref = spec.dataSource, spec.dataSourceRef
    if ref is not None and ref.namespace:
        # Only an alpha feature reads objects of other namespaces.
        ref = None
    if source is not None and ref is None:
        if (source.apiGroup, source.kind) not in (_OF_A_CLAIM, _OF_A_SNAPSHOT):
            return structs.replace(spec, dataSource=None)
        ref = TypedObjectReference(apiGroup=source.apiGroup, kind=source.kind, name=source.name)
    elif ref is not None and source is None:
        source = TypedLocalObjectReference(apiGroup=ref.apiGroup, kind=ref.kind, name=ref.name)
    return structs.replace(spec, dataSource=source, dataSourceRef=ref)


def _claim_warnings(new: PersistentVolumeClaim, old: PersistentVolumeClaim | None) -> Iterable[str]:
    return claim_warnings(new.spec, "spec")


# --- classes


def _class_defaults(tree: Tree) -> None:
    tree.setdefault("reclaimPolicy", "Delete")
    tree.setdefault("volumeBindingMode", "Immediate")


VOLUMES: Final = Strategy(
    struct=PersistentVolume,
    defaults=_volume_defaults,
    prepare_create=_prepare_volume,
    prepare_update=_old_volume_status,
    validate_create=validate_volume,
    validate_update=volume_update,
    warnings=_volume_warnings,
    returns_deleted=True,
)
VOLUME_STATUS: Final = Strategy(
    struct=PersistentVolume, defaults=_volume_defaults, prepare_update=with_old_spec
)
VOLUME_CLAIMS: Final = Strategy(
    struct=PersistentVolumeClaim,
    defaults=_claim_defaults,
    prepare_create=_prepare_claim,
    prepare_update=_prepare_claim_update,
    validate_create=validate_claim,
    validate_update=claim_update,
    warnings=_claim_warnings,
    returns_deleted=True,
)
VOLUME_CLAIM_STATUS: Final = replace(
    VOLUME_CLAIMS,
    prepare_update=with_old_spec,
    validate_update=claim_status_update,
    warnings=no_warnings,
)
STORAGE_CLASSES: Final = Strategy(
    struct=StorageClass,
    defaults=_class_defaults,
    validate_create=validate_storage_class,
    validate_update=storage_class_update,
    returns_deleted=True,
)
