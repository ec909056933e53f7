"""Decide what happens to claims and volumes: pure functions on objects.

A binding has two sides: the volume names the claim (``claimRef``), and the claim names the volume
(``volumeName``). The volume's side is written first, so that no other claim takes the volume. After
an interruption, the claim finds the volume that is reserved for it, and completes the binding.

With ``WaitForFirstConsumer``, the scheduler chooses the volume together with the node: it writes
the volume's side, or the node for which a volume is provisioned. A pod that has a node without a
scheduler, such as a static pod, chooses its own node.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from msgspec import structs

from podtui.api.claims import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    capacity,
    claim_reference,
    class_of_claim,
    ephemeral_claim_name,
    is_candidate,
    is_free_for,
    is_provisioned_here,
    is_replaced,
    is_reserved_for,
    mismatch,
    requested,
    with_selected_node,
)
from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.storage import StorageClass
from podtui.api.v1 import (
    HostPathVolumeSource,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    Pod,
)

BETA_STORAGE_PROVISIONER: Final = "volume.beta.kubernetes.io/storage-provisioner"
DELETION_FINALIZER: Final = "kubernetes.io/pv-controller"
"""Holds a volume until its data are deleted."""
_MAX_NAME: Final = 140
"""The longest part of a directory's name that is taken from the claim's name."""
Phase = Literal["Available", "Bound", "Released", "Failed"]


# --- facts about claims, volumes and pods


def ephemeral_claim(pod: Pod, volume: str, owner: OwnerReference) -> PersistentVolumeClaim:
    """Return the new claim of an ephemeral volume. It goes when its owner, the pod, goes."""
    source = next(item.ephemeral for item in pod.spec.volumes if item.name == volume)
    assert source is not None
    assert source.volumeClaimTemplate is not None
    template = source.volumeClaimTemplate
    meta = template.metadata or ObjectMeta()
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=ephemeral_claim_name(pod, volume),
            namespace=pod.metadata.namespace,
            labels=meta.labels,
            annotations=meta.annotations,
            ownerReferences=(owner,),
        ),
        spec=template.spec,
    )


def provisioned_name(claim: PersistentVolumeClaim) -> str:
    return f"pvc-{claim.metadata.uid}"


def best_match(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], *, delayed: bool
) -> PersistentVolume | None:
    """Return the volume for a claim that names none: one that is reserved for it, else the smallest
    free one that fits, of those with the fewest access modes. ``delayed``: only a reserved one."""
    free: list[PersistentVolume] = []
    for volume in volumes:
        if not is_candidate(volume, claim):
            continue
        if volume.spec.claimRef is not None:
            if is_reserved_for(volume, claim):
                return volume
        elif not delayed and is_free_for(volume, claim):
            free.append(volume)
    return min(free, key=_preference, default=None)


def _preference(volume: PersistentVolume) -> tuple[int, Quantity, str]:
    return len(set(volume.spec.accessModes)), capacity(volume), volume.metadata.name


# --- claims


@dataclass(frozen=True, slots=True)
class Note:
    """An event to record."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The claim stays pending."""

    note: Note | None = None


@dataclass(frozen=True, slots=True)
class SetClass:
    """The claim gets the default class, which exists only now."""

    name: str


@dataclass(frozen=True, slots=True)
class Bind:
    """``note``: what is left to do, by others."""

    volume: PersistentVolume
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class Expand:
    """The volume gets the size that the claim asks for."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True)
class Provision:
    """Create a volume; ``node`` is that of the first pod, or empty."""

    storage_class: StorageClass
    node: str
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class AskProvisioner:
    """Wait for a provisioner outside of podtui, which watches the claim's annotations."""

    storage_class: StorageClass
    node: str
    note: Note


@dataclass(frozen=True, slots=True)
class Lose:
    """The claim has lost its volume for ever."""

    note: Note


ClaimAction = Wait | SetClass | Bind | Expand | Provision | AskProvisioner | Lose


