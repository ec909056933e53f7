"""A node under pressure: its conditions and the resources it frees; no pod is evicted."""

from __future__ import annotations

import logging
import re

import pytest
from fake_host import CAPACITY, GI, FakeHost
from kubelet_world import World, api_pod, container, pod

from podtui.api.v1 import EmptyDirVolumeSource, Toleration, Volume, VolumeMount
from podtui.kubelet.node.host import Observation
from podtui.kubelet.stats.usage_history import SPACING
from podtui.runtime.memory import Behaviour

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"
SHORT = Observation(50 << 20, 32 * GI)
PLENTY = Observation(30 * GI, 32 * GI)
HARD = {"memory.available": "100Mi", "imagefs.available": "15%", "pid.available": "10%"}


async def condition(world: World, kind: str) -> tuple[str, str, str]:
    node = await world.node()
    found = next(one for one in node.status.conditions if one.type == kind)
    return found.status, found.reason, found.message


async def test_memory_pressure_evicts_no_static_pod(caplog: pytest.LogCaptureFixture) -> None:
    host = FakeHost()
    world = World(host=host, eviction_hard=HARD)
    async with world.running():
        world.add(pod(), pod("dear", priority=5))
        await world.until(lambda: len(world.running_containers()) == 2)
        await world.sleep(12.0)
        assert (await condition(world, "MemoryPressure"))[0] == "False"
        host.seen["memory.available"] = SHORT
        await world.sleep(11.0)
        assert await condition(world, "MemoryPressure") == (
            "True",
            "KubeletHasInsufficientMemory",
            "kubelet has insufficient memory available",
        )
        turned = await world.events("n1", "NodeHasInsufficientMemory")
        assert [(e.type, e.message) for e in turned] == [
            ("Normal", "Node n1 status is now: NodeHasInsufficientMemory")
        ]
        events = await world.events("n1", "EvictionThresholdMet")
        assert [(e.type, e.message) for e in events] == [
            ("Warning", "Attempting to reclaim memory")
        ]
        node = await world.node()
        assert node.metadata.annotations["podtui.dev/would-evict"] == "default/web-n1"
        with caplog.at_level(logging.WARNING):
            await world.sleep(60.0)
        assert "cannot evict a critical pod: web-n1_default(uid-web-n1)" in caplog.messages
        assert "unable to evict any pods from the node" in caplog.messages
        # A pod added now is admitted, because admission accepts critical pods.
        world.add(pod("late"))
        await world.until(world.runs("uid-late"))
        host.seen["memory.available"] = PLENTY
        await world.sleep(290.0)
        assert (await condition(world, "MemoryPressure"))[0] == "True"
        assert "podtui.dev/would-evict" not in (await world.node()).metadata.annotations
        await world.sleep(30.0)
        assert (await condition(world, "MemoryPressure"))[0] == "False"
        assert len(world.running_containers()) == 3
        assert world.phase() == "Running"


async def test_an_empty_dir_over_its_limit_ends_an_api_pod_and_no_static_one() -> None:
    world = World(host=FakeHost(), eviction_hard=HARD)
    world.behaviours["c"] = Behaviour(files={"/v/file": b"far too much"})
    writer = container(volumeMounts=(VolumeMount(name="v", mountPath="/v"),))

    def limited(limit: str) -> tuple[Volume, ...]:
        return (Volume(name="v", emptyDir=EmptyDirVolumeSource(sizeLimit=limit)),)

    async with world.running():
        world.add(pod("static", "", writer, volumes=limited("4")))
        await world.create(
            api_pod("web", writer, volumes=limited("4"), grace=300),
            api_pod("modest", writer, volumes=limited("400")),
        )
        await world.until(lambda: len(world.running_containers()) == 3)
        await world.until(lambda: not world.running_containers("uid-web"), 30.0)
        await world.sleep(120.0)
        status = await world.status("web")
        text = 'Usage of EmptyDir volume "v" exceeds the limit "4". '
        assert (status.phase, status.reason, status.message) == ("Failed", "Evicted", text)
        assert all(one.type != "DisruptionTarget" for one in status.conditions)
        (event,) = await world.events("web", "Evicted")
        assert (event.type, event.message) == ("Warning", text)
        assert len(world.running_containers()) == 2
        assert not await world.events("static", "Evicted")


