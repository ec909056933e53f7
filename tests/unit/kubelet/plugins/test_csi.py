"""Pods with volumes of CSI drivers, over gRPC on unix sockets, on the simulated engine."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from csi_driver import DRIVER, CsiDriverServer
from grpclib.const import Status
from kubelet_world import World, api_pod, container
from msgspec import structs
from virtual_time import virtual

from podtui.api.storage import CSIDriver, CSINode, VolumeAttachment
from podtui.api.summary import VolumeSummary
from podtui.api.v1 import (
    CSIVolumeSource,
    LocalObjectReference,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodSecurityContext,
    Secret,
    Volume,
    VolumeDevice,
    VolumeMount,
)
from podtui.errors import PodtuiError
from podtui.kubelet.plugins.csi_api import AccessMode, Capability, Unit, Usage
from podtui.kubelet.ports import Token, TokenRequest
from podtui.kubelet.volumes.csi_volumes import attachment_name, ephemeral_handle
from podtui.runtime.protocol import DeviceMapping

STAGES = (Capability.STAGE_UNSTAGE_VOLUME,)
NO_FIELDS: Mapping[str, Any] = {}
MOUNT = VolumeMount(name="d", mountPath="/d")


@pytest.fixture
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path: that of a unix socket has at most 107 bytes."""
    return tmp_path_factory.mktemp("d")


@pytest.fixture
def driver(directory: Path) -> CsiDriverServer:
    (directory / "data").mkdir()
    return CsiDriverServer(directory / "data", capabilities=STAGES)


def plugin_world(directory: Path) -> World:
    return World(plugin_dir=str(directory / "k"))


@asynccontextmanager
async def registered(
    world: World, directory: Path, driver: CsiDriverServer
) -> AsyncIterator[CsiDriverServer]:
    registry = directory / "k" / "plugins_registry"
    await world.until(registry.is_dir)
    async with driver.serving(registry / "d.sock"):
        await world.until(lambda: bool(driver.statuses))
        yield driver


async def declare(world: World, name: str = DRIVER, **spec: Any) -> None:
    """Store the CSIDriver; by default, its volumes are not attached."""
    spec = {
        "attachRequired": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
        **spec,
    }
    document = {"metadata": {"name": name}, "spec": spec}
    await world.store.put("csidrivers", msgspec.convert(document, CSIDriver))


async def bind(
    world: World, status: Mapping[str, Any] = NO_FIELDS, request: str = "", **spec: Any
) -> None:
    """Store a claim that is bound to a volume of the driver. ``status`` is that of the claim, which
    asks for the size of the volume, or for ``request``."""
    csi = {"driver": DRIVER, "volumeHandle": "vol-1", **spec.pop("csi", {})}
    ref = {"namespace": "default", "name": "data", "uid": "c1"}
    spec = {"claimRef": ref, "csi": csi, "accessModes": ["ReadWriteOnce"], **spec}
    document = {"metadata": {"name": "pv"}, "spec": spec}
    await world.store.put("persistentvolumes", msgspec.convert(document, PersistentVolume))
    claim = {
        "metadata": {"name": "data", "namespace": "default", "uid": "c1"},
        "spec": {
            "volumeName": "pv",
            "accessModes": spec["accessModes"],
            "resources": {
                "requests": {"storage": request} if request else spec.get("capacity", {})
            },
        },
        "status": {"phase": "Bound", **status},
    }
    await world.store.put("persistentvolumeclaims", msgspec.convert(claim, PersistentVolumeClaim))


@asynccontextmanager
async def csi_node(
    directory: Path, driver: CsiDriverServer, *, volume: Mapping[str, Any] = NO_FIELDS, **spec: Any
) -> AsyncIterator[World]:
    """Run a kubelet with the registered driver, whose CSIDriver has ``spec``, and a claim that is
    bound to a ``volume`` of it."""
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        await declare(world, **spec)
        await bind(world, **volume)
        yield world


def claiming(name: str = "web", *, read_only: bool | None = None, **spec: Any) -> Pod:
    source = PersistentVolumeClaimVolumeSource(claimName="data", readOnly=read_only)
    volumes = (Volume(name="d", persistentVolumeClaim=source),)
    return api_pod(name, container(volumeMounts=(MOUNT,)), volumes=volumes, **spec)


def inline(name: str = "web", driver: str = DRIVER, **source: Any) -> Pod:
    volumes = (Volume(name="d", csi=CSIVolumeSource(driver=driver, **source)),)
    return api_pod(name, container(volumeMounts=(MOUNT,)), volumes=volumes)


def target(directory: Path, volume: str, name: str = "web") -> Path:
    return directory / f"k/pods/uid-{name}/volumes/kubernetes.io~csi/{volume}/mount"


def staging(directory: Path) -> list[Path]:
    return [*(directory / f"k/plugins/kubernetes.io/csi/{DRIVER}").glob("*/globalmount")]


