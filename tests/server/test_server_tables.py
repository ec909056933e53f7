from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import structs

from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Node,
    NodeAddress,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodReadinessGate,
    PodSpec,
    PodStatus,
)
from podtui.server.age import parse_time, short_duration, since
from podtui.server.pod_row import pod_row
from podtui.server.table import NODES

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RUNNING = ContainerState(running=ContainerStateRunning())


def waiting(reason: str) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


def ended(
    code: int, reason: str = "", *, signal: int | None = None, at: str = ""
) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exitCode=code, reason=reason, signal=signal, finishedAt=at or None
        )
    )


def status(
    name: str,
    state: ContainerState,
    *,
    ready: bool = False,
    restarts: int = 0,
    started: bool | None = None,
    last: ContainerState | None = None,
) -> ContainerStatus:
    return ContainerStatus(
        name=name,
        image="i",
        imageID="",
        ready=ready,
        restartCount=restarts,
        started=started,
        state=state,
        lastState=last or ContainerState(),
    )


def pod(
    *containers: ContainerStatus,
    phase: str = "Running",
    init: tuple[ContainerStatus, ...] = (),
    sidecars: tuple[str, ...] = (),
    conditions: tuple[str, ...] = (),
    reason: str = "",
) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="p", creationTimestamp="2026-01-01T00:00:00Z"),
        spec=PodSpec(
            containers=tuple(Container(name=c.name) for c in containers),
            initContainers=tuple(
                Container(name=c.name, restartPolicy="Always" if c.name in sidecars else "")
                for c in init
            ),
        ),
        status=PodStatus(
            phase=phase,
            reason=reason,
            containerStatuses=containers,
            initContainerStatuses=init,
            conditions=tuple(PodCondition(type=name, status="True") for name in conditions),
        ),
    )


@pytest.mark.parametrize(
    ("item", "ready", "words", "restarts"),
    [
        (pod(status("a", RUNNING, ready=True), status("b", RUNNING)), "1/2", "Running", "0"),
        (
            pod(status("a", waiting("ContainerCreating")), phase="Pending"),
            "0/1",
            "ContainerCreating",
            "0",
        ),
        (
            pod(
                status(
                    "a",
                    waiting("CrashLoopBackOff"),
                    restarts=3,
                    last=ended(1, "Error", at="2026-01-01T23:55:00Z"),
                )
            ),
            "0/1",
            "CrashLoopBackOff",
            "3 (5m ago)",
        ),
        (pod(status("a", ended(0, "Completed")), phase="Succeeded"), "0/1", "Completed", "0"),
        (pod(status("a", ended(137, "OOMKilled")), phase="Failed"), "0/1", "OOMKilled", "0"),
        (pod(status("a", ended(3))), "0/1", "ExitCode:3", "0"),
        (pod(status("a", ended(0, signal=9))), "0/1", "Signal:9", "0"),
        (
            pod(
                status("a", ended(0, "Completed")),
                status("b", RUNNING, ready=True),
                conditions=("Ready",),
            ),
            "1/2",
            "Running",
            "0",
        ),
        (
            pod(status("a", ended(0, "Completed")), status("b", RUNNING, ready=True)),
            "1/2",
            "NotReady",
            "0",
        ),
        # The first container's word is the pod's.
        (
            pod(status("a", waiting("ErrImagePull")), status("b", waiting("CrashLoopBackOff"))),
            "0/2",
            "ErrImagePull",
            "0",
        ),
        (
            pod(
                status("a", waiting("PodInitializing")),
                phase="Pending",
                init=(status("i", ended(0)), status("j", RUNNING, restarts=2)),
            ),
            "0/1",
            "Init:1/2",
            "2",
        ),
        (
            pod(
                status("a", waiting("PodInitializing")),
                init=(status("i", waiting("CrashLoopBackOff")),),
            ),
            "0/1",
            "Init:CrashLoopBackOff",
            "0",
        ),
        (
            pod(status("a", waiting("x")), init=(status("i", ended(1, "Error")),)),
            "0/1",
            "Init:Error",
            "0",
        ),
        (
            pod(status("a", waiting("x")), init=(status("i", ended(7)),)),
            "0/1",
            "Init:ExitCode:7",
            "0",
        ),
        (
            pod(
                status("a", RUNNING, ready=True, restarts=1),
                init=(
                    status("i", ended(0), restarts=5),
                    status("s", RUNNING, ready=True, started=True, restarts=2),
                ),
                sidecars=("s",),
                conditions=("Initialized",),
            ),
            "2/2",
            "Running",
            "3",
        ),
        (pod(phase="Failed", reason="Evicted"), "0/0", "Evicted", "0"),
        (pod(phase="Failed", reason="OutOfcpu"), "0/0", "OutOfcpu", "0"),
    ],
)
def test_pod_rows(item: Pod, ready: str, words: str, restarts: str) -> None:
    assert pod_row(item, NOW)[:5] == ["p", ready, words, restarts, "24h"]


@pytest.mark.parametrize(("phase", "words"), [("Running", "Terminating"), ("Failed", "Error")])
def test_a_pod_that_is_being_deleted(phase: str, words: str) -> None:
    item = pod(status("a", RUNNING if phase == "Running" else ended(1, "Error")), phase=phase)
    leaving = structs.replace(item.metadata, deletionTimestamp="2026-01-02T00:00:00Z")
    assert pod_row(structs.replace(item, metadata=leaving), NOW)[2] == words


def test_readiness_gates() -> None:
    item = pod(status("a", RUNNING, ready=True), conditions=("x/one",))
    gates = tuple(PodReadinessGate(conditionType=f"x/{name}") for name in ("one", "two"))
    item = structs.replace(item, spec=structs.replace(item.spec, readinessGates=gates))
    assert pod_row(item, NOW)[-1] == "1/2"


@pytest.mark.parametrize(
    ("ready", "unschedulable", "words"),
    [
        ("True", None, "Ready"),
        ("False", None, "NotReady"),
        ("Unknown", None, "Unknown"),
        ("", None, "Unknown"),
        ("True", True, "Ready,SchedulingDisabled"),
    ],
)
def test_node_rows(ready: str, unschedulable: bool | None, words: str) -> None:
    conditions = (NodeCondition(type="Ready", status=ready),) if ready else ()
    item = Node(
        metadata=ObjectMeta(name="n", labels={"node-role.kubernetes.io/worker": ""}),
        spec=NodeSpec(unschedulable=unschedulable),
        status=NodeStatus(
            conditions=conditions,
            addresses=(
                NodeAddress(type="InternalIP", address="10.0.0.1"),
                NodeAddress(type="InternalIP", address="fd00::1"),
            ),
        ),
    )
    row = NODES.row(item, NOW)
    assert row[1:3] == [words, "worker"]
    assert row[5:7] == ["10.0.0.1", "<none>"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-2, "<invalid>"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (4 * 3600 + 120, "4h2m"),
        (8 * 3600 + 120, "8h"),
        (47 * 3600, "47h"),
        (48 * 3600, "2d"),
        (52 * 3600, "2d4h"),
        (8 * 86400 + 7200, "8d"),
        (729 * 86400, "729d"),
        (731 * 86400, "2y1d"),
        (3000 * 86400, "8y"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert short_duration(seconds) == words


def test_times() -> None:
    assert since(None, NOW) == since("soon", NOW) == "<unknown>"
    assert since("2026-01-01T23:59:00Z", NOW) == "60s"
    assert parse_time("2026-01-01T23:59:00.123456789Z") is not None
    assert parse_time("2026-01-01T23:59:00") is None
    assert parse_time("2026-01-02T01:00:00+01:00") == NOW