async def test_a_full_disk_removes_dead_containers_and_unused_images() -> None:
    host = FakeHost()
    world = World(host=host, eviction_hard=HARD, strict=True)
    world.behaviours["c"] = Behaviour(exit_after=1.0)
    async with world.running():
        world.add(pod("once", "", container(image="other:1"), policy="Never"), pod("stays"))
        await world.until(lambda: world.phase("once") == "Succeeded")
        # Images are checked every five minutes; two minutes later this one may be removed.
        await world.sleep(430.0)
        assert world.containers("uid-once")
        host.seen["imagefs.available"] = Observation(CAPACITY // 10, CAPACITY)
        await world.until(world.gone("uid-once"), 15.0)
        await world.sleep(1.0)
        assert world.engine.images.find("other:1") is None
        assert world.engine.images.find("busybox:1") is not None
        assert world.sandboxes("uid-stays")
        events = await world.events("n1", "EvictionThresholdMet")
        assert events[0].message == "Attempting to reclaim ephemeral-storage"
        assert (await condition(world, "DiskPressure"))[1] == "KubeletHasDiskPressure"
        # Terminated pods do not start again: their manifests did not change.
        assert (await world.status("once")).phase == "Succeeded"


async def test_pids_have_their_own_condition() -> None:
    host = FakeHost()
    host.seen["pid.available"] = Observation(99, 1000)
    world = World(host=host, eviction_hard=HARD)
    async with world.running():
        await world.sleep(1.0)
        assert await condition(world, "PIDPressure") == (
            "True",
            "KubeletHasInsufficientPID",
            "kubelet has insufficient PID available",
        )
        events = await world.events("n1", "EvictionThresholdMet")
        assert events[0].message == "Attempting to reclaim pids"


async def test_a_soft_threshold_waits_for_its_grace_period() -> None:
    host = FakeHost()
    world = World(
        host=host,
        eviction_soft={"memory.available": "1Gi"},
        eviction_soft_grace_period={"memory.available": 60.0},
    )
    async with world.running():
        await world.sleep(1.0)
        host.seen["memory.available"] = SHORT
        await world.sleep(50.0)
        assert (await condition(world, "MemoryPressure"))[0] == "True"
        assert not await world.events("n1", "EvictionThresholdMet")
        await world.sleep(30.0)
        assert await world.events("n1", "EvictionThresholdMet")


async def test_without_pressure_only_the_usage_history_queries_the_engine() -> None:
    world = World(host=FakeHost(), eviction_hard=HARD, system_reserved={"memory": "1Gi"})
    async with world.running():
        world.add(pod())
        await world.until(world.runs(UID))
        await world.sleep(100.0)
        assert world.calls["stats"] <= 100.0 / SPACING + 1


async def test_pods_at_allocatable_cause_pressure_despite_free_memory() -> None:
    host = FakeHost()
    host.seen["memory.available"] = Observation(16 * GI, 32 * GI)
    world = World(host=host, eviction_hard=HARD, system_reserved={"memory": "32Gi"})
    async with world.running():
        world.add(pod())
        await world.sleep(15.0)
        assert (await condition(world, "MemoryPressure"))[0] == "True"


async def test_a_remote_machine_is_not_observed_and_this_is_reported() -> None:
    """Without a host the simulated engine is remote; there is no pressure."""
    world = World(eviction_hard=HARD)
    async with world.running():
        await world.sleep(30.0)
        assert (await condition(world, "MemoryPressure"))[0] == "False"
        assert not await world.events("n1", "EvictionThresholdMet")


async def test_memory_pressure_evicts_one_api_pod_at_a_time() -> None:
    host = FakeHost()
    world = World(host=host, eviction_hard=HARD)
    async with world.running():
        world.add(pod("static"))
        await world.create(api_pod("web"), api_pod("dear", priority=5))
        await world.until(lambda: len(world.running_containers()) == 3)
        host.seen["memory.available"] = SHORT
        await world.until(lambda: not world.running_containers("uid-web"), 30.0)
        assert len(world.running_containers("uid-dear")) == 1
        host.seen["memory.available"] = PLENTY
        await world.sleep(5.0)
        status = await world.status("web")
        text = status.message
        used = re.fullmatch(
            r"The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. "
            r"Container c was using (\d+(?:Ki|Mi)?), request is 0,"
            r" has larger consumption of memory. ",
            text,
        )
        assert used is not None
        assert (status.phase, status.reason) == ("Failed", "Evicted")
        disruption = next(one for one in status.conditions if one.type == "DisruptionTarget")
        assert (disruption.status, disruption.reason) == ("True", "TerminationByKubelet")
        assert disruption.message == text
        (event,) = await world.events("web", "Evicted")
        assert (event.type, event.message) == ("Warning", text)
        assert event.metadata.annotations == {
            "offending_containers": "c",
            "offending_containers_usage": used[1],
            "starved_resource": "memory",
        }
        await world.sleep(400.0)
        assert (await world.status("web")).reason == "Evicted"
        assert len(world.running_containers()) == 2


async def test_a_best_effort_api_pod_is_not_admitted_under_memory_pressure() -> None:
    host = FakeHost()
    world = World(host=host, eviction_hard=HARD)
    async with world.running():
        await world.sleep(1.0)
        host.seen["memory.available"] = SHORT
        await world.sleep(11.0)
        tolerant = Toleration(key="node.kubernetes.io/memory-pressure", operator="Exists")
        await world.create(api_pod("web"), api_pod("tolerant", tolerations=(tolerant,)))
        await world.until(world.runs("uid-tolerant"), 5.0)
        status = await world.status("web")
        assert (status.phase, status.reason) == ("Failed", "Evicted")
        assert status.message == "Pod was rejected: The node had condition: [MemoryPressure]. "
