"""Ephemeral containers (kubelet.md §6.2, 7.2), on the simulated engine in virtual time."""

from __future__ import annotations

import pytest
from kubelet_world import PRESENT, World, container, pod, with_env
from virtual_time import virtual

from podtui.api.v1 import ContainerState, EphemeralContainer, Pod
from podtui.errors import InvalidUpdate, LogError
from podtui.runtime.memory import Behaviour
from podtui.runtime.protocol import LogOptions, NamespaceMode

WEB = "uid-web-n1"


def debugger(name: str = "debug", **fields: object) -> EphemeralContainer:
    base = {
        "image": PRESENT,
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    return EphemeralContainer(name=name, **{**base, **fields})  # type: ignore[arg-type]


async def join(world: World, *wanted: EphemeralContainer, name: str = "web-n1") -> Pod:
    return await world.kubelet.endpoints.set_ephemeral_containers("default", name, wanted)


def config(world: World, name: str = "debug"):
    (record,) = world.containers(WEB, name)
    return world.engine.containers[record.id].config


@virtual()
async def test_an_ephemeral_container_joins_a_running_pod() -> None:
    async with World().running() as world:
        world.add(pod())
        await world.until(world.runs(WEB))
        record = await join(world, debugger(command=("sleep", "1d")))
        assert [one.name for one in record.spec.ephemeralContainers] == ["debug"]
        assert await world.until(world.runs(WEB, 2)) < 1
        await world.sleep(2)
        status = await world.status()
        (debug,) = status.ephemeralContainerStatuses
        assert debug.state.running is not None
        assert (debug.ready, debug.started, debug.restartCount) == (False, None, 0)
        assert debug.resources is not None
        assert [one.name for one in status.containerStatuses] == ["c"]
        assert (status.phase, status.qosClass) == ("Running", "BestEffort")
        events = [
            (e.reason, e.message)
            for e in await world.events()
            if e.involvedObject.fieldPath == "spec.ephemeralContainers{debug}"
        ]
        pulled = (
            f'Container image "{PRESENT}" already present on machine and can be accessed by the pod'
        )
        assert events == [
            ("Pulled", pulled),
            ("Created", "Container created"),
            ("Started", "Container started"),
        ]
        assert config(world).target_container_id == ""


@virtual()
async def test_an_ephemeral_container_is_never_restarted() -> None:
    async with World().running() as world:
        world.behaviours["debug"] = Behaviour(exit_after=5, exit_code=3)
        world.add(pod())
        await world.until(world.runs(WEB))
        await join(world, debugger())
        await world.until(world.runs(WEB, 2))
        await world.sleep(120)
        assert len(world.containers(WEB, "debug")) == 1
        (debug,) = (await world.status()).ephemeralContainerStatuses
        assert debug.state.terminated is not None
        assert debug.state.terminated.exitCode == 3
        assert (await world.status()).phase == "Running"


@virtual()
async def test_an_ephemeral_container_sees_the_processes_of_its_target() -> None:
    async with World().running() as world:
        world.add(pod())
        await world.until(world.runs(WEB))
        (target,) = world.running_containers(WEB)
        await join(world, debugger(targetContainerName="c"))
        await world.until(world.runs(WEB, 2))
        assert config(world).target_container_id == target.id


@virtual()
async def test_a_pod_that_shares_its_processes_needs_no_target() -> None:
    async with World().running() as world:
        world.add(pod(shareProcessNamespace=True))
        await world.until(world.runs(WEB))
        await join(world, debugger(targetContainerName="c"))
        await world.until(world.runs(WEB, 2))
        assert config(world).target_container_id == ""
        assert config(world).pid is NamespaceMode.POD


@virtual()
async def test_a_target_that_was_never_created() -> None:
    async with World().running() as world:
        late = container("late")
        world.behaviours["slow"] = Behaviour(exit_after=300)
        world.add(pod("web-n1", "", late, init=[container("slow")]))
        await world.until(world.runs(WEB))
        await join(world, debugger(targetContainerName="late"), debugger("other"))
        await world.until(world.runs(WEB, 2))
        await world.sleep(20)
        found = {one.name: one.state for one in (await world.status()).ephemeralContainerStatuses}
        assert found["other"].running is not None, "init containers need not be done"
        waiting = found["debug"].waiting
        assert waiting is not None
        assert (waiting.reason, waiting.message) == (
            "CreateContainerConfigError",
            "unable to find target container late",
        )
        assert ("Failed", "Error: unable to find target container late") in [
            (e.reason, e.message) for e in await world.events()
        ]


@virtual()
async def test_an_ephemeral_container_ends_with_its_pod() -> None:
    async with World().running() as world:
        world.add(pod())
        await world.until(world.runs(WEB))
        await join(world, debugger())
        await world.until(world.runs(WEB, 2))
        world.remove(WEB)
        await world.until(world.gone())
        kills = [
            (e.involvedObject.fieldPath, e.message) for e in await world.events("web-n1", "Killing")
        ]
        assert ("spec.ephemeralContainers{debug}", "Stopping container debug") in kills


@virtual()
async def test_an_ephemeral_container_does_not_keep_its_pod_running() -> None:
    async with World().running() as world:
        world.behaviours["c"] = Behaviour(exit_after=10)
        world.add(pod(policy="Never"))
        await world.until(world.runs(WEB))
        await join(world, debugger())
        await world.until(world.runs(WEB, 2))
        await world.until(lambda: world.phase() == "Succeeded")
        await world.until(world.runs(WEB, 0))
        assert world.phase() == "Succeeded"


@virtual()
async def test_an_ephemeral_container_survives_its_kubelet() -> None:
    async with World().running() as world:
        world.add(pod())
        await world.until(world.runs(WEB))
        await join(world, debugger())
        await world.until(world.runs(WEB, 2))
        await world.sleep(2)
        before = world.running_containers(WEB)
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.sleep(5)
        assert world.running_containers(WEB) == before
        record = await world.record()
        assert record is not None
        assert [one.name for one in record.spec.ephemeralContainers] == ["debug"]
        assert len((await world.status()).ephemeralContainerStatuses) == 1


@virtual()
async def test_an_ephemeral_container_is_kept_by_an_update_not_by_a_new_pod() -> None:
    async with World().running() as world:
        world.add(pod())
        await world.until(world.runs(WEB))
        await join(world, debugger())
        await world.until(world.runs(WEB, 2))
        world.add(pod("web-n1", "", container("c", args=("x",))))
        await world.sleep(2)
        assert len(world.running_containers(WEB)) == 2
        world.replace(WEB, with_env(pod(), "another"))
        await world.until(world.runs("another"))
        await world.sleep(2)
        assert len(world.running_containers()) == 1
        assert (await world.status()).ephemeralContainerStatuses == ()


@virtual()
async def test_the_log_of_an_ephemeral_container() -> None:
    async with World().running() as world:
        world.behaviours["debug"] = Behaviour(lines=("hello",))
        world.add(pod())
        await world.until(world.runs(WEB))
        await join(world, debugger())
        await world.until(world.runs(WEB, 2))
        await world.sleep(2)
        batches = await world.kubelet.endpoints.container_logs(
            "default", "web-n1", "debug", previous=False, options=LogOptions()
        )
        assert [line.content async for lines in batches for line in lines] == [b"hello"]
        with pytest.raises(LogError, match="not found"):
            await world.kubelet.endpoints.container_logs(
                "default", "web-n1", "missing", previous=False, options=LogOptions()
            )


@virtual()
async def test_a_new_sandbox_does_not_recreate_an_ephemeral_container() -> None:
    async with World().running() as world:
        world.add(pod())
        await world.until(world.runs(WEB))
        await join(world, debugger())
        await world.until(world.runs(WEB, 2))
        (sandbox,) = world.sandboxes(WEB)
        await world.runtime.stop_sandbox(sandbox.id)
        await world.until(lambda: len(world.sandboxes(WEB)) == 1 and world.runs(WEB)())
        await world.sleep(10)
        assert [one.name for one in world.running_containers(WEB)] == ["c"]
        (debug,) = (await world.status()).ephemeralContainerStatuses
        assert debug.state != ContainerState()
        assert debug.state.terminated is not None


@virtual()
async def test_changes_refused_by_the_api() -> None:
    async with World().running() as world:
        world.add(pod())
        await world.until(world.runs(WEB))
        await join(world, debugger())

        async def refused(*wanted: EphemeralContainer) -> str:
            with pytest.raises(InvalidUpdate) as caught:
                await join(world, *wanted)
            return str(caught.value)

        path = "spec.ephemeralContainers"
        assert await refused() == (
            f'{path}: Forbidden: existing ephemeral containers "debug" may not be removed\n'
        )
        assert (await refused(debugger(command=("sh",)))).startswith(
            f'{path}: Forbidden: existing ephemeral containers "debug" may not be changed\n'
        )
        assert await refused(debugger(), debugger("c")) == f'{path}[1].name: Duplicate value: "c"'
        assert await refused(debugger(), debugger("x", targetContainerName="y")) == (
            f'{path}[1].targetContainerName: Not found: "y"'
        )
        assert await refused(debugger(), debugger("x", restartPolicy="Always")) == (
            f"{path}[1].restartPolicy: Forbidden: cannot be set for an Ephemeral Container"
        )
        with pytest.raises(LookupError, match='pods "missing" not found'):
            await join(world, debugger(), name="missing")


@virtual()
async def test_a_strict_kubelet_refuses_ephemeral_containers() -> None:
    async with World(strict=True).running() as world:
        world.add(pod())
        await world.until(world.runs(WEB))
        with pytest.raises(InvalidUpdate) as caught:
            await join(world, debugger())
        assert str(caught.value) == (
            "[]: Forbidden: static pods do not support ephemeral containers"
        )
