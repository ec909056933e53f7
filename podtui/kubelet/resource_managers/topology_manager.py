"""Align the resources of a container or pod on NUMA nodes (kubelet.md §13.7).

Each hint source (the device, CPU and memory managers) proposes sets of NUMA nodes. The policy
merges one proposal of each, chooses the best, and decides whether the pod is admitted. The rules
are those of the kubelet's package `topologymanager`, v1.36.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, product
from typing import Final, Literal, NamedTuple, Protocol

from podtui.api.v1 import Container, Pod
from podtui.kubelet.resource_managers.cpu_topology import NumaNode

TopologyPolicy = Literal["none", "best-effort", "restricted", "single-numa-node"]
TopologyScope = Literal["container", "pod"]
AFFINITY_ERROR: Final = "TopologyAffinityError"
AFFINITY_MESSAGE: Final = "Resources cannot be allocated with Topology locality"
UNEXPECTED_ERROR: Final = "UnexpectedAdmissionError"
Nodes = frozenset[int]


class AllocationError(Exception):
    """Resources cannot be allocated; ``reason`` and the text are those of the pod's status."""

    def __init__(self, message: str, reason: str = "") -> None:
        unexpected = f"Allocate failed due to {message}, which is unexpected"
        super().__init__(message if reason else unexpected)
        self.reason = reason or UNEXPECTED_ERROR


class Hint(NamedTuple):
    """A proposal of NUMA nodes; None means any."""

    nodes: Nodes | None
    preferred: bool


ANY: Final = Hint(None, True)
NO_AFFINITY: Final = Hint(None, False)
Hints = Mapping[str, Sequence[Hint]]
"""The proposals by resource. An empty sequence: the resource cannot be aligned."""


class HintSource(Protocol):
    """Proposes NUMA nodes for resources."""

    def hints(self, pod: Pod, container: Container) -> Hints: ...

    def pod_hints(self, pod: Pod) -> Hints: ...


class HintProvider(HintSource, Protocol):
    """Proposes NUMA nodes for the resources that it allocates."""

    def allocate(self, pod: Pod, container: Container, affinity: Hint) -> None:
        """Allocate for a container; does nothing if it has an allocation. Raises
        `AllocationError`."""
        ...


@dataclass(frozen=True, slots=True)
class TopologyManager:
    """``prefer_closest`` is the policy option ``prefer-closest-numa-nodes``."""

    policy: TopologyPolicy
    scope: TopologyScope
    numa: tuple[NumaNode, ...]
    prefer_closest: bool = False

    def admit(self, pod: Pod, providers: Sequence[HintProvider]) -> None:
        """Allocate the resources of all containers. Raises `AllocationError`; what was allocated
        until then remains."""
        for container, affinity in self.affinities(pod, providers):
            for provider in providers:
                provider.allocate(pod, container, affinity)

    def affinities(
        self, pod: Pod, sources: Sequence[HintSource]
    ) -> Iterator[tuple[Container, Hint]]:
        """Yield each container with the NUMA nodes to allocate from. The caller allocates its
        resources before it takes the next one. Raises `AllocationError`."""
        containers = (*pod.spec.initContainers, *pod.spec.containers)
        if self.policy == "none":
            for container in containers:
                yield container, NO_AFFINITY
            return
        of_pod = None
        if self.scope == "pod":
            of_pod = self._affinity([source.pod_hints(pod) for source in sources])
        for container in containers:
            yield (
                container,
                of_pod or self._affinity([source.hints(pod, container) for source in sources]),
            )

    def _affinity(self, proposals: Sequence[Hints]) -> Hint:
        best, admitted = self.merge(proposals)
        if not admitted:
            raise AllocationError(AFFINITY_MESSAGE, AFFINITY_ERROR)
        return best

    def merge(self, proposals: Sequence[Hints]) -> tuple[Hint, bool]:
        """Return the best common hint, and whether the policy admits it."""
        lists = list(_by_resource(proposals))
        single = self.policy == "single-numa-node"
        if single:
            lists = [[hint for hint in hints if _fits_one_node(hint)] for hints in lists]
        every = frozenset(node.id for node in self.numa)
        best: Hint | None = None
        widest = max((_least_nodes(hints) for hints in lists), default=0)
        for permutation in product(*lists):
            merged = _merged(every, permutation)
            if merged.nodes and (best is None or self._better(merged, best, widest)):
                best = merged
        best = best or Hint(every, False)
        if single and best.nodes == every:
            best = Hint(None, best.preferred)
        return best, best.preferred or self.policy == "best-effort"

    def _better(self, candidate: Hint, best: Hint, widest: int) -> bool:
        """Return True if ``candidate`` replaces ``best``. Hints that are not preferred should have
        ``widest`` nodes: the number that the most demanding resource needs at least."""
        if candidate.preferred != best.preferred:
            return candidate.preferred
        if not best.preferred:
            new, old = len(candidate.nodes or ()), len(best.nodes or ())
            if old == widest and new != widest:
                return False
            if old < widest and new != old:
                return old < new <= widest
        return self._fits_better(candidate.nodes or Nodes(), best.nodes or Nodes())

    def _fits_better(self, candidate: Nodes, best: Nodes) -> bool:
        if candidate == best:
            return False
        closest = self.prefer_closest and self.policy != "single-numa-node"
        if closest and len(candidate) == len(best):
            new, old = self._distance(candidate), self._distance(best)
            if new != old:
                return new < old
        return is_narrower(candidate, best)

    def _distance(self, nodes: Nodes) -> float:
        """Return the mean distance between NUMA nodes."""
        of = {node.id: node.distances for node in self.numa}
        total = sum(of[node][other] for node in nodes for other in nodes)
        return total / len(nodes) ** 2


def numa_sets(nodes: Iterable[int]) -> Iterator[Nodes]:
    """Yield all sets of NUMA nodes, those with fewer nodes first."""
    ordered = sorted(nodes)
    for size in range(1, len(ordered) + 1):
        yield from map(frozenset, combinations(ordered, size))


def is_narrower(nodes: Nodes, other: Nodes) -> bool:
    """Return True if ``nodes`` has fewer nodes or, with equally many, lower-numbered ones."""
    if len(nodes) != len(other):
        return len(nodes) < len(other)
    return sum(1 << node for node in nodes) < sum(1 << node for node in other)


def _by_resource(proposals: Sequence[Hints]) -> Iterator[Sequence[Hint]]:
    for hints in proposals:
        if not hints:
            yield [ANY]
        for of_resource in hints.values():
            yield of_resource or [Hint(None, False)]


def _fits_one_node(hint: Hint) -> bool:
    return hint.preferred and (hint.nodes is None or len(hint.nodes) == 1)


def _least_nodes(hints: Sequence[Hint]) -> int:
    return min((len(hint.nodes) for hint in hints if hint.nodes is not None), default=0)


def _merged(every: Nodes, permutation: Sequence[Hint]) -> Hint:
    given = [hint.nodes for hint in permutation if hint.nodes is not None]
    preferred = all(hint.preferred for hint in permutation)
    preferred = preferred and all(nodes == given[0] for nodes in given)
    return Hint(reduce(Nodes.intersection, given, every), preferred)
