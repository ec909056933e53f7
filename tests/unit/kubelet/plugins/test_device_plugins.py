"""Pods with devices of real plugins, over gRPC on unix sockets, on the simulated engine."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from device_plugin import RESOURCE, DevicePluginServer, device
from dns_client import until
from kubelet_world import World, container, pod
from virtual_time import virtual

from podtui.api.v1 import Container, Pod, ResourceRequirements
from podtui.clock import SystemClock
from podtui.kubelet.plugins.device_plugins import DevicePlugins
from podtui.kubelet.plugins.plugin_calls import PluginConnection
from podtui.kubelet.plugins.rpc import RpcError
from podtui.kubelet.resource_managers.device_api import (
    VERSION,
    AllocateResponse,
    CdiDevice,
    ContainerAllocateResponse,
    DeviceMount,
    DevicePluginOptions,
    DeviceSpec,
)
from podtui.kubelet.resource_managers.device_manager import DeviceError, DeviceManager
from podtui.runtime.protocol import DeviceMapping


def limited(count: int, name: str = "c", resource: str = RESOURCE, **fields: object) -> Container:
    amounts = {resource: str(count)}
    own = ResourceRequirements(requests=amounts, limits=amounts)
    return container(name, resources=own, **fields)


def asking(name: str, count: int, **spec: object) -> Pod:
    return pod(f"{name}-n1", "", limited(count), **spec)  # type: ignore[arg-type]


def plugin_world(directory: Path, **config: object) -> World:
    return World(plugin_dir=str(directory), **config)


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: that of a unix socket has at most 107 bytes."""
    return tmp_path_factory.mktemp("d")


@asynccontextmanager
async def plugged(
    world: World, directory: Path, plugin: DevicePluginServer, name: str = "p.sock"
) -> AsyncIterator[DevicePluginServer]:
    kubelet = directory / "device-plugins/kubelet.sock"
    await world.until(kubelet.is_socket)
    socket = kubelet.with_name(name)
    async with plugin.serving(socket):
        await plugin.register(kubelet, socket)
        yield plugin


async def amounts(world: World, resource: str = RESOURCE) -> tuple[str | None, str | None]:
    status = (await world.node()).status
    return status.capacity.get(resource), status.allocatable.get(resource)


async def running(world: World, name: str) -> dict[str, str]:
    """Wait until the pod's only container runs, and return its variables."""
    await world.until(lambda: bool(world.running_containers(f"uid-{name}-n1")))
    (record,) = world.running_containers(f"uid-{name}-n1")
    return dict(world.engine.containers[record.id].config.env)


@virtual()
async def test_a_plugin_registers_and_a_container_gets_its_device(directory: Path) -> None:
    def answer(ids: tuple[str, ...]) -> AllocateResponse:
        return AllocateResponse(
            (
                ContainerAllocateResponse(
                    envs={"DEV": ids[0], "OWN": "plugin"},
                    mounts=(DeviceMount("/in", "/out", True),),
                    devices=(DeviceSpec("/dev/x", "/dev/null", "rw"),),
                    annotations={"example.com/a": "b"},
                    cdi_devices=(CdiDevice("example.com/c=0"),),
                ),
            )
        )

    async with plugin_world(directory).running() as world:
        plugin = DevicePluginServer((device("a"), device("b", "Unhealthy")), answer=answer)
        async with plugged(world, directory, plugin):
            await world.sleep(15)
            assert await amounts(world) == ("2", "1")
            own = limited(1, env=())
            world.add(pod("web-n1", "", own))
            assert await running(world, "web") == {"DEV": "a", "OWN": "plugin"}
            (record,) = world.running_containers("uid-web-n1")
            config = world.engine.containers[record.id].config
            assert config.devices == (
                DeviceMapping(host_path="/dev/null", container_path="/dev/x", permissions="rw"),
            )
            assert [(m.host_path, m.container_path, m.read_only) for m in config.mounts] == [
                ("/out", "/in", True)
            ]
            assert config.cdi_devices == ("example.com/c=0",)
            assert config.oci_annotations == {"example.com/a": "b"}


@virtual()
async def test_a_static_pod_runs_without_a_resource_that_the_node_does_not_have() -> None:
    world = World()
    async with world.running():
        world.add(asking("web", 1))
        await running(world, "web")
        await world.sleep(5)
        events = await world.events("web-n1", "Degraded")
        assert [event.message for event in events] == [f"the node has no {RESOURCE}"]


@virtual()
async def test_the_registration_socket_belongs_to_the_user(directory: Path) -> None:
    async with plugin_world(directory).running() as world:
        path = directory / "device-plugins/kubelet.sock"
        await world.until(path.is_socket)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        await world.stop_kubelet()
        assert not path.exists()


