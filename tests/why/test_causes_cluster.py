"""Causes that a cluster has and a single node has not: nobody has taken the pod yet."""

from __future__ import annotations

import pytest
from msgspec import structs
from served import node, pod

from podtui.api.names import CONFIG_SOURCE, MANIFEST_PATH
from podtui.api.v1 import (
    Container,
    Event,
    NodeCondition,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
)
from podtui.why import Diagnosis, Facts, Health, diagnose

SHORT = "0/3 nodes are available: 3 Insufficient cpu. preemption: not helpful."


def said(reason: str, message: str = "", *, node: str = "", phase: str = "Pending") -> Diagnosis:
    condition = PodCondition(type="PodScheduled", status="False", reason=reason, message=message)
    waits = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(
            containers=(Container(name="c", image="a:1"),),
            nodeName=node,
            schedulingGates=(PodSchedulingGate(name="example.com/quota"),),
        ),
        status=PodStatus(phase=phase, conditions=(condition,)),
    )
    event = Event(
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web", namespace="default"),
        reason="FailedScheduling",
        message=SHORT,
        type="Warning",
        count=4,
    )
    return diagnose(Facts(pod=waits, now=0.0, events=(event,)))


def test_no_node_takes_it() -> None:
    found = said("Unschedulable", SHORT)
    assert (found.cause, found.health) == ("Unschedulable", Health.BROKEN)
    assert found.title == f"No node takes it: {SHORT}"
    assert [one.text for one in found.evidence] == [f"FailedScheduling: {SHORT}"]


def test_a_gate_is_named() -> None:
    found = said("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    assert found.cause == "SchedulingGated"
    assert found.title == "It waits at a gate before the scheduler: example.com/quota."


@pytest.mark.parametrize(
    ("annotations", "cause"),
    [
        ({CONFIG_SOURCE: "file"}, "NodeLost"),
        ({CONFIG_SOURCE: "file", MANIFEST_PATH: "/pods/web.yaml"}, "EngineLost"),
    ],
)
def test_a_node_that_is_gone(annotations: dict[str, str], cause: str) -> None:
    gone = NodeCondition(type="Ready", status="Unknown", message="Kubelet stopped posting.")
    home = structs.replace(node("n1"), status=structs.replace(node().status, conditions=(gone,)))
    web = pod("web")
    web = structs.replace(web, metadata=structs.replace(web.metadata, annotations=annotations))
    found = diagnose(Facts(pod=web, now=0.0, node=home))
    assert found.cause == cause
    assert "Kubelet stopped posting" in found.title


@pytest.mark.parametrize("more", [{"node": "n1"}, {"phase": "Failed"}])
def test_what_a_node_has_taken_is_not_judged_by_it(more: dict[str, str]) -> None:
    assert said("Unschedulable", SHORT, **more).cause != "Unschedulable"
