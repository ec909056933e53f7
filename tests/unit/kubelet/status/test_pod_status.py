"""Statuses: phases, container states and conditions, and recordings of a real kubelet."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from pod_builders import (
    at,
    box,
    created,
    ctr,
    down,
    make_pod,
    probes,
    seen,
    sidecar,
    unknown,
    up,
)

from podtui.api.v1 import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodStatus,
)
from podtui.kubelet.status.container_status import PodView
from podtui.kubelet.status.pod_status import (
    deadline,
    final_status,
    merge_readiness,
    past_deadline,
    pod_status,
    rejected_status,
    status_ended_by,
)
from podtui.kubelet.types import AdmitResult, NodeContext, ObservedPod, ProbeView

PROBE = {"exec": {"command": ["true"]}}


def status(
    pod: Pod,
    observed: ObservedPod,
    view: ProbeView | None = None,
    *,
    now: float = 10,
    terminal: bool = False,
    node: NodeContext | None = None,
    **fields: Any,
) -> PodStatus:
    pod_view = PodView(observed=observed, probes=view or ProbeView(), **fields)
    return pod_status(pod, pod_view, node or NodeContext(), now=at(now), terminal=terminal)


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def condition(result: PodStatus, kind: str) -> tuple[str, str, str]:
    entry = next(entry for entry in result.conditions if entry.type == kind)
    return entry.status, entry.reason, entry.message


def container_of(result: PodStatus, name: str = "c") -> Any:
    every = (*result.initContainerStatuses, *result.containerStatuses)
    return next(container for container in every if container.name == name)


# --- as a kubelet reported it (the README of the recordings says how)


def test_golden_plain():
    pod = make_pod(ctr("main", image="docker.io/library/busybox:latest"))
    seen_it = seen(
        up(
            "main",
            id="22e1",
            image="docker.io/library/busybox:latest",
            image_id="sha256:8cb1",
            started_at=at(3),
        ),
        sandboxes=(box(ips=("10.88.0.3",)),),
    )
    stamp = "2026-01-02T03:04:15Z"

    def true(kind: str) -> dict[str, Any]:
        return {
            "type": kind,
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": stamp,
        }

    assert wire(status(pod, seen_it, node=NodeContext(runtime_name="containerd"))) == {
        "phase": "Running",
        "conditions": [
            true(kind)
            for kind in (
                "PodReadyToStartContainers",
                "Initialized",
                "Ready",
                "ContainersReady",
                "PodScheduled",
            )
        ],
        "podIP": "10.88.0.3",
        "podIPs": [{"ip": "10.88.0.3"}],
        "startTime": stamp,
        "containerStatuses": [
            {
                "name": "main",
                "state": {"running": {"startedAt": "2026-01-02T03:04:08Z"}},
                "lastState": {},
                "ready": True,
                "restartCount": 0,
                "image": "docker.io/library/busybox:latest",
                "imageID": "sha256:8cb1",
                "containerID": "containerd://22e1",
                "started": True,
                "resources": {},
            }
        ],
        "qosClass": "BestEffort",
        "resources": {},
    }


def test_golden_before_anything_runs():
    pod = make_pod(ctr("main", volumeMounts=[{"name": "d", "mountPath": "/d"}]))
    result = status(pod, seen(sandboxes=()))
    assert result.phase == "Pending"
    assert condition(result, "PodReadyToStartContainers") == ("False", "", "")
    assert condition(result, "Initialized") == ("True", "", "")
    unready = ("False", "ContainersNotReady", "containers with unready status: [main]")
    assert condition(result, "Ready") == condition(result, "ContainersReady") == unready
    assert wire(result.containerStatuses) == [
        {
            "name": "main",
            "state": {"waiting": {"reason": "ContainerCreating"}},
            "lastState": {},
            "ready": False,
            "restartCount": 0,
            "image": "busybox:1",
            "imageID": "",
            "started": False,
            "volumeMounts": [{"name": "d", "mountPath": "/d"}],
        }
    ]


def test_golden_init_fail():
    pod = make_pod(ctr("main"), init=(ctr("init-a"), ctr("init-b")))
    result = status(
        pod,
        seen(down("init-a", 3, count=3), down("init-a", 3, count=2)),
    )
    assert result.phase == "Pending"
    assert condition(result, "Initialized") == (
        "False",
        "ContainersNotInitialized",
        "containers with incomplete status: [init-a init-b]",
    )
    assert condition(result, "Ready") == (
        "False",
        "ContainersNotReady",
        "containers with unready status: [main]",
    )
    first, second = result.initContainerStatuses
    assert first.state.terminated is not None
    assert first.lastState.terminated is not None
    assert (first.restartCount, first.ready, first.started) == (3, False, False)
    assert wire(second.state) == {"waiting": {"reason": "PodInitializing"}}
    assert wire(container_of(result, "main").state) == {"waiting": {"reason": "PodInitializing"}}


def test_golden_init_ok_while_the_first_runs():
    result = status(make_pod(init=(ctr("init-a"), ctr("init-b"))), seen(up("init-a")))
    first = result.initContainerStatuses[0]
    assert (first.ready, first.started) == (False, True)
    done = status(make_pod(init=(ctr("init-a"),)), seen(up(), down("init-a")))
    first = done.initContainerStatuses[0]
    assert (first.ready, first.started) == (True, False)
    assert condition(done, "Initialized") == ("True", "", "")


def test_golden_sidecar():
    pod = make_pod(ctr("main"), init=(sidecar(), ctr("init-b")))
    result = status(pod, seen(up("main"), up("side"), down("init-b")))
    assert result.phase == "Running"
    assert condition(result, "Ready") == ("True", "", "")
    assert [
        (container.name, container.ready, container.started)
        for container in result.initContainerStatuses
    ] == [
        ("side", True, True),
        ("init-b", True, False),
    ]


def test_golden_liveness_fail_in_back_off():
    message = "back-off 20s restarting failed container=c pod=web-n1_default(u1)"
    result = status(make_pod(), seen(down(count=3)), waiting={"c": ("CrashLoopBackOff", message)})
    assert result.phase == "Running"
    container = container_of(result)
    assert wire(container.state) == {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
    assert container.lastState.terminated.exitCode == 0
    assert (container.restartCount, container.ready, container.started) == (3, False, False)
    assert container.containerID == "docker://c-3"


def test_golden_oom_and_its_resources():
    limits = {"limits": {"memory": "32Mi"}, "requests": {"memory": "32Mi"}}
    pod = make_pod(ctr(resources=limits))
    end = {"reason": "OOMKilled"}
    result = status(pod, seen(down("c", 137, count=2, **end), down("c", 137, count=1, **end)))
    container = container_of(result)
    assert result.phase == "Running"
    assert result.qosClass == "Burstable"
    assert container.state.terminated.reason == container.lastState.terminated.reason == "OOMKilled"
    assert wire(container.resources) == wire(result.resources) == limits
    assert container.allocatedResources == result.allocatedResources == {"memory": "32Mi"}


def test_golden_mounts_of_a_reader():
    mounts = [{"name": "d", "mountPath": "/d", "readOnly": True}]
    result = status(make_pod(ctr(volumeMounts=mounts)), seen(up()))
    assert wire(container_of(result).volumeMounts) == [
        {"name": "d", "mountPath": "/d", "readOnly": True, "recursiveReadOnly": "Disabled"}
    ]


@pytest.mark.parametrize(
    ("mode", "supported", "shown"),
    [
        ("", True, "Disabled"),
        ("Disabled", True, "Disabled"),
        ("IfPossible", True, "Enabled"),
        ("IfPossible", False, "Disabled"),
        ("Enabled", True, "Enabled"),
        ("Enabled", False, "Disabled"),
    ],
)
def test_recursive_read_only_status_of_a_mount(mode, supported, shown):
    mount = {"name": "d", "mountPath": "/d", "readOnly": True, "recursiveReadOnly": mode}
    result = status(
        make_pod(ctr(volumeMounts=[mount])),
        seen(up()),
        node=NodeContext(recursive_read_only=supported),
    )
    assert container_of(result).volumeMounts[0].recursiveReadOnly == shown


def test_golden_nonroot():
    waiting = {"c": ("CreateContainerConfigError", "container has runAsNonRoot and …")}
    result = status(make_pod(), seen(), waiting=waiting)
    assert result.phase == "Pending"
    assert wire(container_of(result)) == {
        "name": "c",
        "state": {
            "waiting": {
                "reason": "CreateContainerConfigError",
                "message": "container has runAsNonRoot and …",
            }
        },
        "lastState": {},
        "ready": False,
        "restartCount": 0,
        "image": "busybox:1",
        "imageID": "",
        "started": False,
    }


@pytest.mark.parametrize("case", ["never-exit0", "never-exit1"])
def test_golden_ends(case):
    """Cases 21 and 22."""
    code = 0 if case == "never-exit0" else 1
    pod = make_pod(restartPolicy="Never")
    running = status(pod, seen(up()))
    ended = status(pod, seen(down("c", code, message="boom\n")), previous=running, now=20)
    last = status(
        pod,
        seen(down("c", code), sandboxes=(box(ready=False),)),
        previous=ended,
        now=30,
        terminal=True,
    )
    assert ended.phase == last.phase == ("Failed" if code else "Succeeded")
    assert container_of(ended).state.terminated.message == "boom\n"
    reason = "PodFailed" if code else "PodCompleted"
    assert condition(last, "Ready") == ("False", reason, "")
    assert condition(last, "ContainersReady") == ("False", reason, "")
    assert condition(last, "Initialized") == ("True", "" if code else "PodCompleted", "")
    assert condition(last, "PodReadyToStartContainers") == ("False", "", "")
    assert last.podIP == "10.0.0.7"
    assert container_of(last).state.terminated.reason == ("Error" if code else "Completed")


# --- phase


@pytest.mark.parametrize(
    ("policy", "containers", "expected"),
    [
        ("Always", [up("a"), up("b")], "Running"),
        ("Always", [up("a")], "Pending"),
        ("Always", [up("a"), down("b", 1)], "Running"),
        ("Always", [down("a"), down("b")], "Running"),
        ("Always", [up("a"), created("b")], "Pending"),
        ("OnFailure", [down("a"), down("b")], "Succeeded"),
        ("OnFailure", [down("a"), down("b", 1)], "Running"),
        ("Never", [down("a"), down("b")], "Succeeded"),
        ("Never", [down("a"), down("b", 1)], "Failed"),
        ("Never", [down("a"), up("b")], "Running"),
        ("Never", [], "Pending"),
    ],
)
def test_phase_of_two_containers(policy, containers, expected):
    pod = make_pod(ctr("a"), ctr("b"), restartPolicy=policy)
    assert status(pod, seen(*containers)).phase == expected


def test_case_41_one_container_runs_and_one_never_started():
    pod = make_pod(ctr("a"), ctr("b"))
    waiting = {"b": ("ImagePullBackOff", 'Back-off pulling image "x"')}
    result = status(pod, seen(up("a")), waiting=waiting)
    assert result.phase == "Pending"
    assert condition(result, "Ready") == (
        "False",
        "ContainersNotReady",
        "containers with unready status: [b]",
    )


def test_case_36_all_in_back_off_is_running():
    back_off = ("CrashLoopBackOff", "back-off 10s restarting failed container=c")
    assert status(make_pod(), seen(down("c", 1)), waiting={"c": back_off}).phase == "Running"


def test_case_52_init_failed_permanently():
    pod = make_pod(init=(ctr("i"),), restartPolicy="Never")
    result = status(pod, seen(down("i", 1)))
    assert result.phase == "Failed"
    assert condition(result, "Ready") == ("False", "PodFailed", "")
    back_off = {"i": ("CrashLoopBackOff", "…")}
    pod = make_pod(init=(ctr("i"),))
    again = status(pod, seen(down("i", 1, count=2)), waiting=back_off)
    assert again.phase == "Pending"
    assert again.initContainerStatuses[0].state.waiting is not None


def test_case_55_the_end_of_a_sidecar_does_not_affect_the_phase():
    pod = make_pod(init=(sidecar(),), restartPolicy="Never")
    assert status(pod, seen(down(), up("side"))).phase == "Running"
    assert status(pod, seen(down(), down("side", 137))).phase == "Succeeded"
    assert status(pod, seen(down("c", 1), down("side"))).phase == "Failed"


def test_case_53_a_sidecar_that_has_not_started_keeps_the_pod_pending():
    pod = make_pod(init=(sidecar(startupProbe=PROBE),))
    assert status(pod, seen(up("side"))).phase == "Pending"
    # After the app was created, a sidecar that has not started no longer does.
    assert status(pod, seen(up("side"), up())).phase == "Running"


@pytest.mark.parametrize(("static", "phase"), [(True, "Running"), (False, "Failed")])
def test_the_final_status_of_a_removed_pod(static, phase):
    result = status(make_pod(static=static), seen(down("c", 137)), terminal=True)
    assert result.phase == phase


def test_case_59_restart_rules_determine_the_phase():
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    pod = make_pod(ctr(restartPolicy="Never", restartPolicyRules=[rule]), restartPolicy="Never")
    assert status(pod, seen(down("c", 42))).phase == "Running"
    assert status(pod, seen(down("c", 1))).phase == "Failed"


PHASES = st.sampled_from(["Succeeded", "Failed"])
ONE = st.sampled_from([up, down, created, unknown])


@given(
    PHASES,
    st.lists(ONE, max_size=2),
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.booleans(),
)
@examples(150)
def test_a_terminal_phase_is_kept(phase, makers, policy, terminal):
    pod = make_pod(ctr("a"), ctr("b"), restartPolicy=policy)
    containers = [make(name) for make, name in zip(makers, "ab", strict=False)]
    before = PodStatus(phase=phase, reason="Why", message="because")
    result = status(pod, seen(*containers), previous=before, terminal=terminal)
    assert (result.phase, result.reason, result.message) == (phase, "Why", "because")


def test_a_terminal_phase_of_the_source_is_kept():
    pod = make_pod(status={"phase": "Failed", "reason": "Evicted"})
    result = status(pod, seen(up()))
    assert (result.phase, result.reason) == ("Failed", "Evicted")


# --- deadline


def test_case_24_the_deadline():
    pod = make_pod(activeDeadlineSeconds=5)
    before = status(pod, seen(up()), now=0)
    assert status(pod, seen(up()), previous=before, now=4.9).phase == "Running"
    result = status(pod, seen(up()), previous=before, now=5)
    assert (result.phase, result.reason, result.message) == (
        "Failed",
        "DeadlineExceeded",
        "Pod was active on the node longer than the specified deadline",
    )
    after = status(pod, seen(down()), previous=result, now=9)
    assert (after.phase, after.reason) == ("Failed", "DeadlineExceeded")
    assert condition(after, "Ready") == ("False", "PodFailed", "")


def test_a_deadline_is_not_early_because_of_truncated_seconds():
    seen_at = {"kubernetes.io/config.seen": "2026-01-02T03:04:05.900000001Z"}
    pod = make_pod(activeDeadlineSeconds=5, metadata={"annotations": seen_at})
    before = PodStatus(startTime="2026-01-02T03:04:05Z")
    assert not past_deadline(pod, before, at(5.8))
    assert past_deadline(pod, before, at(5.91))
    # A time in another second is ignored: it belongs to an earlier start of the pod.
    later = PodStatus(startTime="2026-01-02T03:05:05Z")
    assert deadline(pod, later) == at(65)


def test_pods_without_a_deadline():
    assert deadline(make_pod(), PodStatus(startTime="2026-01-02T03:04:05Z")) is None
    assert deadline(make_pod(activeDeadlineSeconds=1), None) is None


# --- container states


def test_created_is_waiting_without_a_reason():
    assert wire(container_of(status(make_pod(), seen(created()))).state) == {"waiting": {}}


def test_a_crash_shows_as_terminated_until_a_failed_start_is_known():
    container = container_of(status(make_pod(), seen(down("c", 1))))
    assert container.state.terminated.exitCode == 1
    assert wire(container.lastState) == {}


def test_a_failed_start_began_at_the_zero_time():
    failed = down("c", 128, reason="StartError", started_at=None)
    terminated = wire(container_of(status(make_pod(), seen(failed))).state)["terminated"]
    assert (terminated["reason"], terminated["startedAt"]) == ("StartError", "1970-01-01T00:00:00Z")
    assert (
        terminated["finishedAt"]
        == wire(container_of(status(make_pod(), seen(down()))).state)["terminated"]["finishedAt"]
    )


def test_a_running_container_hides_failures_of_earlier_starts():
    container = container_of(
        status(make_pod(), seen(up()), waiting={"c": ("CrashLoopBackOff", "x")})
    )
    assert container.state.running is not None


def test_a_container_that_is_not_restarted_hides_start_failures():
    pod = make_pod(restartPolicy="Never")
    container = container_of(
        status(pod, seen(down("c", 1)), waiting={"c": ("CrashLoopBackOff", "x")})
    )
    assert container.state.terminated is not None


def test_a_running_container_that_disappeared():
    pod = make_pod()
    before = status(pod, seen(up(count=2)))
    container = container_of(status(pod, seen(), previous=before))
    assert wire(container.state) == {"waiting": {"reason": "ContainerCreating"}}
    assert container.lastState.terminated.exitCode == 137
    assert container.lastState.terminated.reason == "ContainerStatusUnknown"
    assert container.lastState.terminated.message == (
        "The container could not be located when the pod was deleted."
        "  The container used to be Running"
    )
    assert container.restartCount == 3
    again = container_of(status(pod, seen(), previous=status(pod, seen(), previous=before)))
    assert again.restartCount == 3


def test_the_end_of_a_removed_container_is_kept():
    pod = make_pod(restartPolicy="Never")
    before = status(pod, seen(down("c", 3)))
    result = status(pod, seen(), previous=before)
    assert container_of(result).state.terminated.exitCode == 3
    assert result.phase == "Failed"


def test_unknown_after_running():
    pod = make_pod()
    before = status(pod, seen(up(count=1)))
    container = container_of(status(pod, seen(unknown(count=1)), previous=before))
    assert container.state.terminated.exitCode == 137
    assert container.state.terminated.message == (
        "The container could not be located when the pod was terminated"
    )
    assert container.restartCount == 2


def test_unknown_from_the_start_is_waiting():
    assert wire(container_of(status(make_pod(), seen(unknown()))).state) == {"waiting": {}}


def test_case_57_a_removed_init_container_counts_as_done():
    result = status(make_pod(init=(ctr("i"),)), seen(up()))
    container = container_of(result, "i")
    assert container.state.terminated.exitCode == 0
    assert container.state.terminated.reason == "Completed"
    assert container.state.terminated.message == (
        "Unable to get init container status from container runtime and pod has been"
        " initialized, treat it as exited normally"
    )
    assert container.ready
    assert condition(result, "Ready") == ("True", "", "")
    vanished = container_of(status(make_pod(init=(sidecar(),)), seen(up())), "side")
    assert vanished.state.waiting is not None


def test_regular_statuses_are_by_name_and_init_ones_as_written():
    pod = make_pod(ctr("b"), ctr("a"), init=(ctr("z"), ctr("y")))
    result = status(pod, seen())
    assert [container.name for container in result.containerStatuses] == ["a", "b"]
    assert [container.name for container in result.initContainerStatuses] == ["z", "y"]


def test_last_state_survives_its_container():
    pod = make_pod()
    before = status(pod, seen(up(count=1), down("c", 5)))
    container = container_of(status(pod, seen(up(count=1)), previous=before))
    assert container.lastState.terminated.exitCode == 5


def test_messages_share_12_kib():
    pod = make_pod(ctr("a"), ctr("b"), init=(ctr("i"),))
    result = status(pod, seen(down("a", 1, message="é" * 4096), down("i"), up("b")))
    message = container_of(result, "a").state.terminated.message
    assert len(message.encode()) == 4096
    assert set(message) == {"é"}


# --- ready and started


@pytest.mark.parametrize(
    ("probe", "view", "ready", "started"),
    [
        ({}, {}, True, True),
        ({"readinessProbe": PROBE}, {}, False, True),
        ({"readinessProbe": PROBE}, {"readiness": {"c-0": "Success"}}, True, True),
        ({"readinessProbe": PROBE}, {"readiness": {"c-0": "Failure"}}, False, True),
        ({"readinessProbe": PROBE}, {"readiness": {"c-9": "Success"}}, False, True),
        ({"startupProbe": PROBE}, {}, False, False),
        ({"startupProbe": PROBE}, {"startup": {"c-0": "Unknown"}}, False, False),
        ({"startupProbe": PROBE}, {"startup": {"c-0": "Success"}}, True, True),
        (
            {"startupProbe": PROBE, "readinessProbe": PROBE},
            {"startup": {"c-0": "Unknown"}, "readiness": {"c-0": "Success"}},
            False,
            False,
        ),
        ({"livenessProbe": PROBE}, {"liveness": {"c-0": "Failure"}}, True, True),
    ],
)
def test_ready_and_started(probe, view, ready, started):
    container = container_of(status(make_pod(ctr(**probe)), seen(up()), probes(**view)))
    assert (container.ready, container.started) == (ready, started)


def test_a_stopped_container_is_neither_ready_nor_started():
    view = probes(startup={"c-0": "Success"}, readiness={"c-0": "Success"})
    container = container_of(status(make_pod(ctr(readinessProbe=PROBE)), seen(down()), view))
    assert (container.ready, container.started) == (False, False)


def test_a_started_container_stays_so_without_a_result():
    pod = make_pod(ctr(startupProbe=PROBE))
    before = status(pod, seen(up()), probes(startup={"c-0": "Success"}))
    assert container_of(status(pod, seen(up()), previous=before)).started
    assert not container_of(status(pod, seen(up(count=1)), previous=before)).started


# --- conditions


def test_conditions_keep_their_time_until_their_status_changes():
    pod = make_pod()
    first = status(pod, seen(), now=0)
    same = status(pod, seen(), previous=first, now=60)
    assert same.conditions == first.conditions
    turned = status(pod, seen(up()), previous=same, now=120)
    times = {entry.type: entry.lastTransitionTime for entry in turned.conditions}
    assert times["Ready"] == times["ContainersReady"] == "2026-01-02T03:06:05Z"
    assert times["PodScheduled"] == times["Initialized"] == "2026-01-02T03:04:05Z"
    assert turned.startTime == "2026-01-02T03:04:05Z"


def test_case_105_readiness_gates():
    pod = make_pod(readinessGates=[{"conditionType": "X"}])
    result = status(pod, seen(up()))
    assert condition(result, "ContainersReady") == ("True", "", "")
    assert condition(result, "Ready") == (
        "False",
        "ReadinessGatesNotReady",
        'corresponding condition of pod readiness gate "X" does not exist.',
    )
    for value, expected in (
        ("True", ("True", "", "")),
        (
            "False",
            (
                "False",
                "ReadinessGatesNotReady",
                'the status of pod readiness gate "X" is not "True", but False',
            ),
        ),
    ):
        gate = {"type": "X", "status": value}
        gated = make_pod(readinessGates=[{"conditionType": "X"}], status={"conditions": [gate]})
        result = status(gated, seen(up()))
        assert result.conditions[0].type == "X"
        assert condition(result, "Ready") == expected


def test_foreign_conditions_come_first_and_are_kept():
    pod = make_pod()
    marked = status_ended_by(
        pod, status(pod, seen(up())), reason="Preempting", message="m", disruption="d", now=at(0)
    )
    assert marked.conditions[0].type == "DisruptionTarget"
    assert marked.conditions[0].reason == "TerminationByKubelet"
    assert (marked.phase, marked.reason, marked.message) == ("Failed", "Preempting", "m")
    later = status(pod, seen(down()), previous=marked, now=99)
    assert later.conditions[0] == marked.conditions[0]
    assert (later.phase, later.reason) == ("Failed", "Preempting")


def test_a_succeeded_container_is_not_overridden():
    done = PodStatus(phase="Succeeded")
    assert status_ended_by(make_pod(), done, reason="r", message="m", now=at(0)) is done


def test_a_pod_with_unready_sidecars_names_them_first():
    pod = make_pod(ctr("b"), ctr("a"), init=(sidecar(readinessProbe=PROBE),))
    result = status(pod, seen(up("side")))
    assert condition(result, "ContainersReady")[2] == ("containers with unready status: [side b a]")


RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [9]}}


def test_case_60_restarting_all_containers():
    pod = make_pod(
        ctr("a", restartPolicy="Never", restartPolicyRules=[RULE]),
        ctr("b"),
        init=(ctr("i"),),
        restartPolicy="Never",
    )
    running = status(pod, seen(up("a"), up("b"), down("i")))
    assert condition(running, "AllContainersRestarting") == ("False", "", "")
    failed = status(pod, seen(down("a", 9), up("b"), down("i")), previous=running)
    assert condition(failed, "AllContainersRestarting") == (
        "True",
        "RestartAllContainersStarted",
        "container exited with restart policy rule",
    )
    assert failed.phase == "Running"
    gone = status(pod, seen(), previous=failed)
    assert gone.phase == "Running"
    assert condition(gone, "Initialized") == ("True", "", "")
    for name in ("a", "b", "i"):
        container = container_of(gone, name)
        assert container.state.waiting.reason == "RestartingAllContainers"
        assert container.restartCount == 1
        assert container.lastState.terminated.reason == "RestartingAllContainers"
        assert container.lastState.terminated.exitCode == 137
    assert condition(gone, "AllContainersRestarting")[0] == "False"
    back = status(
        pod,
        seen(up("a", count=1), up("b", count=1), down("i", count=1)),
        previous=status(pod, seen(up("i", count=1)), previous=gone),
    )
    assert back.phase == "Running"
    assert container_of(back, "b").lastState.terminated.reason == "RestartingAllContainers"
    assert container_of(back, "b").restartCount == 1


def test_pods_without_such_a_rule_have_no_such_condition():
    kinds = [entry.type for entry in status(make_pod(), seen(up())).conditions]
    assert kinds == [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ]


# --- addresses


def test_departure_5_host_addresses_unless_strict():
    hosts = ("192.0.2.2", "2001:db8::2")
    result = status(make_pod(), seen(up()), node=NodeContext(host_ips=hosts))
    assert (result.hostIP, [ip.ip for ip in result.hostIPs]) == ("192.0.2.2", list(hosts))
    strict = status(make_pod(), seen(up()), node=NodeContext(host_ips=hosts, strict=True))
    assert (strict.hostIP, strict.hostIPs) == ("", ())


def test_case_101_host_network():
    pod = make_pod(hostNetwork=True)
    observed = seen(up(), sandboxes=(box(host_network=True),))
    result = status(pod, observed, node=NodeContext(host_ips=("192.0.2.2",)))
    assert (result.podIP, result.phase) == ("192.0.2.2", "Running")
    assert condition(result, "PodReadyToStartContainers")[0] == "True"
    assert status(pod, observed, node=NodeContext(host_ips=("192.0.2.2",), strict=True)).podIP == ""


def test_pod_ips_stay_until_another_sandbox_is_ready():
    pod = make_pod()
    before = status(pod, seen(up()))
    gone = seen(down(), sandboxes=(box(ready=False),))
    for terminal in (False, True):
        assert status(pod, gone, previous=before, terminal=terminal).podIP == "10.0.0.7"
    nothing = status(pod, seen(), previous=before)
    assert (nothing.podIP, [ip.ip for ip in nothing.podIPs]) == ("10.0.0.7", ["10.0.0.7"])
    again = seen(up(), sandboxes=(box(1, ips=("10.0.0.8",)), box(ready=False)))
    assert status(pod, again, previous=before).podIP == "10.0.0.8"


def test_pod_ips_of_a_dead_sandbox_survive_a_restart_of_the_kubelet():
    pod = make_pod()
    before = status(pod, seen(up()))
    gone = seen(down(), sandboxes=(box(ready=False),))
    assert status(pod, gone, recorded=before).podIP == "10.0.0.7"
    assert status(pod, seen(up()), recorded=before, previous=PodStatus()).podIP == "10.0.0.7"
    assert status(pod, gone, recorded=before, previous=PodStatus()).podIP == ""


# --- rejected, terminated, readiness


def test_case_26_a_rejected_pod():
    verdict = AdmitResult(admitted=False, reason="NodePorts", message="Predicate NodePorts failed")
    assert wire(rejected_status(make_pod(), verdict, at(0))) == {
        "phase": "Failed",
        "reason": "NodePorts",
        "message": "Pod was rejected: Predicate NodePorts failed",
        "qosClass": "BestEffort",
        "startTime": "2026-01-02T03:04:05Z",
    }


@pytest.mark.parametrize("static", [True, False])
def test_terminated_status_leaves_no_container_without_an_end(static):
    pod = make_pod(ctr("a"), ctr("b"), static=static)
    last = final_status(pod, status(pod, seen(up("a"), down("b", 3))))
    a, b = last.containerStatuses
    assert a.state.terminated is not None
    assert a.state.terminated.exitCode == 137
    assert a.state.terminated.message == (
        "The container could not be located when the pod was terminated"
    )
    assert not a.ready
    assert b.state.terminated is not None
    assert b.state.terminated.exitCode == 3
    assert last.phase == ("Running" if static else "Failed")


def test_terminated_status_of_a_pod_that_never_got_past_init():
    pod = make_pod(init=(ctr("i"), ctr("j")))
    last = final_status(pod, status(pod, seen(up("i"))))
    first, second = last.initContainerStatuses
    assert first.state.terminated is not None
    assert second.state.waiting is not None
    assert last.containerStatuses[0].state.waiting is not None


def test_regular_containers_stay_waiting_after_the_only_init_container_failed():
    """hasPodInitialized requires that the last init container exited with 0."""
    pod = make_pod(init=(ctr("i"),), restartPolicy="Never")
    last = final_status(pod, status(pod, seen(down("i", 3)), terminal=True))
    assert last.phase == "Failed"
    assert last.initContainerStatuses[0].state.terminated.exitCode == 3
    waiting = last.containerStatuses[0].state.waiting
    assert waiting is not None
    assert waiting.reason == "PodInitializing"


def _with_status(pod, last_init, *regular):
    reported = PodStatus(initContainerStatuses=(last_init,), containerStatuses=regular)
    return msgspec.structs.replace(pod, status=reported)


def _reported(name, *, started=None, last=None, **state):
    return ContainerStatus(
        name=name,
        image="busybox",
        imageID="",
        ready=False,
        restartCount=0,
        started=started,
        state=ContainerState(**state),
        lastState=ContainerState(terminated=last),
    )


_WAITING = ContainerStateWaiting(reason="PodInitializing")
_RUNNING = ContainerStateRunning(startedAt="2026-01-02T03:04:05Z")


@pytest.mark.parametrize(
    ("sidecar", "reported", "initialized"),
    [
        (False, _reported("i", terminated=ContainerStateTerminated(exitCode=0)), True),
        (False, _reported("i", terminated=ContainerStateTerminated(exitCode=1)), False),
        (
            False,
            _reported("i", waiting=_WAITING, last=ContainerStateTerminated(exitCode=0)),
            True,
        ),
        (False, _reported("i", running=_RUNNING, started=True), False),
        (True, _reported("i", running=_RUNNING, started=True), True),
        (True, _reported("i", running=_RUNNING, started=False), False),
        (True, _reported("i", terminated=ContainerStateTerminated(exitCode=0)), False),
    ],
)
def test_initialized_uses_the_sources_status_of_the_last_init_container(
    sidecar, reported, initialized
):
    init = ctr("i", restartPolicy="Always") if sidecar else ctr("i")
    pod = make_pod(init=(init,), static=False)
    last = final_status(_with_status(pod, reported), status(pod, seen(down("i", 3))))
    assert (last.containerStatuses[0].state.terminated is not None) is initialized


def test_a_pod_is_initialized_once_a_regular_container_left_its_waiting_state():
    pod = make_pod(init=(ctr("i"),), static=False)
    failed = _reported("i", terminated=ContainerStateTerminated(exitCode=1))
    running = _reported("c", running=_RUNNING)
    source = _with_status(pod, failed, running)
    last = final_status(source, status(pod, seen(down("i", 1))))
    assert last.containerStatuses[0].state.terminated is not None


def test_the_first_init_container_ends_without_having_started():
    pod = make_pod(init=(ctr("i"), ctr("j")))
    last = final_status(pod, status(pod, seen()))
    first, second = last.initContainerStatuses
    assert first.state.terminated is not None
    assert first.state.terminated.reason == "ContainerStatusUnknown"
    assert second.state.waiting is not None


def test_readiness_changes_at_once():
    pod = make_pod(ctr(readinessProbe=PROBE))
    before = status(pod, seen(up()), now=0)
    ready = merge_readiness(pod, before, "docker://c-0", ready=True, now=at(30))
    assert container_of(ready).ready
    assert condition(ready, "Ready") == condition(ready, "ContainersReady") == ("True", "", "")
    times = {entry.type: entry.lastTransitionTime for entry in ready.conditions}
    assert times["Ready"] == "2026-01-02T03:04:35Z"
    assert times["Initialized"] == "2026-01-02T03:04:05Z"
    assert [entry.type for entry in ready.conditions] == [entry.type for entry in before.conditions]
    back = merge_readiness(pod, ready, "docker://c-0", ready=False, now=at(40))
    assert condition(back, "Ready")[1] == "ContainersNotReady"


def test_readiness_of_a_stopped_or_missing_container_changes_nothing():
    pod = make_pod(ctr(readinessProbe=PROBE))
    before = status(pod, seen(down("c", 1)), now=0)
    assert merge_readiness(pod, before, "docker://c-0", ready=True, now=at(9)) == before
    running = status(pod, seen(up()), now=0)
    assert merge_readiness(pod, running, "docker://other", ready=True, now=at(9)) == running


def test_status_is_deterministic():
    pod = make_pod(ctr("a"), init=(ctr("i"),))
    observed = seen(up("a"), down("i"))
    first = status(pod, observed, now=0)
    assert status(pod, observed, previous=first, now=500) == first


@pytest.mark.parametrize(
    ("qos", "resources"),
    [
        ("BestEffort", {}),
        ("Burstable", {"requests": {"cpu": "1"}}),
        (
            "Guaranteed",
            {
                "limits": {"cpu": "1", "memory": "1Gi"},
                "requests": {"cpu": "1000m", "memory": "1024Mi"},
            },
        ),
    ],
)
def test_qos_class_in_the_status(qos, resources):
    assert status(make_pod(ctr(resources=resources)), seen()).qosClass == qos
