"""Pods with volumes of a CSI driver in another process, which mounts them, on the real engine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import csi_driver
import msgspec
import pytest
from engine_world import EngineWorld
from kubelet_world import api_pod, container

from podtui.api.storage import CSIDriver, CSINode
from podtui.api.summary import VolumeSummary
from podtui.api.v1 import (
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    Volume,
    VolumeMount,
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
    command: [sh, -c, 'COMMAND']
    volumeMounts: [{name: d, mountPath: /d}]
  volumes:
  - SOURCE
"""
CLAIM = "{name: d, persistentVolumeClaim: {claimName: data}}"
OWN = Volume(name="d", csi=CSIVolumeSource(driver=csi_driver.DRIVER, volumeAttributes={"a": "b"}))

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounts need root")


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("d")


def is_directory(path: Path) -> bool:
    return path.is_dir()


def content(path: Path) -> str:
    return path.read_text()


@asynccontextmanager
async def driver_process(directory: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a driver that publishes the directories below ``data``."""
    os.makedirs(directory / "data", exist_ok=True)
    registry = directory / "plugins_registry"
    async with asyncio.timeout(120):
        while not is_directory(registry):  # noqa: ASYNC110 - the kubelet makes it
            await asyncio.sleep(0.1)
    process = await asyncio.create_subprocess_exec(
        sys.executable, csi_driver.__file__, str(registry / "d.sock"), str(directory / "data")
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def declare(
    world: EngineWorld, status: Mapping[str, object] | None = None, **spec: object
) -> None:
    document = {
        "metadata": {"name": csi_driver.DRIVER},
        "spec": {
            "attachRequired": False,
            "podInfoOnMount": True,
            "fsGroupPolicy": "None",
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
        },
    }
    await world.store.put("csidrivers", msgspec.convert(document, CSIDriver))
    volume = {
        "metadata": {"name": "pv"},
        "spec": {
            "claimRef": {"namespace": "default", "name": "data", "uid": "c1"},
            "csi": {"driver": csi_driver.DRIVER, "volumeHandle": "vol-1"},
            "accessModes": ["ReadWriteOnce"],
            **spec,
        },
    }
    claim = {
        "metadata": {"name": "data", "namespace": "default", "uid": "c1"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound", **(status or {})},
    }
    await world.store.put("persistentvolumes", msgspec.convert(volume, PersistentVolume))
    await world.store.put("persistentvolumeclaims", msgspec.convert(claim, PersistentVolumeClaim))


def mounts(directory: Path) -> list[str]:
    with open("/proc/self/mountinfo") as file:
        return [path for line in file if (path := line.split()[4]).startswith(str(directory))]


async def until_unmounted(directory: Path) -> None:
    async with asyncio.timeout(120):
        while mounts(directory):  # noqa: ASYNC110 - the driver unmounts them
            await asyncio.sleep(0.1)


def manifest(name: str, source: str, command: str) -> str:
    text = POD.replace("NAME", name).replace("SOURCE", source)
    return text.replace("COMMAND", command)


async def test_containers_see_what_a_driver_mounts(engine_url: str, directory: Path) -> None:
    world = EngineWorld(engine_url, plugin_dir=str(directory))
    async with world.running(), driver_process(directory):
        await declare(world)
        world.add(manifest("web", CLAIM, "echo kept > /d/file; cat /d/attributes"))
        output = await world.output("web", "c")
        assert "csi.storage.k8s.io/pod.name" in output
        assert content(directory / "data/vol-1/file") == "kept\n"
        await until_unmounted(directory)
        # Static pods may not have volumes of CSI drivers of their own.
        mount = VolumeMount(name="d", mountPath="/d")
        reader = container(
            image="busybox:1.36", command=("cat", "/d/attributes"), volumeMounts=(mount,)
        )
        await world.store.put("pods", api_pod("own-n1", reader, policy="Never", volumes=(OWN,)))
        assert "('a', 'b')" in await world.output("own", "c")
        await until_unmounted(directory)


async def test_a_volume_is_expanded_and_its_usage_is_reported(
    engine_url: str, directory: Path
) -> None:
    world = EngineWorld(engine_url, plugin_dir=str(directory))
    pending = {
        "capacity": {"storage": "1Gi"},
        "allocatedResources": {"storage": "2Gi"},
        "allocatedResourceStatuses": {"storage": "NodeResizePending"},
    }
    async with world.running(), driver_process(directory):
        await declare(world, pending, capacity={"storage": "2Gi"})
        world.add(manifest("web", CLAIM, "cat /d/size > /d/copy; sleep 3600"))
        await world.until(lambda s: s.phase == "Running", "web")
        claim = await world.store.get("persistentvolumeclaims", "default", "data")
        assert isinstance(claim, PersistentVolumeClaim)
        assert claim.status.capacity == {"storage": "2Gi"}
        async with asyncio.timeout(180):
            while not (volumes := await usage(world)):  # noqa: ASYNC110 - asked once a minute
                await asyncio.sleep(1)
        assert content(directory / "data/vol-1/copy") == str(2 << 30)
        info = os.statvfs(directory)
        assert [volume.capacityBytes for volume in volumes] == [info.f_blocks * info.f_frsize]
        assert [volume.name for volume in volumes] == ["d"]
        world.remove("web")
        await until_unmounted(directory)


def create_disk(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 20)


async def test_a_container_writes_to_the_device_of_a_block_volume(
    engine_url: str, directory: Path
) -> None:
    world = EngineWorld(engine_url, plugin_dir=str(directory))
    async with world.running(), driver_process(directory):
        create_disk(directory / "data/vol-1")
        await declare(world, volumeMode="Block")
        write = "dd of=/dev/xvda conv=sync,fsync 2> /dev/null"
        command = f"echo kept | {write} && test -b /dev/xvda && echo done"
        world.add(
            manifest("web", CLAIM, command).replace(
                "volumeMounts: [{name: d, mountPath: /d}]",
                "volumeDevices: [{name: d, devicePath: /dev/xvda}]",
            )
        )
        assert (await world.output("web", "c")).endswith("done")
        await until_unmounted(directory)
        assert content(directory / "data/vol-1").startswith("kept\n")


async def usage(world: EngineWorld) -> tuple[VolumeSummary, ...]:
    summary = await world.kubelet.endpoints.summary()
    return tuple(volume for pod in summary.pods for volume in pod.volume)


async def test_a_driver_that_is_killed_comes_back_and_unmounts(
    engine_url: str, directory: Path
) -> None:
    world = EngineWorld(engine_url, plugin_dir=str(directory))
    async with world.running():
        await declare(world)
        async with driver_process(directory):
            world.add(manifest("web", CLAIM, "echo started; sleep 3600"))
            await world.until(lambda s: s.phase == "Running", "web")
            assert len(mounts(directory)) == 1
        # The container runs on, and the pod cannot end before its driver is back.
        os.unlink(directory / "plugins_registry/d.sock")
        world.remove("web")
        await asyncio.sleep(5)
        assert len(mounts(directory)) == 1
        item = await world.store.get("csinodes", "", "n1")
        assert isinstance(item, CSINode)
        assert item.spec.drivers == ()
        async with driver_process(directory):
            await until_unmounted(directory)
