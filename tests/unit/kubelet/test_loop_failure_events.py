"""Events of failures of the engine: their objects, types and texts (kubelet.md §15)."""

from __future__ import annotations

import pytest
from fake_host import CAPACITY, GI, FakeHost
from kubelet_world import World, api_pod, container, pod

from podtui.api.v1 import ResourceRequirements
from podtui.errors import EngineError
from podtui.kubelet.node.host import Observation
from podtui.runtime.memory import Behaviour

pytestmark = pytest.mark.virtual_time
EXCEEDED_GRACE = (
    "Warning",
    "Container runtime did not kill the pod within specified grace period.",
)


async def texts(world: World, name: str, reason: str) -> list[tuple[str, str]]:
    return [(event.type, event.message) for event in await world.events(name, reason)]


async def test_a_pod_that_cannot_be_stopped_is_reported_and_tried_again() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "u1"))
        await world.until(world.runs("u1"))
        world.engine.faults.fail("stop_container", EngineError("device or resource busy"))
        world.remove("u1")
        await world.until(world.gone("u1"))
        assert await texts(world, "web-n1", "FailedKillPod") == [
            ("Warning", "error killing pod: device or resource busy")
        ]


async def test_a_sandbox_without_a_status_is_reported_and_the_pod_starts_later() -> None:
    world = World()
    async with world.running():
        world.engine.faults.fail("sandbox_status", EngineError("no such file"))
        world.add(pod("web-n1", "u1"))
        await world.until(world.runs("u1"))
        assert await texts(world, "web-n1", "FailedPodSandBoxStatus") == [
            ("Warning", "Unable to get pod sandbox status: no such file")
        ]


async def test_a_dead_container_that_cannot_be_removed_is_reported_on_the_node() -> None:
    host = FakeHost()
    world = World(host=host, eviction_hard={"imagefs.available": "15%"}, strict=True)
    world.behaviours["c"] = Behaviour(exit_after=1.0)
    async with world.running():
        world.add(pod("once", policy="Never"))
        await world.until(lambda: world.phase("once") == "Succeeded")
        await world.sleep(5.0)
        world.engine.faults.fail("remove_container", EngineError("still mounted"))
        host.seen["imagefs.available"] = Observation(CAPACITY // 10, CAPACITY)
        await world.until(world.gone("uid-once"))
        assert await texts(world, "n1", "ContainerGCFailed") == [("Warning", "still mounted")]


async def test_volumes_that_cannot_be_listed_are_reported_on_the_node() -> None:
    world = World()
    world.engine.faults.fail("pod_data", EngineError("input/output error"))
    async with world.running():
        world.add(pod("web-n1", "u1"))
        await world.until(world.runs("u1"))
        await world.sleep(5.0)
        assert await texts(world, "n1", "ContainerGCFailed") == [("Warning", "input/output error")]


async def test_a_preempted_pod_that_does_not_stop_is_reported() -> None:
    world = World()
    async with world.running():
        own = container(resources=ResourceRequirements(requests={"cpu": "1"}))
        world.add(pod("low-n1", "low", own, priority=1, grace=4))
        await world.until(world.runs("low"))
        cores = (await world.node()).status.allocatable["cpu"]
        world.engine.faults.hold("stop_container")
        own = container(resources=ResourceRequirements(requests={"cpu": cores}))
        world.add(pod("high-n1", "high", own, priority=100))
        await world.sleep(9.0)
        assert await texts(world, "low-n1", "ExceededGracePeriod") == []
        await world.sleep(6.0)
        assert await texts(world, "low-n1", "ExceededGracePeriod") == [EXCEEDED_GRACE]
        world.engine.faults.release("stop_container")
        await world.until(world.runs("high"))


async def test_an_evicted_pod_that_does_not_stop_is_reported() -> None:
    host = FakeHost()
    world = World(host=host, eviction_hard={"memory.available": "100Mi"})
    async with world.running():
        await world.create(api_pod("web"))
        await world.until(world.runs("uid-web"))
        world.engine.faults.hold("stop_container")
        host.seen["memory.available"] = Observation(50 << 20, 32 * GI)
        await world.sleep(60.0)
        assert len(await world.events("web", "Evicted")) == 1
        assert await texts(world, "web", "ExceededGracePeriod") == [EXCEEDED_GRACE]
        host.seen["memory.available"] = Observation(30 * GI, 32 * GI)
        world.engine.faults.release("stop_container")
        await world.until(lambda: not world.running_containers("uid-web"))
