"""What the scheduler knows of claims: whether a pod has to wait for one of its own.

All nodes are one machine, so that no volume belongs to a node: the scheduler only waits until the
claims exist, and are bound unless their class binds them for their first pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.api.storage import StorageClass
from podtui.api.v1 import PersistentVolumeClaim, Pod
from podtui.scheduler.rejections import UNRESOLVABLE, Rejection

VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims by namespace and name, and the classes by name."""

    claims: Mapping[Key, PersistentVolumeClaim] = field(
        default_factory=dict[Key, PersistentVolumeClaim]
    )
    classes: Mapping[str, StorageClass] = field(default_factory=dict[str, StorageClass])


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
    named = claim.metadata.annotations.get(_CLASS_ANNOTATION, claim.spec.storageClassName)
    storage_class = known.classes.get(named or "")
    return (
        storage_class is not None
        and storage_class.volumeBindingMode == "WaitForFirstConsumer"
        and not claim.spec.volumeName
    )


def by_key(claims: Iterable[PersistentVolumeClaim]) -> dict[Key, PersistentVolumeClaim]:
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
