"""The verification of a fix: pending, verified, failed again; on the simulated kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from cause_cases import needs_memory, one_word, probes
from kubelet_world import World
from msgspec import structs
from why_world import DiagnosedPod, diagnosed_pod, fix_index, fixed, pod_text

from podtui.api.v1 import ContainerState, ContainerStateRunning
from podtui.kubelet.prober.state import ProbeKind
from podtui.runtime.memory import Behaviour
from podtui.why import Diagnosis, Fix, Kind, diagnose
from podtui.why.trial import MARGIN, Trial, Verdict, begin_trial, verify

pytestmark = pytest.mark.virtual_time
LIMIT = "resources:\n  limits:\n    memory: 16Mi\n"
PROBE = """\
livenessProbe:
  httpGet: {path: /healthz, port: 8081}
  periodSeconds: 1
  failureThreshold: 2
"""


async def verdict(it: DiagnosedPod, trial: Trial, *, passed: bool = False) -> Verdict:
    facts = await it.facts()
    return verify(trial, facts, diagnose(facts), liveness_passed=passed).verdict


@asynccontextmanager
async def successor(it: DiagnosedPod, text: str) -> AsyncIterator[DiagnosedPod]:
    """Return the pod of the fixed file."""
    new = DiagnosedPod(it.world, text)
    it.world.replace(it.pod.metadata.uid, new.pod)
    for _ in range(200):
        await it.world.sleep(0.5)
        record = await it.world.record(new.pod.metadata.name)
        if record is not None and record.metadata.uid == new.pod.metadata.uid:
            break
    yield new


async def test_more_memory_is_verified_after_a_longer_run() -> None:
    async with diagnosed_pod(pod_text(LIMIT), World(behave=needs_memory)) as it:
        diagnosis = await it.until("OutOfMemory")
        trial = begin_trial(await it.facts(), diagnosis)
        assert (trial.cause, trial.container) == ("OutOfMemory", "c")
        assert trial.ran is not None
        assert trial.ran <= 2
        async with successor(it, fixed(diagnosis, it.text, fix_index(diagnosis, "Double"))) as new:
            await new.until("Healthy")
            assert await verdict(new, trial) is Verdict.PENDING
            await it.world.sleep(2 * trial.ran + MARGIN + 1)
            assert await verdict(new, trial) is Verdict.VERIFIED


async def test_still_insufficient_memory_fails_again() -> None:
    greedy = World(behave=lambda _: Behaviour(exit_after=4.0, oom=True))
    async with diagnosed_pod(pod_text(LIMIT), greedy) as it:
        diagnosis = await it.until("OutOfMemory")
        trial = begin_trial(await it.facts(), diagnosis)
        async with successor(it, fixed(diagnosis, it.text, fix_index(diagnosis, "Double"))) as new:
            await new.until("Healthy")
            assert await verdict(new, trial) is Verdict.PENDING
            await new.until("OutOfMemory")
            assert await verdict(new, trial) is Verdict.FAILED_AGAIN
            await it.world.sleep(15.0)  # a short run after a restart is no proof
            assert await verdict(new, trial) is Verdict.FAILED_AGAIN


async def test_a_longer_initial_delay_is_verified_by_a_passing_probe() -> None:
    world = World()
    probes(ProbeKind.LIVENESS, "HTTP probe failed with statuscode: 503")(world)
    text = pod_text(PROBE, "terminationGracePeriodSeconds: 2\n")
    async with diagnosed_pod(text, world) as it:
        diagnosis = await it.until("LivenessKilled")
        trial = begin_trial(await it.facts(), diagnosis)
        async with successor(
            it, fixed(diagnosis, text, fix_index(diagnosis, "Raise initialDelay"))
        ) as new:
            await new.until("Healthy")
            await it.world.sleep(20.0)
            assert await verdict(new, trial) is Verdict.PENDING
            assert await verdict(new, trial, passed=True) is Verdict.VERIFIED
            await new.until("LivenessKilled")
            assert await verdict(new, trial, passed=True) is Verdict.FAILED_AGAIN


async def test_a_running_pod_is_not_evaluated_by_its_last_exit() -> None:
    async with diagnosed_pod(pod_text(LIMIT), World(behave=needs_memory)) as it:
        diagnosis = await it.until("OutOfMemory")
        facts = await it.facts()
        trial = begin_trial(facts, diagnosis)
        result = verify(trial, facts, diagnosis, liveness_passed=False)
        assert (result.verdict, result.text) == (Verdict.PENDING, "waiting for c to be restarted")
        later = replace(trial, ended="another")
        assert (
            verify(later, facts, diagnosis, liveness_passed=False).verdict is Verdict.FAILED_AGAIN
        )


async def test_a_pod_changed_in_place_is_verified_before_it_counts_as_healthy() -> None:
    async with diagnosed_pod(pod_text(LIMIT), World(behave=needs_memory)) as it:
        diagnosis = await it.until("OutOfMemory")
        facts = await it.facts()
        trial = replace(begin_trial(facts, diagnosis), runs="")
        (status,) = facts.pod.status.containerStatuses

        def outcome(age: float, *, ready: bool = True) -> Verdict:
            """Return the verdict when the resized container has run for ``age`` seconds."""
            began = datetime.fromtimestamp(facts.now - age, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            running = structs.replace(
                status,
                containerID="docker://resized",
                ready=ready,
                state=ContainerState(running=ContainerStateRunning(startedAt=began)),
                lastState=status.state if status.state.terminated else status.lastState,
            )
            pod = structs.replace(
                facts.pod,
                status=structs.replace(facts.pod.status, containerStatuses=(running,)),
            )
            changed = replace(facts, pod=pod)
            diagnosis = diagnose(changed)
            assert diagnosis.kind is Kind.FAILURE
            assert "its limit (now 16Mi)" in diagnosis.title, "it may have been another one"
            return verify(trial, changed, diagnosis, liveness_passed=False).verdict

        assert trial.ran is not None
        assert outcome(MARGIN) is Verdict.PENDING
        assert outcome(2 * trial.ran + MARGIN + 1) is Verdict.VERIFIED
        assert outcome(2 * trial.ran + MARGIN + 1, ready=False) is not Verdict.VERIFIED


async def test_an_image_is_verified_by_a_pod_running_it() -> None:
    async with diagnosed_pod(pod_text().replace("busybox:1", "BusyBox:1")) as it:
        diagnosis = await it.until("InvalidImageName")
        trial = begin_trial(await it.facts(), diagnosis)
        async with successor(it, fixed(diagnosis, it.text)) as new:
            await new.until("Healthy")
            assert await verdict(new, trial) is Verdict.VERIFIED


async def test_another_cause_is_not_a_success() -> None:
    async with diagnosed_pod(pod_text("command: [sh, -c, exit 1]\n")) as it:
        diagnosis = await it.until("Fails")
        trial = replace(begin_trial(await it.facts(), diagnosis), cause="OutOfMemory")
        facts = await it.facts()
        result = verify(trial, facts, diagnosis, liveness_passed=False)
        assert result.verdict is Verdict.OTHER_CAUSE


async def test_completion_verifies_a_fix() -> None:
    async with diagnosed_pod(pod_text('command: ["sh", "-c", "echo done"]\n')) as it:
        diagnosis = await it.until("EndsByDesign")
        trial = begin_trial(await it.facts(), diagnosis)
        async with successor(it, fixed(diagnosis, it.text, fix_index(diagnosis, "once"))) as new:
            await new.until("Succeeded")
            assert await verdict(new, trial) is Verdict.VERIFIED


async def test_a_file_without_a_pod_is_verified_by_its_new_pod() -> None:
    trial = begin_trial(None, Diagnosis(cause="ManifestInvalid", kind=Kind.FAILURE, title="x"))
    async with diagnosed_pod(pod_text()) as it:
        await it.until("Healthy")
        assert await verdict(it, trial) is Verdict.VERIFIED


async def test_a_run_that_never_started_has_no_duration() -> None:
    async with diagnosed_pod(pod_text('command: ["sleep 3600"]\n'), World(behave=one_word)) as it:
        diagnosis = await it.until("CommandNotFound")
        assert begin_trial(await it.facts(), diagnosis).ran == 0


async def test_a_weaker_check_that_passes_is_not_called_a_healthy_pod() -> None:
    async with diagnosed_pod(pod_text()) as it:
        diagnosis = await it.until("Healthy")
        facts = await it.facts()
        for weakens, text in ((False, "the pod is healthy"), (True, "the weaker check passes")):
            trial = begin_trial(None, diagnosis, Fix("x", weakens=weakens))
            result = verify(trial, facts, diagnosis, liveness_passed=False)
            assert result.verdict is Verdict.VERIFIED
            assert result.text.startswith(text)
