"""The identity of a StatefulSet's pods: ordinals, names and labels, and the claims of each pod.

A claim outlives its pod. Who deletes it in the end follows from its owners, which the set's
``persistentVolumeClaimRetentionPolicy`` decides: nobody, the set, or a pod that is scaled down.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec import structs

from podtui.api.apps import StatefulSet
from podtui.api.objects import Object
from podtui.api.v1 import (
    OwnerReference,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodTemplateSpec,
    Volume,
)
from podtui.controllers.history import REVISION_LABEL
from podtui.controllers.pods import owner_reference, pod_of_template

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
DELETE: Final = "Delete"
_NAME: Final = re.compile(r"(.*)-([0-9]+)")
_MAX_ORDINAL: Final = 2**31 - 1
Claims = Mapping[str, PersistentVolumeClaim]
"""The existing claims of the namespace, by name."""


def parent_and_ordinal(name: str) -> tuple[str, int]:
    """Return the set's name and the ordinal of a pod's name; the ordinal is -1 if it has none."""
    match = _NAME.fullmatch(name)
    if match is None:
        return "", -1
    number = int(match[2])
    return match[1], number if number <= _MAX_ORDINAL else -1


def ordinal_of(pod: Pod) -> int:
    return parent_and_ordinal(pod.metadata.name)[1]


def is_member(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Return whether the pod has a name of the set."""
    return parent_and_ordinal(pod.metadata.name)[0] == stateful_set.metadata.name


def ordinals(stateful_set: StatefulSet) -> range:
    """Return the ordinals of the desired pods."""
    spec = stateful_set.spec
    start = (spec.ordinals.start or 0) if spec.ordinals is not None else 0
    return range(start, start + (1 if spec.replicas is None else spec.replicas))


def revision_of(pod: Pod) -> str:
    return pod.metadata.labels.get(REVISION_LABEL, "")


# --- pods


def new_pod(
    stateful_set: StatefulSet, template: PodTemplateSpec, revision: str, ordinal: int
) -> Pod:
    """Return the pod with this ordinal, made from the template of a revision."""
    name = f"{stateful_set.metadata.name}-{ordinal}"
    pod = pod_of_template(template, stateful_set)
    meta = structs.replace(
        pod.metadata, name=name, labels={**pod.metadata.labels, REVISION_LABEL: revision}
    )
    spec = structs.replace(pod.spec, hostname=name, subdomain=stateful_set.spec.serviceName)
    return with_identity(stateful_set, structs.replace(pod, metadata=meta, spec=spec))


def with_identity(stateful_set: StatefulSet, pod: Pod) -> Pod:
    """Return the pod with the labels and the volumes that its ordinal demands."""
    labels = {
        **pod.metadata.labels,
        POD_NAME_LABEL: pod.metadata.name,
        POD_INDEX_LABEL: str(ordinal_of(pod)),
    }
    return structs.replace(
        pod,
        metadata=structs.replace(pod.metadata, labels=labels),
        spec=structs.replace(pod.spec, volumes=_volumes(stateful_set, pod)),
    )


