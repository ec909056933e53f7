"""Preemption: choose the node on which to make room for a pod, and the pods to end there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podtui.scheduler.filters import CycleState, Pending, run_filters_with_nominated
from podtui.scheduler.infos import NodeInfo, PodInfo, Snapshot
from podtui.scheduler.rejections import UNRESOLVABLE, UNSCHEDULABLE, FitDiagnosis, Rejection

_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
_NO_HELP: Final = Rejection("", UNRESOLVABLE, ("Preemption is not helpful for scheduling",))
_NO_VICTIMS: Final = Rejection("", UNRESOLVABLE, ("No preemption victims found for incoming pod",))
_NO_CLAIMS: Final = "no new claims to deallocate"
"""The message of the resource-claims plugin for pods without claims."""
_ENOUGH: Final = 100
_ENOUGH_PERCENT: Final = 10
_LOWEST_PRIORITY: Final = -(2**31)
_NOT_STARTED: Final = "~"
"""Sorts after every time."""
Victims = tuple[PodInfo, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionResult:
    """``nominated`` is the node to keep free for the pod; None leaves that as it is."""

    nominated: str | None = None
    victims: Victims = ()
    message: str = ""


def preempt(
    pending: Pending, snapshot: Snapshot, state: CycleState, diagnosis: FitDiagnosis
) -> PreemptionResult:
    """Choose the node on which to end pods of lower priority."""
    if text := _not_eligible(pending, snapshot, diagnosis):
        return PreemptionResult(message=_message(text))
    refused = {
        name for name, rejection in diagnosis.nodes.items() if rejection.code == UNSCHEDULABLE
    }
    candidates: dict[str, Victims] = {}
    rejected: dict[str, Rejection] = {}
    enough = max(_ENOUGH, len(refused) * _ENOUGH_PERCENT // 100)
    for node in snapshot.nodes.values():
        if node.name not in refused:
            continue
        result = _victims_on(node, pending, snapshot, state)
        if isinstance(result, Rejection):
            rejected[node.name] = result
        else:
            candidates[node.name] = result
        if len(candidates) >= enough:
            break
    if not candidates:
        failed = FitDiagnosis(total=len(snapshot.nodes), nodes=rejected, absent=_NO_HELP)
        return PreemptionResult(nominated="", message=_message(failed.message()))
    selected = pick_node(candidates)
    return PreemptionResult(nominated=selected, victims=candidates[selected])


def _message(text: str) -> str:
    return f"{_NO_CLAIMS}, preemption: {text}"


def _not_eligible(pending: Pending, snapshot: Snapshot, diagnosis: FitDiagnosis) -> str:
    if pending.spec.preemptionPolicy == "Never":
        return _NEVER
    node = snapshot.nodes.get(pending.info.nominated)
    if node is None or diagnosis.rejection(node.name).code == UNRESOLVABLE:
        return ""
    waits = any(
        pod.priority < pending.info.priority and pod.deleting and pod.preempted
        for pod in node.pods.values()
    )
    return _TERMINATING if waits else ""


def _victims_on(
    node: NodeInfo, pending: Pending, snapshot: Snapshot, state: CycleState
) -> Victims | Rejection:
    """Return the fewest pods that have to end on the node, most important first; or why the pod
    would not fit even then."""
    lower = [
        pod for pod in node.pods.values() if pod.priority < pending.info.priority and not pod.fixed
    ]
    if not lower:
        return _NO_VICTIMS
    node, state = node.copy(), state.copy()
    for pod in lower:
        state.remove(pod, node)
    if (rejection := run_filters_with_nominated(pending, node, state, snapshot)) is not None:
        return rejection
    victims: list[PodInfo] = []
    for pod in sorted(lower, key=_importance):
        state.add(pod, node)
        if run_filters_with_nominated(pending, node, state, snapshot) is not None:
            state.remove(pod, node)
            victims.append(pod)
    if not victims:
        reason = f'expected at least one victim pod on node "{node.name}"'
        return Rejection("", UNRESOLVABLE, (reason,))
    return tuple(victims)


def _importance(pod: PodInfo) -> tuple[int, str]:
    """Sort the most important pod first: the highest priority, then the longest running."""
    return (-pod.priority, pod.started or _NOT_STARTED)


def pick_node(candidates: Mapping[str, Victims]) -> str:
    """Return the node with the least important victims. Nodes are compared by the highest priority
    of their victims, then by the sum of the priorities, the number of victims, and the latest start
    of the most important ones. kube-scheduler compares disruption budgets first, which do not exist
    here."""
    costs: Sequence[Callable[[Victims], Any]] = (
        lambda victims: -victims[0].priority,
        lambda victims: -sum(pod.priority - _LOWEST_PRIORITY for pod in victims),
        lambda victims: -len(victims),
        _earliest_start,
    )
    left = list(candidates)
    for cost in costs:
        best = max(cost(candidates[name]) for name in left)
        left = [name for name in left if cost(candidates[name]) == best]
        if len(left) == 1:
            break
    return left[0]


def _earliest_start(victims: Victims) -> str:
    """Return the earliest start among the victims of the highest priority."""
    highest = max(pod.priority for pod in victims)
    return min(pod.started or _NOT_STARTED for pod in victims if pod.priority == highest)