def sources(world: World, name: str = "web") -> list[str]:
    (record,) = world.running_containers(f"uid-{name}")
    config = world.engine.containers[record.id].config
    return [mount.host_path for mount in config.mounts if mount.container_path == "/d"]


async def running(world: World, name: str = "web") -> None:
    await world.until(lambda: bool(world.running_containers(f"uid-{name}")))


async def start(world: World, name: str = "web", **spec: Any) -> None:
    """Create a pod that uses the claim, and wait until it runs."""
    await world.create(claiming(name, **spec))
    await running(world, name)


async def claim_of(world: World) -> PersistentVolumeClaim:
    claim = await world.store.get("persistentvolumeclaims", "default", "data")
    assert isinstance(claim, PersistentVolumeClaim)
    return claim


async def failure(world: World, name: str = "web") -> str:
    """Wait for the first event about a mount, and return its message."""
    messages: list[str] = []
    for _ in range(100):
        messages = [event.message for event in await world.events(name, "FailedMount")]
        if messages:
            break
        await world.sleep(1)
    return messages[0]


# --- registration


@virtual()
async def test_a_driver_is_in_the_objects_of_the_node_while_it_is_registered(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.topology, driver.limit = {"topology.example.com/zone": "a"}, 3
    async with plugin_world(directory).running() as world:
        async with registered(world, directory, driver):
            assert [status.plugin_registered for status in driver.statuses] == [True]
            node = await world.node()
            ids = node.metadata.annotations["csi.volume.kubernetes.io/nodeid"]
            assert json.loads(ids) == {DRIVER: "node-7"}
            assert node.metadata.labels["topology.example.com/zone"] == "a"
            item = await world.store.get("csinodes", "", "n1")
            assert isinstance(item, CSINode)
            (entry,) = item.spec.drivers
            assert (entry.name, entry.nodeID, entry.topologyKeys) == (
                DRIVER,
                "node-7",
                ("topology.example.com/zone",),
            )
            assert entry.allocatable is not None
            assert entry.allocatable.count == 3
            assert [owner.uid for owner in item.metadata.ownerReferences] == [node.metadata.uid]
        await world.sleep(10)
        item = await world.store.get("csinodes", "", "n1")
        assert isinstance(item, CSINode)
        assert item.spec.drivers == ()
        annotations = (await world.node()).metadata.annotations
        assert "csi.volume.kubernetes.io/nodeid" not in annotations


@virtual()
@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ((), "Plugin returned an empty list for supported versions"),
        (("2.0.0",), "could not find a highest supported version"),
        (("0.3.0",), "highest supported version reported is 0.3.0, must be v1.x"),
    ],
)
async def test_a_driver_of_another_version_is_refused(
    directory: Path, driver: CsiDriverServer, versions: tuple[str, ...], problem: str
) -> None:
    driver.versions = versions
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        assert not driver.statuses[0].plugin_registered
        assert problem in driver.statuses[0].error


@virtual()
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"node_id": ""}, "driverNodeID must not be empty"),
        (
            {"failures": {"NodeGetInfo": (Status.INTERNAL, "bad")}},
            "code = Internal desc = bad",
        ),
        ({"delays": {"NodeGetInfo": 60.0}}, "code = DeadlineExceeded"),
        ({"topology": {"kubernetes.io/hostname": "x"}}, "detected topology value collision"),
    ],
)
async def test_a_driver_that_answers_wrongly_is_refused(
    directory: Path, driver: CsiDriverServer, change: dict[str, Any], problem: str
) -> None:
    for name, value in change.items():
        setattr(driver, name, value)
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        assert not driver.statuses[0].plugin_registered
        assert problem in driver.statuses[0].error
        item = await world.store.get("csinodes", "", "n1")
        assert item is None or (isinstance(item, CSINode) and item.spec.drivers == ())


# --- volumes of claims