def has_identity(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Return whether the pod has the label with its name, and the volumes of its claims."""
    volumes = {volume.name: volume.persistentVolumeClaim for volume in pod.spec.volumes}
    sources = {name: source.claimName for name, source in volumes.items() if source is not None}
    return pod.metadata.labels.get(POD_NAME_LABEL) == pod.metadata.name and all(
        sources.get(name) == claim for name, claim in _claim_names(stateful_set, pod).items()
    )


def _claim_names(stateful_set: StatefulSet, pod: Pod) -> dict[str, str]:
    """Return the names of the pod's claims by the names of their templates."""
    end = f"{stateful_set.metadata.name}-{ordinal_of(pod)}"
    names = (claim.metadata.name for claim in stateful_set.spec.volumeClaimTemplates)
    return {name: f"{name}-{end}" for name in names}


def _volumes(stateful_set: StatefulSet, pod: Pod) -> tuple[Volume, ...]:
    claims = _claim_names(stateful_set, pod)
    added = (
        Volume(name=name, persistentVolumeClaim=PersistentVolumeClaimVolumeSource(claimName=claim))
        for name, claim in claims.items()
    )
    return (*added, *(volume for volume in pod.spec.volumes if volume.name not in claims))


# --- claims


def claims_of(stateful_set: StatefulSet, pod: Pod) -> list[PersistentVolumeClaim]:
    """Return the claims that the pod needs, as they are created."""
    names = _claim_names(stateful_set, pod)
    selector = stateful_set.spec.selector
    added = selector.matchLabels if selector is not None else {}
    return [
        structs.replace(
            template,
            metadata=structs.replace(
                template.metadata,
                name=names[template.metadata.name],
                namespace=stateful_set.metadata.namespace,
                labels={**template.metadata.labels, **added},
            ),
        )
        for template in stateful_set.spec.volumeClaimTemplates
    ]


def has_stale_claim(stateful_set: StatefulSet, pod: Pod, claims: Claims) -> bool:
    """Return whether a claim goes with an earlier pod of this name, so that a new pod must wait."""
    when_scaled, _ = _policy(stateful_set)
    return when_scaled == DELETE and any(
        _is_earlier(owner, pod)
        for name in _claim_names(stateful_set, pod).values()
        if name in claims
        for owner in claims[name].metadata.ownerReferences
    )


def claims_with_wrong_owners(
    stateful_set: StatefulSet, pod: Pod, claims: Claims
) -> list[PersistentVolumeClaim]:
    """Return the pod's claims that have other owners than the policy demands, with the right
    ones."""
    changed: list[PersistentVolumeClaim] = []
    for name in _claim_names(stateful_set, pod).values():
        if name not in claims:
            continue
        claim = claims[name]
        owners = claim_owners(claim, stateful_set, pod)
        if _controllers(owners) != _controllers(claim.metadata.ownerReferences):
            meta = structs.replace(claim.metadata, ownerReferences=owners)
            changed.append(structs.replace(claim, metadata=meta))
    return changed


def claim_owners(
    claim: PersistentVolumeClaim, stateful_set: StatefulSet, pod: Pod
) -> tuple[OwnerReference, ...]:
    """Return the owners that a claim must have. Owners of other kinds stay, and a claim of an
    earlier set or pod of this name is left to the garbage collector."""
    owners = claim.metadata.ownerReferences
    if any(_is_earlier(owner, item) for owner in owners for item in (stateful_set, pod)):
        return owners
    others = tuple(
        owner for owner in owners if not (_names(owner, stateful_set) or _names(owner, pod))
    )
    if has_other_controller(claim, stateful_set, pod):
        return others
    when_scaled, when_deleted = _policy(stateful_set)
    if when_scaled == DELETE and ordinal_of(pod) not in ordinals(stateful_set):
        return (*others, owner_reference(pod))
    if when_deleted == DELETE:
        return (*others, owner_reference(stateful_set))
    return others


def has_other_controller(claim: PersistentVolumeClaim, stateful_set: StatefulSet, pod: Pod) -> bool:
    """Return whether the set has a policy that another controller of the claim thwarts."""
    if DELETE not in _policy(stateful_set):
        return False
    return any(
        _is_earlier(owner, stateful_set)
        or _is_earlier(owner, pod)
        or (bool(owner.controller) and not _names(owner, stateful_set) and not _names(owner, pod))
        for owner in claim.metadata.ownerReferences
    )


def conflict_message(claim: str) -> str:
    """Return the message of the event ConflictingController."""
    return (
        f"PersistentVolumeClaim {claim} has a conflicting OwnerReference that acts as a manging"
        " controller, the retention policy is ignored for this claim"
    )


def _policy(stateful_set: StatefulSet) -> tuple[str, str]:
    """Return what happens to claims when the set is scaled down, and when it is deleted."""
    policy = stateful_set.spec.persistentVolumeClaimRetentionPolicy
    return ("", "") if policy is None else (policy.whenScaled, policy.whenDeleted)


def _controllers(owners: tuple[OwnerReference, ...]) -> set[tuple[str, bool]]:
    return {(owner.uid, bool(owner.controller)) for owner in owners}


def _names(owner: OwnerReference, item: Object) -> bool:
    expected = owner_reference(item)
    return (owner.apiVersion, owner.kind, owner.name) == (
        expected.apiVersion,
        expected.kind,
        expected.name,
    )


def _is_earlier(owner: OwnerReference, item: Object) -> bool:
    """Return whether the reference is to an earlier object of the item's kind and name."""
    return _names(owner, item) and owner.uid != item.metadata.uid
