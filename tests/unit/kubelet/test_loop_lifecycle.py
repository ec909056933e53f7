"""The lifecycle of a pod from its manifest to its end."""

from __future__ import annotations

import asyncio

import pytest
from kubelet_world import World, container, pod, with_env

from podtui.api.names import CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE
from podtui.api.v1 import Lifecycle, Pod, PodStatus
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import Started

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"


async def test_a_manifest_becomes_a_running_pod() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(lambda: world.phase() == "Running")
        record = await world.record()
        assert record is not None
        assert record.metadata.uid == UID
        annotations = record.metadata.annotations
        assert annotations[CONFIG_MIRROR] == UID
        assert annotations[CONFIG_SOURCE] == "file"
        assert len(annotations[CONFIG_SEEN].partition(".")[2]) == len("123456789Z")
        owner = record.metadata.ownerReferences[0]
        assert (owner.kind, owner.name, owner.controller) == ("Node", "n1", True)
        assert owner.uid == (await world.node()).metadata.uid != ""
        status = record.status
        assert status.podIP
        assert status.hostIP
        assert status.containerStatuses[0].state.running is not None
        assert status.containerStatuses[0].containerID.startswith("memory://")
        ready = next(c for c in status.conditions if c.type == "Ready")
        assert ready.status == "True"


async def test_starting_costs_no_needless_engine_calls() -> None:
    world = World()
    async with world.running():
        await world.sleep(0.5)
        before = world.engine.faults.calls.copy()
        world.add(pod())
        await world.sleep(0.2)
        cost = world.engine.faults.calls - before
        assert cost == {
            "image_status": 1,
            "run_sandbox": 1,
            "sandbox_status": 1,
            "create_container": 1,
            "start_container": 1,
            "list": 1,
            "container_status": 1,
        }