@virtual()
async def test_the_volume_of_a_claim_is_staged_published_and_taken_back(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        await declare(world)
        attributes = {"volumeAttributes": {"a": "b"}, "fsType": "ext4"}
        await bind(world, csi=attributes, mountOptions=["noatime"])
        await start(world, read_only=True)
        path = target(directory, "pv")
        assert sources(world) == [str(path)]
        (stage,), (publish,) = driver.made("NodeStageVolume"), driver.made("NodePublishVolume")
        (staged,) = staging(directory)
        assert stage.staging_target_path == publish.staging_target_path == str(staged)
        assert (publish.volume_id, publish.target_path, publish.readonly) == (
            "vol-1",
            str(path),
            True,
        )
        assert publish.volume_context == {"a": "b"}
        capability = publish.volume_capability
        assert capability.access_mode.mode == AccessMode.SINGLE_NODE_WRITER
        assert (capability.mount.fs_type, capability.mount.mount_flags) == ("ext4", ("noatime",))
        data = json.loads((path.parent / "vol_data.json").read_bytes())
        assert data == {
            "attachmentID": attachment_name("vol-1", DRIVER, "n1"),
            "driverName": DRIVER,
            "nodeName": "n1",
            "specVolID": "pv",
            "volumeHandle": "vol-1",
            "volumeLifecycleMode": "Persistent",
        }
        await world.delete()
        await world.until(lambda: not staging(directory))
        assert driver.names() == [
            "NotifyRegistrationStatus",
            "NodeStageVolume",
            "NodePublishVolume",
            "NodeUnpublishVolume",
            "NodeUnstageVolume",
        ]
        assert not (directory / "k/pods/uid-web").exists()


@virtual()
async def test_pods_share_the_staged_volume(directory: Path, driver: CsiDriverServer) -> None:
    async with csi_node(directory, driver) as world:
        for name in ("web", "two"):
            await world.create(claiming(name))
            await running(world, name)
        await world.delete("web")
        await world.until(lambda: "NodeUnpublishVolume" in driver.names())
        await world.sleep(30)
        assert len(driver.made("NodeStageVolume")) == 1
        assert "NodeUnstageVolume" not in driver.names()
        assert len(staging(directory)) == 1


@virtual()
async def test_a_volume_of_a_driver_that_is_gone_keeps_no_other_one_staged(
    directory: Path, driver: CsiDriverServer
) -> None:
    # Drivers are tried in the order of their names.
    left = directory / "k/plugins/kubernetes.io/csi/a.example.com/h/globalmount"
    left.mkdir(parents=True)
    data = {"driverName": "a.example.com", "volumeHandle": "h"}
    (left.parent / "vol_data.json").write_text(json.dumps(data))
    async with csi_node(directory, driver) as world:
        await start(world)
        await world.delete()
        await world.until(lambda: not staging(directory))
        assert left.exists()
        driver.name = "a.example.com"
        again = directory / "k/plugins_registry/a.sock"
        async with driver.serving(again):
            await world.until(lambda: not left.exists())


@virtual()
async def test_a_pod_waits_for_its_driver(directory: Path, driver: CsiDriverServer) -> None:
    async with plugin_world(directory).running() as world:
        await declare(world)
        await bind(world)
        await world.create(claiming())
        assert await failure(world) == (
            'MountVolume.MountDevice failed for volume "pv" : kubernetes.io/csi:'
            " attacher.MountDevice failed to create newCsiDriverClient: driver name"
            f" {DRIVER} not found in the list of registered CSI drivers"
        )
        async with registered(world, directory, driver):
            await running(world)


@virtual()
async def test_a_pod_waits_until_its_volume_is_attached(
    directory: Path, driver: CsiDriverServer
) -> None:
    name = attachment_name("vol-1", DRIVER, "n1")
    document: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": False},
    }
    async with csi_node(directory, driver, attachRequired=True) as world:
        await world.store.put("volumeattachments", msgspec.convert(document, VolumeAttachment))
        await world.create(claiming())
        assert await failure(world) == (
            'MountVolume.WaitForAttach failed for volume "pv" : volume vol-1 is not attached for'
            f" volume attachment {name}"
        )
        assert not driver.made("NodeStageVolume")
        document["status"] = {"attached": True, "attachmentMetadata": {"device": "/dev/x"}}
        await world.store.put("volumeattachments", msgspec.convert(document, VolumeAttachment))
        await running(world)
        (publish,) = driver.made("NodePublishVolume")
        assert publish.publish_context == {"device": "/dev/x"}


async def store_key(world: World) -> None:
    secret = Secret(
        metadata=ObjectMeta(name="key", namespace="default"),
        data={"k": base64.b64encode(b"hidden").decode()},
    )
    await world.store.put("secrets", secret)


