"""The conditions that a node must meet for a pod, in the scheduler's order. Each is a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from podtui.api.pods import HostPort, host_ports, ports_clash
from podtui.api.selectors import node_matches, tolerates
from podtui.api.v1 import Pod, PodSpec, Taint, Volume
from podtui.scheduler.affinity import AffinityState
from podtui.scheduler.claims import (
    VOLUME_RESTRICTIONS,
    Claims,
    exclusive_claims,
    plan_claims,
    refused_claim,
)
from podtui.scheduler.infos import (
    Amounts,
    NodeFacts,
    NodeInfo,
    PodInfo,
    Snapshot,
    counted_requests,
    pod_info,
)
from podtui.scheduler.rejections import UNRESOLVABLE, UNSCHEDULABLE, Rejection
from podtui.scheduler.spread import SpreadState

UNSCHEDULABLE_TAINT: Final = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
NODE_AFFINITY: Final = "NodeAffinity"
CLAIM_IN_USE: Final = (
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")


class Pending:
    """A pod that waits for a node, with what the filters need of it."""

    def __init__(self, pod: Pod) -> None:
        self.pod = pod
        self.info = pod_info(pod)

    @property
    def spec(self) -> PodSpec:
        return self.pod.spec

    @cached_property
    def requests(self) -> Amounts:
        """The requests that are above zero, in the order of the messages."""
        amounts = {
            name: amount for name, amount in counted_requests(self.pod).items() if amount > 0
        }
        first = [name for name in _FIRST if name in amounts]
        return {name: amounts[name] for name in (*first, *sorted(amounts.keys() - set(first)))}

    @cached_property
    def ports(self) -> frozenset[HostPort]:
        return host_ports(self.pod)

    @cached_property
    def features(self) -> frozenset[str]:
        return _features(self.pod)


class ExclusiveClaims:
    """The claims of a pod that only one pod may use, and how often other pods use them."""

    __slots__ = ("_names", "_namespace", "users")

    def __init__(self, namespace: str, names: frozenset[str], pods: Iterable[PodInfo]) -> None:
        self._namespace = namespace
        self._names = names
        self.users = 0
        for pod in pods if names else ():
            self.update(pod, 1)

    def update(self, pod: PodInfo, sign: int) -> None:
        """Count a pod that was added to a node (1) or removed from it (-1)."""
        if pod.namespace == self._namespace:
            self.users += sign * len(self._names & pod.claims)

    def copy(self) -> ExclusiveClaims:
        other = ExclusiveClaims(self._namespace, self._names, ())
        other.users = self.users
        return other


@dataclass(frozen=True, slots=True)
class CycleState:
    """Counts over all nodes; they change as pods are added to a node and removed from it."""

    spread: SpreadState
    affinity: AffinityState
    exclusive: ExclusiveClaims
    claims: Claims

    @classmethod
    def of(cls, pending: Pending, snapshot: Snapshot) -> CycleState:
        nodes, claims = snapshot.nodes.values(), snapshot.claims
        pods = (pod for node in nodes for pod in node.pods.values())
        names = exclusive_claims(pending.pod, claims)
        return cls(
            SpreadState(pending.pod, nodes),
            AffinityState(pending.info, snapshot),
            ExclusiveClaims(pending.info.namespace, names, pods),
            claims,
        )

    def copy(self) -> CycleState:
        return CycleState(
            self.spread.copy(), self.affinity.copy(), self.exclusive.copy(), self.claims
        )

    def add(self, pod: PodInfo, node: NodeInfo) -> None:
        """Add a pod to the node and to the counts."""
        node.add(pod)
        self._update(pod, node.facts, 1)

    def remove(self, pod: PodInfo, node: NodeInfo) -> None:
        """Remove a pod from the node and from the counts."""
        node.remove(pod)
        self._update(pod, node.facts, -1)

    def _update(self, pod: PodInfo, node: NodeFacts, sign: int) -> None:
        self.spread.update(pod, node, sign)
        self.affinity.update(pod, node, sign)
        self.exclusive.update(pod, sign)


Filter = Callable[[Pending, NodeInfo, CycleState], Rejection | None]


def run_filters(pending: Pending, node: NodeInfo, state: CycleState) -> Rejection | None:
    """Return the first filter's rejection of the node; None if it takes the pod."""
    results = (run_filter(pending, node, state) for run_filter in FILTERS)
    return next(filter(None, results), None)


