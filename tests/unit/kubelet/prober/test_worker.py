"""The visible state of a probe: its next run, its streak, its last runs."""

from __future__ import annotations

import pytest
from kubelet_world import World, container, ends, pod
from pod_builders import at, down, up

from podtui.api.insight import PodInsight, ProbeReport
from podtui.api.v1 import ExecAction, Probe
from podtui.kubelet.prober.state import ProbeKind, ProbeOutcome, ProbeState, ProbeVerdict, Rules
from podtui.kubelet.prober.worker import probe_run, report
from podtui.kubelet.types import ObservedContainer, ProbeResult

UID = "uid-web-n1"
RULES = Rules(period=10, initial_delay=25)


def reported(
    state: ProbeState | None = None,
    newest: ObservedContainer | None = None,
    *,
    due_in: float | None = 4.0,
    age: float = 100.0,
    started: bool = True,
) -> ProbeReport:
    return report(
        "c",
        state or ProbeState(kind=ProbeKind.READINESS),
        RULES,
        newest or up(),
        due_in=due_in,
        age=age,
        started=started,
        running=False,
        runs=(),
    )


def test_the_next_tick_is_the_next_run() -> None:
    assert (reported().nextIn, reported().state) == (4.0, "")


@pytest.mark.parametrize(
    ("age", "due_in", "expected"), [(0, 0, 30), (1, 4, 24), (20, 4, 14), (21, 4, 4), (24, 9, 9)]
)
def test_no_probe_runs_before_the_initial_delay(age: float, due_in: float, expected: float) -> None:
    found = reported(age=age, due_in=due_in)
    assert (found.nextIn, found.state) == (expected, "initial delay")


def test_a_final_result_is_not_probed_again() -> None:
    passed = ProbeState(kind=ProbeKind.STARTUP, held=True, result=ProbeResult.SUCCESS)
    failed = ProbeState(kind=ProbeKind.LIVENESS, held=True, result=ProbeResult.FAILURE)
    assert (reported(passed).nextIn, reported(passed).state) == (None, "passed")
    assert (reported(failed).nextIn, reported(failed).state) == (None, "failed")


def test_the_reason_why_a_probe_does_not_run_is_reported() -> None:
    assert reported(newest=down()).state == "not running"
    assert reported(started=False).state == "waits for startup"
    assert reported(due_in=None).state == "stopped"
    startup = ProbeState(kind=ProbeKind.STARTUP)
    assert reported(startup, started=False).state == ""


def test_the_streak_is_compared_with_its_threshold() -> None:
    state = ProbeState(kind=ProbeKind.READINESS, last=ProbeResult.FAILURE, in_row=2)
    assert (reported(state).inRow, reported(state).threshold) == (2, 3)
    state = ProbeState(kind=ProbeKind.READINESS, last=ProbeResult.SUCCESS, in_row=1)
    assert (reported(state).inRow, reported(state).threshold) == (1, 1)


def test_the_first_lines_of_the_output_are_kept() -> None:
    run = probe_run(ProbeOutcome(ProbeVerdict.FAILURE, "x\n" * 5000), at(0), 0.25)
    assert run.output.splitlines() == ["x"] * 10
    assert len(probe_run(ProbeOutcome(ProbeVerdict.FAILURE, "y" * 5000), at(0), 0.1).output) == 1000


def probed(command: str, **more: object) -> Probe:
    return Probe(exec=ExecAction(command=("sh", "-c", command)), **more)  # type: ignore[arg-type]


async def insight(world: World) -> PodInsight:
    return await world.kubelet.insights.insight("default", "web-n1")


@pytest.mark.virtual_time
async def test_a_kubelet_reports_the_state_of_its_probes() -> None:
    world = World()
    world.commands["echo no; exit 1"] = ends("no", code=1)
    app = container(
        "app",
        readinessProbe=probed("echo no; exit 1", periodSeconds=5, failureThreshold=4),
        livenessProbe=probed("true", periodSeconds=7),
    )
    async with world.running():
        world.add(pod("web-n1", UID, app))
        await world.until(world.runs(UID))
        await world.sleep(11)
        readiness, liveness = sorted((await insight(world)).probes, key=lambda r: r.probe)[::-1]
        assert (readiness.container, readiness.result, readiness.last) == (
            "app", "Failure", "Failure",
        )  # fmt: skip
        assert readiness.inRow >= 2
        assert readiness.threshold == 4
        assert readiness.nextIn is not None
        assert 0 <= readiness.nextIn <= 5
        assert readiness.history[-1].verdict == "failure"
        assert readiness.history[-1].output == "no"
        assert liveness.result == "Success"
        assert [run.verdict for run in liveness.history] == ["success"] * len(liveness.history)


@pytest.mark.virtual_time
async def test_a_manual_run_does_not_count() -> None:
    world = World()
    world.commands["echo dead; exit 1"] = ends("dead", code=1)
    probe = probed(
        "echo dead; exit 1", periodSeconds=1000, failureThreshold=2, initialDelaySeconds=900
    )
    async with world.running():
        world.add(pod("web-n1", UID, container("app", livenessProbe=probe)))
        await world.until(world.runs(UID))
        for _ in range(5):
            run = await world.kubelet.insights.run_probe("default", "web-n1", "app", "Liveness")
            assert (run.verdict, run.output) == ("failure", "dead")
        await world.sleep(60)
        (found,) = (await insight(world)).probes
        assert (found.inRow, found.history) == (0, ())
        assert not await world.events("web-n1", "Unhealthy", "Killing")


@pytest.mark.virtual_time
async def test_an_impossible_manual_run_is_refused_with_a_reason() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", UID, container("app", livenessProbe=probed("true"))))
        await world.until(world.runs(UID))
        run_probe = world.kubelet.insights.run_probe
        with pytest.raises(LookupError, match='pods "missing" not found'):
            await run_probe("default", "missing", "app", "Liveness")
        with pytest.raises(LookupError, match="has no active Readiness probe"):
            await run_probe("default", "web-n1", "app", "Readiness")
