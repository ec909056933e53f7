"""A pod's health: healthy, waiting, failing, and how long a restart counts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import T0, ctr, make_pod, sidecar

from podtui.api.health import LONGEST_TRIAL, STABLE_SECONDS, Health, pod_health
from podtui.api.kills import Kill, KillReason, with_kill
from podtui.api.names import KILLS
from podtui.api.pods import NEVER_STARTED
from podtui.api.v1 import Pod

NOW = T0.timestamp()
READY = [{"type": "Ready", "status": "True"}]


def at(seconds: float) -> str:
    """RFC 3339, relative to now."""
    return (T0 + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def ended(code: int = 1, *, ran: float = 20.0, ago: float = 30.0, **fields: Any) -> dict[str, Any]:
    times = {"startedAt": at(-ago - ran), "finishedAt": at(-ago), "containerID": "docker://old"}
    return {"terminated": {"exitCode": code, **times, **fields}}


def running(ago: float = 10.0) -> dict[str, Any]:
    return {"running": {"startedAt": at(-ago)}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def status(state: dict[str, Any] | None = None, name: str = "c", **fields: Any) -> dict[str, Any]:
    state = running() if state is None else state
    ready = "running" in state
    base = {"name": name, "image": "", "imageID": "", "ready": ready, "started": ready}
    return {**base, "restartCount": 0, "state": state, **fields}


def restarted(count: int = 1, *, ago: float = 10.0, **end: Any) -> dict[str, Any]:
    """Return a container that was restarted ``ago`` seconds ago."""
    fields: dict[str, Any] = {"ago": ago + 20.0, **end}
    last = ended(**fields)
    return status(running(ago), restartCount=count, lastState=last)


def pod(
    *statuses: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    phase: str = "Running",
    ready: bool = True,
    policy: str = "Always",
    sidecars: bool = False,
    **fields: Any,
) -> Pod:
    make = sidecar if sidecars else ctr
    return make_pod(
        *(ctr(one["name"]) for one in statuses or (status(),)),
        init=tuple(make(one["name"]) for one in init),
        restartPolicy=policy,
        status={
            "phase": phase,
            "conditions": READY if ready else [],
            "containerStatuses": statuses,
            "initContainerStatuses": init,
            **fields,
        },
    )


def deleted(made: Pod) -> Pod:
    meta = msgspec.structs.replace(made.metadata, deletionTimestamp=at(0))
    return msgspec.structs.replace(made, metadata=meta)


@pytest.mark.parametrize(
    ("made", "health", "container"),
    [
        (pod(status()), Health.RUNNING, ""),
        (pod(phase="Pending", ready=False), Health.PENDING, ""),
        (pod(status(waiting("ContainerCreating")), phase="Pending"), Health.PENDING, "c"),
        (pod(status(ready=False), ready=False), Health.NOT_READY, "c"),
        (pod(status(started=False), ready=False), Health.NOT_READY, "c"),
        (pod(status(), ready=False), Health.NOT_READY, ""),  # a readiness gate
        (pod(status(waiting("ImagePullBackOff")), phase="Pending"), Health.FAILING, "c"),
        (pod(status(waiting("CrashLoopBackOff"), restartCount=5)), Health.FAILING, "c"),
        (pod(status(waiting("ContainerCreating"), lastState=ended())), Health.FAILING, "c"),
        (pod(status(ended(1)), phase="Failed", policy="Never"), Health.FAILING, ""),
        (pod(status(ended(1)), status(name="d"), policy="Never"), Health.FAILING, "c"),
        (pod(status(ended(0)), ready=False), Health.FAILING, "c"),
        (pod(status(ended(0)), phase="Succeeded", policy="Never"), Health.COMPLETED, ""),
        (pod(status(ended(0)), policy="OnFailure", ready=False), Health.COMPLETED, ""),
        (
            pod(status(ended(0)), status(name="d"), policy="OnFailure", ready=False),
            Health.RUNNING,
            "",
        ),
        (pod(phase="Unknown"), Health.FAILING, ""),
        (deleted(pod(status(waiting("CrashLoopBackOff")))), Health.TERMINATING, ""),
        (deleted(pod(phase="Failed")), Health.FAILING, ""),
        (pod(status(waiting("PodInitializing")), init=(status(ended(0), "i"),), phase="Pending"),
         Health.INIT, "c"),
        (pod(status(waiting("PodInitializing")), init=(status(name="i"),), phase="Pending"),
         Health.INIT, "i"),
        (pod(status(waiting("PodInitializing")), init=(status(ended(2), "i"),), phase="Pending"),
         Health.FAILING, "i"),
        (pod(status(), init=(status(waiting("CrashLoopBackOff"), "s"),), sidecars=True),
         Health.FAILING, "s"),
        (pod(status(), init=(status(name="s"),), sidecars=True), Health.RUNNING, ""),
    ],
)  # fmt: skip
def test_health(made: Pod, health: Health, container: str) -> None:
    found = pod_health(made, NOW)
    assert (found.health, found.container) == (health, container)


@pytest.mark.parametrize("count", [1, 5, 13])
def test_a_recently_restarted_pod_is_not_healthy(count: int) -> None:
    found = pod_health(pod(restarted(count)), NOW)
    assert (found.health, found.container, found.well) == (Health.RESTARTING, "c", False)
    assert found.until == NOW - 10 + STABLE_SECONDS


def test_a_restarted_pod_becomes_healthy_after_a_long_run() -> None:
    made = pod(restarted(13))
    until = pod_health(made, NOW).until
    assert until is not None
    assert pod_health(made, until - 1).health is Health.RESTARTING
    assert pod_health(made, until).health is Health.RUNNING
    assert pod_health(pod(restarted(1, ago=STABLE_SECONDS)), NOW).health is Health.RUNNING


def test_a_pod_that_fails_every_half_hour_must_run_longer() -> None:
    half_an_hour = 1800.0
    made = pod(restarted(4, ran=half_an_hour))
    assert pod_health(made, NOW).until == NOW - 10 + half_an_hour
    days = pod(restarted(4, ran=3 * 86400.0))
    assert pod_health(days, NOW).until == NOW - 10 + LONGEST_TRIAL
    once = pod(restarted(1, ran=half_an_hour))
    assert pod_health(once, NOW).until == NOW - 10 + STABLE_SECONDS


def test_a_failed_start_does_not_count_as_a_run() -> None:
    never = {"code": 128, "reason": "StartError", "startedAt": NEVER_STARTED}
    made = pod(restarted(4, **never))
    assert pod_health(made, NOW).until == NOW - 10 + STABLE_SECONDS


def test_the_last_container_to_recover_counts() -> None:
    later = {**restarted(1, ago=5.0), "name": "d"}
    found = pod_health(pod(restarted(1, ago=300.0), later), NOW)
    assert (found.container, found.until) == ("d", NOW - 5 + STABLE_SECONDS)


@pytest.mark.parametrize("reason", list(KillReason))
def test_a_requested_restart_is_not_a_failure(reason: KillReason) -> None:
    kill = Kill(id="old", reason=reason)
    made = pod(restarted(1))
    notes = {KILLS: with_kill({}, "c", kill)}
    meta = msgspec.structs.replace(made.metadata, annotations=notes)
    made = msgspec.structs.replace(made, metadata=meta)
    assert pod_health(made, NOW).well is kill.on_purpose
    other = {KILLS: with_kill({}, "c", Kill(id="older", reason=reason))}
    meta = msgspec.structs.replace(made.metadata, annotations=other)
    assert not pod_health(msgspec.structs.replace(made, metadata=meta), NOW).well


def test_a_machine_restart_is_not_a_failure() -> None:
    assert pod_health(pod(restarted(1, code=255, reason="Unknown")), NOW).well


def test_a_finished_init_container_is_not_counted() -> None:
    init = status(ended(0), "i", restartCount=2, lastState=ended(1))
    assert pod_health(pod(status(), init=(init,)), NOW).well


def test_missing_times_are_accepted() -> None:
    last = {"terminated": {"exitCode": 1}}
    made = pod(status({"running": {}}, restartCount=2, lastState=last))
    assert pod_health(made, NOW).health is Health.RUNNING


@given(
    ago=st.integers(0, 10**5),
    ran=st.integers(0, 10**6),
    count=st.integers(1, 50),
    later=st.integers(0, 10**5),
)
def test_an_unchanged_pod_can_only_recover(ago: int, ran: int, count: int, later: int) -> None:
    made = pod(restarted(count, ago=ago, ran=ran))
    now, then = pod_health(made, NOW), pod_health(made, NOW + later)
    assert then.well or not now.well
    if now.until is not None:
        assert NOW - ago + STABLE_SECONDS <= now.until <= NOW - ago + LONGEST_TRIAL
        assert then.well is (now.until <= NOW + later)