def run_filters_with_nominated(
    pending: Pending, node: NodeInfo, state: CycleState, snapshot: Snapshot
) -> Rejection | None:
    """Filter the node with and without the pods that it is kept free for, if they are as important;
    return the rejection, or None."""
    kept = [
        pod
        for pod in snapshot.nominated.get(node.name, ())
        if pod.priority >= pending.info.priority and pod.uid != pending.info.uid
    ]
    if kept:
        with_kept, counted = node.copy(), state.copy()
        for pod in kept:
            counted.add(pod, with_kept)
        if (rejection := run_filters(pending, with_kept, counted)) is not None:
            return rejection
    return run_filters(pending, node, state)


def _unresolvable(plugin: str, reason: str) -> Rejection:
    return Rejection(plugin, UNRESOLVABLE, (reason,))


def _unschedulable(pending: Pending, node: NodeInfo, _: CycleState) -> Rejection | None:
    if not node.facts.unschedulable or tolerates(pending.spec.tolerations, UNSCHEDULABLE_TAINT):
        return None
    return _unresolvable("NodeUnschedulable", "node(s) were unschedulable")


def _node_name(pending: Pending, node: NodeInfo, _: CycleState) -> Rejection | None:
    if pending.spec.nodeName in ("", node.name):
        return None
    return _unresolvable("NodeName", "node(s) didn't match the requested node name")


def untolerated(pod: Pod, node: NodeFacts) -> bool:
    """Return whether the node has a taint that keeps the pod away."""
    return any(
        taint.effect in ("NoSchedule", "NoExecute") and not tolerates(pod.spec.tolerations, taint)
        for taint in node.taints
    )


def _taints(pending: Pending, node: NodeInfo, _: CycleState) -> Rejection | None:
    if not untolerated(pending.pod, node.facts):
        return None
    return _unresolvable("TaintToleration", "node(s) had untolerated taint(s)")


