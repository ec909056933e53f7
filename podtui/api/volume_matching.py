"""Which volume fits a claim, for the controller that binds them and for the scheduler."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.selectors import labels_match
from podtui.api.v1 import PersistentVolume, PersistentVolumeClaim

BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


def class_of_claim(claim: PersistentVolumeClaim) -> str | None:
    """Return the name of a claim's class; empty for no class, None if the claim does not say."""
    return claim.metadata.annotations.get(BETA_CLASS, claim.spec.storageClassName)


def class_of_volume(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(BETA_CLASS, volume.spec.storageClassName)


def requested(claim: PersistentVolumeClaim) -> Quantity:
    resources = claim.spec.resources
    return parse_quantity("0" if resources is None else resources.requests.get("storage", "0"))


def capacity(volume: PersistentVolume) -> Quantity:
    return parse_quantity(volume.spec.capacity.get("storage", "0"))


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume names this claim, by name only or also by UID."""
    ref = volume.spec.claimRef
    return (
        ref is not None
        and (ref.namespace, ref.name) == (claim.metadata.namespace, claim.metadata.name)
        and ref.uid in ("", claim.metadata.uid)
    )


def has_mode_mismatch(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    mode = "Filesystem"
    return (claim.spec.volumeMode or mode) != (volume.spec.volumeMode or mode)


def mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Return why a claim cannot have the volume that it names; empty if it can."""
    if volume.metadata.deletionTimestamp is not None:
        return f'the volume is marked for deletion "{volume.metadata.name}"'
    if capacity(volume) < requested(claim):
        return "requested PV is too small"
    if class_of_volume(volume) != (class_of_claim(claim) or ""):
        return "storageClassName does not match"
    if volume.spec.volumeAttributesClassName != claim.spec.volumeAttributesClassName:
        return "volumeAttributesClassName does not match"
    if has_mode_mismatch(claim, volume):
        return "incompatible volumeMode"
    if not set(claim.spec.accessModes) <= set(volume.spec.accessModes):
        return "incompatible accessMode"
    return ""


def best_match(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, delayed: bool
) -> PersistentVolume | None:
    """Return the volume for a claim that names none: one that is reserved for it, else the smallest
    free one that fits, of those with the fewest access modes. ``delayed``: only a reserved one."""
    free: list[PersistentVolume] = []
    for volume in volumes:
        if volume.metadata.deletionTimestamp is not None or not _is_large_enough(volume, claim):
            continue
        if volume.spec.claimRef is not None:
            if is_reserved_for(volume, claim):
                return volume
        elif not delayed and _is_free(volume, claim):
            free.append(volume)
    return min(free, key=_preference, default=None)


def _is_large_enough(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        capacity(volume) >= requested(claim)
        and not has_mode_mismatch(claim, volume)
        and volume.spec.volumeAttributesClassName == claim.spec.volumeAttributesClassName
    )


def _is_free(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector = claim.spec.selector
    return (
        volume.status.phase == "Available"
        and (selector is None or labels_match(selector, volume.metadata.labels))
        and not mismatch(volume, claim)
    )


def _preference(volume: PersistentVolume) -> tuple[int, Quantity, str]:
    return len(set(volume.spec.accessModes)), capacity(volume), volume.metadata.name
