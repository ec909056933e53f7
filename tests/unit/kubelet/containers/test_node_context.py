"""The engine's and the node's properties reach containers and statuses, in a whole kubelet."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kubelet_world import World, container, pod

from podtui.api.v1 import EmptyDirVolumeSource, Volume, VolumeMount
from podtui.runtime.protocol import ContainerConfig

pytestmark = pytest.mark.virtual_time
UID = "uid-web-n1"


def config_of(world: World) -> ContainerConfig:
    return world.engine.containers[world.containers(UID)[0].id].config


@pytest.mark.parametrize(
    ("seccomp_default", "profile"), [(False, "unconfined"), (True, "runtime/default")]
)
async def test_a_container_without_a_seccomp_profile_has_the_nodes_default(
    seccomp_default: bool, profile: str
) -> None:
    world = World(seccomp_default=seccomp_default)
    async with world.running():
        world.add(pod("web-n1", ""))
        await world.until(world.runs(UID))
        assert config_of(world).security.seccomp == profile


@pytest.mark.parametrize(("supported", "shown"), [(False, "Disabled"), (True, "Enabled")])
async def test_a_mount_is_recursively_read_only_if_the_engine_supports_it(
    supported: bool, shown: str
) -> None:
    world = World()
    world.engine.info = replace(world.engine.info, recursive_read_only=supported)
    mount = VolumeMount(
        name="data", mountPath="/data", readOnly=True, recursiveReadOnly="IfPossible"
    )
    volume = Volume(name="data", emptyDir=EmptyDirVolumeSource())
    async with world.running():
        world.add(pod("web-n1", "", container("c", volumeMounts=(mount,)), volumes=(volume,)))
        await world.until(world.runs(UID))
        mounts = [m for m in config_of(world).mounts if m.container_path == "/data"]
        assert [m.recursive_read_only for m in mounts] == [supported]
        await world.sleep(1.0)
        (status,) = (await world.status()).containerStatuses
        assert [m.recursiveReadOnly for m in status.volumeMounts] == [shown]
