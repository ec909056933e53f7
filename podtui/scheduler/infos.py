"""The properties of pods and nodes that scheduling needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from podtui.api.names import CONFIG_MIRROR
from podtui.api.pod_resources import amounts, in_unit, is_pod_level, request_amounts
from podtui.api.pods import HostPort, host_ports
from podtui.api.quantity import Quantity
from podtui.api.selectors import Labels, labels_match
from podtui.api.v1 import LabelSelector, Node, Pod, PodAffinityTerm, Taint, Volume
from podtui.scheduler.claims import Claims

Amounts = Mapping[str, int]
"""Resources by name: cpu in millicores, the rest in units or bytes."""
DEFAULT_SCHEDULER: Final = "default-scheduler"
PREEMPTED: Final = "PreemptionByScheduler"
_MISSING: Final = {"cpu": Quantity.of_milli(100), "memory": Quantity.of(200 * 1024 * 1024)}
"""The requests that scores assume for a container without requests."""
_NATIVE: Final = "kubernetes.io/"
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")


def counts(name: str) -> bool:
    """Return whether the scheduler counts the resource; it ignores unknown names."""
    if name in _FIRST or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    return "/" in name and (_NATIVE in name or not name.startswith("requests."))


def counted_requests(pod: Pod, *, in_use: bool = False) -> dict[str, int]:
    amounts = request_amounts(pod, in_use=in_use)
    return {name: in_unit(name, amount) for name, amount in amounts.items() if counts(name)}


def scored_requests(pod: Pod) -> dict[str, int]:
    """Return cpu and memory of a pending pod as the resource score counts them: a container without
    a request counts with a default, and pod-level requests are ignored."""
    amounts = request_amounts(pod, missing=_MISSING, pod_level=False)
    return {name: in_unit(name, amounts[name]) for name in _MISSING}


@dataclass(frozen=True, slots=True)
class Term:
    """A pod affinity term, with the namespaces that it names."""

    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    topology_key: str
    weight: int = 0

    def matches(self, pod: PodInfo, namespace_labels: Labels) -> bool:
        """Return whether the term selects the pod; its namespace has ``namespace_labels``."""
        if pod.namespace in self.namespaces or labels_match(
            self.namespace_selector, namespace_labels
        ):
            return labels_match(self.selector, pod.labels)
        return False


def _term(pod: Pod, term: PodAffinityTerm, weight: int = 0) -> Term:
    in_pod_namespace = not term.namespaces and term.namespaceSelector is None
    names = (pod.metadata.namespace,) if in_pod_namespace else term.namespaces
    return Term(
        term.labelSelector, frozenset(names), term.namespaceSelector, term.topologyKey, weight
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInfo:
    """The properties of a pod that matter to its node and to other pods."""

    uid: str
    namespace: str
    name: str
    node: str = ""
    labels: Labels = field(default_factory=dict[str, str])
    priority: int = 0
    started: str = ""
    """``status.startTime``; empty for a pod that has not started."""
    generation: int | None = None
    deleting: bool = False
    preempted: bool = False
    """Deleted by a scheduler, to make room."""
    fixed: bool = False
    """A static pod: deleting its record would not end it."""
    nominated: str = ""
    requests: Amounts = field(default_factory=dict[str, int])
    scored: tuple[int, int] = (0, 0)
    """cpu and memory for the resource score."""
    ports: frozenset[HostPort] = frozenset()
    disks: tuple[Volume, ...] = ()
    """The volumes that exclude each other."""
    claims: frozenset[str] = frozenset()
    """The names of its claims, without those of ephemeral volumes."""
    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    preferred_affinity: tuple[Term, ...] = ()
    preferred_anti_affinity: tuple[Term, ...] = ()

    @property
    def reserved(self) -> bool:
        """The pod has a node, or one is kept free for it."""
        return bool(self.node or self.nominated)


def _is_disk(volume: Volume) -> bool:
    return any((volume.gcePersistentDisk, volume.awsElasticBlockStore, volume.rbd, volume.iscsi))


def _scored(pod: Pod) -> tuple[int, int]:
    """Return cpu and memory of a pod on a node, as the resource score counts them."""
    missing = dict(_MISSING)
    resources = pod.spec.resources
    if resources is not None and any(map(is_pod_level, resources.requests)):
        stated = request_amounts(pod, in_use=True)
        missing = {name: amount for name, amount in _MISSING.items() if name not in stated}
    amounts = request_amounts(pod, in_use=True, missing=missing)
    zero = Quantity(0)
    return amounts.get("cpu", zero).milli_value(), amounts.get("memory", zero).value()


def pod_info(pod: Pod) -> PodInfo:
    """Raises ValueError for an invalid quantity."""
    meta, spec, status = pod.metadata, pod.spec, pod.status
    affinity = spec.affinity.podAffinity if spec.affinity else None
    anti_affinity = spec.affinity.podAntiAffinity if spec.affinity else None
    return PodInfo(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        node=spec.nodeName,
        labels=meta.labels,
        priority=spec.priority or 0,
        started=status.startTime or "",
        generation=meta.generation,
        deleting=meta.deletionTimestamp is not None,
        preempted=any(
            condition.type == "DisruptionTarget"
            and condition.status == "True"
            and condition.reason == PREEMPTED
            for condition in status.conditions
        ),
        fixed=CONFIG_MIRROR in meta.annotations,
        nominated=status.nominatedNodeName,
        requests=counted_requests(pod, in_use=True),
        scored=_scored(pod),
        ports=host_ports(pod),
        disks=tuple(filter(_is_disk, spec.volumes)),
        claims=frozenset(
            volume.persistentVolumeClaim.claimName
            for volume in spec.volumes
            if volume.persistentVolumeClaim is not None
        ),
        affinity=tuple(
            _term(pod, term) for term in affinity.requiredDuringSchedulingIgnoredDuringExecution
        )
        if affinity
        else (),
        anti_affinity=tuple(
            _term(pod, term)
            for term in anti_affinity.requiredDuringSchedulingIgnoredDuringExecution
        )
        if anti_affinity
        else (),
        preferred_affinity=tuple(
            _term(pod, preferred.podAffinityTerm, preferred.weight)
            for preferred in affinity.preferredDuringSchedulingIgnoredDuringExecution
        )
        if affinity
        else (),
        preferred_anti_affinity=tuple(
            _term(pod, preferred.podAffinityTerm, preferred.weight)
            for preferred in anti_affinity.preferredDuringSchedulingIgnoredDuringExecution
        )
        if anti_affinity
        else (),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """A node without its pods."""

    name: str
    labels: Labels = field(default_factory=dict[str, str])
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = field(default_factory=dict[str, int])
    features: frozenset[str] = frozenset()
    images: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes by image name."""