def decide_claim(
    claim: PersistentVolumeClaim,
    volumes: Mapping[str, PersistentVolume],
    classes: Mapping[str, StorageClass],
    default_class: str,
    pods: Iterable[Pod],
    drivers: Collection[str] = (),
) -> ClaimAction:
    """``volumes`` and ``classes`` by name; ``pods`` are those that use the claim, ``drivers`` the
    CSI drivers that provide their volumes themselves."""
    if BIND_COMPLETED in claim.metadata.annotations:
        return _decide_bound(claim, volumes)
    if claim.spec.volumeName:
        return _decide_named(claim, volumes.get(claim.spec.volumeName))
    pods = [*pods]
    name = class_of_claim(claim)
    storage_class = classes.get(name or "")
    node = next((pod.spec.nodeName for pod in pods if pod.spec.nodeName), "")
    node = claim.metadata.annotations.get(SELECTED_NODE, node)
    late = storage_class is not None and storage_class.volumeBindingMode == "WaitForFirstConsumer"
    delayed = late and not node
    volume = best_match(claim, volumes.values(), delayed=delayed)
    if volume is not None:
        return Bind(volume)
    if claim.metadata.deletionTimestamp is not None:
        return Wait()
    if name is None and default_class:
        return SetClass(default_class)
    if delayed:
        return Wait(_waiting_for(pods))
    if not name:
        why = "no persistent volumes available for this claim and no storage class is set"
        return Wait(Note("Normal", "FailedBinding", why))
    if storage_class is None:
        return Wait(_failed(f'storageclass.storage.k8s.io "{name}" not found'))
    return _provision(claim, storage_class, node if late else "", drivers)


def _waiting_for(pods: Iterable[Pod]) -> Note:
    names = [pod.metadata.name for pod in pods if not pod.spec.nodeName]
    if not names:
        why = "waiting for first consumer to be created before binding"
        return Note("Normal", "WaitForFirstConsumer", why)
    what = f"pod {names[0]}" if len(names) == 1 else f"pods {','.join(names)}"
    return Note("Normal", "WaitForPodScheduled", f"waiting for {what} to be scheduled")


def _failed(why: str) -> Note:
    return Note("Warning", "ProvisioningFailed", why)


def _provision(
    claim: PersistentVolumeClaim, storage_class: StorageClass, node: str, drivers: Collection[str]
) -> ClaimAction:
    provisioner, name = storage_class.provisioner, storage_class.metadata.name
    if provisioner == NO_PROVISIONER:
        return Wait(_failed(f"no volume plugin matched name: {provisioner}"))
    replaced = is_replaced(provisioner, drivers)
    if provisioner != PROVISIONER and not replaced:
        why = (
            f"Waiting for a volume to be created either by the external provisioner '{provisioner}'"
            " or manually by the system administrator. If volume creation is delayed, please verify"
            " that the provisioner is running and correctly registered."
        )
        return AskProvisioner(storage_class, node, Note("Normal", "ExternalProvisioning", why))
    if claim.spec.dataSource is not None or claim.spec.dataSourceRef is not None:
        why = (
            f'plugin "{PROVISIONER}" is not a CSI plugin. Only CSI plugin can provision a claim'
            " with a datasource"
        )
        return Wait(_failed(why))
    if storage_class.mountOptions and not replaced:
        options = " ".join(storage_class.mountOptions)
        why = (
            "Mount options are not supported by the provisioner but StorageClass"
            f' "{name}" has mount options [{options}]'
        )
        return Wait(_failed(why))
    if claim.spec.volumeMode == "Block" or claim.spec.selector is not None:
        lack = "block volumes" if claim.spec.volumeMode == "Block" else "selectors"
        why = f'Failed to provision volume with StorageClass "{name}": {lack} are not supported'
        return Wait(_failed(why))
    if not replaced:
        return Provision(storage_class, node)
    why = (
        f'The provisioner {provisioner} of StorageClass "{name}" does not work on this machine:'
        f" {PROVISIONER} creates a directory in its place. Parameters and mount options of the"
        " class have no effect."
    )
    return Provision(storage_class, node, Note("Warning", "ProvisionerReplaced", why))


