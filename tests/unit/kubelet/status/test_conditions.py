"""Edge cases of phases and conditions that runtimes rarely produce."""

from __future__ import annotations

import pytest
from pod_builders import at, created, ctr, down, make_pod, seen, sidecar, unknown, up

from podtui.api.v1 import PodStatus
from podtui.kubelet.status.conditions import pod_conditions
from podtui.kubelet.status.container_status import PodView
from podtui.kubelet.status.phase import pod_phase
from podtui.kubelet.status.pod_status import past_deadline, pod_status
from podtui.kubelet.types import NodeContext, ProbeView

RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}


def reasons(pod, statuses, phase="Pending"):
    conditions = pod_conditions(
        pod,
        statuses,
        phase=phase,
        sandbox_ready=True,
        restarting_all=False,
        previous=(),
        now=at(0),
    )
    return {
        condition.type: (condition.status, condition.reason, condition.message)
        for condition in conditions
    }


def statuses(pod, *containers, previous=None, waiting=None):
    view = PodView(
        observed=seen(*containers), probes=ProbeView(), previous=previous, waiting=waiting or {}
    )
    return pod_status(pod, view, NodeContext(), now=at(0))


def test_without_any_status():
    conditions = reasons(make_pod(init=(ctr("i"),)), ())
    assert conditions["Initialized"] == ("False", "UnknownContainerStatuses", "")
    assert conditions["ContainersReady"] == conditions["Ready"]
    assert conditions["Ready"] == ("False", "UnknownContainerStatuses", "")


def test_with_some_statuses_missing():
    pod = make_pod(ctr("a"), ctr("b"), init=(ctr("i"), ctr("j")))
    complete = statuses(pod)
    some = (complete.initContainerStatuses[0], complete.containerStatuses[0])
    conditions = reasons(pod, some)
    assert conditions["Initialized"] == (
        "False",
        "ContainersNotInitialized",
        "containers with unknown status: [j], containers with incomplete status: [i]",
    )
    assert conditions["ContainersReady"] == (
        "False",
        "ContainersNotReady",
        "containers with unknown status: [b], containers with unready status: [a]",
    )


@pytest.mark.parametrize(
    ("phase", "reason"), [("Succeeded", "PodCompleted"), ("Failed", "PodFailed")]
)
def test_restarting_all_at_the_end(phase, reason):
    pod = make_pod(ctr(restartPolicy="Never", restartPolicyRules=[RULE]))
    conditions = reasons(pod, (), phase)
    assert conditions["AllContainersRestarting"] == ("False", reason, "")


def test_conditions_carry_the_generation():
    pod = make_pod(metadata={"generation": 3})
    status = statuses(pod, up())
    assert status.observedGeneration == 3
    assert {condition.observedGeneration for condition in status.conditions} == {3}
    assert statuses(make_pod(), up()).observedGeneration is None


def test_phases_without_statuses_are_pending():
    assert pod_phase(make_pod(), (), created_in_newest_sandbox=False) == "Pending"
    assert pod_phase(make_pod(init=(sidecar(),)), (), created_in_newest_sandbox=False) == "Pending"


@pytest.mark.parametrize("make", [created, unknown])
def test_a_sidecar_that_never_ran_keeps_the_pod_pending(make):
    pod = make_pod(init=(sidecar(),))
    assert statuses(pod, make("side")).phase == "Pending"


def test_a_sidecar_in_back_off_does_not_keep_the_pod_pending():
    pod = make_pod(init=(sidecar(),))
    waiting = {"side": ("CrashLoopBackOff", "…")}
    status = statuses(pod, up(), down("side", 1), waiting=waiting)
    assert status.phase == "Running"
    assert status.initContainerStatuses[0].state.waiting is not None


def test_case_60_an_init_container_that_was_removed_does_not_fail_the_pod():
    pod = make_pod(
        ctr("a", restartPolicy="Never", restartPolicyRules=[RULE]),
        init=(ctr("i"),),
        restartPolicy="Never",
    )
    failed = statuses(pod, down("a", 9), up("i"))
    gone = statuses(pod, previous=failed)
    assert gone.initContainerStatuses[0].lastState.terminated is not None
    assert gone.phase == "Running"


def test_an_init_container_that_fails_again_does_not_make_a_pod_pending():
    """Its own failure does not count; the regular container that never ran is waiting."""
    pod = make_pod(init=(ctr("i"),))
    assert statuses(pod, down("i", 1)).phase == "Pending"
    assert statuses(pod, down("i", 1), down("c", 1)).phase == "Running"


def test_an_init_container_that_is_stuck_shows_why():
    pod = make_pod(init=(ctr("i"), ctr("j")))
    waiting = {"i": ("RunContainerError", "no such file"), "j": ("Old", "news")}
    first, second = statuses(pod, created("i"), waiting=waiting).initContainerStatuses
    assert first.state.waiting is not None
    assert first.state.waiting.reason == "RunContainerError"
    assert second.state.waiting is not None
    running = statuses(pod, up("i"), waiting=waiting).initContainerStatuses[0]
    assert running.state.running is not None
    done = statuses(pod, up(), down("i", 1), waiting=waiting).initContainerStatuses[0]
    assert done.state.terminated is not None


def test_an_annotation_without_a_valid_time_is_ignored():
    noted = {"kubernetes.io/config.seen": "just now"}
    pod = make_pod(activeDeadlineSeconds=5, metadata={"annotations": noted})
    assert past_deadline(pod, PodStatus(startTime="2026-01-02T03:04:05Z"), at(5))


def test_reasons_are_kept_while_the_phase_is_unchanged():
    before = PodStatus(phase="Running", reason="Why", message="because")
    status = statuses(make_pod(), up(), previous=before)
    assert (status.reason, status.message) == ("Why", "because")
    assert statuses(make_pod(), previous=before).reason == ""