def node_facts(node: Node) -> NodeFacts:
    """Raises ValueError for an invalid quantity."""
    images: dict[str, int] = {}
    for image in node.status.images:
        for name in image.names:
            images.setdefault(name, image.sizeBytes or 0)
    return NodeFacts(
        name=node.metadata.name,
        labels=node.metadata.labels,
        taints=node.spec.taints,
        unschedulable=bool(node.spec.unschedulable),
        allocatable=amounts(node.status.allocatable),
        features=frozenset(node.status.declaredFeatures),
        images=images,
    )


class NodeInfo:
    """A node with its pods, and the sums over them."""

    __slots__ = ("facts", "pods", "requested", "scored")

    def __init__(self, facts: NodeFacts, pods: Iterable[PodInfo] = ()) -> None:
        self.facts = facts
        self.pods: dict[str, PodInfo] = {}
        self.requested: dict[str, int] = {}
        self.scored = (0, 0)
        for pod in pods:
            self.add(pod)

    @property
    def name(self) -> str:
        return self.facts.name

    def add(self, pod: PodInfo) -> None:
        """Add a pod that is not on the node yet."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def remove(self, pod: PodInfo) -> None:
        """Remove a pod, as it was added."""
        self._count(self.pods.pop(pod.uid), -1)

    def copy(self) -> NodeInfo:
        """Return a node that can be changed without changing this one."""
        other = NodeInfo(self.facts)
        other.pods = dict(self.pods)
        other.requested = dict(self.requested)
        other.scored = self.scored
        return other

    def _count(self, pod: PodInfo, sign: int) -> None:
        for name, amount in pod.requests.items():
            self.requested[name] = self.requested.get(name, 0) + sign * amount
        cpu, memory = pod.scored
        self.scored = (self.scored[0] + sign * cpu, self.scored[1] + sign * memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The cluster at one time. Scheduling reads it and never changes it."""

    nodes: Mapping[str, NodeInfo]
    nominated: Mapping[str, Sequence[PodInfo]] = field(default_factory=dict[str, Sequence[PodInfo]])
    """Pending pods by the node that is kept free for them."""
    namespaces: Mapping[str, Labels] = field(default_factory=dict[str, Labels])
    """Labels by namespace."""
    claims: Claims = field(default_factory=Claims)