@virtual()
async def test_other_users_may_not_write_to_the_directory(directory: Path) -> None:
    (directory / "device-plugins").mkdir()
    (directory / "device-plugins").chmod(0o777)
    async with plugin_world(directory).running() as world:
        await world.sleep(15)
        assert not (directory / "device-plugins/kubelet.sock").exists()
        (ready,) = [c for c in (await world.node()).status.conditions if c.type == "Ready"]
        assert "device plugins failed" in ready.message
        assert "is writable by other users" in ready.message


@virtual()
async def test_the_directory_of_a_running_kubelet_is_refused(directory: Path) -> None:
    path = directory / "device-plugins/kubelet.sock"
    async with plugin_world(directory).running() as world:
        await world.until(path.is_socket)
        before = path.stat().st_ino
        async with plugin_world(directory).running() as other:
            await other.sleep(15)
            (ready,) = [c for c in (await other.node()).status.conditions if c.type == "Ready"]
            assert "is that of a running kubelet" in ready.message
        assert path.stat().st_ino == before


@virtual()
async def test_registrations_are_refused_with_the_kubelets_texts(directory: Path) -> None:
    async with plugin_world(directory).running() as world:
        kubelet = directory / "device-plugins/kubelet.sock"
        await world.until(kubelet.is_socket)
        plugin = DevicePluginServer()
        with pytest.raises(RpcError) as caught:
            await plugin.register(kubelet, kubelet.with_name("p.sock"), "v1")
        assert str(caught.value) == (
            'rpc error: code = Unknown desc = requested API version "v1" is not supported by'
            ' kubelet. Supported version is ["v1beta1"]'
        )
        with pytest.raises(RpcError) as caught:
            await DevicePluginServer(resource="cpu").register(kubelet, kubelet)
        assert str(caught.value).endswith('the ResourceName "cpu" is invalid')
        with pytest.raises(RpcError, match=r"failed to get device plugin options: .*No such file"):
            await plugin.register(kubelet, kubelet.with_name("absent.sock"))


@virtual()
async def test_a_pod_without_a_free_device_is_rejected(directory: Path) -> None:
    async with (
        plugin_world(directory).running() as world,
        plugged(world, directory, DevicePluginServer((device("a"),))),
    ):
        await world.sleep(15)
        world.add(asking("web", 1))
        await running(world, "web")
        world.add(asking("next", 1))
        await world.sleep(5)
        status = await world.status("next-n1")
        assert (status.phase, status.reason) == ("Failed", "UnexpectedAdmissionError")
        assert status.message == (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable"
            f" for {RESOURCE}. Requested: 1, Available: 0, which is unexpected"
        )
        world.remove("uid-web-n1", "uid-next-n1")
        await world.sleep(40)
        world.add(asking("last", 1))
        assert await running(world, "last") == {"DEVICES": "a"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"failure": "broken"},
            "Allocate failed due to rpc error: code = Unknown desc = broken, which is unexpected",
        ),
        (
            {"answer": lambda ids: AllocateResponse()},
            (
                "Allocate failed due to no containers return in allocation response , which is "
                "unexpected"
            ),
        ),
        (
            {"answer": lambda ids: CdiDevice("\x01")},
            (
                "Allocate failed due to rpc error: code = Internal desc = grpc: failed to "
                "unmarshal the received message: illegal tag 0, which is unexpected"
            ),
        ),
        (
            {"delay": 3600.0},
            (
                "Allocate failed due to rpc error: code = DeadlineExceeded desc = context deadline "
                "exceeded, which is unexpected"
            ),
        ),
    ],
    ids=["refuses", "answers nothing", "answers something else", "is slow"],
)
@virtual()
async def test_allocate_that_fails_rejects_the_pod(
    directory: Path, changes: dict[str, object], message: str
) -> None:
    async with plugin_world(directory).running() as world:
        plugin = DevicePluginServer((device("a"),), **changes)  # type: ignore[arg-type]
        async with plugged(world, directory, plugin):
            await world.sleep(15)
            world.add(asking("web", 1))
            await world.sleep(90)
            status = await world.status("web-n1")
            assert status.message == f"Pod was rejected: {message}"
            plugin.failure, plugin.delay = "", 0.0
            plugin.answer = DevicePluginServer().answer
            world.add(asking("next", 1))
            assert await running(world, "next") == {"DEVICES": "a"}


