"""Making room for a critical pod (reference §5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podtui.api.v1 import Pod
from podtui.kubelet.base.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from podtui.kubelet.base.resources import freed_requests, is_critical

PODS = "pods"
Needs = Mapping[str, int]
"""What is still to be freed, by resource, every amount above zero."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    pod: Pod
    requests: Mapping[str, int]

    def frees(self, resource: str) -> int:
        return 1 if resource == PODS else self.requests.get(resource, 0)


@dataclass(frozen=True, slots=True)
class Preemption:
    """The pods to end, in the order to end them; or, where that is not enough, ``short``: what
    would still be lacking without all of the candidates."""

    victims: tuple[Pod, ...] = ()
    short: tuple[tuple[str, int], ...] = ()


def is_preemptable(newcomer: Pod, other: Pod) -> bool:
    """Whether ``other`` may be ended for ``newcomer``'s sake."""
    if is_critical(newcomer) and not is_critical(other):
        return True
    mine, theirs = newcomer.spec.priority, other.spec.priority
    return mine is not None and theirs is not None and mine > theirs


def _without(needs: Needs, ended: Sequence[_Candidate]) -> Needs:
    left = {name: need - sum(one.frees(name) for one in ended) for name, need in needs.items()}
    return {name: need for name, need in left.items() if need > 0}


def _distance(needs: Needs, one: _Candidate) -> float:
    """How far ending this pod alone would leave us: squares of the unmet fractions, summed."""
    return sum((max(need - one.frees(name), 0) / need) ** 2 for name, need in needs.items())


def _choose(candidates: list[_Candidate], needs: Needs) -> list[_Candidate]:
    """Choose the nearest pod until nothing is needed: of equally near ones the smaller, of equal
    ones the later.

    The last candidate takes the place of the chosen one: the order decides the next tie, and the
    kubelet removes from its list in this way.
    """
    rest = list(candidates)
    chosen: list[_Candidate] = []
    while needs and rest:
        ranks = [
            (_distance(needs, one), one.frees("memory"), one.frees("cpu"), -index)
            for index, one in enumerate(rest)
        ]
        best = -min(ranks)[-1]
        chosen.append(rest[best])
        rest[best] = rest[-1]
        rest.pop()
        needs = _without(needs, chosen[-1:])
    return chosen


def preempt(newcomer: Pod, active: Sequence[Pod], needs: Needs) -> Preemption:
    """Which of ``active`` to end so that ``needs`` are freed.

    Guaranteed pods are looked at as if all lesser ones were gone, and so on down, so that no more
    of a better class end than must.
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
    chosen = (*of_best_effort, *of_burstable, *of_guaranteed)
    return Preemption(victims=tuple(one.pod for one in chosen))
