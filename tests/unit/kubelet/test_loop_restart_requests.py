"""Requested restarts of a container, of a pod, and of a terminated pod."""

from __future__ import annotations

import pytest
from kubelet_world import World, container, pod

from podtui.errors import RestartRefused
from podtui.runtime.memory import Behaviour

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"


def waiting(world: World) -> str:
    found = world.shown()
    states = () if found is None else found.status.containerStatuses
    return " ".join(one.state.waiting.reason for one in states if one.state.waiting is not None)


async def counts(world: World) -> dict[str, int]:
    status = await world.status()
    every = (*status.initContainerStatuses, *status.containerStatuses)
    return {one.name: one.restartCount for one in every}


def sidecar(name: str):
    return container(name, restartPolicy="Always")


async def test_only_the_requested_container_is_restarted_with_its_grace_period() -> None:
    world = World()
    world.behaviours["slow"] = Behaviour(term_after=4.0)
    async with world.running():
        world.add(pod("web-n1", "", container("slow"), container("other")))
        await world.until(world.runs(UID, 2))
        before = {one.name: one.id for one in world.running_containers(UID)}
        await world.kubelet.endpoints.restart("default", "web-n1", "slow")
        took = await world.until(lambda: len(world.containers(UID, "slow")) == 2)
        assert 4.0 <= took < 6.0
        await world.until(world.runs(UID, 2))
        after = {one.name: one.id for one in world.running_containers(UID)}
        assert after["other"] == before["other"]
        assert await counts(world) == {"slow": 1, "other": 0}
        (killing,) = await world.events("web-n1", "Killing")
        assert killing.message == "Stopping container slow"
        assert killing.involvedObject.fieldPath == "spec.containers{slow}"


async def test_a_pod_restarts_with_its_sidecars_in_the_same_sandbox() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", container("a"), init=(container("i"), sidecar("s"))))
        world.behaviours["i"] = Behaviour(exit_after=0.1, exit_code=0)
        await world.until(world.runs(UID, 2))
        (sandbox,) = world.sandboxes(UID)
        await world.kubelet.endpoints.restart("default", "web-n1")
        await world.until(lambda: len(world.containers(UID, "a")) == 2)
        await world.until(world.runs(UID, 2))
        assert world.sandboxes(UID) == [sandbox]
        assert await counts(world) == {"i": 0, "s": 1, "a": 1}


async def test_two_requests_restart_once() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=2.0)
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.kubelet.endpoints.restart("default", "web-n1")
        await world.kubelet.endpoints.restart("default", "web-n1")
        await world.sleep(30)
        assert await counts(world) == {"c": 1}


async def test_a_restart_request_skips_the_back_off() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=1.0, exit_code=1)
    async with world.running():
        world.add(pod())
        await world.until(lambda: "CrashLoopBackOff" in waiting(world), 100)
        await world.sleep(2)
        world.behaviours["c"] = Behaviour()
        await world.kubelet.endpoints.restart("default", "web-n1", "c")
        assert await world.until(world.runs(UID)) < 1.0


async def test_a_terminated_pod_runs_again_as_new() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=1.0, exit_code=0)
    async with world.running():
        world.add(pod(policy="Never"))
        await world.until(lambda: world.phase() == "Succeeded")
        (first,) = world.containers(UID)
        await world.sleep(5)
        await world.kubelet.endpoints.restart("default", "web-n1")
        await world.until(world.runs(UID))
        (second,) = world.containers(UID)
        assert second.id != first.id
        await world.until(lambda: world.phase() == "Succeeded")
        assert await counts(world) == {"c": 0}


async def test_a_running_pod_that_would_complete_is_restarted_as_new() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=2.0)
    async with world.running():
        world.add(pod(policy="OnFailure"))
        await world.until(world.runs(UID))
        (first,) = world.containers(UID)
        await world.kubelet.endpoints.restart("default", "web-n1")
        record = await world.record()
        assert record is not None
        assert record.metadata.deletionTimestamp is not None
        await world.until(lambda: bool(world.containers(UID)) and world.containers(UID)[0] != first)
        await world.until(world.runs(UID))
        record = await world.record()
        assert record is not None
        assert record.metadata.deletionTimestamp is None


async def test_removing_the_manifest_during_a_restart_removes_the_pod() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=5.0)
    async with world.running():
        world.add(pod(policy="Never"))
        await world.until(world.runs(UID))
        await world.kubelet.endpoints.restart("default", "web-n1")
        await world.sleep(1)
        world.remove(UID)
        await world.until(world.gone(UID))
        await world.sleep(30)
        assert await world.record() is None
        assert not world.containers(UID)


async def test_a_container_under_never_cannot_be_restarted() -> None:
    world = World()
    async with world.running():
        world.add(pod(policy="Never"))
        await world.until(world.runs(UID))
        with pytest.raises(RestartRefused, match='"c" would not start again'):
            await world.kubelet.endpoints.restart("default", "web-n1", "c")
        with pytest.raises(LookupError, match='container "x" not found in pod "web-n1"'):
            await world.kubelet.endpoints.restart("default", "web-n1", "x")
        with pytest.raises(LookupError, match='pods "no" not found'):
            await world.kubelet.endpoints.restart("default", "no")
        await world.sleep(5)
        assert len(world.running_containers(UID)) == 1


async def test_a_running_init_container_cannot_be_restarted() -> None:
    """It would not run again on request: the pod continues its start."""
    world = World()
    world.behaviours["i"] = Behaviour(exit_after=20.0)
    async with world.running():
        world.add(pod("web-n1", "", container("c"), init=(sidecar("s"), container("i"))))
        await world.until(world.runs(UID, 2))
        (working,) = world.containers(UID, "i")
        await world.kubelet.endpoints.restart("default", "web-n1")
        await world.until(lambda: bool(world.containers(UID, "c")), 60)
        await world.until(world.runs(UID, 2))
        assert [one.id for one in world.containers(UID, "i")] == [working.id]
        assert await counts(world) == {"s": 1, "i": 0, "c": 0}