@pytest.mark.parametrize("crashes", [False, True])
@virtual()
async def test_a_plugin_that_goes_leaves_no_allocatable_devices_and_then_no_capacity(
    directory: Path, crashes: bool
) -> None:
    async with plugin_world(directory).running() as world:
        gone = DevicePluginServer((device("a"), device("b")), crashes=crashes)
        async with plugged(world, directory, gone):
            await world.sleep(15)
            assert await amounts(world) == ("2", "2")
            world.add(asking("web", 1))
            await running(world, "web")
        await world.sleep(15)
        assert await amounts(world) == ("2", "0")
        world.add(asking("next", 1))
        await world.sleep(5)
        assert (await world.status("next-n1")).message == (
            "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
            f"unhealthy devices {RESOURCE}, which is unexpected"
        )
        await world.sleep(320)
        assert await amounts(world) == ("0", "0")
        assert world.running_containers("uid-web-n1")
        # The plugin is back, with other devices.
        async with plugged(world, directory, DevicePluginServer((device("c"),)), "q.sock"):
            await world.sleep(15)
            assert await amounts(world) == ("1", "1")
            world.add(asking("last", 1))
            assert await running(world, "last") == {"DEVICES": "c"}


@virtual()
async def test_a_registration_replaces_an_earlier_one(directory: Path) -> None:
    async with (
        plugin_world(directory).running() as world,
        plugged(world, directory, DevicePluginServer((device("a"),))),
    ):
        await world.sleep(15)
        async with plugged(world, directory, DevicePluginServer((device("b"),)), "q.sock"):
            await world.sleep(15)
            world.add(asking("web", 1))
            assert await running(world, "web") == {"DEVICES": "b"}
            assert await amounts(world) == ("1", "1")


@virtual()
async def test_unhealthy_devices_are_not_allocated_and_their_users_show_it(directory: Path) -> None:
    async with (
        plugin_world(directory).running() as world,
        plugged(world, directory, DevicePluginServer((device("a"),))) as plugin,
    ):
        await world.sleep(15)
        world.add(asking("web", 1))
        await running(world, "web")
        await world.sleep(2)
        (status,) = (await world.status("web-n1")).containerStatuses
        (shown,) = status.allocatedResourcesStatus
        assert shown.name == RESOURCE
        assert [(r.resourceID, r.health) for r in shown.resources] == [("a", "Healthy")]
        plugin.report(device("a", "Unhealthy"))
        await world.sleep(15)
        assert await amounts(world) == ("1", "0")
        (status,) = (await world.status("web-n1")).containerStatuses
        (shown,) = status.allocatedResourcesStatus
        assert [(r.resourceID, r.health) for r in shown.resources] == [("a", "Unhealthy")]


@virtual()
async def test_running_containers_keep_their_devices_over_a_restart(directory: Path) -> None:
    async with plugin_world(directory).running() as world:
        async with plugged(world, directory, DevicePluginServer((device("a"), device("b")))):
            await world.sleep(15)
            world.add(asking("web", 1))
            assert await running(world, "web") == {"DEVICES": "a"}
            (before,) = world.running_containers("uid-web-n1")
        checkpoint = directory / "device-plugins/kubelet_internal_checkpoint"
        (entry,) = json.loads(checkpoint.read_text())["Data"]["PodDeviceEntries"]
        assert (entry["PodUID"], entry["DeviceIDs"]) == ("uid-web-n1", {"-1": ["a"]})
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.sleep(15)
        # The plugin is not back yet.
        assert await amounts(world) == ("0", "0")
        assert (await world.status("web-n1")).phase == "Running"
        async with plugged(world, directory, DevicePluginServer((device("a"), device("b")))):
            await world.sleep(15)
            world.add(asking("next", 1))
            assert await running(world, "next") == {"DEVICES": "b"}
            assert world.running_containers("uid-web-n1") == [before]


@virtual()
async def test_init_containers_pass_their_devices_on(directory: Path) -> None:
    async with (
        plugin_world(directory).running() as world,
        plugged(world, directory, DevicePluginServer((device("a"), device("b")))) as it,
    ):
        await world.sleep(15)
        world.add(pod("web-n1", "", limited(2), init=[limited(1, "i", command=("true",))]))
        assert await running(world, "web") == {"DEVICES": "a,b"}
        allocated = [
            call.container_requests[0].devices_ids for name, call in it.calls if name == "Allocate"
        ]
        assert allocated == [("a",), ("a", "b")]


@virtual()
async def test_preferred_devices_and_pre_start(directory: Path) -> None:
    options = DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True)
    async with plugin_world(directory).running() as world:
        plugin = DevicePluginServer((device("a"), device("b")), options=options)
        async with plugged(world, directory, plugin):
            await world.sleep(15)
            world.add(asking("web", 1))
            assert await running(world, "web") == {"DEVICES": "b"}
            assert [name for name, _ in plugin.calls[-3:]] == [
                "GetPreferredAllocation",
                "Allocate",
                "PreStartContainer",
            ]
            assert plugin.calls[-1][1].devices_ids == ("b",)


