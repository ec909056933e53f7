"""Pods with claims on the simulated engine: they wait for their volumes, and mount them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from kubelet_world import World, api_pod, container, pod
from msgspec import structs

from podtui.api.v1 import (
    HostPathVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    Volume,
    VolumeMount,
)
from podtui.runtime.protocol import NfsShare

pytestmark = pytest.mark.virtual_time
MOUNT = VolumeMount(name="d", mountPath="/d")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with World().running() as world:
        yield world


def claim(*, bound: bool = True, **meta: Any) -> PersistentVolumeClaim:
    document = {
        "metadata": {"name": "data", "namespace": "default", "uid": "c1", **meta},
        "spec": {"volumeName": "pv"} if bound else {},
        "status": {"phase": "Bound" if bound else "Pending"},
    }
    return msgspec.convert(document, PersistentVolumeClaim)


def volume(uid: str = "c1", **source: Any) -> PersistentVolume:
    source = source or {"hostPath": {"path": "/srv/data", "type": "DirectoryOrCreate"}}
    ref = {"namespace": "default", "name": "data", "uid": uid}
    document = {"metadata": {"name": "pv"}, "spec": {"claimRef": ref, **source}}
    return msgspec.convert(document, PersistentVolume)


def user(make: Any = api_pod, *, read_only: bool | None = None) -> Pod:
    source = PersistentVolumeClaimVolumeSource(claimName="data", readOnly=read_only)
    return make(
        "web",
        *(() if make is api_pod else ("u1",)),
        container(volumeMounts=(MOUNT,)),
        volumes=(Volume(name="d", persistentVolumeClaim=source),),
    )


def mounts(world: World) -> list[tuple[str, bool]]:
    """Return the host paths that the containers mount, and whether they are read-only."""
    return [
        (mount.host_path, mount.read_only)
        for cell in world.engine.containers.values()
        for mount in cell.config.mounts
        if mount.container_path == "/d"
    ]


async def failures(world: World) -> list[str]:
    listing = await world.store.list("events")
    return [item.message for item in listing.items if item.reason == "FailedMount"]


async def store(world: World, *items: PersistentVolume | PersistentVolumeClaim) -> None:
    for item in items:
        if isinstance(item, PersistentVolume):
            await world.store.put("persistentvolumes", item)
        else:
            await world.store.put("persistentvolumeclaims", item)


@pytest.mark.parametrize("make", [api_pod, pod])
async def test_a_pod_starts_as_soon_as_its_claim_is_bound(world: World, make: Any) -> None:
    await store(world, claim(bound=False))
    one = user(make)
    if make is pod:
        world.add(one)
    else:
        await world.create(one)
    await world.sleep(2)
    assert mounts(world) == []
    assert await failures(world) == []  # Nothing is wrong yet.
    await store(world, volume(), claim())
    took = await world.until(lambda: bool(mounts(world)))
    assert took < 1
    assert mounts(world) == [("/srv/data", False)]


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (
            (),
            ('failed to fetch PVC from API server: persistentvolumeclaims "data" not found'),
        ),
        ((claim(bound=False),), "PVC is not bound"),
        (
            (claim(deletionTimestamp="2026-01-01T00:00:00Z"), volume()),
            "PVC is being deleted",
        ),
        (
            (claim(), volume("c2")),
            (
                'found PV object pv with a pv.Spec.ClaimRef.UID "c2" that does not point'
                " to claim.UID"
                ' "c1"'
            ),
        ),
    ],
)
async def test_why_a_claim_cannot_be_used(
    world: World, items: tuple[PersistentVolume | PersistentVolumeClaim, ...], text: str
) -> None:
    await store(world, *items)
    await world.create(user())
    await world.sleep(30)
    found = await failures(world)
    assert found
    assert found[0] == (
        "Unable to attach or mount volumes: unmounted volumes=[d], unattached volumes=[], failed"
        f" to process volumes=[d]: error processing PVC default/data: {text}"
    )


async def test_a_volume_of_another_type_is_named(world: World) -> None:
    await store(world, claim(), volume(fc={"targetWWNs": ["w"], "lun": 0}))
    await world.create(user())
    await world.sleep(30)
    assert "of the types hostPath, local, nfs and csi only" in (await failures(world))[0]
    assert mounts(world) == []


async def test_a_share_of_an_nfs_server(world: World) -> None:
    options = ["nfsvers=4.1", "hard"]
    await store(world, claim(), volume(nfs={"server": "s", "path": "/p"}, mountOptions=options))
    why = "failed to mount local volume: mount :/p: connection refused"
    world.engine.nfs_errors["s"] = why
    await world.create(user())
    await world.sleep(30)
    text = f'MountVolume.SetUp failed for volume "d" : {why}'
    assert set(await failures(world)) == {text}
    assert not world.engine.containers
    del world.engine.nfs_errors["s"]
    await world.until(lambda: bool(world.engine.containers), 130)
    (cell,) = world.engine.containers.values()
    (share,) = [mount.nfs for mount in cell.config.mounts if mount.container_path == "/d"]
    assert share == NfsShare(server="s", path="/p", options=("nfsvers=4.1", "hard"))


async def test_a_relative_host_path_of_the_api(world: World) -> None:
    source = HostPathVolumeSource(path="html")
    made = api_pod(
        "web", container(volumeMounts=(MOUNT,)), volumes=(Volume(name="d", hostPath=source),)
    )
    await world.create(made)
    await world.sleep(30)
    text = 'MountVolume.SetUp failed for volume "d" : the hostPath "html" is not absolute'
    assert set(await failures(world)) == {text}


async def test_a_read_only_claim_and_a_local_volume(world: World) -> None:
    await store(world, claim(), volume(local={"path": "/srv"}))
    await world.create(user(read_only=True))
    await world.until(lambda: bool(mounts(world)))
    assert mounts(world) == [("/srv", True)]


async def test_a_running_pod_keeps_its_volume(world: World) -> None:
    await store(world, claim(), volume())
    await world.create(user())
    await world.until(lambda: bool(mounts(world)))
    await store(world, structs.replace(claim(bound=False)))
    await world.sleep(120)
    assert len(world.engine.containers) == 1
    assert await failures(world) == []
    await world.stop_kubelet()
    await store(world, claim(deletionTimestamp="2026-01-01T00:00:00Z"))
    await world.start_kubelet()
    await world.sleep(120)
    assert len(world.engine.containers) == 1
    assert await failures(world) == []