async def test_a_start_writes_three_statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are for the pod, its sandbox and its containers, also if the engine is slow."""
    world = World()
    start = world.runtime.start_container

    async def slow(container_id: str) -> Started:
        await world.sleep(5.0)
        return await start(container_id)

    monkeypatch.setattr(world.runtime, "start_container", slow)
    statuses: list[PodStatus] = []

    async def follow() -> None:
        async for change in world.store.watch("pods"):
            assert isinstance(change.object, Pod)
            if change.object.status.conditions:
                statuses.append(change.object.status)

    async with world.running(), asyncio.TaskGroup() as group:
        task = group.create_task(follow())
        await world.sleep(0.5)
        world.add(pod())
        await world.until(lambda: world.phase() == "Running")
        await world.sleep(20.0)
        task.cancel()
    begun = ["PodReadyToStartContainers" in true_conditions(status) for status in statuses]
    assert begun == [False, True, True]
    assert [status.phase for status in statuses] == ["Pending", "Pending", "Running"]


def true_conditions(status: PodStatus) -> set[str]:
    return {condition.type for condition in status.conditions if condition.status == "True"}


async def test_events_of_a_start_are_in_order() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", container(image="elsewhere:2")))
        await world.until(lambda: world.phase() == "Running")
        events = await world.events()
        assert [(e.type, e.reason) for e in events] == [
            ("Normal", "Pulling"),
            ("Normal", "Pulled"),
            ("Normal", "Created"),
            ("Normal", "Started"),
        ]
        assert events[0].message == 'Pulling image "elsewhere:2"'
        assert events[1].message.startswith('Successfully pulled image "elsewhere:2" in ')
        assert [e.message for e in events[2:]] == ["Container created", "Container started"]
        assert {e.involvedObject.fieldPath for e in events} == {"spec.containers{c}"}
        assert {e.involvedObject.uid for e in events} == {UID}
        assert {(e.source.component, e.source.host) for e in events} == {("kubelet", "n1")}


async def test_a_present_image_is_not_pulled() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(lambda: world.phase() == "Running")
        first = (await world.events())[0]
        assert first.message == (
            'Container image "busybox:1" already present on machine and can be accessed by the pod'
        )


async def test_an_edited_pod_starts_after_the_old_one_terminated() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=5.0)
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.replace(UID, with_env(pod(), "new"))
        await world.sleep(1.0)
        assert (await world.status()).phase == "Pending"
        assert (await world.record()).metadata.uid == "new"  # type: ignore[union-attr]
        assert len(world.sandboxes()) == 1
        waited = await world.until(world.runs("new"))
        assert 3.5 < waited < 4.5
        assert len(world.sandboxes()) == 1
        await world.until(world.gone(UID), 1.0)


async def test_a_removed_pod_leaves_nothing() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=3.0)
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.remove(UID)
        await world.sleep(1.0)
        record = await world.record()
        assert record is not None
        assert record.metadata.deletionTimestamp is not None
        assert record.metadata.deletionGracePeriodSeconds == 30
        waited = await world.until(world.gone(UID))
        assert 1.9 < waited < 2.2
        assert await world.record() is None
        assert not world.engine.pods("memory", UID)
        assert [e.message for e in await world.events("web-n1", "Killing")] == [
            "Stopping container c"
        ]


async def test_strict_removal_deletes_the_record_at_once() -> None:
    world = World(strict=True)
    world.behaviours["c"] = Behaviour(term_after=3.0)
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.remove(UID)
        await world.sleep(0.1)
        assert await world.record() is None
        assert len(world.running_containers(UID)) == 1
        assert 2.0 < await world.until(world.gone(UID)) < 4.0
        assert not world.engine.pods("memory", UID), "its volumes are gone too"


async def test_removal_does_not_wait_for_another_pod() -> None:
    world = World()
    async with world.running():
        world.add(*[pod(f"p{i}") for i in range(50)])
        await world.until(lambda: len(world.running_containers()) == 50)
        before = world.engine.faults.calls.copy()
        world.remove(*list(world.pods))
        assert await world.until(world.gone(), 10.0) < 0.2
        cost = world.engine.faults.calls - before
        assert cost["stop_container"] == cost["remove_sandbox"] == cost["remove_pod_data"] == 50
        assert cost["stop_sandbox"] == cost["remove_container"] == 0
        await world.sleep(10.0)
        assert (await world.store.list("pods")).items == ()


async def test_the_last_of_several_edits_wins() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(ignores_term=True)
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        began = world.clock.monotonic()
        last = UID
        for edit in ("e1", "e2", "e3"):
            world.replace(last, with_env(pod(), edit))
            last = edit
            await world.sleep(2.0)
        await world.until(world.runs("e3"))
        assert 30.0 <= world.clock.monotonic() - began < 31.0
        assert not world.containers("e1")
        assert not world.containers("e2")
        assert len(world.sandboxes()) == 1


async def test_a_pod_is_added_again_while_it_terminates() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(term_after=4.0)
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.remove(UID)
        await world.sleep(1.0)
        world.add(pod())
        await world.until(lambda: world.phase() == "Running" and len(world.sandboxes()) == 1)
        await world.sleep(5.0)
        status = await world.status()
        assert status.containerStatuses[0].restartCount == 1
        assert status.containerStatuses[0].state.running is not None
        changed = await world.events("web-n1", "SandboxChanged")
        assert [e.message for e in changed] == [
            "Pod sandbox changed, it will be killed and recreated."
        ]
        record = await world.record()
        assert record is not None
        assert record.metadata.deletionTimestamp is None


async def test_a_pod_that_is_added_again_after_its_end_has_no_restarts() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.remove(UID)
        await world.until(world.gone(UID))
        await world.sleep(1.0)
        world.add(pod())
        await world.until(world.runs(UID))
        status = await world.status()
        assert status.containerStatuses[0].restartCount == 0


async def test_a_completed_pod_is_kept() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=3.0)
    async with world.running():
        world.add(pod(policy="Never"))
        await world.until(lambda: world.phase() == "Succeeded")
        await world.sleep(100.0)
        status = await world.status()
        ended = status.containerStatuses[0].state.terminated
        assert ended is not None
        assert (ended.reason, ended.exitCode) == ("Completed", 0)
        conditions = {c.type: (c.status, c.reason) for c in status.conditions}
        assert conditions["Initialized"] == ("True", "PodCompleted")
        assert conditions["Ready"] == ("False", "PodCompleted")
        assert not world.sandboxes()
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.sleep(10.0)
        assert len(world.containers(UID)) == 1
        assert (await world.status()).phase == "Succeeded"
        world.remove(UID)
        await world.until(world.gone(UID), 3.0)
        assert await world.record() is None


async def test_a_failed_run_is_reported() -> None:
    world = World()
    world.behaviours["c"] = Behaviour(exit_after=1.0, exit_code=3)
    async with world.running():
        world.add(pod(policy="Never"))
        await world.until(lambda: world.phase() == "Failed")
        status = await world.status()
        ended = status.containerStatuses[0].state.terminated
        assert ended is not None
        assert (ended.reason, ended.exitCode) == ("Error", 3)
        ready = next(c for c in status.conditions if c.type == "Ready")
        assert (ready.status, ready.reason) == ("False", "PodFailed")


@pytest.mark.parametrize("strict", [False, True])
async def test_the_sandbox_is_reported_before_images_are_pulled(strict: bool) -> None:
    world = World(strict=strict, start_delay=0.1, pull_delay=60.0)

    async def condition() -> str:
        found = (await world.status()).conditions
        return next(one.status for one in found if one.type == "PodReadyToStartContainers")

    async with world.running():
        world.add(pod("web-n1", UID, container("c", image="elsewhere:1")))
        await world.sleep(0.05)
        assert await condition() == "False"
        await world.sleep(0.1)
        status = await world.status()
        assert await condition() == "True"
        assert (status.phase, status.podIP) == ("Pending", "")
        assert status.containerStatuses[0].state.waiting is not None


async def test_active_deadline_seconds_ends_a_pod() -> None:
    world = World()
    async with world.running():
        world.add(pod(activeDeadlineSeconds=5))
        await world.until(world.runs(UID))
        waited = await world.until(lambda: world.phase() == "Failed")
        assert 4.5 < waited < 6.5
        await world.sleep(5.0)
        status = await world.status()
        assert status.reason == "DeadlineExceeded"
        assert status.message == "Pod was active on the node longer than the specified deadline"
        # Reported by each pass that computes a status: the last sync, the beginning and the end of
        # the stop, and the cleanup.
        (event,) = await world.events("web-n1", "DeadlineExceeded")
        assert (event.type, event.count) == ("Normal", 4)
        assert not world.running_containers()


async def test_a_fixed_uid_restarts_only_what_changed() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "abc", container("c"), container("d")))
        await world.until(world.runs("abc", 2))
        sandbox = world.sandboxes("abc")[0].id
        kept = world.containers("abc", "d")[0].id
        world.add(pod("web-n1", "abc", container("c", image="other:1"), container("d")))
        await world.until(
            lambda: any(c.image == "other:1" for c in world.running_containers("abc"))
        )
        await world.sleep(1.0)
        assert [s.id for s in world.sandboxes("abc")] == [sandbox]
        assert [c.id for c in world.containers("abc", "d")] == [kept]
        killing = await world.events("web-n1", "Killing")
        assert [e.message for e in killing] == ["Container c definition changed, will be restarted"]
        counts = {c.name: c.restartCount for c in (await world.status()).containerStatuses}
        assert counts == {"c": 1, "d": 0}


async def test_a_dead_sandbox_is_recreated() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        cell = next(iter(world.engine.sandboxes.values()))
        before = (await world.status()).podIP
        world.engine.stop_sandbox(cell)
        await world.until(lambda: [s.attempt for s in world.sandboxes(UID)] == [1])
        await world.sleep(1.0)
        status = await world.status()
        assert status.containerStatuses[0].restartCount == 1
        assert status.podIP not in ("", before)
        assert len(await world.events("web-n1", "SandboxChanged")) == 1


async def test_an_unsupported_feature_is_reported_once() -> None:
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", container(lifecycle=Lifecycle(stopSignal="SIGUSR1"))))
        await world.until(lambda: world.phase() == "Running")
        await world.sleep(200.0)
        (event,) = await world.events("web-n1", "NotSupported")
        assert (event.type, event.count) == ("Warning", 1)
        assert "the feature gate ContainerStopSignals is off" in event.message


async def test_a_pod_is_added_again_while_it_is_removed() -> None:
    world = World()
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        world.runtime.kill(world.containers(UID)[0].id, 1)
        await world.sleep(1.0)
        assert (await world.status()).containerStatuses[0].restartCount == 1
        world.engine.faults.delay("remove_sandbox", 3.0)
        world.remove(UID)
        await world.sleep(1.0)
        world.add(pod())
        await world.sleep(10.0)
        status = await world.status()
        assert status.phase == "Running"
        assert status.containerStatuses[0].restartCount == 0
        assert len(world.containers(UID)) == 1
