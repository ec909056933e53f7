"""Causes of a pod without a node, or whose node is lost. A static pod is bound to its node from the
start; the pods of a cluster wait for the scheduler."""

from __future__ import annotations

from podtui.api.names import MANIFEST_PATH
from podtui.api.v1 import PodCondition
from podtui.why.types import Facts, Found, Rule

ALIVE = ("Pending", "Running", "Unknown")
_DOCS = "https://kubernetes.io/docs/"


def _scheduled(facts: Facts) -> PodCondition | None:
    """Return the condition with the reason why the pod is not scheduled; None if it is."""
    if facts.pod.spec.nodeName or facts.pod.status.phase not in ("", "Pending"):
        return None
    conditions = facts.pod.status.conditions
    return next((c for c in conditions if c.type == "PodScheduled" and c.status == "False"), None)


def _gated(facts: Facts) -> Found | None:
    condition = _scheduled(facts)
    if condition is None or condition.reason != "SchedulingGated":
        return None
    gates = ", ".join(gate.name for gate in facts.pod.spec.schedulingGates)
    return Found({"gates": gates or "one that is not named"})


def _unschedulable(facts: Facts) -> Found | None:
    condition = _scheduled(facts)
    if condition is None:
        return None
    explained = (condition.message or condition.reason).strip().rstrip(".")
    return Found({"explained": explained or "the scheduler does not say why"})


def _lost(facts: Facts) -> Found | None:
    """Match a lost node of another kubelet. The agent of this machine reports its own problems in
    more detail."""
    node = facts.node
    if node is None or node.status.nodeInfo is None or facts.pod.status.phase not in ALIVE:
        return None
    if MANIFEST_PATH in facts.pod.metadata.annotations:
        return None
    ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
    if ready is None or ready.status == "True":
        return None
    text = (ready.message or ready.reason).strip().rstrip(".")
    return Found({"node": node.metadata.name, "text": text or "it does not say why"})


SCHEDULING: tuple[Rule[Facts], ...] = (
    Rule(
        id="NodeLost",
        match=_lost,
        title="Its node {node} is not ready: {text}.",
        sentences=("The pod is shown as its kubelet last reported it.",),
        advice="Check the node; pods with an owner are recreated elsewhere after some minutes.",
        docs=_DOCS + "concepts/architecture/nodes/#condition",
    ),
    Rule(
        id="SchedulingGated",
        match=_gated,
        title="It waits for its scheduling gates: {gates}.",
        sentences=("The component that set the gate must remove it.",),
        field=("spec", "schedulingGates"),
        docs=_DOCS + "concepts/scheduling-eviction/pod-scheduling-readiness/",
    ),
    Rule(
        id="Unschedulable",
        match=_unschedulable,
        title="No node fits: {explained}.",
        sentences=("The scheduler tries again when nodes or pods change.",),
        advice="Lower the requests, relax selectors and tolerations, or add a node.",
        field=("spec",),
        events=("FailedScheduling", "NotTriggerScaleUp", "Preempted"),
        docs=_DOCS + "concepts/scheduling-eviction/kube-scheduler/",
    ),
)
