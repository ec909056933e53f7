"""One attempt to schedule a pod: filter the nodes, score them, choose one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from podtui.scheduler.claims import ClaimPlan, plan_claims
from podtui.scheduler.filters import (
    NODE_AFFINITY,
    CycleState,
    Pending,
    named_nodes,
    refused_everywhere,
    run_filters_with_nominated,
)
from podtui.scheduler.infos import NodeInfo, PodInfo, Snapshot
from podtui.scheduler.preemption import preempt
from podtui.scheduler.rejections import UNRESOLVABLE, FitDiagnosis, Rejection
from podtui.scheduler.scores import total_scores

NO_NODES: Final = "no nodes available to schedule pods"
_NO_STATE: Final = "not found"
"""The preemption message of kube-scheduler v1.36 if it examined no node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleResult:
    """The node for a pod or, without ``node``, why there is none."""

    node: str = ""
    message: str = ""
    plugins: frozenset[str] = frozenset()
    """The plugins that refused a node; empty if there is no node at all."""
    nominated: str | None = None
    """The node to keep free for the pod; None leaves that as it is."""
    victims: tuple[PodInfo, ...] = ()
    """The pods to delete on the nominated node."""
    scores: dict[str, int] = field(default_factory=dict[str, int])
    """The total score by node; empty if only one node takes the pod."""
    claims: ClaimPlan = field(default_factory=ClaimPlan)
    """The plan for the unbound claims of the pod."""


def schedule(pending: Pending, snapshot: Snapshot) -> ScheduleResult:
    """Choose a node for the pod, or the pods that would have to end to make room for it."""
    if not snapshot.nodes:
        return ScheduleResult(message=NO_NODES, nominated="")
    refused = refused_everywhere(pending.pod, snapshot.claims)
    if refused is not None:
        diagnosis = FitDiagnosis(total=len(snapshot.nodes), before=", ".join(refused.reasons))
        return ScheduleResult(
            message=diagnosis.message(_NO_STATE), plugins=frozenset({refused.plugin})
        )
    state = CycleState.of(pending, snapshot)
    nominated = snapshot.nodes.get(pending.info.nominated)
    if (
        nominated is not None
        and run_filters_with_nominated(pending, nominated, state, snapshot) is None
    ):
        return _chosen(pending, snapshot, nominated)
    feasible, diagnosis = _filtered(pending, snapshot, state)
    if not feasible:
        preemption = preempt(pending, snapshot, state, diagnosis)
        return ScheduleResult(
            message=diagnosis.message(preemption.message),
            plugins=diagnosis.plugins,
            nominated=preemption.nominated,
            victims=preemption.victims,
        )
    if len(feasible) == 1:
        return _chosen(pending, snapshot, feasible[0])
    scores = total_scores(pending, snapshot, feasible)
    node = snapshot.nodes[max(scores, key=lambda name: scores[name])]
    return replace(_chosen(pending, snapshot, node), scores=scores)


def _chosen(pending: Pending, snapshot: Snapshot, node: NodeInfo) -> ScheduleResult:
    plan = plan_claims(pending.pod, snapshot.claims, node.name, node.facts.labels)
    assert isinstance(plan, ClaimPlan)
    return ScheduleResult(node=node.name, claims=plan)


def _filtered(
    pending: Pending, snapshot: Snapshot, state: CycleState
) -> tuple[list[NodeInfo], FitDiagnosis]:
    names = named_nodes(pending.pod)
    nodes: Iterable[NodeInfo] = snapshot.nodes.values()
    absent, plugins = Rejection("", UNRESOLVABLE, ()), set[str]()
    if names is not None:
        nodes = (node for node in nodes if node.name in names)
        reason = f"node(s) didn't satisfy plugin(s) [{NODE_AFFINITY}]"
        absent = Rejection(NODE_AFFINITY, UNRESOLVABLE, (reason,))
        plugins.add(NODE_AFFINITY)
    feasible: list[NodeInfo] = []
    rejected: dict[str, Rejection] = {}
    for node in nodes:
        rejection = run_filters_with_nominated(pending, node, state, snapshot)
        if rejection is None:
            feasible.append(node)
        else:
            rejected[node.name] = rejection
            plugins.add(rejection.plugin)
    return feasible, FitDiagnosis(
        total=len(snapshot.nodes), nodes=rejected, absent=absent, plugins=frozenset(plugins)
    )
