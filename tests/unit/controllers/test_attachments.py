"""Volumes of CSI drivers are attached to the nodes of their pods, and detached after them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import structs
from set_world import MemoryApi, RecordedEvents, Time

from podtui.api.claims import attachment_name, volume_in_use
from podtui.api.objects import Object
from podtui.api.storage import CSIDriver, VolumeAttachment, VolumeAttachmentStatus, VolumeError
from podtui.api.v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from podtui.client.cache import Cache
from podtui.controllers.attachments import AttachmentController

KEY = ("n1", "pv")
OTHER = {
    "metadata": {"name": "other"},
    "spec": {"attacher": "d", "nodeName": "n1", "source": {"persistentVolumeName": "pv"}},
}


class AttachmentWorld:
    """A pod on the node n1, whose claim is bound to the volume pv of a driver."""

    def __init__(self) -> None:
        self.cache = Cache()
        volumes = (PersistentVolumeClaim, PersistentVolume, CSIDriver, VolumeAttachment)
        for kind in (Pod, Node, *volumes):
            self.cache.add_kind(kind)
            self.cache.replace(kind, ())
        self.api = MemoryApi(self.cache, Time().now)
        self.events = RecordedEvents()
        self.controller = AttachmentController(self.cache, self.api, self.events)
        csi = {"driver": "d", "volumeHandle": "h"}
        self.add(PersistentVolume, {"name": "pv"}, spec={"csi": csi})
        claim = {"name": "c", "namespace": "ns"}
        self.add(PersistentVolumeClaim, claim, spec={"volumeName": "pv"})
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
        self.pod = self.add(
            Pod,
            {"name": "p", "namespace": "ns"},
            spec={"nodeName": "n1", "containers": [], "volumes": [volume]},
        )

    def add(self, kind: type[Any], metadata: dict[str, Any], **parts: Any) -> Any:
        return self.api.put(msgspec.convert({"metadata": metadata, **parts}, kind))

    def sync(self) -> None:
        asyncio.run(self._sync())

    async def _sync(self) -> None:
        await self.controller.sync(KEY)

    def attachments(self) -> list[VolumeAttachment]:
        return self.cache.list(VolumeAttachment)

    def end_pod(self) -> None:
        self.pod = self.api.put(
            structs.replace(self.pod, status=structs.replace(self.pod.status, phase="Succeeded"))
        )


@pytest.fixture
def world() -> AttachmentWorld:
    return AttachmentWorld()


def test_a_volume_is_attached_to_the_node_of_its_pod(world: AttachmentWorld) -> None:
    world.sync()
    world.sync()
    (item,) = world.attachments()
    assert item.metadata.name == attachment_name("h", "d", "n1")
    assert (item.spec.attacher, item.spec.nodeName) == ("d", "n1")
    assert item.spec.source.persistentVolumeName == "pv"
    assert not item.status.attached


def test_every_change_leads_to_the_volume(world: AttachmentWorld) -> None:
    world.sync()
    driver = msgspec.convert({"metadata": {"name": "d"}, "spec": {}}, CSIDriver)
    changed: list[Object] = [
        world.pod,
        *world.cache.list(PersistentVolumeClaim),
        *world.cache.list(PersistentVolume),
        *world.attachments(),
        driver,
        msgspec.convert({"metadata": {"name": "n1"}}, Node),
    ]
    for item in changed:
        assert [*world.controller.kinds[type(item)](item)] == [KEY], item


def test_a_driver_may_not_need_it(world: AttachmentWorld) -> None:
    world.add(CSIDriver, {"name": "d"}, spec={"attachRequired": False})
    world.sync()
    assert world.attachments() == []


def test_a_volume_stays_attached_while_its_node_uses_it(world: AttachmentWorld) -> None:
    world.sync()
    world.end_pod()
    status = {"volumesInUse": [volume_in_use("d", "h")]}
    node = world.add(Node, {"name": "n1"}, status=status)
    world.sync()
    assert len(world.attachments()) == 1
    world.api.put(structs.replace(node, status=structs.replace(node.status, volumesInUse=())))
    world.sync()
    assert world.attachments() == []


def test_the_result_is_an_event_of_the_pod(world: AttachmentWorld) -> None:
    world.sync()
    (item,) = world.attachments()
    failed = VolumeAttachmentStatus(attachError=VolumeError(message="no space"))
    item = world.api.put(structs.replace(item, status=failed))
    world.sync()
    world.sync()
    world.api.put(structs.replace(item, status=VolumeAttachmentStatus(attached=True)))
    world.sync()
    assert world.events.events == [
        ("Warning", "FailedAttachVolume", 'AttachVolume.Attach failed for volume "pv" : no space'),
        ("Normal", "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "pv" '),
    ]


def test_an_attachment_of_another_client_stays_and_is_none_of_a_pod() -> None:
    world = AttachmentWorld()
    world.api.put(msgspec.convert(OTHER, VolumeAttachment))
    world.sync()
    names = {item.metadata.name for item in world.attachments()}
    assert names == {"other", attachment_name("h", "d", "n1")}
    world.end_pod()
    world.sync()
    assert [item.metadata.name for item in world.attachments()] == ["other"]