def _decide_named(claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> ClaimAction:
    if volume is None:
        return Wait()
    name = volume.metadata.name
    if volume.spec.claimRef is None:
        if why := mismatch(volume, claim):
            note = f'Cannot bind to requested volume "{name}": {why}'
            return Wait(Note("Warning", "VolumeMismatch", note))
        return Bind(volume)
    if is_reserved_for(volume, claim):
        return Bind(volume)
    why = f'volume "{name}" already bound to a different claim.'
    return Wait(Note("Warning", "FailedBinding", why))


def _decide_bound(
    claim: PersistentVolumeClaim, volumes: Mapping[str, PersistentVolume]
) -> ClaimAction:
    if not claim.spec.volumeName:
        why = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        return Lose(Note("Warning", "ClaimLost", why))
    volume = volumes.get(claim.spec.volumeName)
    if volume is None:
        why = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        return Lose(Note("Warning", "ClaimLost", why))
    if volume.spec.claimRef is not None and volume.spec.claimRef.uid != claim.metadata.uid:
        why = "Two claims are bound to the same volume, this one is bound incorrectly"
        return Lose(Note("Warning", "ClaimMisbound", why))
    if not _is_too_small(claim, volume):
        return Bind(volume)
    if is_provisioned_here(volume):
        return Expand(volume)
    why = "waiting for an external controller to expand this PVC"
    return Bind(volume, Note("Normal", "ExternalExpanding", why))


def _is_too_small(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Return whether the claim asks for more than its volume has, or than its status says: after an
    interruption, the volume may be expanded already."""
    recorded = claim.status.capacity.get("storage")
    size = capacity(volume) if recorded is None else min(parse_quantity(recorded), capacity(volume))
    return requested(claim) > size


# --- volumes


@dataclass(frozen=True, slots=True)
class SetPhase:
    phase: Phase
    message: str = ""
    note: Note | None = None


@dataclass(frozen=True, slots=True)
class DeleteData:
    """Delete the directory ``path``, then the volume."""

    path: str


@dataclass(frozen=True, slots=True)
class Unbind:
    """Remove the reference to a claim that is bound elsewhere."""


VolumeAction = SetPhase | DeleteData | Unbind | None


def decide_volume(
    volume: PersistentVolume, claim: PersistentVolumeClaim | None, directory: str
) -> VolumeAction:
    """``claim`` is that of the name which the volume names. None: nothing is to be done."""
    ref = volume.spec.claimRef
    if ref is None or not ref.uid:
        return _phase(volume, "Available")
    if claim is not None and claim.metadata.uid != ref.uid:
        claim = None
    if claim is None:
        return _phase(volume, "Released", "Failed") or _reclaim(volume, directory)
    if not claim.spec.volumeName:
        return None
    if claim.spec.volumeName == volume.metadata.name:
        return _phase(volume, "Bound")
    if PROVISIONED_BY in volume.metadata.annotations and _is_deleted(volume):
        return _phase(volume, "Released", "Failed") or _reclaim(volume, directory)
    return Unbind()


def _phase(volume: PersistentVolume, phase: Phase, *also: Phase) -> SetPhase | None:
    return None if volume.status.phase in (phase, *also) else SetPhase(phase)


def _is_deleted(volume: PersistentVolume) -> bool:
    return volume.spec.persistentVolumeReclaimPolicy == "Delete"


def _reclaim(volume: PersistentVolume, directory: str) -> VolumeAction:
    match volume.spec.persistentVolumeReclaimPolicy:
        case "Delete":
            return _delete(volume, directory)
        case "Recycle":
            why = "podtui does not recycle volumes"
            return _fail(volume, "VolumeFailedRecycle", why)
        case _:
            return None


def _delete(volume: PersistentVolume, directory: str) -> VolumeAction:
    annotations = volume.metadata.annotations
    if annotations.get(PROVISIONED_BY, PROVISIONER) != PROVISIONER:
        # The provisioner that created the volume deletes it.
        return None
    host = volume.spec.hostPath
    if PROVISIONED_BY not in annotations or host is None:
        why = (
            f'error getting deleter volume plugin for volume "{volume.metadata.name}": no deletable'
            " volume plugin matched"
        )
        return _fail(volume, "VolumeFailedDelete", why)
    if not is_below(host.path, directory):
        why = f"{host.path} is not deleted: it is not below the directory of volumes, {directory}"
        return _fail(volume, "VolumeFailedDelete", why)
    return DeleteData(host.path)


def _fail(volume: PersistentVolume, reason: str, why: str) -> SetPhase | None:
    if volume.status.phase == "Failed":
        return None
    return SetPhase("Failed", why, Note("Warning", reason, why))


def is_below(path: str, directory: str) -> bool:
    """Return whether ``path`` is a directory directly below ``directory``, without tricks."""
    return (
        posixpath.normpath(path) == path
        and posixpath.dirname(path) == posixpath.normpath(directory)
        and directory.startswith("/")
    )


# --- changed objects


def unbound(volume: PersistentVolume) -> PersistentVolume:
    """Return the volume without its claim; a reservation by the user stays, without the UID."""
    ref, annotations = volume.spec.claimRef, dict(volume.metadata.annotations)
    if annotations.pop(BOUND_BY_CONTROLLER, "") or ref is None:
        ref = None
    else:
        ref = structs.replace(ref, uid="", resourceVersion="")
    return structs.replace(
        volume,
        metadata=structs.replace(volume.metadata, annotations=annotations),
        spec=structs.replace(volume.spec, claimRef=ref),
    )


def bound_claim(claim: PersistentVolumeClaim, volume: PersistentVolume) -> PersistentVolumeClaim:
    """Return the claim that names its volume."""
    annotations = dict(claim.metadata.annotations)
    if claim.spec.volumeName != volume.metadata.name:
        annotations[BOUND_BY_CONTROLLER] = "yes"
    annotations[BIND_COMPLETED] = "yes"
    return structs.replace(
        claim,
        metadata=structs.replace(claim.metadata, annotations=annotations),
        spec=structs.replace(claim.spec, volumeName=volume.metadata.name),
    )


def claim_with_phase(
    claim: PersistentVolumeClaim, phase: str, volume: PersistentVolume | None
) -> PersistentVolumeClaim:
    """Return the claim with the phase, and with modes and size of its volume, if it has one. The
    size of a bound claim changes only with an expansion."""
    status = claim.status
    modes = () if volume is None else volume.spec.accessModes
    size = {} if volume is None else status.capacity
    if volume is not None and (status.phase != phase or not size):
        size = volume.spec.capacity
    return structs.replace(
        claim, status=structs.replace(status, phase=phase, accessModes=modes, capacity=size)
    )


def asked(
    claim: PersistentVolumeClaim, storage_class: StorageClass, node: str
) -> PersistentVolumeClaim:
    """Return the claim with the annotations that name its provisioner and node."""
    provisioner = storage_class.provisioner
    if node:
        claim = with_selected_node(claim, node)
    annotations = {
        **claim.metadata.annotations,
        BETA_STORAGE_PROVISIONER: provisioner,
        STORAGE_PROVISIONER: provisioner,
    }
    return structs.replace(claim, metadata=structs.replace(claim.metadata, annotations=annotations))


def provisioned(
    claim: PersistentVolumeClaim, storage_class: StorageClass, directory: str
) -> PersistentVolume:
    """Return a new volume for a claim: a directory of its own below ``directory``."""
    meta, name = claim.metadata, provisioned_name(claim)
    policy = storage_class.reclaimPolicy or "Delete"
    path = posixpath.join(directory, f"{meta.namespace}_{meta.name[:_MAX_NAME]}_{name}")
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            annotations={BOUND_BY_CONTROLLER: "yes", PROVISIONED_BY: PROVISIONER},
            finalizers=(DELETION_FINALIZER,) if policy == "Delete" else (),
        ),
        spec=PersistentVolumeSpec(
            accessModes=claim.spec.accessModes,
            capacity={"storage": str(requested(claim))},
            claimRef=claim_reference(claim),
            hostPath=HostPathVolumeSource(path=path, type="DirectoryOrCreate"),
            persistentVolumeReclaimPolicy=policy,
            storageClassName=class_of_claim(claim) or "",
            volumeMode="Filesystem",
        ),
    )


def expanded(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume with the size that the claim asks for, unless it is larger."""
    if capacity(volume) >= requested(claim):
        return volume
    size = {**volume.spec.capacity, "storage": str(requested(claim))}
    return structs.replace(volume, spec=structs.replace(volume.spec, capacity=size))


def claim_with_size(claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
    """Return the claim whose status records the end of an expansion."""
    size = str(requested(claim))
    status = structs.replace(
        claim.status,
        capacity={**claim.status.capacity, "storage": size},
        allocatedResources={**claim.status.allocatedResources, "storage": size},
    )
    return structs.replace(claim, status=status)


def without_finalizer(meta: ObjectMeta, finalizer: str) -> ObjectMeta:
    return structs.replace(
        meta, finalizers=tuple(name for name in meta.finalizers if name != finalizer)
    )


# --- protection


def is_claim_used(claim: PersistentVolumeClaim, pods: Iterable[Pod]) -> bool:
    """Return whether a pod with a node uses the claim; one that has ended still counts. A pod of
    which nothing is left but its record does not hold the claims of its ephemeral volumes: it may
    itself wait for them to go."""
    name = claim.metadata.name
    for pod in pods:
        if not pod.spec.nodeName:
            continue
        gone = (
            pod.metadata.deletionTimestamp is not None
            and pod.metadata.deletionGracePeriodSeconds == 0
        )
        for volume in pod.spec.volumes:
            source = volume.persistentVolumeClaim
            if source is not None and source.claimName == name:
                return True
            if (
                volume.ephemeral is not None
                and not gone
                and ephemeral_claim_name(pod, volume.name) == name
            ):
                return True
    return False
