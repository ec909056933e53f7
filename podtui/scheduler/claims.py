"""What the scheduler knows of claims: whether a pod has to wait for one of its own.

The scheduler waits until the claims exist, and are bound unless their class binds them for their
first pod. Then a node must have what they need: the volumes that they are bound to, or one that
they can be bound to, unless the class has a provisioner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.api.selectors import Labels, node_term_matches
from podtui.api.storage import StorageClass
from podtui.api.v1 import PersistentVolume, PersistentVolumeClaim, Pod
from podtui.api.volume_matching import best_match, class_of_claim
from podtui.scheduler.rejections import UNRESOLVABLE, Rejection

VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
_NO_PROVISIONER: Final = ("", "kubernetes.io/no-provisioner")
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims by namespace and name, and the classes and volumes by name."""

    claims: Mapping[Key, PersistentVolumeClaim] = field(
        default_factory=dict[Key, PersistentVolumeClaim]
    )
    classes: Mapping[str, StorageClass] = field(default_factory=dict[str, StorageClass])
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict[str, PersistentVolume])


def claim_keys(pod: Pod) -> Iterator[Key]:
    """Yield the claims of a pod, those of its ephemeral volumes included."""
    meta = pod.metadata
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            yield meta.namespace, volume.persistentVolumeClaim.claimName
        elif volume.ephemeral is not None:
            yield meta.namespace, f"{meta.name}-{volume.name}"


def refused_claim(pod: Pod, known: Claims) -> Rejection | None:
    """Return why the claims of a pod keep it from every node."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        source = volume.persistentVolumeClaim
        if source is not None and (namespace, source.claimName) not in known.claims:
            why = f'persistentvolumeclaim "{source.claimName}" not found'
            return Rejection(VOLUME_RESTRICTIONS, UNRESOLVABLE, (why,))
    reason = next(_reasons(pod, known), "")
    return Rejection(VOLUME_BINDING, UNRESOLVABLE, (reason,)) if reason else None


def _reasons(pod: Pod, known: Claims) -> Iterator[str]:
    unbound = False
    for key in claim_keys(pod):
        claim = known.claims.get(key)
        shown = f'persistentvolumeclaim "{key[1]}"'
        if claim is None:
            yield f"waiting for ephemeral volume controller to create the {shown}"
        elif claim.status.phase == "Lost":
            volume = claim.spec.volumeName
            yield f'{shown} bound to non-existent persistentvolume "{volume}"'
        elif claim.metadata.deletionTimestamp is not None:
            yield f"{shown} is being deleted"
        else:
            unbound = unbound or (claim.status.phase != "Bound" and not _is_late(claim, known))
    if unbound:
        yield "pod has unbound immediate PersistentVolumeClaims"


def _is_late(claim: PersistentVolumeClaim, known: Claims) -> bool:
    """Return whether the claim is bound only after its first pod has a node."""
    storage_class = known.classes.get(class_of_claim(claim) or "")
    return (
        storage_class is not None
        and storage_class.volumeBindingMode == "WaitForFirstConsumer"
        and not claim.spec.volumeName
    )


def claims_of(pod: Pod, known: Claims) -> list[PersistentVolumeClaim]:
    """Return the claims of a pod that exist."""
    return [claim for key in claim_keys(pod) if (claim := known.claims.get(key)) is not None]


def missing_volumes(
    claims: Iterable[PersistentVolumeClaim], known: Claims, node: str, labels: Labels
) -> str:
    """Return why a node lacks volumes for the claims of a pod; empty if it has them."""
    free = {
        volume.metadata.name: volume
        for volume in known.volumes.values()
        if _is_reachable(volume, node, labels)
    }
    for claim in claims:
        name = claim.spec.volumeName
        if name:
            if name in known.volumes and name not in free:
                return "node(s) didn't match PersistentVolume's node affinity"
            continue
        if not _is_late(claim, known):
            continue
        volume = best_match(claim, free.values(), delayed=False)
        if volume is not None:
            del free[volume.metadata.name]
        elif known.classes[class_of_claim(claim) or ""].provisioner in _NO_PROVISIONER:
            return "node(s) didn't find available persistent volumes to bind"
    return ""


def _is_reachable(volume: PersistentVolume, node: str, labels: Labels) -> bool:
    affinity = volume.spec.nodeAffinity
    if affinity is None or affinity.required is None:
        return True
    return any(
        node_term_matches(term, node, labels) for term in affinity.required.nodeSelectorTerms
    )


def by_key(claims: Iterable[PersistentVolumeClaim]) -> dict[Key, PersistentVolumeClaim]:
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
