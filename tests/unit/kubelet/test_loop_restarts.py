"""Terminated containers: crash loops, init order, missing images, dead instances."""

from __future__ import annotations

import pytest
from kubelet_world import World, container, pod

from podtui.api.v1 import ContainerStatus
from podtui.errors import EngineError, ImagePullError
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import ContainerConfig, ContainerState

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"
REF = f"web-n1_default({UID})"


class Starts:
    """The creation time and behaviour of each instance of each container."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.times: list[float] = []
        self.names: list[str] = []
        self.behaviour = behaviour
        self.world: World | None = None

    def __call__(self, config: ContainerConfig) -> Behaviour:
        assert self.world is not None
        self.times.append(self.world.clock.monotonic())
        self.names.append(config.name)
        return self.behaviour

    def gaps(self) -> list[float]:
        pairs = zip(self.times, self.times[1:], strict=False)
        return [round(later - earlier, 1) for earlier, later in pairs]


def watched(behaviour: Behaviour, **config: object) -> tuple[World, Starts]:
    starts = Starts(behaviour)
    world = World(behave=starts, **config)  # type: ignore[arg-type]
    starts.world = world
    return world, starts


async def only(world: World, name: str = "c") -> ContainerStatus:
    statuses = (await world.status()).containerStatuses
    return next(status for status in statuses if status.name == name)


@pytest.mark.parametrize("code", [1, 0])
async def test_a_crash_loop_backs_off(code: int) -> None:
    """Cases 36 and 37."""
    world, starts = watched(Behaviour(exit_after=1.0, exit_code=code))
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(starts.times) == 8, 2000.0)
        assert starts.gaps() == [1.0, 11.0, 21.0, 41.0, 61.0 + 20.0, 161.0, 301.0]
        await world.sleep(5.0)
        status = await only(world)
        assert status.restartCount == 7
        waiting = status.state.waiting
        assert waiting is not None
        assert waiting.reason == "CrashLoopBackOff"
        assert waiting.message == f"back-off 5m0s restarting failed container=c pod={REF}"
        assert status.lastState.terminated is not None
        assert status.lastState.terminated.exitCode == code
        assert world.phase() == "Running"
        backing = await world.events("web-n1", "BackOff")
        assert backing[0].type == "Warning"
        assert backing[0].message == f"Back-off restarting failed container c in pod {REF}"


@pytest.mark.parametrize("strict", [False, True])
async def test_a_back_off_is_reported_once_despite_garbage_collection(strict: bool) -> None:
    world, starts = watched(Behaviour(exit_after=1.0, exit_code=1), strict=strict)
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(starts.times) == 3)
        await world.sleep(5.0)
        (backing,) = await world.events("web-n1", "BackOff")
        assert backing.count == 2
        # A kubelet shows the reason for the wait only in its next pass.
        assert ((await only(world)).state.terminated is not None) is strict


async def test_a_strict_kubelet_shows_a_back_off_one_sync_late() -> None:
    """It already waits and reports the back-off while its status still shows the termination."""
    world, starts = watched(Behaviour(exit_after=1.0, exit_code=1), strict=True)
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(starts.times) == 2)
        await world.sleep(3.0)
        assert await world.events("web-n1", "BackOff")
        assert (await only(world)).state.terminated is not None
        world.kubelet.wake(UID)
        await world.sleep(1.0)
        found = await only(world)
        assert found.state.waiting is not None
        assert found.state.waiting.reason == "CrashLoopBackOff"
        assert found.lastState.terminated is not None


async def test_jitter_stretches_the_back_off() -> None:
    world, starts = watched(Behaviour(exit_after=1.0, exit_code=1), jitter=1.0)
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(starts.times) == 4)
        assert starts.gaps() == [1.0, 16.0, 31.0]


async def test_a_removed_pod_keeps_the_back_off_of_others() -> None:
    world, starts = watched(Behaviour(exit_after=1.0, exit_code=1))
    async with world.running():
        world.add(pod(), pod("other"))
        await world.until(lambda: len(world.containers(UID)) and starts.times[-1] > 80.0, 200.0)
        world.remove("uid-other")
        await world.until(world.gone("uid-other"))
        before = len(starts.times)
        began = world.clock.monotonic()
        world.kubelet.wake(UID)
        await world.until(lambda: len(starts.times) > before, 200.0)
        assert world.clock.monotonic() - began > 40.0, "the remaining back-off is unchanged"


async def test_a_long_run_resets_the_back_off() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=1.0, exit_code=1)
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(world.containers(UID)) > 1)
        await world.sleep(5.0)
        world.behaviours["c"] = Behaviour()
        await world.until(world.runs(UID))
        await world.sleep(700.0)
        count = (await only(world)).restartCount
        world.behaviours["c"] = Behaviour(exit_after=1.0, exit_code=1)
        world.runtime.kill(world.running_containers(UID)[0].id, 1)
        await world.sleep(0.5)
        assert (await only(world)).restartCount == count + 1
        await world.sleep(1.0)
        waiting = (await only(world)).state.waiting
        assert waiting is not None
        assert waiting.message.startswith("back-off 10s ")


async def test_the_maximum_back_off_can_be_set() -> None:
    world, starts = watched(
        Behaviour(exit_after=1.0, exit_code=1), max_container_restart_period=2.0
    )
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(starts.times) == 6)
        assert starts.gaps() == [1.0, 3.0, 3.0, 3.0, 3.0]


async def test_only_one_dead_instance_is_kept() -> None:
    world, starts = watched(Behaviour(exit_after=1.0, exit_code=1))
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(starts.times) == 4)
        await world.sleep(0.5)
        instances = world.containers(UID)
        assert [(c.attempt, c.state) for c in instances] == [
            (2, ContainerState.EXITED),
            (3, ContainerState.RUNNING),
        ]
        status = await only(world)
        assert status.lastState.terminated is not None


async def test_only_a_killed_container_is_restarted() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", container("a"), container("b")))
        await world.until(world.runs(UID, 2))
        other = world.containers(UID, "b")[0].id
        world.runtime.kill(world.containers(UID, "a")[0].id, 137)
        await world.sleep(1.0)
        status = await only(world, "a")
        assert status.restartCount == 1
        assert status.lastState.terminated is not None
        assert status.lastState.terminated.exitCode == 137
        assert world.running_containers(UID)[0].id == other


async def test_an_event_that_was_lost_is_found_by_the_relist() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.engine.faults.drop_events = True
        world.runtime.kill(world.containers(UID)[0].id, 1)
        assert await world.until(world.runs(UID)) <= 5.1


async def test_restart_counts_survive_removed_containers() -> None:
    """Case 50, without log files to count."""
    world, starts = watched(Behaviour(exit_after=1.0, exit_code=1))
    async with world.running():
        world.add(pod())
        await world.until(lambda: len(starts.times) == 3)
        await world.sleep(3.0)
        for record in world.containers(UID):
            await world.runtime.remove_container(record.id)
        await world.until(lambda: len(starts.times) == 4)
        assert world.containers(UID)[-1].attempt == 3


# --- init


async def test_init_containers_run_one_after_the_other() -> None:
    world = World()
    seen: list[tuple[str, float]] = []

    def behave(config: ContainerConfig) -> Behaviour:
        seen.append((config.name, world.clock.monotonic()))
        return Behaviour() if config.name == "c" else Behaviour(exit_after=2.0)

    world.engine.behave = behave
    async with world.running():
        world.add(pod("web-n1", "", container(), init=(container("a"), container("b"))))
        await world.sleep(1.0)
        status = await world.status()
        assert status.phase == "Pending"
        waiting = status.containerStatuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "PodInitializing"
        initialized = next(c for c in status.conditions if c.type == "Initialized")
        assert initialized.message == "containers with incomplete status: [a b]"
        await world.sleep(2.0)
        initialized = next(c for c in (await world.status()).conditions if c.type == "Initialized")
        assert initialized.message == "containers with incomplete status: [b]"
        await world.until(lambda: world.phase() == "Running")
        assert [name for name, _ in seen] == ["a", "b", "c"]
        (_, a), (_, b), (_, c) = seen
        assert 1.99 <= b - a < 2.2
        assert 1.99 <= c - b < 2.2


async def test_a_failed_init_container_fails_the_pod_under_never() -> None:
    world = World()
    world.behaviours["a"] = Behaviour(exit_after=1.0, exit_code=1)
    async with world.running():
        world.add(pod("web-n1", "", container(), init=(container("a"),), policy="Never"))
        await world.until(lambda: world.phase() == "Failed")
        await world.sleep(60.0)
        assert not world.containers(UID, "c")
        assert not world.sandboxes(UID)


async def test_a_failed_init_container_backs_off_under_always() -> None:
    world, starts = watched(Behaviour(exit_after=1.0, exit_code=1))
    async with world.running():
        world.add(pod("web-n1", "", container(), init=(container("a"),)))
        await world.until(lambda: len(starts.times) == 4)
        assert starts.gaps() == [1.0, 11.0, 21.0]
        assert set(starts.names) == {"a"}
        status = await world.status()
        assert status.phase == "Pending"
        assert status.initContainerStatuses[0].restartCount == 3


async def test_sidecars_start_first_and_stop_last() -> None:
    world = World()
    for name in ("c", "s1", "s2"):
        world.behaviours[name] = Behaviour(term_after=1.0)
    sidecars = tuple(container(name, restartPolicy="Always") for name in ("s1", "s2"))
    async with world.running():
        world.add(pod("web-n1", "", container(), init=sidecars))
        await world.until(world.runs(UID, 3))
        assert [c.name for c in world.containers(UID)] == ["s1", "s2", "c"]
        world.remove(UID)
        left: list[list[str]] = []
        for _ in range(3):
            await world.sleep(1.05)
            left.append([c.name for c in world.running_containers(UID)])
        assert left == [["s1", "s2"], ["s1"], []]


async def test_a_sidecar_does_not_keep_the_pod_alive() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=2.0)
    world.behaviours["s"] = Behaviour(term_code=137)
    async with world.running():
        world.add(
            pod(
                "web-n1",
                "",
                container(),
                init=(container("s", restartPolicy="Always"),),
                policy="Never",
            )
        )
        await world.until(lambda: world.phase() == "Succeeded")
        await world.sleep(5.0)
        assert not world.running_containers()


# --- images and starting


async def test_one_image_missing_keeps_the_pod_pending() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", container("a"), container("b", image="nosuch:1")))
        await world.sleep(3.0)
        status = await world.status()
        assert status.phase == "Pending"
        assert [c.ready for c in status.containerStatuses] == [True, False]
        waiting = status.containerStatuses[1].state.waiting
        assert waiting is not None
        assert waiting.reason == "ImagePullBackOff"
        ready = next(c for c in status.conditions if c.type == "Ready")
        assert (ready.status, ready.reason) == ("False", "ContainersNotReady")
        assert ready.message == "containers with unready status: [b]"


async def test_the_status_is_updated_before_all_images_are_present() -> None:
    world = World(pull_delay=60.0)
    async with world.running():
        world.add(pod("web-n1", "", container("a"), container("b", image="big:1")))
        await world.sleep(5.0)
        assert (await only(world, "a")).state.running is not None
        record = await world.record()
        assert record is not None
        assert record.metadata.annotations["podtui.dev/pull-progress"] == "b: Pulling"
        await world.sleep(15.0)
        record = await world.record()
        assert record is not None
        progress = record.metadata.annotations["podtui.dev/pull-progress"]
        assert progress.startswith("b: Downloading ")
        current, _, total = progress.rpartition(" ")[2].partition("/")
        assert 0 < int(current) < int(total)
        await world.until(world.runs(UID, 2))
        await world.sleep(1.0)
        record = await world.record()
        assert record is not None
        assert "podtui.dev/pull-progress" not in record.metadata.annotations


async def test_pulls_are_serialized() -> None:
    world = World(pull_delay=10.0)
    async with world.running():
        world.add(*[pod(f"p{i}", "", container(image=f"i{i}:1")) for i in range(3)])
        took = await world.until(lambda: len(world.running_containers()) == 3)
        assert 30.0 <= took < 31.0
        pulled = [
            e
            for i in range(3)
            for e in await world.events(f"p{i}", "Pulled")
            if "including waiting" in e.message
        ]
        assert len(pulled) == 3
        assert any("in 10s (30" in e.message for e in pulled)


async def test_pulls_can_run_in_parallel() -> None:
    world = World(pull_delay=10.0, serialize_image_pulls=False, max_parallel_image_pulls=3)
    async with world.running():
        world.add(*[pod(f"p{i}", "", container(image=f"i{i}:1")) for i in range(3)])
        assert await world.until(lambda: len(world.running_containers()) == 3) < 11.0


async def test_a_pull_in_progress_is_not_interrupted() -> None:
    world = World(pull_delay=20.0)
    async with world.running():
        world.add(pod("web-n1", "", container(image="big:1")))
        await world.sleep(5.0)
        world.remove(UID)
        await world.sleep(5.0)
        assert await world.record() is not None
        waited = await world.until(world.gone(UID))
        assert 9.0 < waited < 11.0
        assert world.engine.images.find("big:1") is not None
        assert world.calls.get("create_container", 0) == 0


async def test_a_queued_pull_is_cancelled_with_the_pod() -> None:
    world = World(pull_delay=60.0)
    async with world.running():
        world.add(pod("one", "", container(image="big:1")))
        await world.sleep(1.0)
        world.add(pod("two", "", container(image="big:2")))
        await world.sleep(1.0)
        world.remove("uid-two")
        assert await world.until(world.gone("uid-two")) < 1.0


async def test_a_container_that_cannot_start_is_retried() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(start_error='exec: "nope": not found')
    async with world.running():
        world.add(pod())
        await world.sleep(1.0)
        failed = await world.events("web-n1", "Failed")
        assert failed[0].message == 'Error: exec: "nope": not found'
        await world.sleep(60.0)
        assert 3 <= world.calls["start_container"] <= 6
        del world.behaviours["c"]
        await world.until(world.runs(UID))
        assert (await only(world)).restartCount >= 2


async def test_a_container_stuck_in_created_does_not_spin() -> None:
    world = World()
    async with world.running():
        world.engine.faults.fail("start_container", EngineError("no"), times=None)
        world.add(pod())
        await world.sleep(1.0)
        waiting = (await only(world)).state.waiting
        assert waiting is not None
        assert waiting.reason == "RunContainerError"
        assert waiting.message == "no"
        await world.sleep(60.0)
        assert 5 <= world.calls["create_container"] <= 8


async def test_a_sandbox_that_cannot_be_created_is_retried() -> None:
    world = World()
    async with world.running():
        world.engine.faults.fail("run_sandbox", EngineError("no room"), times=2)
        world.add(pod())
        took = await world.until(world.runs(UID))
        assert 20.0 <= took < 21.0
        events = await world.events("web-n1", "FailedCreatePodSandBox")
        assert events[0].message == "Failed to create pod sandbox: no room"


async def test_a_pull_error_has_the_engines_message() -> None:
    world = World()
    async with world.running():
        world.engine.faults.fail("pull_image", ImagePullError("registry on fire"))
        world.add(pod("web-n1", "", container(image="elsewhere:1")))
        await world.sleep(1.0)
        failed = (await world.events("web-n1", "Failed"))[0]
        assert failed.message == 'Failed to pull image "elsewhere:1": registry on fire'
        await world.until(world.runs(UID), 60.0)
        assert (await only(world)).restartCount == 0
