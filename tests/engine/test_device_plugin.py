"""A container with the device of a plugin in another process, on the real engine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import device_plugin
import pytest
from engine_world import EngineWorld

from podtui.api.v1 import Node
from podtui.kubelet.resource_managers.device_api import (
    AllocateResponse,
    CdiDevice,
    ContainerAllocateResponse,
)

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: busybox:1.36
    imagePullPolicy: IfNotPresent
    command: [sh, -c, 'cat /from-plugin/file; echo lost > /dev/from-plugin; stat -c %t,%T
      /dev/from-plugin; touch /from-plugin/x 2>/dev/null || echo read-only; echo $DEVICES']
    resources: {limits: {example.com/dev: 1}}
"""


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("d")


async def registration_socket(directory: Path) -> Path:
    """Wait until plugins can register; return the socket."""
    path = directory / "device-plugins/kubelet.sock"
    async with asyncio.timeout(120):
        while not path.exists():  # noqa: ASYNC110 - the kubelet makes it
            await asyncio.sleep(0.1)
    return path


async def wait_for_amounts(world: EngineWorld, capacity: str, allocatable: str) -> None:
    async with asyncio.timeout(120):
        while True:
            node = await world.store.get("nodes", "", "n1")
            if isinstance(node, Node):
                has = (node.status.capacity, node.status.allocatable)
                if [each.get("example.com/dev") for each in has] == [capacity, allocatable]:
                    return
            await asyncio.sleep(0.1)


async def test_a_container_has_the_device_of_a_plugin(engine_url: str, directory: Path) -> None:
    data = directory / "data"
    data.mkdir()
    (data / "file").write_text("content\n")
    world = EngineWorld(engine_url, plugin_dir=str(directory))
    async with world.running():
        sockets = (await registration_socket(directory)).parent
        process = await asyncio.create_subprocess_exec(
            sys.executable, device_plugin.__file__, str(sockets), str(data)
        )
        try:
            await wait_for_amounts(world, "1", "1")
            world.add(POD.replace("NAME", "web"))
            output = await world.output("web", "c")
            # Major and minor number of /dev/null.
            assert output == "content\n1,3\nread-only\na"
        finally:
            process.kill()
            await process.wait()
        await wait_for_amounts(world, "1", "0")


async def test_an_engine_without_cdi_devices_refuses_them(engine_url: str, directory: Path) -> None:
    world = EngineWorld(engine_url, plugin_dir=str(directory))
    async with world.running():
        kubelet = await registration_socket(directory)
        info = await world.runtime.read_info()
        if not any("CDI" in text for text in info.lacking):
            pytest.skip("this engine has CDI devices")
        plugin = device_plugin.DevicePluginServer(
            (device_plugin.device("a"),),
            answer=lambda ids: AllocateResponse(
                (ContainerAllocateResponse(cdi_devices=(CdiDevice("example.com/dev=0"),)),)
            ),
        )
        socket = kubelet.with_name("p.sock")
        async with plugin.serving(socket):
            await plugin.register(kubelet, socket)
            await wait_for_amounts(world, "1", "1")
            world.add(POD.replace("NAME", "web"))
            status = await world.until(
                lambda s: (
                    any(each.state.waiting for each in s.containerStatuses)
                    and s.containerStatuses[0].state.waiting.reason == "CreateContainerError"
                ),  # type: ignore[union-attr]
                "web",
            )
            waiting = status.containerStatuses[0].state.waiting
            assert waiting is not None
            assert waiting.message == (
                "example.com/dev=0: the engine has no CDI devices; Docker has them since version 25"
            )
