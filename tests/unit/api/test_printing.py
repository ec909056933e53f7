from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec import structs

from podtui.api.printing import pod_line
from podtui.api.times import parse_time, short_duration, since
from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)

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
        metadata=ObjectMeta(name="p"),
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
    ("item", "ready", "word", "restarts"),
    [
        (pod(status("a", RUNNING, ready=True), status("b", RUNNING)), "1/2", "Running", 0),
        (
            pod(status("a", waiting("ContainerCreating")), phase="Pending"),
            "0/1",
            "ContainerCreating",
            0,
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
            3,
        ),
        (pod(status("a", ended(0, "Completed")), phase="Succeeded"), "0/1", "Completed", 0),
        (pod(status("a", ended(137, "OOMKilled")), phase="Failed"), "0/1", "OOMKilled", 0),
        (pod(status("a", ended(3))), "0/1", "ExitCode:3", 0),
        (pod(status("a", ended(0, signal=9))), "0/1", "Signal:9", 0),
        (
            pod(
                status("a", ended(0, "Completed")),
                status("b", RUNNING, ready=True),
                conditions=("Ready",),
            ),
            "1/2",
            "Running",
            0,
        ),
        (
            pod(status("a", ended(0, "Completed")), status("b", RUNNING, ready=True)),
            "1/2",
            "NotReady",
            0,
        ),
        # The pod shows the status of its first container.
        (
            pod(status("a", waiting("ErrImagePull")), status("b", waiting("CrashLoopBackOff"))),
            "0/2",
            "ErrImagePull",
            0,
        ),
        (
            pod(
                status("a", waiting("PodInitializing")),
                phase="Pending",
                init=(status("i", ended(0)), status("j", RUNNING, restarts=2)),
            ),
            "0/1",
            "Init:1/2",
            2,
        ),
        (
            pod(
                status("a", waiting("PodInitializing")),
                init=(status("i", waiting("CrashLoopBackOff")),),
            ),
            "0/1",
            "Init:CrashLoopBackOff",
            0,
        ),
        (
            pod(status("a", waiting("x")), init=(status("i", ended(1, "Error")),)),
            "0/1",
            "Init:Error",
            0,
        ),
        (
            pod(status("a", waiting("x")), init=(status("i", ended(7)),)),
            "0/1",
            "Init:ExitCode:7",
            0,
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
            3,
        ),
        # A sidecar that failed later blocks nothing, but it determines the word; later containers
        # are ignored.
        (
            pod(
                status("a", RUNNING, ready=True, restarts=1),
                init=(
                    status("s", waiting("CrashLoopBackOff"), started=False, restarts=4),
                    status("t", RUNNING, ready=True, started=True, restarts=2),
                ),
                sidecars=("s", "t"),
                conditions=("Initialized",),
            ),
            "1/3",
            "Init:CrashLoopBackOff",
            5,
        ),
        # A completed container hides no failed one, in any order.
        (
            pod(status("a", ended(0, "Completed")), status("b", ended(1, "Error")), phase="Failed"),
            "0/2",
            "Error",
            0,
        ),
        (
            pod(
                status("a", ended(0, "Completed")),
                status("b", ended(1, "Error")),
                status("c", RUNNING, ready=True),
            ),
            "1/3",
            "Error",
            0,
        ),
        (pod(), "0/0", "Running", 0),
        (pod(phase=""), "0/0", "Pending", 0),
        (pod(phase="Failed", reason="Evicted"), "0/0", "Evicted", 0),
        (pod(phase="Failed", reason="OutOfcpu"), "0/0", "OutOfcpu", 0),
    ],
)
def test_ready_status_and_restarts(item: Pod, ready: str, word: str, restarts: int) -> None:
    line = pod_line(item)
    assert (f"{line.ready}/{line.wanted}", line.word, line.restarts) == (ready, word, restarts)


@pytest.mark.parametrize(
    ("phase", "reason", "word"),
    [
        ("Running", "", "Terminating"),
        ("Failed", "", "Error"),
        ("Running", "NodeLost", "Unknown"),
        ("Failed", "NodeLost", "Unknown"),
    ],
)
def test_a_pod_that_is_being_deleted(phase: str, reason: str, word: str) -> None:
    state = RUNNING if phase == "Running" else ended(1, "Error")
    item = pod(status("a", state), phase=phase, reason=reason)
    leaving = structs.replace(item.metadata, deletionTimestamp="2026-01-02T00:00:00Z")
    assert pod_line(structs.replace(item, metadata=leaving)).word == word


def test_a_pod_with_scheduling_gates() -> None:
    item = pod(phase="Pending")
    gated = PodCondition(type="PodScheduled", status="False", reason="SchedulingGated")
    item = structs.replace(item, status=structs.replace(item.status, conditions=(gated,)))
    assert pod_line(item).word == "SchedulingGated"


def test_the_last_restart_is_the_latest_of_those_that_count() -> None:
    first, later, latest = (f"2026-01-01T0{hour}:00:00Z" for hour in (1, 2, 3))
    item = pod(
        status("a", RUNNING, restarts=1, last=ended(1, at=later)),
        status("b", RUNNING, restarts=1, last=ended(1, at=first)),
        init=(status("i", ended(0), restarts=1, last=ended(1, at=latest)),),
        conditions=("Initialized",),
    )
    assert pod_line(item).last_restart == parse_time(later)
    assert pod_line(pod(status("a", RUNNING, restarts=1))).last_restart is None


def test_init_containers_after_the_running_one_do_not_count() -> None:
    item = pod(
        status("a", waiting("PodInitializing")),
        init=(
            status("s", RUNNING, ready=True, started=True, restarts=1),
            status("i", RUNNING, restarts=2),
            status("t", RUNNING, ready=True, started=True, restarts=4),
        ),
        sidecars=("s", "t"),
    )
    line = pod_line(item)
    assert (line.word, line.ready, line.wanted, line.restarts) == ("Init:1/3", 1, 3, 3)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (-0.5, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (599, "9m59s"),
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
        (8 * 365 * 86400 - 1, "7y364d"),
        (8 * 365 * 86400, "8y"),
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
