"""The steps of a start."""

from __future__ import annotations

from msgspec import structs
from pod_builders import at, ctr, make_pod

from podtui.api.insight import PodStart, StepKind
from podtui.api.times import rfc3339_micros
from podtui.api.v1 import ContainerState, ContainerStateRunning, ContainerStatus, PodCondition
from podtui.kubelet.events import timelines
from podtui.kubelet.events.timelines import (
    LAST_KEPT,
    STARTS_KEPT,
    begin_step,
    close_start,
    end_step,
)

UP = ContainerState(running=ContainerStateRunning(startedAt=rfc3339_micros(at(1))))


def t(seconds: float) -> str:
    return rfc3339_micros(at(seconds))


def fresh(uid: str = "u1", began: float = 0) -> PodStart:
    return PodStart(uid=uid, began=t(began))


def shown(name: str = "c", *, started: bool = True, ready: bool = True) -> ContainerStatus:
    return ContainerStatus(
        name=name, image="i", imageID="i", restartCount=0, started=started, ready=ready, state=UP
    )


def test_times_sort_chronologically() -> None:
    moments = [0.0, 0.000001, 0.9, 1.0, 59.999999, 60, 86400]
    assert sorted(map(t, moments)) == [t(m) for m in moments]


def test_a_step_has_its_beginning_and_its_end() -> None:
    start = end_step(
        begin_step(fresh(), StepKind.PULL, t(1), "busybox"), StepKind.PULL, t(3), "busybox"
    )
    assert [(s.began, s.ended, s.failed) for s in start.steps] == [(t(1), t(3), False)]


def test_a_running_step_does_not_start_again() -> None:
    start = begin_step(fresh(), StepKind.SANDBOX, t(1))
    assert begin_step(start, StepKind.SANDBOX, t(2)) is start


def test_volumes_are_set_up_once_per_start_unless_failed() -> None:
    done = end_step(begin_step(fresh(), StepKind.VOLUMES, t(1)), StepKind.VOLUMES, t(2))
    assert begin_step(done, StepKind.VOLUMES, t(3)) is done
    lost = end_step(begin_step(fresh(), StepKind.ADMIT, t(1)), StepKind.ADMIT, t(2), failed=True)
    assert len(begin_step(lost, StepKind.ADMIT, t(3)).steps) == 2


def test_an_end_without_a_start_is_ignored() -> None:
    assert end_step(fresh(), StepKind.CREATE, t(2), "c").steps == ()


def test_no_step_ends_before_it_began() -> None:
    """An engine's clock may be behind ours."""
    start = end_step(begin_step(fresh(), StepKind.RUN, t(5), "c"), StepKind.RUN, t(4), "c")
    assert start.steps[0].ended == t(5)


def test_a_crash_loop_keeps_its_first_and_last_runs() -> None:
    start = fresh()
    for number in range(50):
        start = begin_step(start, StepKind.RUN, t(number), "c")
        start = timelines.end_run(start, "c", t(number + 0.5), 1, "Error")
    assert [s.began for s in start.steps] == [t(0), *(t(n) for n in range(50 - LAST_KEPT, 50))]
    assert start.steps[-1].note == "Error, exit code 1"


def test_other_containers_steps_are_not_trimmed_with_them() -> None:
    start = begin_step(fresh(), StepKind.RUN, t(0), "side")
    for number in range(20):
        start = begin_step(start, StepKind.RUN, t(number), "c")
        start = timelines.end_run(start, "c", t(number), 1, "")
    assert start.steps[0].subject == "side"


def test_the_wait_for_readiness_begins_with_the_program() -> None:
    pod = make_pod(ctr(readinessProbe={"exec": {"command": ["true"]}}))
    start = begin_step(fresh(), StepKind.RUN, t(1), "c")
    status = structs.replace(pod.status, containerStatuses=(shown(ready=False),))
    start = timelines.show_status(start, pod, status, t(1))
    assert timelines.show_status(start, pod, status, t(2)) == start
    ready = structs.replace(
        status,
        containerStatuses=(shown(),),
        conditions=(PodCondition(type="Ready", status="True"),),
    )
    start = timelines.show_status(start, pod, ready, t(3))
    step = timelines.last_step(start, StepKind.READY, "c")
    assert step is not None
    assert (step.began, step.ended) == (t(1), t(3))
    assert start.ready == t(3)
    # Readiness may be lost later: this does not belong to the start.
    assert timelines.show_status(start, pod, status, t(9)) == start


def test_the_wait_for_readiness_follows_the_startup_probe() -> None:
    probe = {"exec": {"command": ["true"]}}
    pod = make_pod(ctr(readinessProbe=probe, startupProbe=probe))
    start = begin_step(fresh(), StepKind.RUN, t(1), "c")
    for moment, started, ready in ((1, False, False), (4, True, False), (6, True, True)):
        found = (shown(started=started, ready=ready),)
        status = structs.replace(pod.status, containerStatuses=found)
        start = timelines.show_status(start, pod, status, t(moment))
    steps = [(s.kind, s.began, s.ended) for s in start.steps[1:]]
    assert steps == [(StepKind.STARTUP, t(1), t(4)), (StepKind.READY, t(4), t(6))]


def test_a_terminated_container_ends_the_wait_for_readiness() -> None:
    pod = make_pod(ctr(readinessProbe={"exec": {"command": ["true"]}}))
    start = begin_step(fresh(), StepKind.RUN, t(1), "c")
    status = structs.replace(pod.status, containerStatuses=(shown(ready=False),))
    start = timelines.show_status(start, pod, status, t(1))
    start = timelines.end_run(start, "c", t(5), 137, "OOMKilled")
    assert all(s.ended == t(5) and s.failed for s in start.steps)


def test_a_removed_pod_has_no_running_steps() -> None:
    start = close_start(begin_step(fresh(), StepKind.RUN, t(1), "c"), t(9))
    assert (start.over, start.steps[0].ended) == (t(9), t(9))


def test_a_new_start_closes_the_previous_and_few_are_kept() -> None:
    starts: tuple[PodStart, ...] = ()
    for number in range(10):
        starts = timelines.with_start(starts, fresh(f"u{number}", number))
    assert [s.uid for s in starts] == [f"u{n}" for n in range(9, 9 - STARTS_KEPT, -1)]
    assert [s.over for s in starts] == [None, t(9), t(8), t(7)]


def test_only_pods_removed_a_week_ago_are_dropped() -> None:
    week = timelines.KEPT_SECONDS
    books = {
        ("default", "here"): (fresh(),),
        ("default", "gone"): (close_start(fresh(), t(10)),),
        ("default", "long-gone"): (close_start(fresh(), t(5)),),
    }
    assert timelines.outdated(books, at(week + 7)) == (("default", "long-gone"),)
