"""Topology spread constraints: how evenly the matching pods are spread over zones, hosts and other
domains."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podtui.api.selectors import Labels, labels_match, node_matches, tolerates
from podtui.api.v1 import LabelSelector, Pod, TopologySpreadConstraint
from podtui.scheduler.infos import NodeFacts, NodeInfo, PodInfo
from podtui.scheduler.rejections import UNRESOLVABLE, UNSCHEDULABLE, Rejection

PLUGIN: Final = "PodTopologySpread"
_HOSTNAME: Final = "kubernetes.io/hostname"
_MISMATCH: Final = "node(s) didn't match pod topology spread constraints"


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint of a pod, with ``matchLabelKeys`` resolved."""

    spec: TopologySpreadConstraint
    extra: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        return self.spec.topologyKey

    def matches(self, labels: Labels) -> bool:
        return all(labels.get(key) == value for key, value in self.extra) and labels_match(
            self.spec.labelSelector, labels
        )

    def counts_on(self, pod: Pod, node: NodeFacts) -> bool:
        """Return whether the node's pods count, by the inclusion policies."""
        if self.spec.nodeAffinityPolicy != "Ignore" and not node_matches(
            pod, node.name, node.labels
        ):
            return False
        if self.spec.nodeTaintsPolicy != "Honor":
            return True
        return all(
            tolerates(pod.spec.tolerations, taint)
            for taint in node.taints
            if taint.effect in ("NoSchedule", "NoExecute")
        )

    def count(self, namespace: str, pods: Iterable[PodInfo]) -> int:
        """Return how many of the pods match. An absent or empty selector counts nothing."""
        if not self.extra and self.spec.labelSelector in (None, LabelSelector()):
            return 0
        return sum(
            not pod.deleting and pod.namespace == namespace and self.matches(pod.labels)
            for pod in pods
        )


def constraints(pod: Pod, action: str) -> tuple[Constraint, ...]:
    """Return the pod's constraints with this ``whenUnsatisfiable``."""
    labels = pod.metadata.labels
    return tuple(
        Constraint(
            constraint,
            tuple((key, labels[key]) for key in constraint.matchLabelKeys if key in labels),
        )
        for constraint in pod.spec.topologySpreadConstraints
        if constraint.whenUnsatisfiable == action
    )


def has_keys(labels: Labels, wanted: Sequence[Constraint]) -> bool:
    return all(constraint.key in labels for constraint in wanted)


class SpreadState:
    """The matching pods by domain, for each constraint that must hold."""

    __slots__ = ("_counts", "_least", "_pod", "constraints")

    def __init__(self, pod: Pod, nodes: Iterable[NodeInfo]) -> None:
        self._pod = pod
        self.constraints = constraints(pod, "DoNotSchedule")
        self._counts: list[dict[str, int]] = [{} for _ in self.constraints]
        self._least: list[int | None] = [None for _ in self.constraints]
        if not self.constraints:
            return
        for node in nodes:
            labels = node.facts.labels
            if not has_keys(labels, self.constraints):
                continue
            for constraint, counts in zip(self.constraints, self._counts, strict=True):
                if constraint.counts_on(pod, node.facts):
                    domain = labels[constraint.key]
                    matching = constraint.count(pod.metadata.namespace, node.pods.values())
                    counts[domain] = counts.get(domain, 0) + matching

    def copy(self) -> SpreadState:
        other = SpreadState(self._pod, ())
        other._counts = [dict(counts) for counts in self._counts]
        return other

    def update(self, pod: PodInfo, node: NodeFacts, sign: int) -> None:
        """Count a pod that was added to the node (1) or removed from it (-1)."""
        if pod.namespace != self._pod.metadata.namespace:
            return
        if not has_keys(node.labels, self.constraints):
            return
        for index, constraint in enumerate(self.constraints):
            if constraint.matches(pod.labels) and constraint.counts_on(self._pod, node):
                counts, domain = self._counts[index], node.labels[constraint.key]
                counts[domain] = counts.get(domain, 0) + sign
                self._least[index] = None

    def rejection(self, node: NodeFacts) -> Rejection | None:
        """Return why the node violates a constraint; None if it does not."""
        for index, constraint in enumerate(self.constraints):
            domain = node.labels.get(constraint.key)
            if domain is None:
                reason = f"{_MISMATCH} (missing required label)"
                return Rejection(PLUGIN, UNRESOLVABLE, (reason,))
            matches_itself = constraint.matches(self._pod.metadata.labels)
            skew = self._counts[index].get(domain, 0) + matches_itself - self._minimum(index)
            if skew > constraint.spec.maxSkew:
                return Rejection(PLUGIN, UNSCHEDULABLE, (_MISMATCH,))
        return None

    def _minimum(self, index: int) -> int:
        counts = self._counts[index]
        if len(counts) < (self.constraints[index].spec.minDomains or 1):
            return 0
        least = self._least[index]
        if least is None:
            least = self._least[index] = min(counts.values())
        return least


def spread_scores(
    pod: Pod, nodes: Mapping[str, NodeInfo], feasible: Sequence[NodeInfo]
) -> dict[str, int] | None:
    """Return a score from 0 to 100 by node, by the constraints that should hold; None without
    such constraints."""
    wanted = constraints(pod, "ScheduleAnyway")
    if not wanted:
        return None
    scored = [node for node in feasible if has_keys(node.facts.labels, wanted)]
    domains = _domains(pod, wanted, nodes, scored)
    weights = [
        math.log((len(scored) if constraint.key == _HOSTNAME else len(counts)) + 2)
        for constraint, counts in zip(wanted, domains, strict=True)
    ]
    raw: dict[str, int] = {}
    for node in scored:
        score = 0.0
        for constraint, counts, weight in zip(wanted, domains, weights, strict=True):
            if constraint.key == _HOSTNAME:
                matching = constraint.count(pod.metadata.namespace, node.pods.values())
            else:
                matching = counts[node.facts.labels[constraint.key]]
            score += matching * weight + (constraint.spec.maxSkew - 1)
        # Round halves up: the scores are never negative.
        raw[node.name] = math.floor(score + 0.5)
    most, least = max(raw.values(), default=0), min(raw.values(), default=0)
    return {
        node.name: 0
        if node.name not in raw
        else 100 * (most + least - raw[node.name]) // most
        if most
        else 100
        for node in feasible
    }


def _domains(
    pod: Pod,
    wanted: Sequence[Constraint],
    nodes: Mapping[str, NodeInfo],
    scored: Sequence[NodeInfo],
) -> list[dict[str, int]]:
    """Return the matching pods by domain for each constraint, for the domains of ``scored``. Those
    on one host are counted when the host is scored."""
    domains: list[dict[str, int]] = [
        {}
        if constraint.key == _HOSTNAME
        else {node.facts.labels[constraint.key]: 0 for node in scored}
        for constraint in wanted
    ]
    for node in nodes.values():
        labels = node.facts.labels
        if not has_keys(labels, wanted):
            continue
        for constraint, counts in zip(wanted, domains, strict=True):
            if labels[constraint.key] in counts and constraint.counts_on(pod, node.facts):
                counts[labels[constraint.key]] += constraint.count(
                    pod.metadata.namespace, node.pods.values()
                )
    return domains
