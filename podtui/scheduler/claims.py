"""The claims of a pod: whether it has to wait for one, and how its unbound claims get a volume on a
node.

A claim whose class has the mode ``WaitForFirstConsumer`` is bound together with its first pod. The
scheduler chooses: a free volume that its node reaches, which it reserves for the claim, or else the
node for which the class's provisioner creates one. The controllers do the rest, and the pod is
bound to the node after its claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.api.claims import (
    NO_PROVISIONER,
    READ_WRITE_ONCE_POD,
    SELECTED_NODE,
    capacity,
    claim_names,
    class_of_claim,
    ephemeral_claim_name,
    is_bound,
    is_candidate,
    is_free_for,
    is_reachable_from,
    is_reserved_for,
    requested,
)
from podtui.api.selectors import Labels
from podtui.api.storage import StorageClass, TopologySelectorTerm
from podtui.api.v1 import PersistentVolume, PersistentVolumeClaim, Pod
from podtui.scheduler.rejections import UNRESOLVABLE, Rejection

VOLUME_BINDING: Final = "VolumeBinding"
VOLUME_RESTRICTIONS: Final = "VolumeRestrictions"
NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
NO_ACCESS: Final = "node(s) didn't match PersistentVolume's node affinity"
VOLUME_GONE: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims by namespace and name, and the classes and volumes by name."""

    claims: Mapping[Key, PersistentVolumeClaim] = field(
        default_factory=dict[Key, PersistentVolumeClaim]
    )
    classes: Mapping[str, StorageClass] = field(default_factory=dict[str, StorageClass])
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict[str, PersistentVolume])

    def of(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        """Yield the existing claims of a pod."""
        for key in claim_keys(pod):
            if (claim := self.claims.get(key)) is not None:
                yield claim

    def is_late(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether the claim is bound together with its first pod."""
        storage_class = self.classes.get(class_of_claim(claim) or "")
        return (
            storage_class is not None
            and storage_class.volumeBindingMode == "WaitForFirstConsumer"
            and not claim.spec.volumeName
        )


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """The plan for the unbound claims of a pod on its node: ``reservations`` of volumes, and
    claims whose volumes are provisioned."""

    reservations: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...] = ()
    provisions: tuple[PersistentVolumeClaim, ...] = ()

    @property
    def keys(self) -> tuple[Key, ...]:
        claims = (*(claim for _, claim in self.reservations), *self.provisions)
        return tuple((claim.metadata.namespace, claim.metadata.name) for claim in claims)


def claim_keys(pod: Pod) -> Iterator[Key]:
    """Yield the claims of a pod, those of its ephemeral volumes included."""
    return ((pod.metadata.namespace, name) for name in claim_names(pod))


def exclusive_claims(pod: Pod, claims: Claims) -> frozenset[str]:
    """Return the names of the pod's claims that only one pod may use."""
    return frozenset(
        source.claimName
        for volume in pod.spec.volumes
        if (source := volume.persistentVolumeClaim) is not None
        and (claim := claims.claims.get((pod.metadata.namespace, source.claimName))) is not None
        and READ_WRITE_ONCE_POD in claim.spec.accessModes
    )


def refused_claim(pod: Pod, claims: Claims) -> Rejection | None:
    """Return why the claims of a pod keep it from every node."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        source = volume.persistentVolumeClaim
        if source is not None and (namespace, source.claimName) not in claims.claims:
            why = f'persistentvolumeclaim "{source.claimName}" not found'
            return Rejection(VOLUME_RESTRICTIONS, UNRESOLVABLE, (why,))
    reason = next(_reasons(pod, claims), "")
    return Rejection(VOLUME_BINDING, UNRESOLVABLE, (reason,)) if reason else None


def _reasons(pod: Pod, claims: Claims) -> Iterator[str]:
    meta = pod.metadata
    ephemeral = {ephemeral_claim_name(pod, v.name) for v in pod.spec.volumes if v.ephemeral}
    for key in claim_keys(pod):
        claim = claims.claims.get(key)
        shown = f'persistentvolumeclaim "{key[1]}"'
        if claim is None:
            yield f"waiting for ephemeral volume controller to create the {shown}"
        elif claim.status.phase == "Lost":
            volume = claim.spec.volumeName
            yield f'{shown} bound to non-existent persistentvolume "{volume}"'
        elif claim.metadata.deletionTimestamp is not None:
            yield f"{shown} is being deleted"
        elif key[1] in ephemeral and not any(
            owner.controller and owner.uid == meta.uid for owner in claim.metadata.ownerReferences
        ):
            yield (
                f"PVC {key[0]}/{key[1]} was not created for pod {meta.namespace}/{meta.name}"
                " (pod is not owner)"
            )
    if any(not is_bound(claim) and not claims.is_late(claim) for claim in claims.of(pod)):
        yield "pod has unbound immediate PersistentVolumeClaims"


# --- one node


def plan_claims(pod: Pod, claims: Claims, node: str, labels: Labels) -> ClaimPlan | Rejection:
    """Choose the volumes of the pod's claims on a node with these labels, or return why the node
    cannot have the pod. All claims are bound, or are bound with their first pod."""
    reasons: list[str] = []
    unbound: list[PersistentVolumeClaim] = []
    for claim in claims.of(pod):
        if not is_bound(claim):
            unbound.append(claim)
            continue
        volume = claims.volumes.get(claim.spec.volumeName)
        if not reasons and (volume is None or not is_reachable_from(volume, labels)):
            reasons.append(VOLUME_GONE if volume is None else NO_ACCESS)
    plan = _plan_unbound(unbound, claims, node, labels) if unbound else ClaimPlan()
    if plan is None:
        reasons.append(NO_VOLUME)
    if reasons or plan is None:
        return Rejection(VOLUME_BINDING, UNRESOLVABLE, tuple(reasons))
    return plan


def _plan_unbound(
    unbound: Iterable[PersistentVolumeClaim], claims: Claims, node: str, labels: Labels
) -> ClaimPlan | None:
    provisions: list[PersistentVolumeClaim] = []
    reservations: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
    left = dict(claims.volumes)
    for claim in sorted(unbound, key=requested):
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if selected not in (None, node):
            return None
        volume = None
        if selected is None:
            volume = _matching_volume(claim, left.values(), labels)
        if volume is not None:
            del left[volume.metadata.name]
            reservations.append((volume, claim))
        elif _is_provisioned(claims.classes[class_of_claim(claim) or ""], labels):
            provisions.append(claim)
        else:
            return None
    return ClaimPlan(tuple(reservations), tuple(provisions))


def _matching_volume(
    claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume], labels: Labels
) -> PersistentVolume | None:
    """Return the volume that is reserved for the claim, else the smallest free one that fits."""
    free: list[PersistentVolume] = []
    for volume in volumes:
        if not is_candidate(volume, claim):
            continue
        reachable = is_reachable_from(volume, labels)
        if volume.spec.claimRef is not None:
            if is_reserved_for(volume, claim):
                return volume if reachable else None
        elif reachable and is_free_for(volume, claim):
            free.append(volume)
    return min(free, key=lambda volume: (capacity(volume), volume.metadata.name), default=None)


def _is_provisioned(storage_class: StorageClass, labels: Labels) -> bool:
    """Return whether the class has volumes provisioned for a node with these labels."""
    if storage_class.provisioner == NO_PROVISIONER:
        return False
    terms = storage_class.allowedTopologies
    return not terms or any(_allows(term, labels) for term in terms)


def _allows(term: TopologySelectorTerm, labels: Labels) -> bool:
    # A term without expressions matches nothing, as in kube-scheduler.
    return bool(term.matchLabelExpressions) and all(
        labels.get(each.key) in each.values for each in term.matchLabelExpressions
    )


# --- the binding, after the node is chosen


def is_plan_bound(plan: ClaimPlan, claims: Claims) -> bool:
    """Return whether all claims of the plan are bound by now."""
    return all((claim := claims.claims.get(key)) and is_bound(claim) for key in plan.keys)


def binding_problem(plan: ClaimPlan, claims: Claims, node: str, labels: Labels) -> str:
    """Return why the claims of a plan will not be bound on the node; empty if they may be. ``plan``
    has the objects as they were written: older ones say nothing."""
    for written, _ in plan.reservations:
        name = written.metadata.name
        now = claims.volumes.get(name)
        if now is None:
            return f'failed to check binding: could not find v1.PersistentVolume "{name}"'
        if _is_older(now, written):
            continue
        if not is_reachable_from(now, labels):
            return _not_reachable(name, node)
        if now.spec.claimRef is None or not now.spec.claimRef.uid:
            return f'ClaimRef got reset for pv "{name}"'
    for claim in plan.provisions:
        meta = claim.metadata
        now = claims.claims.get((meta.namespace, meta.name))
        if now is None:
            shown = f'could not find v1.PersistentVolumeClaim "{meta.namespace}/{meta.name}"'
            return f"failed to check provisioning pvc: {shown}"
        if _is_older(now, claim):
            continue
        if now.metadata.annotations.get(SELECTED_NODE) != node:
            return f'provisioning failed for PVC "{meta.name}"'
        volume = claims.volumes.get(now.spec.volumeName)
        if volume is not None and not is_reachable_from(volume, labels):
            return _not_reachable(volume.metadata.name, node)
    return ""


def _is_older(
    now: PersistentVolume | PersistentVolumeClaim, written: PersistentVolume | PersistentVolumeClaim
) -> bool:
    return int(now.metadata.resourceVersion) < int(written.metadata.resourceVersion)


def _not_reachable(volume: str, node: str) -> str:
    return (
        f'pv "{volume}" node affinity doesn\'t match node "{node}": no matching NodeSelectorTerms'
    )


def by_key(claims: Iterable[PersistentVolumeClaim]) -> dict[Key, PersistentVolumeClaim]:
    return {(claim.metadata.namespace, claim.metadata.name): claim for claim in claims}
