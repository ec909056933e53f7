"""Containers that the kubelet stopped: recognized by its record, and on clusters by the counts of
old events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from cause_cases import Scripted, probes
from hypothesis import given
from hypothesis import strategies as st
from kubelet_world import World
from msgspec import structs
from why_world import (
    DiagnosedPod,
    diagnosed_pod,
    fix_index,
    fix_titles,
    fixed,
    manifest_of,
    pod_text,
)

from podtui.api.kills import KillReason, kills_of
from podtui.api.names import KILLS
from podtui.api.v1 import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Event,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodStatus,
)
from podtui.kubelet.prober.handlers import ProbeHandlers
from podtui.kubelet.prober.state import SUCCESS, ProbeKind, ProbeOutcome, failure
from podtui.runtime.memory import Behaviour
from podtui.runtime.memory.images import simulated_image
from podtui.why import Diagnosis, Facts, Health, diagnose

NOT_FOUND = "HTTP probe failed with statuscode: 404"
PROBE = """\
ports: [{containerPort: 8080}]
livenessProbe:
  httpGet: {path: /healthz, port: 8080}
  periodSeconds: 1
  failureThreshold: 2
"""
virtual = pytest.mark.virtual_time


def deaf(kind: ProbeKind = ProbeKind.LIVENESS, text: str = NOT_FOUND) -> World:
    """Run a program that ignores SIGTERM and fails its probe."""
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    probes(kind, text)(world)
    return world


def without_record(facts: Facts) -> Facts:
    """Return the pod as a cluster shows it."""
    meta = facts.pod.metadata
    notes = {key: value for key, value in meta.annotations.items() if key != KILLS}
    pod = structs.replace(facts.pod, metadata=structs.replace(meta, annotations=notes))
    return Facts(pod=pod, now=facts.now, events=facts.events, manifest=facts.manifest)


async def restarted(it: DiagnosedPod, count: int) -> Facts:
    """Wait until the container was restarted so often and has ended once more."""
    for _ in range(4_000):
        await it.world.sleep(5.0)
        facts = await it.facts()
        (status,) = facts.pod.status.containerStatuses
        if status.restartCount >= count and status.state.waiting is not None:
            return facts
    raise AssertionError("never restarted so often")


@virtual
async def test_a_liveness_kill_is_named_despite_rate_limited_events() -> None:
    async with diagnosed_pod(pod_text(PROBE, "terminationGracePeriodSeconds: 2\n"), deaf()) as it:
        facts = await restarted(it, 13)
        kills = sum(e.count or 1 for e in facts.events if e.reason == "Killing")
        assert kills < 13, "the events are limited, or this shows nothing"
        for case_facts in (facts, without_record(facts)):
            diagnosis = diagnose(case_facts)
            assert (diagnosis.cause, diagnosis.health) == ("LivenessKilled", Health.FAILING)
            assert "/healthz does not exist (404)" in diagnosis.title
        witness = [e for e in diagnose(facts).evidence if e.source == "kubelet"]
        assert [(e.count, e.warning) for e in witness] == [(14, True)]
        assert NOT_FOUND in witness[0].text


@virtual
async def test_the_diagnosis_stays_while_the_next_instance_is_being_stopped() -> None:
    async with diagnosed_pod(pod_text(PROBE, "terminationGracePeriodSeconds: 20\n"), deaf()) as it:
        await it.until("LivenessKilled")
        for _ in range(300):
            await it.world.sleep(0.5)
            assert (await it.why()).cause == "LivenessKilled"


@virtual
async def test_the_kill_record_survives_the_agent() -> None:
    async with diagnosed_pod(pod_text(PROBE, "terminationGracePeriodSeconds: 2\n"), deaf()) as it:
        await restarted(it, 5)
        await it.world.stop_kubelet()
        await it.world.start_kubelet()
        await it.world.sleep(1.0)
        facts = await it.facts()
        assert kills_of(facts.pod.metadata.annotations)["c"][0].reason is KillReason.LIVENESS_PROBE
        diagnosis = diagnose(Facts(pod=facts.pod, now=facts.now))  # without any event
        assert diagnosis.cause == "LivenessKilled"
        assert NOT_FOUND in "".join(e.text for e in diagnosis.evidence)


@virtual
async def test_a_startup_kill_is_named_without_any_event() -> None:
    text = pod_text(PROBE.replace("liveness", "startup"), "terminationGracePeriodSeconds: 2\n")
    async with diagnosed_pod(text, deaf(ProbeKind.STARTUP)) as it:
        facts = await restarted(it, 1)
        assert diagnose(Facts(pod=facts.pod, now=facts.now)).cause == "StartupKilled"


@virtual
async def test_the_only_container_under_never_was_stopped_for_its_probe() -> None:
    text = pod_text(PROBE, "terminationGracePeriodSeconds: 2\nrestartPolicy: Never\n")
    async with diagnosed_pod(text, deaf()) as it:
        await it.until("LivenessKilled")
        facts = await it.facts()
        assert kills_of(facts.pod.metadata.annotations)["c"][0].reason is KillReason.LIVENESS_PROBE


@virtual
async def test_a_later_exit_is_not_attributed_to_an_earlier_probe_kill() -> None:
    async with diagnosed_pod(pod_text(PROBE, "terminationGracePeriodSeconds: 2\n"), deaf()) as it:
        await restarted(it, 1)
        it.world.behaviours["c"] = Behaviour(exit_after=0.5, exit_code=3)
        diagnosis = await it.until("Fails", 700.0)
        assert "exited with code 3" in diagnosis.title


@virtual
async def test_a_failed_hook_is_named_after_its_event_expired() -> None:
    text = pod_text(
        "lifecycle:\n  postStart:\n    exec:\n      command: [sh, -c, exit 1]\n",
        "terminationGracePeriodSeconds: 2\n",
    )
    async with diagnosed_pod(text) as it:
        await it.until("PostStartFailed")
        facts = await it.facts()
        assert diagnose(Facts(pod=facts.pod, now=facts.now)).cause == "PostStartFailed"


@virtual
async def test_a_container_replaced_by_the_kubelet_is_reported_as_such() -> None:
    text = pod_text().replace("name: web\n", "name: web\n  uid: fixed\n")
    async with diagnosed_pod(text) as it:
        await it.until("Healthy")
        it.world.engine.images.add(simulated_image("busybox:2"), "busybox:2")
        it.world.engine.faults.hold("create_container")
        it.world.add(DiagnosedPod(it.world, text.replace("busybox:1", "busybox:2")).pod)
        diagnosis = await it.until("Stopped")
        assert "its definition changed" in diagnosis.title
        assert diagnosis.health is Health.NOT_READY
        it.world.engine.faults.release("create_container")
        assert (await it.until("Healthy")).health is Health.RUNNING


# --- what an API server shows


def cluster(
    *events: tuple[str, str, int],
    code: int = 137,
    reason: str = "Error",
    restarts: int = 13,
    about: str = "u",
) -> Diagnosis:
    """Return a pod in back-off whose events are older than its last termination."""
    status = {
        "name": "c",
        "image": "a:1",
        "imageID": "",
        "ready": False,
        "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {
            "terminated": {
                "exitCode": code,
                "reason": reason,
                "startedAt": "2026-01-01T02:00:00Z",
                "finishedAt": "2026-01-01T02:00:05Z",
                "containerID": "containerd://x",
            }
        },
    }
    probe = {"httpGet": {"path": "/healthz", "port": 8080}}
    pod = msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "c", "image": "a:1", "livenessProbe": probe}]},
            "status": {"phase": "Running", "containerStatuses": [status]},
        },
        Pod,
    )
    made = tuple(_event(*event, uid=about) for event in events)
    return diagnose(Facts(pod=pod, now=1767232810.0, events=made))


def _event(reason: str, message: str, count: int, uid: str) -> Event:
    return Event(
        metadata=ObjectMeta(name=f"web.{reason}", namespace="default"),
        involvedObject=ObjectReference(
            kind="Pod", name="web", namespace="default", uid=uid, fieldPath="spec.containers{c}"
        ),
        reason=reason,
        message=message,
        count=count,
        lastTimestamp="2026-01-01T01:00:00Z",
    )


KILLING = "Container c failed liveness probe, will be restarted"
UNHEALTHY = f"Liveness probe failed: {NOT_FOUND}"


@pytest.mark.parametrize(
    ("killing", "unhealthy"),
    [
        (KILLING, UNHEALTHY),
        (f"(combined from similar events): {KILLING}", UNHEALTHY),
        (KILLING, f"(combined from similar events): {UNHEALTHY}"),
    ],
)
def test_counts_of_old_events_name_the_probe(killing: str, unhealthy: str) -> None:
    diagnosis = cluster(("Unhealthy", unhealthy, 21), ("Killing", killing, 7))
    assert diagnosis.cause == "LivenessKilled"
    assert "/healthz does not exist (404)" in diagnosis.title


def test_the_probe_is_named_without_its_output() -> None:
    diagnosis = cluster(("Killing", KILLING, 7))
    assert diagnosis.cause == "LivenessKilled"
    assert "listens" not in diagnosis.title


def test_a_program_that_exits_with_0_on_sigterm_is_recognized() -> None:
    assert cluster(("Killing", KILLING, 7), code=0, restarts=40).cause == "LivenessKilled"
    assert cluster(("Killing", KILLING, 1), code=0, restarts=40).cause == "EndsByDesign"


def test_an_oom_kill_is_not_attributed_to_the_probe() -> None:
    assert cluster(("Killing", KILLING, 7), reason="OOMKilled").cause == "OutOfMemory"


def test_without_evidence_nothing_is_ruled_out() -> None:
    diagnosis = cluster()
    assert diagnosis.cause == "Killed"
    assert "probe" not in "".join((diagnosis.title, *diagnosis.sentences, diagnosis.advice))


def test_events_of_an_earlier_pod_of_that_name_are_ignored() -> None:
    assert cluster(("Killing", KILLING, 7), about="u").cause == "LivenessKilled"
    assert cluster(("Killing", KILLING, 7), about="another").cause == "Killed"


@given(kills=st.integers(1, 50), restarts=st.integers(1, 50), code=st.sampled_from((137, 143)))
def test_a_signal_is_attributed_to_the_probe_kill(kills: int, restarts: int, code: int) -> None:
    diagnosis = cluster(("Killing", KILLING, kills), code=code, restarts=restarts)
    assert diagnosis.cause == "LivenessKilled"


# --- fixes


async def diagnosis_of(text: str, output: str, kind: ProbeKind = ProbeKind.LIVENESS) -> Diagnosis:
    async with diagnosed_pod(text, deaf(kind, output)) as it:
        cause = "LivenessKilled" if kind is ProbeKind.LIVENESS else "StartupKilled"
        return await it.until(cause)


SOON = "terminationGracePeriodSeconds: 2\n"
BY_HAND = "Correct the path in the editor"
WEAKEN = "Weaken the check: test only that port 8080 accepts connections"
REFUSED = "dial tcp 10.0.0.2:8080: connect: connection refused"


@virtual
@pytest.mark.parametrize(
    ("output", "titles"),
    [
        (NOT_FOUND, [BY_HAND, WEAKEN]),
        (
            "HTTP probe failed with statuscode: 401",
            [BY_HAND, WEAKEN],
        ),
        ("HTTP probe failed with statuscode: 503", ["Raise initialDelaySeconds to 30s"]),
        (REFUSED, ["Raise initialDelaySeconds to 30s"]),
        (
            'Get "https://10.0.0.2:8080/": http: server gave HTTP response to HTTPS client',
            ["Probe with HTTP"],
        ),
        (
            'Get "http://10.0.0.2:8080/": net/http: malformed HTTP response "\\x15\\x03"',
            ["Probe with HTTPS"],
        ),
        ("dial tcp 10.0.0.2:8080: connect: no route to host", []),
        (
            "context deadline exceeded",
            [
                "Raise timeoutSeconds to 5s",
                "Raise initialDelaySeconds to 30s",
                "Raise failureThreshold to 6 failures",
            ],
        ),
    ],
)
async def test_the_fixes_match_the_failure(output: str, titles: list[str]) -> None:
    text = pod_text(PROBE, SOON)
    diagnosis = await diagnosis_of(text, output)
    assert fix_titles(diagnosis) == titles
    for number in range(len(titles)):
        fixed(diagnosis, text, number)


@virtual
async def test_a_long_passing_probe_gets_no_longer_initial_delay() -> None:
    world = deaf()
    failing = Scripted({ProbeKind.LIVENESS: failure(REFUSED)})
    world.use_probes(_Turning(failing, world, 60.0))
    async with diagnosed_pod(pod_text(PROBE, SOON), world) as it:
        diagnosis = await it.until("LivenessKilled")
        assert REFUSED in "".join(e.text for e in diagnosis.evidence)
        assert fix_titles(diagnosis) == []


class _Turning:
    """Passes for a while before it fails."""

    def __init__(self, failing: ProbeHandlers, world: World, seconds: float) -> None:
        self._failing = failing
        self._world = world
        self._seconds = seconds
        self._began = world.clock.monotonic()

    async def run(self, *arguments: Any) -> ProbeOutcome:
        if self._world.clock.monotonic() - self._began < self._seconds:
            return SUCCESS
        return await self._failing.run(*arguments)


@virtual
async def test_the_path_of_a_readiness_probe_that_passes_is_the_first_fix_of_a_404() -> None:
    ready = "readinessProbe:\n  httpGet: {path: /ready, port: 8080}\n  periodSeconds: 1\n"
    text = pod_text(PROBE + ready, SOON)
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    outcomes = {ProbeKind.LIVENESS: failure(NOT_FOUND), ProbeKind.READINESS: SUCCESS}
    world.use_probes(Scripted(outcomes))
    async with diagnosed_pod(text, world) as it:
        diagnosis = await it.until("LivenessKilled")
    assert fix_titles(diagnosis) == [
        "Probe /ready, the path of the readiness probe", BY_HAND, WEAKEN,
    ]  # fmt: skip
    assert fixed(diagnosis, text) == text.replace("/healthz", "/ready")


@virtual
@pytest.mark.parametrize(
    "handler",
    [
        "  httpGet: {path: /healthz, port: 8080}\n",
        "  httpGet: {port: 8080, path: /healthz}  # here\n",
        "  httpGet:\n    path: /healthz\n    port: 8080\n",
        "  httpGet:\n    port: 8080\n    scheme: HTTP\n    path: /healthz\n",
        "  httpGet:\n    path: /x\n    httpHeaders:\n    - {name: A, value: b}\n    port: 8080\n",
    ],
)
async def test_correcting_a_missing_path_comes_before_a_weaker_tcp_probe(handler: str) -> None:
    text = pod_text(PROBE.replace("  httpGet: {path: /healthz, port: 8080}\n", handler), SOON)
    diagnosis = await diagnosis_of(text, NOT_FOUND)
    by_hand, *others = diagnosis.fixes
    assert (by_hand.edits, by_hand.weakens) == ((), False)
    assert by_hand.line is not None
    assert "path" in text.splitlines()[by_hand.line - 1]
    assert [fix.weakens for fix in others] == [True]
    new = fixed(diagnosis, text, fix_index(diagnosis, "Weaken"))
    assert "tcpSocket" in new
    assert "httpGet" not in new
    assert "path" not in new


def limited(restarts: int, *, limit: str = "16Mi", reason: str = "Error") -> Diagnosis:
    """Return the diagnosis of a container that was killed under a memory limit."""
    text = pod_text(f"resources:\n  limits:\n    memory: {limit}\n" if limit else "")
    manifest, made = manifest_of(text)
    assert made is not None
    ended = ContainerStateTerminated(exitCode=137, reason=reason)
    status = ContainerStatus(
        name="c", image="busybox:1", imageID="", ready=False, restartCount=restarts,
        state=ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff")),
        lastState=ContainerState(terminated=ended),
    )  # fmt: skip
    pod = msgspec.structs.replace(
        made, status=PodStatus(phase="Running", containerStatuses=(status,))
    )
    return diagnose(Facts(pod=pod, now=0.0, manifest=manifest))


def test_repeated_kills_under_a_limit_are_probably_for_lack_of_memory() -> None:
    diagnosis = limited(6)
    assert diagnosis.cause == "KilledAtLimit"
    assert "probably for reaching its memory limit of 16Mi" in diagnosis.title
    assert any("no OOM kill" in evidence.text for evidence in diagnosis.evidence)
    assert diagnosis.field == "spec.containers[0].resources.limits.memory"
    (fix,) = diagnosis.fixes
    assert fix.title == "Double the memory limit to 32Mi"
    assert "only if memory is the cause" in fix.note


def test_an_oom_kill_that_the_engine_reports_is_no_guess() -> None:
    diagnosis = limited(6, reason="OOMKilled")
    assert diagnosis.cause == "OutOfMemory"
    assert "probably" not in diagnosis.title


@pytest.mark.parametrize(("restarts", "limit"), [(0, "16Mi"), (1, "16Mi"), (6, "")])
def test_a_single_kill_or_one_without_a_limit_says_nothing_about_memory_limits(
    restarts: int, limit: str
) -> None:
    diagnosis = limited(restarts, limit=limit)
    assert (diagnosis.cause, diagnosis.fixes) == ("Killed", ())
