"""Affinity and anti-affinity between pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from podtui.api.selectors import Labels, labels_match
from podtui.api.v1 import LabelSelector
from podtui.scheduler.infos import NodeFacts, NodeInfo, PodInfo, Snapshot, Term
from podtui.scheduler.rejections import UNRESOLVABLE, UNSCHEDULABLE, Rejection

PLUGIN: Final = "InterPodAffinity"
_AFFINITY: Final = Rejection(PLUGIN, UNRESOLVABLE, ("node(s) didn't match pod affinity rules",))
_ANTI_AFFINITY: Final = Rejection(
    PLUGIN, UNSCHEDULABLE, ("node(s) didn't match pod anti-affinity rules",)
)
_OTHERS: Final = Rejection(
    PLUGIN, UNSCHEDULABLE, ("node(s) didn't satisfy existing pods anti-affinity rules",)
)
_HARD_WEIGHT: Final = 1
"""The score of a required term of another pod."""
_NO_LABELS: Final[Labels] = {}
Domain = tuple[str, str]
"""A topology key and its value."""


def resolved(terms: Sequence[Term], namespaces: Mapping[str, Labels]) -> tuple[Term, ...]:
    """Return the terms with the namespaces that their selectors select."""
    return tuple(_resolved(term, namespaces) for term in terms)


def _resolved(term: Term, namespaces: Mapping[str, Labels]) -> Term:
    selector = term.namespace_selector
    if selector is None or selector == LabelSelector():
        return term
    names = (name for name, labels in namespaces.items() if labels_match(selector, labels))
    return replace(term, namespaces=term.namespaces.union(names), namespace_selector=None)


def matches_all(terms: Sequence[Term], pod: PodInfo) -> bool:
    """Return whether there are terms, and each selects the pod."""
    return bool(terms) and all(term.matches(pod, _NO_LABELS) for term in terms)


class AffinityState:
    """The pods by domain that matter to the required terms of a pod, and the required terms of
    others that select it."""

    __slots__ = ("_affinity", "_anti", "_anti_terms", "_labels", "_others", "_pod", "_terms")

    def __init__(self, pod: PodInfo, snapshot: Snapshot) -> None:
        self._pod = pod
        self._labels = snapshot.namespaces.get(pod.namespace, _NO_LABELS)
        self._terms = resolved(pod.affinity, snapshot.namespaces)
        self._anti_terms = resolved(pod.anti_affinity, snapshot.namespaces)
        self._affinity: Counter[Domain] = Counter()
        self._anti: Counter[Domain] = Counter()
        self._others: Counter[Domain] = Counter()
        for node in snapshot.nodes.values():
            for other in node.pods.values():
                if self._terms or self._anti_terms or other.anti_affinity:
                    self.update(other, node.facts, 1)

    def copy(self) -> AffinityState:
        other = AffinityState(self._pod, Snapshot(nodes={}))
        other._labels = self._labels
        other._terms, other._anti_terms = self._terms, self._anti_terms
        other._affinity = self._affinity.copy()
        other._anti = self._anti.copy()
        other._others = self._others.copy()
        return other

    def update(self, pod: PodInfo, node: NodeFacts, sign: int) -> None:
        """Count a pod that was added to the node (1) or removed from it (-1)."""
        for term in pod.anti_affinity:
            if term.matches(self._pod, self._labels):
                _count(self._others, term, node, sign)
        if matches_all(self._terms, pod):
            for term in self._terms:
                _count(self._affinity, term, node, sign)
        for term in self._anti_terms:
            if term.matches(pod, _NO_LABELS):
                _count(self._anti, term, node, sign)

    def rejection(self, node: NodeFacts) -> Rejection | None:
        """Return which rule the node violates; None if none."""
        if not self._satisfies_affinity(node):
            return _AFFINITY
        if any(self._anti[domain] > 0 for domain in _domains_of(self._anti_terms, node)):
            return _ANTI_AFFINITY
        if self._others and any(self._others[label] > 0 for label in node.labels.items()):
            return _OTHERS
        return None

    def _satisfies_affinity(self, node: NodeFacts) -> bool:
        if any(term.topology_key not in node.labels for term in self._terms):
            return False
        if all(self._affinity[domain] > 0 for domain in _domains_of(self._terms, node)):
            return True
        # The first pod of a group whose pods want to be near each other.
        return not self._affinity and matches_all(self._terms, self._pod)


def _domains_of(terms: Iterable[Term], node: NodeFacts) -> Iterable[Domain]:
    return (
        (term.topology_key, node.labels[term.topology_key])
        for term in terms
        if term.topology_key in node.labels
    )


def _count(counts: Counter[Domain], term: Term, node: NodeFacts, sign: int) -> None:
    value = node.labels.get(term.topology_key)
    if value is None:
        return
    domain = (term.topology_key, value)
    counts[domain] += sign
    if not counts[domain]:
        del counts[domain]


def affinity_scores(
    pod: PodInfo, snapshot: Snapshot, feasible: Sequence[NodeInfo]
) -> dict[str, int] | None:
    """Return a score from 0 to 100 by node, by the preferred terms of the pod and of the others;
    None if no term applies."""
    preferred = resolved(pod.preferred_affinity, snapshot.namespaces)
    preferred_anti = resolved(pod.preferred_anti_affinity, snapshot.namespaces)
    labels = snapshot.namespaces.get(pod.namespace, _NO_LABELS)
    sums: dict[Domain, int] = {}

    def add(term: Term, subject: PodInfo, on: Labels, node: NodeFacts, weight: int) -> None:
        value = node.labels.get(term.topology_key)
        if value is not None and term.matches(subject, on):
            domain = (term.topology_key, value)
            sums[domain] = sums.get(domain, 0) + weight

    for node in snapshot.nodes.values():
        for other in node.pods.values():
            for term in preferred:
                add(term, other, _NO_LABELS, node.facts, term.weight)
            for term in preferred_anti:
                add(term, other, _NO_LABELS, node.facts, -term.weight)
            for term in other.affinity:
                add(term, pod, labels, node.facts, _HARD_WEIGHT)
            for term in other.preferred_affinity:
                add(term, pod, labels, node.facts, term.weight)
            for term in other.preferred_anti_affinity:
                add(term, pod, labels, node.facts, -term.weight)
    if not sums:
        return None
    raw = {
        node.name: sum(sums.get(domain, 0) for domain in node.facts.labels.items())
        for node in feasible
    }
    most, least = max(raw.values()), min(raw.values())
    if most == least:
        return dict.fromkeys(raw, 0)
    return {name: int(100.0 * ((score - least) / (most - least))) for name, score in raw.items()}
