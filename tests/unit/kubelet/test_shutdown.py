"""Graceful node shutdown."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubelet_world import World, pod

from podtui.kubelet.shutdown import shutdown_groups, shutdown_steps
from podtui.runtime.memory import Behaviour

CRITICAL = 2_000_000_000
MESSAGE = "Pod was terminated in response to imminent node shutdown."


# --- decisions


def test_the_steps():
    assert shutdown_steps(0, 0, ()) == ()
    assert shutdown_steps(30, 10, ()) == ((0, 20), (CRITICAL, 10))
    assert shutdown_steps(0, 0, ((100, 5), (0, 60))) == ((0, 60), (100, 5))


def names(groups) -> list[tuple[float, list[str]]]:
    return [(one.seconds, [pod.metadata.name for pod in one.pods]) for one in groups]


def test_a_pod_belongs_to_its_highest_priority_step():
    pods = [
        pod("plain"),
        pod("low", priority=-5),
        pod("mid", priority=150),
        pod("top", priority=CRITICAL + 1),
    ]
    groups = shutdown_groups(((0, 60), (100, 30), (CRITICAL, 10)), pods)
    assert names(groups) == [(60, ["plain", "low"]), (30, ["mid"]), (10, ["top"])]


@given(
    st.lists(st.integers(-(10**9), 3 * 10**9), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(-(10**9), 3 * 10**9), max_size=12),
)
def test_every_pod_is_in_one_group_and_groups_ascend(steps, priorities):
    pods = [pod(f"p{i}", priority=one) for i, one in enumerate(priorities)]
    groups = shutdown_groups([(one, 1.0) for one in sorted(steps)], pods)
    found = [one.spec.priority or 0 for group in groups for one in group.pods]
    assert sorted(found) == sorted(priorities)
    for earlier, later in itertools.pairwise(groups):
        if earlier.pods and later.pods:
            assert max(one.spec.priority or 0 for one in earlier.pods) < min(
                one.spec.priority or 0 for one in later.pods
            )


# --- in a kubelet


def two_steps(**more: object) -> World:
    return World(shutdown_grace_period=30.0, shutdown_grace_period_critical_pods=10.0, **more)  # type: ignore[arg-type]


@pytest.mark.virtual_time
async def test_pods_are_terminated_by_priority_with_a_reason() -> None:
    world = two_steps()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with world.running():
        world.add(pod("web-n1", grace=60), pod("dns", grace=60, priority=CRITICAL))
        world.add(pod("once", policy="Never", priority=CRITICAL))
        await world.until(lambda: len(world.running_containers()) == 3)
        began = world.clock.monotonic()
        async with world.running_beside(world.kubelet.shut_down) as done:
            await world.sleep(1.0)
            node = await world.node()
            ready = next(one for one in node.status.conditions if one.type == "Ready")
            assert (ready.status, ready.message) == ("False", "node is shutting down")
            (event,) = await world.events("n1", "Shutdown")
            assert (event.type, event.message) == (
                "Normal",
                "Shutdown manager detected shutdown event",
            )
            world.add(pod("late"))
            await world.until(lambda: world.phase("late") == "Failed")
            late = await world.status("late")
            assert (late.reason, late.message) == (
                "NodeShutdown",
                "Pod was rejected: Pod was rejected as the node is shutting down.",
            )
            await world.until(world.runs("uid-web-n1", 0))
            assert 19.9 < world.clock.monotonic() - began < 20.6
            assert len(world.running_containers("uid-dns")) == 1
            await done.wait()
            assert 29.9 < world.clock.monotonic() - began < 31.0
        assert not world.running_containers()
        for name in ("web-n1", "dns", "once"):
            status = await world.status(name)
            assert (status.phase, status.reason, status.message) == (
                "Failed",
                "Terminated",
                MESSAGE,
            )
            target = next(one for one in status.conditions if one.type == "DisruptionTarget")
            assert (target.status, target.reason, target.message) == (
                "True",
                "TerminationByKubelet",
                MESSAGE,
            )


@pytest.mark.virtual_time
async def test_a_short_grace_period_of_a_pod_applies() -> None:
    world = two_steps()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with world.running():
        world.add(pod("web-n1", grace=3))
        await world.until(world.runs("uid-web-n1"))
        began = world.clock.monotonic()
        assert await world.kubelet.shut_down()
        assert 2.9 < world.clock.monotonic() - began < 3.5


@pytest.mark.virtual_time
async def test_pods_that_exceed_the_shutdown_time_are_abandoned() -> None:
    world = two_steps()
    async with world.running():
        world.add(pod())
        await world.until(world.runs("uid-web-n1"))
        world.engine.faults.hold("stop_container")
        began = world.clock.monotonic()
        assert await world.kubelet.shut_down()
        assert 19.9 < world.clock.monotonic() - began < 20.5
        world.engine.faults.release("stop_container")


@pytest.mark.virtual_time
async def test_without_a_shutdown_grace_period_no_pod_is_terminated() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs("uid-web-n1"))
        assert not await world.kubelet.shut_down()
        await world.sleep(5.0)
        assert len(world.running_containers()) == 1


@pytest.mark.virtual_time
async def test_the_next_kubelet_runs_the_pods_again() -> None:
    world = two_steps()
    async with world.running():
        world.add(pod())
        await world.until(world.runs("uid-web-n1"))
        assert await world.kubelet.shut_down()
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.until(world.runs("uid-web-n1"))
        await world.sleep(1.0)
        assert (await world.status()).phase == "Running"