@virtual()
async def test_a_failed_pre_start_is_a_configuration_error(directory: Path) -> None:
    options = DevicePluginOptions(pre_start_required=True)
    async with plugin_world(directory).running() as world:
        plugin = DevicePluginServer((device("a"),), options=options)
        async with plugged(world, directory, plugin):
            await world.sleep(15)

            def answer(ids: tuple[str, ...]) -> AllocateResponse:
                plugin.failure = "not ready"
                return AllocateResponse((ContainerAllocateResponse(),))

            plugin.answer = answer
            world.add(asking("web", 1))
            await world.sleep(5)
            (status,) = (await world.status("web-n1")).containerStatuses
            assert status.state.waiting is not None
            assert (status.state.waiting.reason, status.state.waiting.message) == (
                "CreateContainerConfigError",
                (
                    "device plugin PreStartContainer rpc failed with err: rpc error: code = "
                    "Unknown desc = not ready"
                ),
            )
            plugin.failure = ""
            await running(world, "web")


@virtual()
async def test_the_registry_registers_plugins_by_their_sockets(directory: Path) -> None:
    async with plugin_world(directory).running() as world:
        await world.until((directory / "plugins_registry").is_dir)
        plugin = DevicePluginServer((device("a"),))
        async with plugin.serving(directory / "plugins_registry/p.sock"):
            await world.sleep(15)
            assert [status.plugin_registered for status in plugin.statuses] == [True]
            assert await amounts(world) == ("1", "1")
        await world.sleep(15)
        assert await amounts(world) == ("1", "0")


async def test_a_plugin_that_registers_while_the_kubelet_stops_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops, closed = asyncio.Event(), asyncio.Event()

    class Plugin:
        def close(self) -> None:
            closed.set()

    async def opened(_: str) -> Plugin:
        await stops.wait()
        return Plugin()

    monkeypatch.setattr(PluginConnection, "open", opened)
    plugins = DevicePlugins(directory, cast("DeviceManager", None), SystemClock())

    async def register() -> None:
        with pytest.raises(DeviceError, match="the kubelet is being stopped"):
            await plugins.register(RESOURCE, "p.sock", (VERSION,))

    async with asyncio.TaskGroup() as group:
        run = group.create_task(plugins.run())
        group.create_task(register())
        await until((directory / "device-plugins/kubelet.sock").is_socket)
        run.cancel()
        stops.set()
    assert closed.is_set()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {"kind": "DRAPlugin"},
            "RegisterPlugin error -- no handler registered for plugin type: DRAPlugin at socket ",
        ),
        (
            {"versions": ("v1", "v2")},
            (
                "RegisterPlugin error -- plugin validation failed with err: manager version, "
                "v1beta1, is not among plugin supported versions [v1 v2]"
            ),
        ),
        (
            {"resource": "x"},
            (
                "RegisterPlugin error -- plugin validation failed with err: invalid name of "
                'device plugin socket: the ResourceName "x" is invalid'
            ),
        ),
    ],
    ids=["type", "version", "name"],
)
@virtual()
async def test_the_registry_tells_plugins_why_they_are_refused(
    directory: Path, changes: dict[str, object], error: str
) -> None:
    async with plugin_world(directory).running() as world:
        await world.until((directory / "plugins_registry").is_dir)
        plugin = DevicePluginServer((device("a"),), **changes)  # type: ignore[arg-type]
        async with plugin.serving(directory / "plugins_registry/p.sock"):
            await world.sleep(3)
            assert plugin.statuses[0].error.startswith(error)
            tries = len(plugin.statuses)
            await world.sleep(60)
            assert tries < len(plugin.statuses) < 10


@virtual()
async def test_two_resources_in_one_container(directory: Path) -> None:
    other = "example.com/other"
    async with plugin_world(directory).running() as world:
        first = DevicePluginServer((device("a"),))
        second = DevicePluginServer(
            (device("z"),),
            resource=other,
            answer=lambda ids: AllocateResponse((ContainerAllocateResponse(envs={"Z": ids[0]}),)),
        )
        async with (
            plugged(world, directory, first),
            plugged(world, directory, second, "q.sock"),
        ):
            await world.sleep(15)
            both = {RESOURCE: "1", other: "1"}
            own = container(resources=ResourceRequirements(requests=both, limits=both))
            world.add(pod("web-n1", "", own))
            assert await running(world, "web") == {"DEVICES": "a", "Z": "z"}
