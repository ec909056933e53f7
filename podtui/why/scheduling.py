"""Causes of a pod without a node, or whose node is lost. A static pod is bound to its node from the
start; the pods of a cluster wait for the scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from podtui.api.names import MANIFEST_PATH
from podtui.api.places import Path
from podtui.api.v1 import PodCondition
from podtui.why.amounts import (
    allocatable,
    host_ports,
    largest_request,
    plain,
    requested,
)
from podtui.why.node_labels import label_command, labels_to_fit
from podtui.why.types import Facts, Match, Rule

ALIVE = ("Pending", "Running", "Unknown")
_DOCS = "https://kubernetes.io/docs/"
_PREEMPTION: Final = re.compile(
    r" *(?:no new claims to deallocate, )?preemption: |(?<=\.) not found$"
)
_INSUFFICIENT: Final = re.compile(r"Insufficient (\S+?)(?=[,.]? |[,.]?$)")
_CLAIM: Final = re.compile(
    r'persistentvolumeclaim "[^"]*" not found|to create the persistentvolumeclaim "'
)
_NO_CLAIM: Final = "Create the claim, or use another volume type."
_NODE_AFFINITY: Final[Path] = (
    "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution",
)  # fmt: skip
NO_LABEL: Final = "node affinity/selector"
"""Part of the scheduler's reason for a node whose labels do not fit."""
_ONE_NODE: Final = "0/1 nodes are available: 1 "
_NO_REMEDY: Final = "Lower the requests, or relax selectors and tolerations."
_OTHER_NODE: Final = "Lower the requests, relax selectors and tolerations, or add a node."


def _scheduled(facts: Facts) -> PodCondition | None:
    """Return the condition with the reason why the pod is not scheduled; None if it is."""
    if facts.pod.spec.nodeName or facts.pod.status.phase not in ("", "Pending"):
        return None
    conditions = facts.pod.status.conditions
    return next((c for c in conditions if c.type == "PodScheduled" and c.status == "False"), None)


def _gated(facts: Facts) -> Match | None:
    condition = _scheduled(facts)
    if condition is None or condition.reason != "SchedulingGated":
        return None
    gates = ", ".join(gate.name for gate in facts.pod.spec.schedulingGates)
    return Match({"gates": gates or "unknown"})


def _reasons(explained: str) -> str:
    """Return the reasons of the nodes, without the number of nodes if there is only one."""
    if explained.startswith(_ONE_NODE):
        return explained.removeprefix(_ONE_NODE).replace(", 1 ", ", ")
    return explained.partition(": ")[2] or explained


def _unschedulable(facts: Facts) -> Match | None:
    condition = _scheduled(facts)
    if condition is None:
        return None
    # The rest is about preemption, and mostly reports that it does not help.
    message = _PREEMPTION.split(condition.message or condition.reason, maxsplit=1)[0]
    explained = message.strip().rstrip(".") or "the scheduler reported no reason"
    remedies = list(_remedies(facts, message))
    general = _NO_REMEDY if facts.node is not None else _OTHER_NODE
    values = {
        "explained": explained,
        "reasons": _reasons(explained),
        "detail": " ".join(remedy.detail for remedy in remedies).strip(),
        "advice": " ".join(remedy.advice for remedy in remedies) or general,
    }
    return Match(values, remedies[0].field if remedies else None)


@dataclass(frozen=True, slots=True)
class _Remedy:
    """The remedy for one of the scheduler's reasons; ``detail`` compares pod and node."""

    field: Path
    advice: str
    detail: str = ""


