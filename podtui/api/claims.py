"""Facts about claims and their volumes, for the controllers, the scheduler and the kubelet."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Final

from msgspec import structs

from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.selectors import Labels, labels_match, node_term_matches
from podtui.api.v1 import ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod

BETA_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
PROVISIONER: Final = "podtui.dev/directory"
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
STORAGE_PROVISIONER: Final = "volume.kubernetes.io/storage-provisioner"
_OF_OTHER_CLUSTERS: Final = frozenset(
    "k8s.io/minikube-hostpath docker.io/hostpath microk8s.io/hostpath driver.longhorn.io".split()
)
"""Provisioners that are parts of other clusters."""


def claim_names(pod: Pod) -> Iterator[str]:
    """Yield the names of the claims that a pod uses, those of its ephemeral volumes included."""
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            yield volume.persistentVolumeClaim.claimName
        elif volume.ephemeral is not None:
            yield ephemeral_claim_name(pod, volume.name)


def ephemeral_claim_name(pod: Pod, volume: str) -> str:
    return f"{pod.metadata.name}-{volume}"


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


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether the controller has completed the binding."""
    return bool(claim.spec.volumeName) and BIND_COMPLETED in claim.metadata.annotations


# --- which volume fits a claim


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


def is_candidate(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume is large enough and of the right kind, whoever may have it."""
    return (
        volume.metadata.deletionTimestamp is None
        and capacity(volume) >= requested(claim)
        and not has_mode_mismatch(claim, volume)
        and volume.spec.volumeAttributesClassName == claim.spec.volumeAttributesClassName
    )


def is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume without a claim fits the claim in all respects."""
    selector = claim.spec.selector
    return (
        volume.status.phase == "Available"
        and (selector is None or labels_match(selector, volume.metadata.labels))
        and not mismatch(volume, claim)
    )


def is_reachable_from(volume: PersistentVolume, labels: Labels) -> bool:
    """Return whether the volume's node affinity allows a node with these labels."""
    affinity = volume.spec.nodeAffinity
    if affinity is None or affinity.required is None:
        return True
    return any(node_term_matches(term, "", labels) for term in affinity.required.nodeSelectorTerms)


# --- volumes of CSI drivers


def attachment_name(handle: str, driver: str, node: str) -> str:
    """Return the name of the VolumeAttachment of a volume to a node."""
    return f"csi-{hashlib.sha256((handle + driver + node).encode()).hexdigest()}"


def volume_in_use(driver: str, handle: str) -> str:
    """Return the name of a volume in the status of its node."""
    return f"kubernetes.io/csi/{driver}^{handle}"


# --- what the deletion of a claim means for its data


def is_replaced(provisioner: str, drivers: Collection[str] = ()) -> bool:
    """Return whether podtui creates directories in place of a provisioner's volumes: no program on
    this machine can provide them. The in-tree provisioners of Kubernetes are removed. ``drivers``
    are the CSI drivers that are installed: they provide their volumes themselves."""
    if provisioner in drivers:
        return False
    if provisioner.startswith("kubernetes.io/"):
        return provisioner != NO_PROVISIONER
    return "csi" in provisioner or provisioner in _OF_OTHER_CLUSTERS


def is_provisioned_here(volume: PersistentVolume) -> bool:
    return volume.metadata.annotations.get(PROVISIONED_BY) == PROVISIONER


def deleted_directory(volume: PersistentVolume | None) -> str:
    """Return the directory that goes with the claim that is bound to the volume; empty if none."""
    if volume is None or not is_provisioned_here(volume) or volume.spec.hostPath is None:
        return ""
    return volume.spec.hostPath.path if _goes_with_claim(volume) else ""


def deletion_sentence(volume: PersistentVolume | None) -> str:
    """Return a sentence on what happens to the data if the claim that is bound to the volume is
    deleted; ``volume`` is None for a claim that is not bound."""
    if volume is None:
        return "It has no data: it is not bound to a volume."
    name, annotations = volume.metadata.name, volume.metadata.annotations
    if path := deleted_directory(volume):
        return f"This deletes the directory {path} with all its files."
    provisioner = annotations.get(PROVISIONED_BY, "")
    if provisioner and not is_provisioned_here(volume) and _goes_with_claim(volume):
        return f"The provisioner {provisioner} deletes the volume {name} with its data."
    return f"The data of the volume {name} are kept{_place(volume)}."


def _goes_with_claim(volume: PersistentVolume) -> bool:
    return volume.spec.persistentVolumeReclaimPolicy == "Delete"


def _place(volume: PersistentVolume) -> str:
    spec = volume.spec
    if spec.hostPath is not None:
        return f" in {spec.hostPath.path}"
    if spec.local is not None:
        return f" in {spec.local.path}"
    return "" if spec.nfs is None else f" on {spec.nfs.server}:{spec.nfs.path}"


# --- changed objects


def reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume with the reference to the claim."""
    ref, meta = volume.spec.claimRef, claim.metadata
    if ref is not None and ref.uid == meta.uid:
        return volume
    annotations = dict(volume.metadata.annotations)
    if not is_reserved_for(volume, claim):
        annotations[BOUND_BY_CONTROLLER] = "yes"
    return structs.replace(
        volume,
        metadata=structs.replace(volume.metadata, annotations=annotations),
        spec=structs.replace(volume.spec, claimRef=claim_reference(claim)),
    )


def claim_reference(claim: PersistentVolumeClaim) -> ObjectReference:
    meta = claim.metadata
    return ObjectReference(
        apiVersion="v1",
        kind="PersistentVolumeClaim",
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
    )


def with_selected_node(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    """Return the claim whose volume is to be provisioned for the node."""
    annotations = {**claim.metadata.annotations, SELECTED_NODE: node}
    return structs.replace(claim, metadata=structs.replace(claim.metadata, annotations=annotations))
