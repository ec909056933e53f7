"""Causes that occur only in clusters: pods that are not scheduled yet."""

from __future__ import annotations

import pytest
from msgspec import structs
from served import node, pod

from podtui.api.names import CONFIG_SOURCE, MANIFEST_PATH
from podtui.api.pods import NEVER_STARTED
from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
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
from podtui.why.cases import moment

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


def test_no_node_fits() -> None:
    found = said("Unschedulable", SHORT)
    assert (found.cause, found.health) == ("Unschedulable", Health.BROKEN)
    assert found.title == f"No node fits: {SHORT}"
    assert [one.text for one in found.evidence] == [f"FailedScheduling: {SHORT}"]


def test_a_gate_is_named() -> None:
    found = said("SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
    assert found.cause == "SchedulingGated"
    assert found.title == "It waits for its scheduling gates: example.com/quota."


@pytest.mark.parametrize(
    ("annotations", "cause"),
    [
        ({CONFIG_SOURCE: "file"}, "NodeLost"),
        ({CONFIG_SOURCE: "file", MANIFEST_PATH: "/pods/web.yaml"}, "EngineLost"),
    ],
)
def test_a_removed_node(annotations: dict[str, str], cause: str) -> None:
    gone = NodeCondition(type="Ready", status="Unknown", message="Kubelet stopped posting.")
    home = structs.replace(node("n1"), status=structs.replace(node().status, conditions=(gone,)))
    web = pod("web")
    web = structs.replace(web, metadata=structs.replace(web.metadata, annotations=annotations))
    found = diagnose(Facts(pod=web, now=0.0, node=home))
    assert found.cause == cause
    assert "Kubelet stopped posting" in found.title


@pytest.mark.parametrize("more", [{"node": "n1"}, {"phase": "Failed"}])
def test_a_bound_pod_is_not_judged_by_scheduling(more: dict[str, str]) -> None:
    assert said("Unschedulable", SHORT, **more).cause != "Unschedulable"


def container(state: ContainerState, last: ContainerState | None = None) -> ContainerStatus:
    return ContainerStatus(
        name="c", image="a:1", imageID="", ready=state.running is not None, restartCount=1,
        state=state, lastState=last or ContainerState(),
    )  # fmt: skip


def began(minute: int) -> ContainerState:
    return ContainerState(running=ContainerStateRunning(startedAt=f"2026-01-01T00:{minute:02}:00Z"))


def fell(minute: int) -> ContainerState:
    when = f"2026-01-01T00:{minute:02}:00Z"
    return ContainerState(
        terminated=ContainerStateTerminated(exitCode=3, startedAt=when, finishedAt=when)
    )


def never_started(minute: int) -> ContainerState:
    ended = fell(minute).terminated
    assert ended is not None
    return ContainerState(terminated=structs.replace(ended, exitCode=128, startedAt=NEVER_STARTED))


BACK_OFF = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))


@pytest.mark.parametrize(
    ("statuses", "cause"),
    [
        ((), "SandboxFailed"),
        ((container(ContainerState()),), "SandboxFailed"),
        ((container(BACK_OFF, fell(1)),), "SandboxFailed"),
        ((container(BACK_OFF, fell(9)),), "Fails"),
        ((container(fell(9)),), "Fails"),
        ((container(never_started(9)),), "Fails"),
        ((container(began(1)),), "Healthy"),
        ((container(began(9)),), "Healthy"),
    ],
)
def test_a_kubelet_before_1_29_reports_no_sandbox_condition(
    statuses: tuple[ContainerStatus, ...], cause: str
) -> None:
    """Seen with v1.20: the event of a sandbox that failed once outlives the trouble."""
    failed = Event(
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web", namespace="default"),
        reason="FailedCreatePodSandBox",
        message="Failed to create pod sandbox: no pid",
        type="Warning",
        lastTimestamp="2026-01-01T00:05:00Z",
    )
    runs = any(one.ready for one in statuses)
    web = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(containers=(Container(name="c", image="a:1"),), nodeName="n1"),
        status=PodStatus(
            phase="Running" if runs else "Pending",
            conditions=(PodCondition(type="Ready", status=str(runs)),),
            containerStatuses=statuses,
        ),
    )
    now = moment("2026-01-01T00:10:00Z")
    assert now is not None
    assert diagnose(Facts(pod=web, now=now, events=(failed,))).cause == cause


def test_a_restart_with_the_sandbox_is_not_a_failure_but_recovering() -> None:
    last = ContainerStateTerminated(exitCode=137, finishedAt="2026-01-01T00:00:00Z")
    runs = ContainerStateRunning(startedAt="2026-01-01T00:00:10Z")
    status = ContainerStatus(
        name="c", image="a:1", imageID="", ready=True, started=True, restartCount=1,
        state=ContainerState(running=runs), lastState=ContainerState(terminated=last),
    )  # fmt: skip
    web = Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid="u"),
        spec=PodSpec(containers=(Container(name="c", image="a:1"),)),
        status=PodStatus(
            phase="Running",
            conditions=(PodCondition(type="Ready", status="True"),),
            containerStatuses=(status,),
        ),
    )
    event = Event(
        metadata=ObjectMeta(name="web.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="web", namespace="default", uid="u"),
        reason="SandboxChanged",
        lastTimestamp="2026-01-01T00:00:01Z",
    )
    began = moment("2026-01-01T00:00:10Z")
    assert began is not None
    found = diagnose(Facts(pod=web, now=began + 60, events=(event,)))
    assert (found.cause, found.health) == ("Recovering", Health.WAITING)
    assert diagnose(Facts(pod=web, now=began + 600, events=(event,))).cause == "Healthy"