def _node_affinity(pending: Pending, node: NodeInfo, _: CycleState) -> Rejection | None:
    if node_matches(pending.pod, node.name, node.facts.labels):
        return None
    return _unresolvable(NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector")


def _ports(pending: Pending, node: NodeInfo, _: CycleState) -> Rejection | None:
    if not pending.ports:
        return None
    taken = {port for pod in node.pods.values() for port in pod.ports}
    if not any(ports_clash(port, used) for port in pending.ports for used in taken):
        return None
    reason = "node(s) didn't have free ports for the requested pod ports"
    return Rejection("NodePorts", UNSCHEDULABLE, (reason,))


def _resources(pending: Pending, node: NodeInfo, _: CycleState) -> Rejection | None:
    reasons: list[str] = []
    unresolvable = False
    if len(node.pods) + 1 > node.facts.allocatable.get("pods", 0):
        reasons.append("Too many pods")
    for name, amount in pending.requests.items():
        capacity = node.facts.allocatable.get(name, 0)
        if amount > capacity - node.requested.get(name, 0):
            reasons.append(f"Insufficient {name}")
            unresolvable = unresolvable or amount > capacity
    if not reasons:
        return None
    return Rejection(
        "NodeResourcesFit", UNRESOLVABLE if unresolvable else UNSCHEDULABLE, tuple(reasons)
    )


def fits_empty(pending: Pending, node: NodeFacts) -> bool:
    """Return whether the node could take the pod if it had no other pods."""
    return node.allocatable.get("pods", 0) > 0 and all(
        amount <= node.allocatable.get(name, 0) for name, amount in pending.requests.items()
    )


def disks_clash(volume: Volume, other: Volume) -> bool:
    """Return whether two volumes are one disk that only one pod may use."""
    if volume.gcePersistentDisk and (gce := other.gcePersistentDisk):
        disk = volume.gcePersistentDisk
        return disk.pdName == gce.pdName and not (disk.readOnly and gce.readOnly)
    if volume.awsElasticBlockStore and (ebs := other.awsElasticBlockStore):
        return volume.awsElasticBlockStore.volumeID == ebs.volumeID
    if volume.iscsi and (iscsi := other.iscsi):
        return volume.iscsi.iqn == iscsi.iqn and not (volume.iscsi.readOnly and iscsi.readOnly)
    if volume.rbd and (rbd := other.rbd):
        return (
            not set(volume.rbd.monitors).isdisjoint(rbd.monitors)
            and (volume.rbd.pool or "rbd") == (rbd.pool or "rbd")
            and volume.rbd.image == rbd.image
            and not (volume.rbd.readOnly and rbd.readOnly)
        )
    return False


def _disks(pending: Pending, node: NodeInfo, state: CycleState) -> Rejection | None:
    taken = [disk for pod in node.pods.values() for disk in pod.disks] if pending.info.disks else ()
    if any(disks_clash(mine, used) for mine in pending.info.disks for used in taken):
        return Rejection(VOLUME_RESTRICTIONS, UNSCHEDULABLE, ("node(s) had no available disk",))
    if state.exclusive.users > 0:
        return Rejection(VOLUME_RESTRICTIONS, UNSCHEDULABLE, (CLAIM_IN_USE,))
    return None


def _claims(pending: Pending, node: NodeInfo, state: CycleState) -> Rejection | None:
    plan = plan_claims(pending.pod, state.claims, node.name, node.facts.labels)
    return plan if isinstance(plan, Rejection) else None


def _spread(_: Pending, node: NodeInfo, state: CycleState) -> Rejection | None:
    return state.spread.rejection(node.facts)


def _affinity(_: Pending, node: NodeInfo, state: CycleState) -> Rejection | None:
    return state.affinity.rejection(node.facts)


def _features(pod: Pod) -> frozenset[str]:
    """Return the features that a node must declare to run the pod."""
    spec = pod.spec
    features: set[str] = set()
    if spec.hostNetwork and spec.hostUsers is False:
        features.add("UserNamespacesHostNetworkSupport")
    if any(
        rule.action == "RestartAllContainers"
        for container in (*spec.initContainers, *spec.containers)
        for rule in container.restartPolicyRules
    ):
        features.add("RestartAllContainersOnContainerExits")
    return frozenset(features)


def _declared_features(pending: Pending, node: NodeInfo, _: CycleState) -> Rejection | None:
    if pending.features <= node.facts.features:
        return None
    reason = "node(s) didn't match Pod's required features"
    return _unresolvable("NodeDeclaredFeatures", reason)


FILTERS: Final[tuple[Filter, ...]] = (
    _unschedulable,
    _node_name,
    _taints,
    _node_affinity,
    _ports,
    _resources,
    _disks,
    _claims,
    _spread,
    _affinity,
    _declared_features,
)


# --- conditions that are checked once, before the filters


def refused_everywhere(pod: Pod, claims: Claims) -> Rejection | None:
    """Return the reason why no node at all could take the pod."""
    names = named_nodes(pod)
    if names is not None and not names:
        return _unresolvable(NODE_AFFINITY, "pod affinity terms conflict")
    return refused_claim(pod, claims)


def named_nodes(pod: Pod) -> frozenset[str] | None:
    """Return the names of the only nodes that the required node affinity allows; None if it allows
    nodes by their labels."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.nodeAffinity is None:
        return None
    required = affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
    if required is None or not required.nodeSelectorTerms:
        return None
    names = set[str]()
    for term in required.nodeSelectorTerms:
        named = [
            frozenset(requirement.values)
            for requirement in term.matchFields
            if requirement.key == "metadata.name" and requirement.operator == "In"
        ]
        if not named:
            return None
        names |= named[0].intersection(*named)
    return frozenset(names)
