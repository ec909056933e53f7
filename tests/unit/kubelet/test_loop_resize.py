"""Pods resized in place (kubelet.md §13.6), on the simulated engine in virtual time."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import pytest
from kubelet_world import World, api_pod, container, pod
from msgspec import structs
from virtual_time import virtual

from podtui.api.pod_resources import amounts
from podtui.api.v1 import ContainerResizePolicy, Pod, ResourceRequirements
from podtui.errors import EngineError
from podtui.kubelet.resize.allocations import FILE_NAME
from podtui.runtime.protocol import ContainerStats

MI = 1024**2
WEB = "uid-web-n1"


def needs(cpu="100m", memory="64Mi", *, limits: bool = True) -> ResourceRequirements:
    amounts = {"cpu": cpu, "memory": memory}
    return ResourceRequirements(requests=amounts, limits=amounts if limits else {})


def sized(
    cpu="100m",
    memory="64Mi",
    *,
    name="web-n1",
    limits: bool = True,
    policy: tuple[ContainerResizePolicy, ...] = (),
    **spec: object,
) -> Pod:
    own = container(resources=needs(cpu, memory, limits=limits), resizePolicy=policy)
    return pod(name, "", own, **spec)  # type: ignore[arg-type]


def restarts(resource: str) -> tuple[ContainerResizePolicy, ...]:
    return (ContainerResizePolicy(resourceName=resource, restartPolicy="RestartContainer"),)


def held(world: World, uid: str = WEB):
    (record,) = world.running_containers(uid)
    return world.engine.containers[record.id].resources


async def conditions(world: World, name: str = "web-n1") -> dict[str, tuple[str, str]]:
    status = await world.status(name)
    found = [one for one in status.conditions if one.type.startswith("PodResize")]
    assert all(one.status == "True" and one.lastProbeTime for one in found)
    return {one.type: (one.reason, one.message) for one in found}


def is_pending(world: World) -> bool:
    found = world.shown()
    conditions = () if found is None else found.status.conditions
    return any(one.type == "PodResizePending" for one in conditions)


def is_infeasible(world: World, message: str) -> Callable[[], bool]:
    def is_shown() -> bool:
        found = world.shown()
        shown = () if found is None else found.status.conditions
        return any((one.reason, one.message) == ("Infeasible", message) for one in shown)

    return is_shown


async def resize_events(world: World, name: str = "web-n1") -> list[tuple[str, str]]:
    found = await world.events(name)
    return [(e.reason, e.message) for e in found if e.reason.startswith("Resize")]


async def resize_reasons(world: World) -> list[str]:
    return [reason for reason, _ in await resize_events(world)]


def summary(resources: ResourceRequirements, **more: object) -> str:
    amounts = {"limits": resources.limits, "requests": resources.requests}
    one = {"name": "c", "resources": {kind: one for kind, one in amounts.items() if one}}
    document = {"containers": [one], "generation": 0, **more}
    return json.dumps(document, separators=(",", ":"))


@virtual()
async def test_resources_are_increased_without_a_restart() -> None:
    async with World(jitter=0.0).running() as world:
        world.add(sized())
        await world.until(world.runs(WEB))
        before = world.running_containers(WEB)
        assert (held(world).memory, held(world).cpu_quota) == (64 * MI, 10_000)
        world.add(sized("200m", "128Mi"))
        await world.until(lambda: held(world).memory == 128 * MI)
        await world.sleep(3)
        assert (held(world).cpu_quota, held(world).cpu_shares) == (20_000, 204)
        assert world.running_containers(WEB) == before
        status = (await world.status()).containerStatuses[0]
        assert status.resources == needs("200m", "128Mi")
        assert status.allocatedResources == {"cpu": "200m", "memory": "128Mi"}
        assert status.restartCount == 0
        assert await resize_events(world) == [
            ("ResizeStarted", f"Pod resize started: {summary(needs('200m', '128Mi'))}"),
            ("ResizeCompleted", f"Pod resize completed: {summary(needs('200m', '128Mi'))}"),
        ]
        assert await conditions(world) == {}


@virtual()
async def test_a_restart_container_policy_restarts_the_container() -> None:
    policy = restarts("memory")
    async with World().running() as world:
        world.add(sized(policy=policy))
        await world.until(world.runs(WEB))
        world.add(sized("200m", policy=policy))
        await world.until(lambda: held(world).cpu_quota == 20_000)
        assert len(world.containers(WEB)) == 1, "its cpu needs no restart"
        world.add(sized("200m", "128Mi", policy=policy))
        await world.until(lambda: len(world.containers(WEB)) == 2)
        await world.until(world.runs(WEB))
        await world.sleep(3)
        assert held(world).memory == 128 * MI
        kills = await world.events("web-n1", "Killing")
        assert [e.message for e in kills] == ["Container c resize requires restart"]
        reasons = await resize_reasons(world)
        assert reasons == ["ResizeStarted", "ResizeCompleted"] * 2
        assert (await world.status()).containerStatuses[0].restartCount == 1


@virtual()
async def test_a_resize_that_does_not_fit_is_deferred() -> None:
    async with World().running() as world:
        world.add(sized("1", limits=False), sized("2", name="db-n1", limits=False))
        await world.until(lambda: len(world.running_containers()) == 2)
        cores = (await world.node()).status.capacity["cpu"]
        wanted = sized(str(int(cores)), limits=False)
        world.add(wanted)
        await world.until(lambda: is_pending(world))
        milli, used = int(cores) * 1000, 2000
        lack = milli - (milli - used)
        message = (
            "Unexpected error while attempting to recover from admission failure: preemption:"
            " error finding a set of pods to preempt: no set of running pods found to reclaim"
            f" resources: [(res: cpu, q: {lack}), ]"
        )
        assert await conditions(world) == {"PodResizePending": ("Deferred", message)}
        assert await resize_events(world) == [
            (
                "ResizeDeferred",
                "Pod resize UnexpectedAdmissionError: "
                + summary(needs(cores, limits=False), error=message),
            )
        ]
        status = await world.status()
        assert status.containerStatuses[0].allocatedResources["cpu"] == "1"
        assert (await world.record()).spec == wanted.spec, "the record has the requested resources"
        world.remove("uid-db-n1")
        await world.until(lambda: not is_pending(world))
        await world.sleep(3)
        assert await resize_reasons(world) == [
            "ResizeDeferred",
            "ResizeStarted",
            "ResizeCompleted",
        ]
        assert await conditions(world) == {}
        assert (await world.status()).containerStatuses[0].allocatedResources["cpu"] == cores


@virtual()
@pytest.mark.parametrize("static", [True, False], ids=["static", "api"])
async def test_a_resize_beyond_the_node_is_infeasible(static: bool) -> None:
    async with World().running() as world:
        name = "web-n1"
        made = api_pod(name, *sized().spec.containers)
        if static:
            world.add(sized())
        else:
            await world.create(made)
        await world.until(world.runs(WEB))
        allocatable = amounts((await world.node()).status.allocatable)
        for cpu, memory, lack in (("900", "64Mi", "cpu"), ("900", "900Gi", "memory")):
            wanted = sized(cpu, memory)
            if static:
                world.add(wanted)
            else:
                spec = structs.replace(made.spec, containers=wanted.spec.containers)
                await world.change(lambda pod, spec=spec: structs.replace(pod, spec=spec), name)
            requested = {"cpu": 900_000, "memory": 900 * 1024 * MI}[lack]
            message = (
                f"Node didn't have enough capacity: {lack}, requested: {requested},"
                f" capacity: {allocatable[lack]}"
            )
            expected = {"PodResizePending": ("Infeasible", message)}
            await world.until(is_infeasible(world, message))
            assert await conditions(world) == expected
        assert held(world).memory == 64 * MI
        assert set(await resize_reasons(world)) == {"ResizeInfeasible"}
        assert world.calls.get("update_container", 0) == 0


@virtual()
async def test_a_removed_limit_is_lifted() -> None:
    async with World().running() as world:
        world.add(sized())
        await world.until(world.runs(WEB))
        world.add(sized(limits=False))
        await world.until(lambda: held(world).memory == 0)
        await world.sleep(3)
        assert held(world).cpu_quota == 0
        status = (await world.status()).containerStatuses[0]
        assert status.resources == needs(limits=False)
        assert len(world.containers(WEB)) == 1
        assert await conditions(world) == {}


@virtual()
async def test_a_reverted_resize_is_no_longer_pending() -> None:
    async with World().running() as world:
        other = sized("1", name="db-n1", limits=False)
        world.add(sized(), other)
        await world.until(lambda: len(world.running_containers()) == 2)
        world.add(sized((await world.node()).status.capacity["cpu"]))
        await world.until(lambda: is_pending(world))
        assert "PodResizePending" in await conditions(world)
        world.add(sized())
        await world.sleep(2)
        assert await conditions(world) == {}
        assert await resize_reasons(world) == ["ResizeDeferred"]


@virtual()
async def test_a_resize_may_preempt() -> None:
    async with World().running() as world:
        world.add(
            sized("1", limits=False, priority=100),
            sized("1", name="low-n1", limits=False, priority=1),
        )
        await world.until(lambda: len(world.running_containers()) == 2)
        cores = (await world.node()).status.capacity["cpu"]
        world.add(sized(cores, limits=False, priority=100))
        await world.until(lambda: world.phase("low-n1") == "Failed")
        await world.sleep(3)
        assert (await world.status("low-n1")).reason == "Preempting"
        assert (await world.status()).containerStatuses[0].allocatedResources["cpu"] == cores


@virtual()
async def test_memory_is_not_lowered_below_what_is_used() -> None:
    async with World().running() as world:
        world.add(sized(memory="128Mi"))
        await world.until(world.runs(WEB))

        async def stats(containers: Collection[str]) -> Mapping[str, ContainerStats]:
            counters = ContainerStats(timestamp=world.clock.now(), cpu=0, memory=60 * MI)
            return dict.fromkeys(containers, counters)

        world.runtime.stats = stats  # type: ignore[method-assign]
        world.add(sized(memory="32Mi"))
        await world.sleep(5)
        used = 60 * MI
        message = (
            "cannot decrease memory limits:"
            f" [attempting to set pod memory limit ({32 * MI}) below current usage ({used}),"
            f' attempting to set container "c" memory limit ({32 * MI})'
            f" below current usage ({used})]"
        )
        assert held(world).memory == 128 * MI
        assert await conditions(world) == {"PodResizeInProgress": ("Error", message)}
        status = (await world.status()).containerStatuses[0]
        assert status.allocatedResources["memory"] == "32Mi"
        assert status.resources.limits["memory"] == "128Mi", "what holds, not what is wished"
        await world.sleep(60)
        assert await resize_reasons(world) == ["ResizeStarted", "ResizeError"]
        assert (await resize_events(world))[1][1] == (
            f"Pod resize error: {summary(needs(memory='32Mi'), error=message)}"
        )


@virtual()
async def test_a_refused_update_is_retried() -> None:
    async with World().running() as world:
        world.add(sized())
        await world.until(world.runs(WEB))
        world.engine.faults.fail("update_container", EngineError("busy"), times=2)
        world.add(sized("200m"))
        await world.sleep(5)
        assert await conditions(world) == {"PodResizeInProgress": ("Error", "busy")}
        await world.sleep(60)
        assert held(world).cpu_quota == 20_000
        assert await resize_reasons(world) == [
            "ResizeStarted",
            "ResizeError",
            "ResizeCompleted",
        ]


@virtual()
async def test_allocations_survive_a_kubelet_restart(tmp_path: Path) -> None:
    async with World(root_dir=str(tmp_path)).running() as world:
        other = sized("1", name="db-n1", limits=False)
        world.add(sized(), other)
        await world.until(lambda: len(world.running_containers()) == 2)
        world.add(sized((await world.node()).status.capacity["cpu"]))
        await world.until(lambda: is_pending(world))
        await world.stop_kubelet()
        kept = json.loads((tmp_path / FILE_NAME).read_text())
        assert kept["allocated"][WEB]["containers"]["c"]["requests"]["cpu"] == "100m"
        await world.start_kubelet()
        await world.until(lambda: is_pending(world))
        await world.sleep(2)
        assert (await world.status()).phase == "Running", "its allocated resources count"
        assert (await conditions(world))["PodResizePending"][0] == "Deferred"
        assert len(world.containers(WEB)) == 1


@virtual()
async def test_an_edit_made_while_no_kubelet_ran_is_a_resize(tmp_path: Path) -> None:
    async with World(root_dir=str(tmp_path)).running() as world:
        world.add(sized())
        await world.until(world.runs(WEB))
        await world.stop_kubelet()
        world.add(sized("200m"))
        await world.start_kubelet()
        await world.until(lambda: held(world).cpu_quota == 20_000)
        assert len(world.containers(WEB)) == 1
        await world.sleep(2)
        assert await resize_reasons(world) == ["ResizeStarted", "ResizeCompleted"]


@virtual()
async def test_without_a_state_file_running_resources_are_adopted(tmp_path: Path) -> None:
    async with World(root_dir=str(tmp_path)).running() as world:
        world.add(sized())
        await world.until(world.runs(WEB))
        await world.stop_kubelet()
        (tmp_path / FILE_NAME).write_text("{broken")
        await world.start_kubelet()
        await world.sleep(5)
        assert world.calls.get("update_container", 0) == 0
        assert await resize_events(world) == []


@virtual()
async def test_qos_follows_the_allocation() -> None:
    async with World().running() as world:
        world.add(sized())
        await world.until(world.runs(WEB))
        assert (await world.status()).qosClass == "Guaranteed"
        own = container(resources=structs.replace(needs(), limits={"cpu": "1", "memory": "64Mi"}))
        world.add(pod("web-n1", "", own))
        await world.sleep(3)
        assert (await world.status()).qosClass == "Burstable"
        assert held(world).cpu_quota == 100_000


@virtual()
async def test_pod_level_limits_reach_the_containers_without_their_own() -> None:
    def with_limit(memory: str) -> Pod:
        return pod("web-n1", "", resources=ResourceRequirements(limits={"memory": memory}))

    async with World().running() as world:
        world.add(with_limit("64Mi"))
        await world.until(world.runs(WEB))
        assert held(world).memory == 64 * MI
        world.add(with_limit("128Mi"))
        await world.until(lambda: held(world).memory == 128 * MI)
        await world.sleep(3)
        assert (await world.status()).resources.limits == {"memory": "128Mi"}
        assert await resize_reasons(world) == ["ResizeStarted", "ResizeCompleted"]
        assert len(world.containers(WEB)) == 1


@virtual()
async def test_a_pod_level_limit_restarts_containers_once() -> None:
    def with_limit(memory: str) -> Pod:
        own = container(resizePolicy=restarts("memory"))
        limits = ResourceRequirements(limits={"memory": memory})
        return pod("web-n1", "", own, resources=limits)

    async with World().running() as world:
        world.add(with_limit("64Mi"))
        await world.until(world.runs(WEB))
        world.add(with_limit("128Mi"))
        await world.sleep(90)
        assert (await world.status()).containerStatuses[0].restartCount == 1
        assert held(world).memory == 128 * MI
        assert await resize_reasons(world) == ["ResizeStarted", "ResizeCompleted"]
