"""The diagnosis of any object, and the objects that a name selects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.batch import CronJob, Job
from podtui.api.health import WELL
from podtui.api.networking import Ingress, NetworkPolicy
from podtui.api.policy import PodDisruptionBudget
from podtui.api.v1 import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    ResourceQuota,
    Service,
    ServiceAccount,
)
from podtui.why.accounts import diagnose_account
from podtui.why.autoscalers import diagnose_autoscaler
from podtui.why.claims import diagnose_claim, diagnose_volume, with_claims
from podtui.why.connections import with_connections
from podtui.why.ingresses import diagnose_ingress
from podtui.why.inventory import WORKLOADS, Inventory, Noun, object_name
from podtui.why.jobs import diagnose_cron_job, diagnose_job
from podtui.why.nodes import CLUSTER_CAUSES, diagnose_node
from podtui.why.policies import diagnose_budget, diagnose_policy
from podtui.why.quotas import diagnose_quota
from podtui.why.services import diagnose_service
from podtui.why.types import Diagnosis, Kind, Part
from podtui.why.workloads import (
    diagnose_daemon_set,
    diagnose_deployment,
    diagnose_replica_set,
    diagnose_stateful_set,
)

_FUNCTIONS: Final[Mapping[type[Any], Callable[[Inventory, Any], Diagnosis]]] = {
    Deployment: diagnose_deployment,
    ReplicaSet: diagnose_replica_set,
    ReplicationController: diagnose_replica_set,
    StatefulSet: diagnose_stateful_set,
    DaemonSet: diagnose_daemon_set,
    Job: diagnose_job,
    CronJob: diagnose_cron_job,
    Service: diagnose_service,
    Ingress: diagnose_ingress,
    NetworkPolicy: diagnose_policy,
    PodDisruptionBudget: diagnose_budget,
    PersistentVolumeClaim: diagnose_claim,
    PersistentVolume: diagnose_volume,
    HorizontalPodAutoscaler: diagnose_autoscaler,
    ServiceAccount: diagnose_account,
    ResourceQuota: diagnose_quota,
    Node: diagnose_node,
}
_DEFAULTS: Final[tuple[type[Any], ...]] = (
    *WORKLOADS,
    PersistentVolumeClaim,
    HorizontalPodAutoscaler,
    Service,
    Ingress,
    Node,
)
_OWN_FAULTS: Final = frozenset(
    {"SelectorMatchesNothing", "PortUnknown", "NodePortInUse", "BackendMissing",
     "BackendPortUnknown", "IngressClassMissing", "TlsSecretMissing", "TlsSecretIncomplete"}
)  # fmt: skip
"""The causes of a Service or an Ingress that no pod explains."""


def is_explained(item: Any) -> bool:
    """Return whether `diagnose_object` knows the kind of an object that is no pod."""
    return type(item) in _FUNCTIONS


def diagnose_object(inventory: Inventory, item: Any) -> Diagnosis:
    """Return the diagnosis of an object. Raises `KeyError` for a kind that is not explained."""
    if isinstance(item, Pod):
        return explain_pod(inventory, item, inventory.pod_diagnosis(item))
    diagnosis = _FUNCTIONS[type(item)](inventory, item)
    return _with_pod_connections(inventory, item.metadata.namespace, diagnosis)


def _with_pod_connections(inventory: Inventory, namespace: str, diagnosis: Diagnosis) -> Diagnosis:
    """Complete the diagnoses of pods within that of another object."""
    if not diagnosis.parts:
        return diagnosis
    parts: list[Part] = []
    for part in diagnosis.parts:
        name = part.name.removeprefix("pod/")
        pod = inventory.get(Pod, namespace, name) if name != part.name else None
        inner = (
            _with_pod_connections(inventory, namespace, part.diagnosis)
            if pod is None
            else _with_connections(inventory, pod, part.diagnosis)
        )
        parts.append(replace(part, diagnosis=inner))
    return replace(diagnosis, parts=tuple(parts))


def _with_connections(inventory: Inventory, pod: Pod, diagnosis: Diagnosis) -> Diagnosis:
    root = next((each for each in reversed([*owners_of(inventory, pod)])), None)
    return with_connections(inventory, pod, diagnosis, root if type(root) in WORKLOADS else None)


def explain_pod(inventory: Inventory, pod: Pod, diagnosis: Diagnosis) -> Diagnosis:
    """Complete the diagnosis of a pod by what other objects tell: the workload that it belongs to,
    the claims that it waits for, and the Services that it names."""
    diagnosis = _with_connections(inventory, pod, with_claims(inventory, pod, diagnosis))
    owners = [object_name(owner) for owner in owners_of(inventory, pod)]
    if not owners:
        return diagnosis
    text = f"It belongs to {' of '.join(owners)}."
    return replace(diagnosis, sentences=(*diagnosis.sentences, text))


def owners_of(inventory: Inventory, item: Any) -> Iterator[Any]:
    """Yield the object that controls another, then that one's, up to the root."""
    seen: set[str] = set()
    owner = inventory.owner(item)
    while owner is not None and owner.metadata.uid not in seen:
        seen.add(owner.metadata.uid)
        yield owner
        owner = inventory.owner(owner)


def find_objects(inventory: Inventory, noun: Noun, name: str, namespace: str = "") -> list[Any]:
    """List the objects of a kind with a name, of one namespace. Without a namespace, it is
    ``default``, or any other if there is no such object."""
    items = [item for item in inventory.list(noun.struct) if item.metadata.name == name]
    if namespace:
        return [item for item in items if item.metadata.namespace in ("", namespace)]
    return [item for item in items if item.metadata.namespace == "default"] or items


def is_well(diagnosis: Diagnosis) -> bool:
    health = diagnosis.health
    return diagnosis.kind is not Kind.FAILURE and (health is None or health in WELL)


def unwell(inventory: Inventory) -> Iterator[tuple[Any, Diagnosis]]:
    """Yield the objects that are not as desired, with their diagnoses. An object that the
    diagnosis of another covers, such as its owner, is left out."""
    reported: set[str] = set()
    parts: set[tuple[str, str]] = set()
    for kind in _DEFAULTS:
        for item in inventory.list(kind):
            diagnosis = diagnose_object(inventory, item)
            if is_well(diagnosis) or _is_idle(diagnosis):
                continue
            if kind in (Service, Ingress) and not _is_own_fault(diagnosis):
                continue
            if kind is Node and diagnosis.cause not in CLUSTER_CAUSES:
                # Its pods tell why it is not ready.
                continue
            if any(owner.metadata.uid in reported for owner in owners_of(inventory, item)):
                continue
            namespace = item.metadata.namespace
            if (namespace, object_name(item)) in parts:
                continue
            reported.add(item.metadata.uid)
            parts.update((namespace, name) for name in _part_names(diagnosis))
            yield item, diagnosis


def _part_names(diagnosis: Diagnosis) -> Iterator[str]:
    for part in diagnosis.parts:
        yield part.name
        yield from _part_names(part.diagnosis)


def _is_own_fault(diagnosis: Diagnosis) -> bool:
    """Return whether a Service or an Ingress is not as desired although its pods are, so that only
    its own diagnosis tells why."""
    # A selector that a workload without pods satisfies is right.
    waits = diagnosis.cause == "SelectorMatchesNothing" and "workload" in "".join(
        diagnosis.sentences
    )
    return diagnosis.cause in _OWN_FAULTS and not waits


def _is_idle(diagnosis: Diagnosis) -> bool:
    """Return whether an object only waits for the user, as intended."""
    return diagnosis.cause in ("Suspended", "WaitForFirstConsumer")