@virtual()
async def test_a_volume_is_not_mounted_before_the_node_says_that_it_is_in_use(
    directory: Path, driver: CsiDriverServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    document: dict[str, Any] = {
        "metadata": {"name": attachment_name("vol-1", DRIVER, "n1")},
        "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": True},
    }
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        await declare(world, attachRequired=True)
        await bind(world)
        await world.store.put("volumeattachments", msgspec.convert(document, VolumeAttachment))
        update = world.store.update

        async def fails(resource: str, *rest: Any) -> object:
            if resource == "nodes":
                raise PodtuiError("connection refused")
            return await update(resource, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(world.store, "update", fails)
            await world.create(claiming())
            assert await failure(world) == (
                'MountVolume.WaitForAttach failed for volume "pv" : Volume has not been added to'
                " the list of VolumesInUse in the node's volume status"
            )
            assert not driver.made("NodeStageVolume")
        await running(world)
        node = await world.store.get("nodes", "", "n1")
        assert isinstance(node, Node)
        assert node.status.volumesInUse == (f"kubernetes.io/csi/{DRIVER}^vol-1",)


@virtual()
async def test_secrets_go_to_the_driver(directory: Path, driver: CsiDriverServer) -> None:
    ref = {"name": "key", "namespace": "default"}
    async with csi_node(
        directory, driver, volume={"csi": {"nodeStageSecretRef": ref, "nodePublishSecretRef": ref}}
    ) as world:
        await world.create(claiming())
        assert await failure(world) == (
            'MountVolume.MountDevice failed for volume "pv" : fetching NodeStageSecretRef'
            " default/key failed: kubernetes.io/csi: failed to find the secret key in the"
            ' namespace default with error: secrets "key" not found'
        )
        await store_key(world)
        await running(world)
        (stage,), (publish,) = driver.made("NodeStageVolume"), driver.made("NodePublishVolume")
        assert stage.secrets == publish.secrets == {"k": "hidden"}


@virtual()
async def test_volumes_in_use_are_in_the_status_of_the_node(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with csi_node(directory, driver) as world:
        await start(world)
        await world.sleep(1)
        assert (await world.node()).status.volumesInUse == (f"kubernetes.io/csi/{DRIVER}^vol-1",)
        await world.delete()
        await world.until(lambda: not staging(directory))
        await world.sleep(5)
        assert (await world.node()).status.volumesInUse == ()


# --- volumes inside pods


@virtual()
async def test_a_volume_inside_a_pod_is_published_with_facts_about_the_pod(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        await declare(world, podInfoOnMount=True)
        await world.create(inline(volumeAttributes={"a": "b"}, readOnly=True))
        await running(world)
        assert sources(world) == [str(target(directory, "d"))]
        (publish,) = driver.made("NodePublishVolume")
        assert publish.volume_id == ephemeral_handle("uid-web", "d")
        assert publish.readonly
        assert publish.volume_context == {
            "a": "b",
            "csi.storage.k8s.io/ephemeral": "true",
            "csi.storage.k8s.io/pod.name": "web",
            "csi.storage.k8s.io/pod.namespace": "default",
            "csi.storage.k8s.io/pod.uid": "uid-web",
            "csi.storage.k8s.io/serviceAccount.name": "",
        }
        assert not driver.made("NodeStageVolume")


@virtual()
async def test_a_driver_must_allow_volumes_inside_pods(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        await world.create(inline())
        start = (
            'MountVolume.SetUp failed for volume "d" : kubernetes.io/csi: mounter.SetupAt failed to'
            ' check volume lifecycle mode: volume mode "Ephemeral" not supported by driver'
            f" {DRIVER}"
        )
        assert await failure(world) == f"{start} (no CSIDriver object)"
        await declare(world, volumeLifecycleModes=["Persistent"])
        await world.create(inline("two"))
        assert await failure(world, "two") == f'{start} (only supports ["Persistent"])'


@virtual()
async def test_a_missing_secret_of_a_volume_inside_a_pod(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        await declare(world)
        await world.create(inline(nodePublishSecretRef=LocalObjectReference(name="key")))
        assert (await failure(world)).startswith(
            'MountVolume.SetUp failed for volume "d" : fetching NodePublishSecretRef default/key'
            " failed: kubernetes.io/csi: failed to find the secret key"
        )


class Tokens:
    """Issues a token for each audience."""

    async def token(self, request: TokenRequest) -> Token:
        return Token(text=f"token-{request.audience}", expires=datetime(2026, 1, 2, tzinfo=UTC))

    async def changes(self) -> AsyncIterator[tuple[str, str]]:
        await asyncio.Event().wait()
        yield "", ""


@virtual()
@pytest.mark.parametrize("in_secrets", [None, True])
async def test_a_driver_gets_tokens_of_the_pod(
    directory: Path, driver: CsiDriverServer, in_secrets: bool | None
) -> None:
    world = plugin_world(directory)
    world.tokens = Tokens()
    world.kubelet = world.new_kubelet()
    async with world.running(), registered(world, directory, driver):
        requests = [{"audience": "vault"}]
        await declare(world, tokenRequests=requests, serviceAccountTokenInSecrets=in_secrets)
        await world.create(inline())
        await running(world)
        (publish,) = driver.made("NodePublishVolume")
        given, other = publish.volume_context, publish.secrets
        if in_secrets:
            given, other = other, given
        tokens = json.loads(given["csi.storage.k8s.io/serviceAccount.tokens"])
        assert tokens == {
            "vault": {"token": "token-vault", "expirationTimestamp": "2026-01-02T00:00:00Z"}
        }
        assert other == {}


@virtual()
async def test_a_volume_is_published_again_if_its_driver_wants_that(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with plugin_world(directory).running() as world, registered(world, directory, driver):
        await declare(world, requiresRepublish=True)
        await world.create(inline())
        await running(world)
        await world.sleep(150)
        assert len(driver.made("NodePublishVolume")) == 3
        driver.failures["NodePublishVolume"] = (Status.INTERNAL, "bad")
        await failure(world)
        assert len(world.running_containers("uid-web")) == 1
        assert target(directory, "d").exists()


@virtual()
async def test_a_volume_for_one_pod_is_not_published_for_two(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with csi_node(directory, driver, volume={"accessModes": ["ReadWriteOncePod"]}) as world:
        await start(world)
        await world.create(claiming("two"))
        assert await failure(world, "two") == (
            'MountVolume.SetUp failed for volume "pv" : volume uses the ReadWriteOncePod access'
            " mode and is already in use by another pod"
        )
        await world.delete()
        await running(world, "two")


# --- usage

STATS = (*STAGES, Capability.GET_VOLUME_STATS)


async def volumes_of(world: World, name: str = "web") -> tuple[VolumeSummary, ...]:
    summary = await world.kubelet.endpoints.summary()
    return next(pod.volume for pod in summary.pods if pod.podRef.name == name)


@virtual()
async def test_the_usage_of_a_volume_is_in_the_summary_and_the_metrics(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = STATS
    async with csi_node(directory, driver) as world:
        await start(world)
        await world.sleep(70)
        (volume,) = await volumes_of(world)
        assert msgspec.to_builtins(volume) == {
            "time": volume.time,
            "availableBytes": 60,
            "capacityBytes": 100,
            "usedBytes": 40,
            "inodes": 10,
            "inodesFree": 6,
            "inodesUsed": 4,
            "name": "d",
            "pvcRef": {"name": "data", "namespace": "default"},
        }
        (first, *_) = driver.made("NodeGetVolumeStats")
        assert (first.volume_id, first.volume_path) == ("vol-1", str(target(directory, "pv")))
        metrics = world.kubelet.endpoints.prometheus().decode()
        labels = '{namespace="default",persistentvolumeclaim="data"}'
        for line in ("used_bytes{} 40.0", "available_bytes{} 60.0", "inodes_used{} 4.0"):
            assert f"kubelet_volume_stats_{line.format(labels)}" in metrics
        # One call a minute, and none for a pod that has ended.
        await world.sleep(600)
        assert 10 <= len(driver.made("NodeGetVolumeStats")) <= 11
        await world.delete()
        await world.until(lambda: not staging(directory))
        await world.sleep(120)
        assert len(driver.made("NodeGetVolumeStats")) <= 12
        assert "persistentvolumeclaim=" not in world.kubelet.endpoints.prometheus().decode()


@virtual()
async def test_a_driver_without_usage_is_not_asked(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with csi_node(directory, driver) as world:
        await start(world)
        await world.sleep(130)
        assert not driver.made("NodeGetVolumeStats")
        assert await volumes_of(world) == ()


@virtual()
@pytest.mark.parametrize(
    "change",
    [
        {"failures": {"NodeGetVolumeStats": (Status.INTERNAL, "bad")}},
        {"delays": {"NodeGetVolumeStats": 3600.0}},
        {"usage": ()},
        {"usage": (Usage(-1, 2, 3, Unit.BYTES),)},
        {"usage": (Usage(1, 2, 3, 7),), "expected": 0},
    ],
)
async def test_wrong_usage_of_one_volume_harms_no_other(
    directory: Path, driver: CsiDriverServer, change: dict[str, Any]
) -> None:
    driver.capabilities = STATS
    other = CsiDriverServer(driver.data, "other.example.com", capabilities=STATS)
    expected = change.pop("expected", None)
    for name, value in change.items():
        setattr(driver, name, value)
    socket = directory / "k/plugins_registry/o.sock"
    async with csi_node(directory, driver) as world, other.serving(socket):
        await declare(world, name=other.name)
        await start(world)
        await world.create(inline("two", driver=other.name))
        await running(world, "two")
        await world.sleep(200)
        figures = [volume.usedBytes for volume in await volumes_of(world)]
        assert figures == ([] if expected is None else [expected])
        assert [volume.usedBytes for volume in await volumes_of(world, "two")] == [40]
        await world.delete()
        assert await world.until(lambda: not staging(directory)) < 60


# --- expansion

EXPANDS = (*STAGES, Capability.EXPAND_VOLUME)
PENDING = {
    "capacity": {"storage": "1Gi"},
    "allocatedResources": {"storage": "2Gi"},
    "allocatedResourceStatuses": {"storage": "NodeResizePending"},
    "conditions": [{"type": "FileSystemResizePending", "status": "True"}],
}
LARGER: Mapping[str, Any] = {"capacity": {"storage": "2Gi"}, "status": PENDING}
SMALL: Mapping[str, Any] = {
    "capacity": {"storage": "1Gi"},
    "status": {"capacity": {"storage": "1Gi"}},
}
SUCCESS = 'MountVolume.NodeExpandVolume succeeded for volume "pv" n1'


@virtual()
@pytest.mark.parametrize("online", [False, True])
async def test_a_volume_is_expanded(directory: Path, driver: CsiDriverServer, online: bool) -> None:
    driver.capabilities = EXPANDS
    async with csi_node(directory, driver, volume=SMALL if online else LARGER) as world:
        await start(world)
        if online:
            await world.sleep(5)
            assert not driver.made("NodeExpandVolume")
            await bind(world, **LARGER)
            assert await world.until(lambda: bool(driver.made("NodeExpandVolume"))) < 5
        await world.sleep(300)
        (expand,) = driver.made("NodeExpandVolume")
        assert expand.capacity_range.required_bytes == 2 << 30
        assert (expand.volume_id, expand.volume_path) == ("vol-1", str(target(directory, "pv")))
        assert expand.staging_target_path == str(staging(directory)[0])
        status = (await claim_of(world)).status
        assert status.capacity == status.allocatedResources == {"storage": "2Gi"}
        assert (status.allocatedResourceStatuses, status.conditions) == ({}, ())
        for name in ("web", "data"):
            (event,) = await world.events(name, "FileSystemResizeSuccessful")
            assert event.message == SUCCESS
        assert len(world.running_containers("uid-web")) == 1


@virtual()
async def test_a_failed_expansion_is_reported_and_tried_again(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = EXPANDS
    driver.failures["NodeExpandVolume"] = (Status.INTERNAL, "no space")
    async with csi_node(directory, driver, volume=SMALL) as world:
        await start(world)
        await bind(world, **LARGER)
        await world.until(lambda: len(driver.made("NodeExpandVolume")) > 3)
        problem = (
            "Expander.NodeExpand failed to expand the volume : rpc error: code = Internal desc ="
            " no space"
        )
        (event,) = await world.events("web", "VolumeResizeFailed")
        text = f'NodeExpandVolume.NodeExpandVolume failed for volume "pv" : {problem}'
        assert event.message == text
        status = (await claim_of(world)).status
        assert status.allocatedResourceStatuses == {"storage": "NodeResizeInProgress"}
        (_, condition) = status.conditions
        assert condition.type == "NodeResizeError"
        assert condition.message == f"failed to expand pvc with {problem}"
        await world.sleep(600)
        assert len(driver.made("NodeExpandVolume")) < 20
        assert len(world.running_containers("uid-web")) == 1
        driver.failures.clear()
        await world.sleep(130)
        status = (await claim_of(world)).status
        assert (status.capacity, status.conditions) == ({"storage": "2Gi"}, ())


@virtual()
async def test_an_expansion_that_cannot_succeed_is_not_tried_again(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = EXPANDS
    driver.failures["NodeExpandVolume"] = (Status.OUT_OF_RANGE, "too large")
    async with csi_node(directory, driver, volume=SMALL) as world:
        await start(world)
        await bind(world, **LARGER)
        await world.sleep(300)
        assert len(driver.made("NodeExpandVolume")) == 1
        status = (await claim_of(world)).status
        assert status.allocatedResourceStatuses == {"storage": "NodeResizeInfeasible"}
        assert "NodeResizeError" in [condition.type for condition in status.conditions]
        (event,) = await world.events("web", "VolumeResizeFailed")
        assert "Expander.NodeExpand failed to expand the volume rpc error" in event.message


@virtual()
async def test_a_failed_expansion_is_given_up_if_the_claim_asks_for_another_size(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = EXPANDS
    driver.failures["NodeExpandVolume"] = (Status.INTERNAL, "no space")
    async with csi_node(directory, driver, volume=SMALL) as world:
        await start(world)
        await bind(world, request="3Gi", **LARGER)
        await world.sleep(300)
        status = (await claim_of(world)).status
        assert status.allocatedResourceStatuses == {"storage": "NodeResizeInfeasible"}
        assert len(driver.made("NodeExpandVolume")) == 2


@virtual()
async def test_a_pod_waits_until_its_volume_is_expanded(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = EXPANDS
    driver.failures["NodeExpandVolume"] = (Status.UNAVAILABLE, "gone")
    async with csi_node(directory, driver, volume=LARGER) as world:
        await world.create(claiming())
        assert await failure(world) == (
            'MountVolume.Setup failed while expanding volume for volume "pv" : Expander.NodeExpand'
            " failed to expand the volume : rpc error: code = Unavailable desc = gone"
        )
        assert not world.running_containers("uid-web")
        driver.failures.clear()
        await running(world)


@virtual()
async def test_a_volume_that_is_expanded_only_unused_blocks_no_pod(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = EXPANDS
    driver.failures["NodeExpandVolume"] = (Status.FAILED_PRECONDITION, "in use")
    async with csi_node(directory, driver, volume=LARGER) as world:
        await start(world)
        await world.sleep(300)
        assert len(driver.made("NodeExpandVolume")) == 1
        assert (await claim_of(world)).status.capacity == {"storage": "1Gi"}


@virtual()
async def test_a_driver_that_does_not_expand_volumes(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with csi_node(directory, driver, volume=LARGER) as world:
        await world.create(claiming())
        assert await failure(world) == (
            'MountVolume.Setup failed while expanding volume for volume "pv" : NodeExpand is not'
            f" supported by the CSI driver {DRIVER}"
        )
        # An older resizer leaves no mark, and expects nothing of the node.
        await bind(world, capacity=LARGER["capacity"], status={"capacity": {"storage": "1Gi"}})
        await running(world)
        assert not driver.made("NodeExpandVolume")


@virtual()
async def test_a_volume_without_marks_of_a_resizer_is_expanded(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = EXPANDS
    volume = {"capacity": {"storage": "2Gi"}, "status": {"capacity": {"storage": "1Gi"}}}
    async with csi_node(directory, driver, volume=volume) as world:
        await start(world)
        assert len(driver.made("NodeExpandVolume")) == 1
        status = (await claim_of(world)).status
        assert status.capacity == {"storage": "2Gi"}
        assert status.allocatedResources == {}


@virtual()
async def test_a_read_only_volume_is_not_expanded(directory: Path, driver: CsiDriverServer) -> None:
    driver.capabilities = EXPANDS
    async with csi_node(directory, driver, volume=LARGER) as world:
        await start(world, read_only=True)
        await world.sleep(130)
        text = 'MountVolume.NodeExpandVolume failed for volume "pv" requested read-only file system'
        for name in ("web", "data"):
            (event,) = await world.events(name, "FileSystemResizeFailed")
            assert event.message == text
        assert not driver.made("NodeExpandVolume")


@virtual()
@pytest.mark.parametrize(("mode", "calls"), [("ReadWriteMany", 1), ("ReadWriteOnce", 0)])
async def test_a_volume_that_another_node_expanded(
    directory: Path, driver: CsiDriverServer, mode: str, calls: int
) -> None:
    driver.capabilities = EXPANDS
    status = {"capacity": {"storage": "2Gi"}, "allocatedResources": {"storage": "2Gi"}}
    async with csi_node(directory, driver, volume={**SMALL, "accessModes": [mode]}) as world:
        await start(world)
        await world.sleep(70)
        await bind(world, capacity={"storage": "2Gi"}, status=status, accessModes=[mode])
        before = await claim_of(world)
        await world.sleep(200)
        assert len(driver.made("NodeExpandVolume")) == calls
        assert await claim_of(world) == before


@virtual()
async def test_the_secret_of_an_expansion_goes_to_the_driver(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = EXPANDS
    volume = {**LARGER, "csi": {"nodeExpandSecretRef": {"name": "key", "namespace": "default"}}}
    async with csi_node(directory, driver, volume=volume) as world:
        await world.create(claiming())
        assert (await failure(world)).startswith(
            'MountVolume.Setup failed while expanding volume for volume "pv" : expander.NodeExpand'
            " failed to get NodeExpandSecretRef default/key: kubernetes.io/csi: failed to find the"
            " secret key in the namespace default with error:"
        )
        await store_key(world)
        await running(world)
        (expand,) = driver.made("NodeExpandVolume")
        assert expand.secrets == {"k": "hidden"}


@virtual()
async def test_a_slow_expansion_delays_no_other_pod(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.capabilities = EXPANDS
    driver.delays["NodeExpandVolume"] = 3600.0
    async with csi_node(directory, driver, volume=SMALL) as world:
        await start(world)
        await bind(world, **LARGER)
        await world.until(lambda: bool(driver.made("NodeExpandVolume")))
        await world.create(inline("two"))
        assert await world.until(lambda: bool(world.running_containers("uid-two"))) < 10
        await world.until(lambda: len(driver.made("NodeExpandVolume")) > 1)
        (event,) = await world.events("web", "VolumeResizeFailed")
        assert "code = DeadlineExceeded" in event.message
        await world.delete()
        assert await world.until(lambda: not staging(directory)) < 180


# --- devices


def with_device(name: str = "web", *, read_only: bool | None = None) -> Pod:
    pod = claiming(name, read_only=read_only)
    device = container(volumeDevices=(VolumeDevice(name="d", devicePath="/dev/xvda"),))
    return structs.replace(pod, spec=structs.replace(pod.spec, containers=(device,)))


@virtual()
@pytest.mark.parametrize(("read_only", "permissions"), [(None, "mrw"), (True, "r")])
async def test_a_container_gets_the_device_of_a_block_volume(
    directory: Path, driver: CsiDriverServer, read_only: bool | None, permissions: str
) -> None:
    async with csi_node(directory, driver, volume={"volumeMode": "Block"}) as world:
        await world.create(with_device(read_only=read_only))
        await running(world)
        (stage,), (publish,) = driver.made("NodeStageVolume"), driver.made("NodePublishVolume")
        for request in (stage, publish):
            assert request.volume_capability.block is not None
            assert request.volume_capability.mount is None
        path = directory / "k/pods/uid-web/volumeDevices/kubernetes.io~csi/pv/device"
        assert publish.target_path == str(path)
        (record,) = world.running_containers("uid-web")
        config = world.engine.containers[record.id].config
        assert config.devices == (
            DeviceMapping(host_path=str(path), container_path="/dev/xvda", permissions=permissions),
        )
        assert not [mount for mount in config.mounts if mount.container_path == "/dev/xvda"]
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.delete()
        await world.until(lambda: not staging(directory))
        assert "NodeUnpublishVolume" in driver.names()
        assert not (directory / "k/pods/uid-web").exists()


@virtual()
@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        ("Block", "volume d has volumeMode Block, but is specified in volumeMounts"),
        ("Filesystem", "volume d has volumeMode Filesystem, but is specified in volumeDevices"),
    ],
)
async def test_a_volume_is_used_as_its_mode_says(
    directory: Path, driver: CsiDriverServer, mode: str, problem: str
) -> None:
    async with csi_node(directory, driver, volume={"volumeMode": mode}) as world:
        await world.create(claiming() if mode == "Block" else with_device())
        assert problem in await failure(world)
        assert not driver.made("NodePublishVolume")


# --- the group of the files


@virtual()
async def test_files_get_the_group_of_the_pod(directory: Path, driver: CsiDriverServer) -> None:
    async with csi_node(directory, driver, fsGroupPolicy="File") as world:
        group = os.stat(directory).st_gid
        await start(world, securityContext=PodSecurityContext(fsGroup=group))
        info = os.stat(target(directory, "pv"))
        assert (info.st_gid, info.st_mode & 0o2770) == (group, 0o2770)


@virtual()
async def test_a_driver_may_set_the_group_itself(directory: Path, driver: CsiDriverServer) -> None:
    driver.capabilities = (*STAGES, Capability.VOLUME_MOUNT_GROUP)
    async with csi_node(directory, driver, fsGroupPolicy="File") as world:
        await start(world, securityContext=PodSecurityContext(fsGroup=77))
        (publish,) = driver.made("NodePublishVolume")
        assert publish.volume_capability.mount.volume_mount_group == "77"
        assert not os.stat(target(directory, "pv")).st_mode & 0o2000


# --- faults


@virtual()
async def test_a_refused_volume_leaves_nothing_and_is_tried_again(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.failures["NodePublishVolume"] = (Status.INVALID_ARGUMENT, "no such volume")
    async with csi_node(directory, driver) as world:
        await world.create(claiming())
        assert await failure(world) == (
            'MountVolume.SetUp failed for volume "pv" : rpc error: code = InvalidArgument desc ='
            " no such volume"
        )
        assert not target(directory, "pv").parent.exists()
        driver.failures.clear()
        await running(world)


@virtual()
async def test_a_volume_of_which_the_result_is_uncertain_is_unpublished(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.failures["NodePublishVolume"] = (Status.UNAVAILABLE, "gone")
    async with csi_node(directory, driver) as world:
        await world.create(claiming())
        await failure(world)
        assert (target(directory, "pv").parent / "vol_data.json").exists()
        await world.delete()
        await world.until(lambda: not staging(directory))
        assert "NodeUnpublishVolume" in driver.names()


@virtual()
async def test_a_slow_driver_does_not_keep_a_pod_from_ending(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.delays["NodePublishVolume"] = 3600.0
    async with csi_node(directory, driver) as world:
        await world.create(claiming())
        await world.until(lambda: bool(driver.made("NodePublishVolume")))
        await world.delete()
        assert await world.until(lambda: not staging(directory)) < 60
        assert (
            'MountVolume.SetUp failed for volume "pv" : rpc error: code = DeadlineExceeded'
            not in [event.message for event in await world.events("web", "FailedMount")]
        )


@virtual()
async def test_a_driver_that_publishes_nothing_is_an_error(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.creates = False
    async with csi_node(directory, driver) as world:
        await world.create(claiming())
        path = target(directory, "pv")
        assert await failure(world) == (
            f'MountVolume.SetUp failed for volume "pv" : the driver {DRIVER} published nothing at'
            f" {path}"
        )


@virtual()
async def test_a_pod_ends_after_its_driver_has_unpublished_its_volume(
    directory: Path, driver: CsiDriverServer
) -> None:
    driver.failures["NodeUnpublishVolume"] = (Status.INTERNAL, "busy")
    async with csi_node(directory, driver) as world:
        await start(world)
        await world.delete()
        await world.until(lambda: len(driver.made("NodeUnpublishVolume")) > 1)
        assert await world.record("web") is not None
        driver.failures.clear()
        await world.until(lambda: not staging(directory))
        await world.sleep(5)
        assert await world.record("web") is None


@virtual()
async def test_a_later_kubelet_unpublishes_what_a_killed_one_left(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with csi_node(directory, driver) as world:
        await start(world)
        await world.stop_kubelet()
        await world.store.delete("pods", "default", "web")
        await world.start_kubelet()
        await world.until(lambda: not staging(directory))
        assert driver.names()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]
        assert not (directory / "k/pods/uid-web").exists()


@virtual()
async def test_a_later_kubelet_publishes_again_and_restarts_nothing(
    directory: Path, driver: CsiDriverServer
) -> None:
    async with csi_node(directory, driver) as world:
        await start(world)
        before = world.running_containers("uid-web")
        await world.stop_kubelet()
        await world.start_kubelet()
        await world.until(lambda: len(driver.made("NodePublishVolume")) == 2)
        await world.sleep(30)
        assert [c.id for c in world.running_containers("uid-web")] == [c.id for c in before]
        assert "NodeUnpublishVolume" not in driver.names()
