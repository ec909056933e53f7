"""The start timelines reported by a kubelet."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from kubelet_world import World, container, pod, with_env

from podtui.api.insight import PodStart, Step, StepKind, Timeline
from podtui.api.times import parse_time
from podtui.api.v1 import (
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    ResourceRequirements,
    SleepAction,
)
from podtui.runtime.memory import Behaviour
from podtui.store import open_store

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"


async def starts(world: World, name: str = "web-n1") -> tuple[PodStart, ...]:
    await world.sleep(1.0)
    found = await world.store.get("timelines", "default", name)
    assert isinstance(found, Timeline)
    return found.starts


def kinds(start: PodStart) -> list[str]:
    """Return the steps in order, each as ``Kind subject``."""
    return [f"{s.kind} {s.subject}".strip() for s in start.steps]


def moment(text: str | None) -> datetime:
    found = parse_time(text)
    assert found is not None
    return found


def seconds(step: Step) -> float:
    return (moment(step.ended) - moment(step.began)).total_seconds()


def one(start: PodStart, kind: StepKind, subject: str = "") -> Step:
    (found,) = [s for s in start.steps if (s.kind, s.subject) == (kind, subject)]
    return found


async def test_a_timeline_covers_manifest_to_readiness() -> None:
    world = World(pull_delay=3.0, start_delay=0.5)
    world.behaviours["setup"] = Behaviour(exit_after=4.0)
    probe = Probe(exec=ExecAction(command=("true",)), initialDelaySeconds=6, periodSeconds=1)
    app = container(
        "app",
        image="nginx:1",
        readinessProbe=probe,
        lifecycle=Lifecycle(postStart=LifecycleHandler(sleep=SleepAction(seconds=2))),
    )
    async with world.running():
        world.add(pod("web-n1", UID, app, init=[container("setup")]))
        await world.sleep(30)
        (start,) = await starts(world)
    assert kinds(start) == [
        "Admit", "Volumes", "Sandbox", "Create setup", "Run setup", "Pull nginx:1", "Create app",
        "Run app", "PostStart app", "Ready app",
    ]  # fmt: skip
    assert seconds(one(start, StepKind.PULL, "nginx:1")) == pytest.approx(3.0, abs=0.3)
    assert seconds(one(start, StepKind.RUN, "setup")) == pytest.approx(4.0, abs=0.6)
    assert seconds(one(start, StepKind.POST_START, "app")) == pytest.approx(2.0, abs=0.2)
    assert one(start, StepKind.RUN, "setup").init
    assert not one(start, StepKind.RUN, "app").init
    assert one(start, StepKind.RUN, "app").ended is None
    assert start.ready is not None
    assert moment(start.ready) >= moment(one(start, StepKind.READY, "app").ended)


async def test_a_timeline_lists_each_run_of_a_crash_loop() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=1.0, exit_code=3)
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.sleep(45)
        (start,) = await starts(world)
    runs = [s for s in start.steps if s.kind is StepKind.RUN]
    assert len(runs) >= 3
    assert all(s.failed and s.note == "Error, exit code 3" for s in runs)
    assert all(seconds(s) == pytest.approx(1.0, abs=0.2) for s in runs)
    assert len([s for s in start.steps if s.kind is StepKind.SANDBOX]) == 1


async def test_a_failed_pull_has_a_reason() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", UID, container(image="nosuch:1")))
        await world.sleep(5)
        (start,) = await starts(world)
    pull = one(start, StepKind.PULL, "nosuch:1")
    assert (pull.failed, pull.note) == (True, "ErrImagePull")
    assert "Create c" not in kinds(start)


async def test_the_timeline_of_a_rejected_pod_ends_at_admission() -> None:
    world = World()
    much = ResourceRequirements(requests={"cpu": "1000"})
    async with world.running():
        world.add(pod("web-n1", UID, container(resources=much)))
        (start,) = await starts(world)
    assert kinds(start) == ["Admit"]
    assert (start.steps[0].failed, start.steps[0].note) == (True, "UnexpectedAdmissionError")


async def test_an_edited_manifest_adds_another_start() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        world.replace(UID, with_env(pod("web-n1", UID), "other"))
        await world.until(world.runs("other"))
        now, before = await starts(world)
    assert (now.uid, now.over, before.uid) == ("other", None, UID)
    assert before.over is not None
    assert before.ready is not None


async def test_a_recreated_sandbox_is_another_start_of_the_pod() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        await world.runtime.stop_sandbox(world.sandboxes(UID)[0].id)
        await world.sleep(30)
        now, before = await starts(world)
    assert now.uid == before.uid
    assert now.cause == "the sandbox was recreated"
    assert now.ready is not None


async def test_the_next_kubelet_continues_the_timeline() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        (before,) = await starts(world)
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.sleep(30)
        assert await starts(world) == (before,)


async def test_the_timeline_of_a_pod_removed_without_a_kubelet_is_closed() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", UID), pod("db-n1", "db"))
        await world.until(lambda: len(world.running_containers()) == 2)
        await world.stop_kubelet()
        world.remove(UID)
        await world.start_kubelet()
        await world.sleep(60)
        assert (await starts(world))[0].over is not None
        assert (await starts(world, "db-n1"))[0].over is None


async def test_timelines_survive_the_process(tmp_path: Path) -> None:
    world = World()
    world.store = open_store(str(tmp_path / "records.db"), clock=world.clock)
    world.kubelet = world.new_kubelet()
    async with world.running():
        world.add(pod("web-n1", UID))
        await world.until(world.runs(UID))
        before = await starts(world)
    await world.store.close()
    again = open_store(str(tmp_path / "records.db"), clock=world.clock)
    found = await again.get("timelines", "default", "web-n1")
    await again.close()
    assert isinstance(found, Timeline)
    assert found.starts == before
