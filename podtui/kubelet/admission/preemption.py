"""Preempt pods to make room for a critical pod (kubelet.md §5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtui.api.pod_resources import (
    BEST_EFFORT,
    BURSTABLE,
    GUARANTEED,
    freed_requests,
    is_critical,
    qos_class,
)
from podtui.api.v1 import Pod

PODS = "pods"
Needs = Mapping[str, int]
"""Amounts that still have to be freed, by resource; each is above zero."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    pod: Pod
    requests: Mapping[str, int]

    def frees(self, resource: str) -> int:
        return 1 if resource == PODS else self.requests.get(resource, 0)


@dataclass(frozen=True, slots=True)
class Preemption:
    """The pods to end, in the order in which to end them. If ending all candidates would not free
    enough, ``victims`` is empty and ``short`` lists the amounts that would still be missing."""

    victims: tuple[Pod, ...] = ()
    short: tuple[tuple[str, int], ...] = ()


def is_preemptable(newcomer: Pod, other: Pod) -> bool:
    """Return whether ``other`` may be ended to make room for ``newcomer``."""
    if is_critical(newcomer) and not is_critical(other):
        return True
    priority, other_priority = newcomer.spec.priority, other.spec.priority
    return priority is not None and other_priority is not None and priority > other_priority


def _without(needs: Needs, ended: Sequence[_Candidate]) -> Needs:
    left = {
        name: need - sum(candidate.frees(name) for candidate in ended)
        for name, need in needs.items()
    }
    return {name: need for name, need in left.items() if need > 0}


def _distance(needs: Needs, candidate: _Candidate) -> float:
    """Return the distance to ``needs`` if only this pod ends: the sum of squares of the unmet
    fractions."""
    return sum((max(need - candidate.frees(name), 0) / need) ** 2 for name, need in needs.items())


def _choose(candidates: list[_Candidate], needs: Needs) -> list[_Candidate]:
    """Choose the pod with the smallest distance until no needs are left. Ties go to the smaller pod
    (memory, then CPU), then to the later one.

    A chosen candidate is replaced by the last one, as the kubelet removes items from its list. The
    resulting order decides the next tie.
    """
    rest = list(candidates)
    selected: list[_Candidate] = []
    while needs and rest:
        ranks = [
            (_distance(needs, candidate), candidate.frees("memory"), candidate.frees("cpu"), -index)
            for index, candidate in enumerate(rest)
        ]
        best = -min(ranks)[-1]
        selected.append(rest[best])
        rest[best] = rest[-1]
        rest.pop()
        needs = _without(needs, selected[-1:])
    return selected


def preempt(newcomer: Pod, active: Sequence[Pod], needs: Needs) -> Preemption:
    """Select the pods of ``active`` to end so that ``needs`` are freed.

    Guaranteed pods are selected under the assumption that all Burstable and BestEffort pods end,
    and Burstable pods under the assumption that all BestEffort pods end. So no more pods of a
    higher QoS class are ended than necessary.
    """
    classes: dict[str, list[_Candidate]] = {BEST_EFFORT: [], BURSTABLE: [], GUARANTEED: []}
    for pod in active:
        if is_preemptable(newcomer, pod):
            classes[qos_class(pod)].append(_Candidate(pod, freed_requests(pod)))
    best_effort, burstable = classes[BEST_EFFORT], classes[BURSTABLE]
    guaranteed = classes[GUARANTEED]
    short = _without(needs, [*best_effort, *burstable, *guaranteed])
    if short:
        return Preemption(short=tuple(short.items()))
    of_guaranteed = _choose(guaranteed, _without(needs, [*best_effort, *burstable]))
    of_burstable = _choose(burstable, _without(needs, [*best_effort, *of_guaranteed]))
    of_best_effort = _choose(best_effort, _without(needs, [*of_burstable, *of_guaranteed]))
    selected = (*of_best_effort, *of_burstable, *of_guaranteed)
    return Preemption(victims=tuple(candidate.pod for candidate in selected))