def _remedies(facts: Facts, message: str) -> Iterator[_Remedy]:
    node = facts.node.metadata.name if facts.node is not None else "NODE"
    spec = facts.pod.spec
    for resource in dict.fromkeys(_INSUFFICIENT.findall(message)):
        yield _lower(facts, resource)
    if "Too many pods" in message:
        yield _Remedy(("spec",), "Delete other pods, or raise maxPods of the node.")
    if "were unschedulable" in message:
        advice = f"Make the node schedulable again: kubectl uncordon {node}."
        yield _Remedy(("spec", "tolerations"), advice)
    if "untolerated taint" in message:
        taints = facts.node.spec.taints if facts.node is not None else ()
        keys = [
            f"{taint.key}:{taint.effect}" for taint in taints if taint.effect != "PreferNoSchedule"
        ]
        detail = f"The node {node} has the taints {', '.join(keys)}." if keys else ""
        yield _Remedy(
            ("spec", "tolerations"),
            f"Add a toleration, or remove the taint: kubectl taint node {node} KEY-.",
            detail,
        )
    if NO_LABEL in message:
        labels = facts.node.metadata.labels if facts.node is not None else {}
        lacking = [f"{key}={value}" for key, value in spec.nodeSelector.items()
                   if labels.get(key) != value]  # fmt: skip
        field = ("spec", "nodeSelector") if spec.nodeSelector else _NODE_AFFINITY
        wanted = labels_to_fit(facts.pod, facts.node)
        advice = f"{label_command(facts.node, wanted)}, or change" if wanted else "Change"
        yield _Remedy(
            field,
            f"{advice} the {'selector' if spec.nodeSelector else 'affinity'}.",
            f"The node {node} has no label {', '.join(lacking)}."
            if lacking and facts.node is not None
            else "",
        )
    if "free ports" in message:
        yield _other_port(facts)
    if "anti-affinity" in message:
        advice = "Delete the pods that its anti-affinity excludes, or relax the anti-affinity."
        yield _Remedy(("spec", "affinity", "podAntiAffinity"), advice)
    elif "pod affinity rules" in message:
        advice = "Create the pods that its affinity requires, or relax the affinity."
        yield _Remedy(("spec", "affinity", "podAffinity"), advice)
    if "topology spread" in message:
        advice = "Raise maxSkew, or set whenUnsatisfiable to ScheduleAnyway."
        if "missing required label" in message:
            keys = [spread.topologyKey for spread in spec.topologySpreadConstraints]
            labels = facts.node.metadata.labels if facts.node is not None else {}
            lacking = [key for key in keys if key not in labels] or keys
            advice = (
                f"Label the node: kubectl label node {node} {'=VALUE '.join(lacking)}=VALUE."
                " Or set whenUnsatisfiable to ScheduleAnyway."
            )
        yield _Remedy(("spec", "topologySpreadConstraints"), advice)
    if _CLAIM.search(message):
        claim = _NO_CLAIM
        yield _Remedy(("spec", "volumes"), claim)


def _lower(facts: Facts, resource: str) -> _Remedy:
    asks, whole = requested(facts.pod, resource), allocatable(facts.node, resource)
    largest = largest_request(facts.pod, resource)
    field: Path = largest[0] if largest else ("spec", "containers")
    if facts.node is None:
        return _Remedy(field, f"Lower its {resource} request, or add a node.")
    if whole is None:
        return _Remedy(
            field,
            f"Remove its {resource} request, or run the pod on a machine with that resource.",
            f"The node {facts.node.metadata.name} has no {resource}.",
        )
    detail = f"It requests {plain(asks)} of {resource}; the node has {plain(whole)}."
    if asks > whole:
        return _Remedy(field, f"Lower its {resource} request.", detail)
    holders = facts.node_pods.holders(resource, facts.pod)
    held = [f"{name} {plain(amount)}" for name, amount in holders]
    others = f" Other pods request: {', '.join(held)}." if held else ""
    return _Remedy(field, f"Lower its {resource} request, or delete other pods.", detail + others)


def _other_port(facts: Facts) -> _Remedy:
    advice = "Use another hostPort, or delete the pod that uses it."
    for port in host_ports(facts.pod):
        holder = facts.node_pods.port_holder(port, facts.pod)
        if holder:
            return _Remedy(port.path, advice, f"{port.protocol} {port.number} is used by {holder}.")
    return _Remedy(("spec", "containers"), advice)


def _node_lost(facts: Facts) -> Match | None:
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
    return Match({"node": node.metadata.name, "text": text or "no reason is given"})


SCHEDULING: tuple[Rule[Facts], ...] = (
    Rule(
        id="NodeLost",
        match=_node_lost,
        title="Its node {node} is not ready: {text}.",
        brief="node {node} is not ready",
        sentences=("The pod is shown as its kubelet last reported it.",),
        advice="Check the node; controllers recreate their pods on other nodes after some minutes.",
        docs=_DOCS + "concepts/architecture/nodes/#condition",
    ),
    Rule(
        id="SchedulingGated",
        match=_gated,
        title="It waits for its scheduling gates: {gates}.",
        brief="scheduling gates: {gates}",
        sentences=("The component that set the gate must remove it.",),
        field=("spec", "schedulingGates"),
        docs=_DOCS + "concepts/scheduling-eviction/pod-scheduling-readiness/",
    ),
    Rule(
        id="Unschedulable",
        match=_unschedulable,
        title="No node fits: {explained}.",
        brief="{reasons}",
        sentences=("{detail}", "The scheduler tries again when nodes or pods change."),
        advice="{advice}",
        field=("spec",),
        events=("FailedScheduling", "NotTriggerScaleUp", "Preempted"),
        docs=_DOCS + "concepts/scheduling-eviction/kube-scheduler/",
    ),
)
