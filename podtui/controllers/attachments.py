"""VolumeAttachments: which volumes of CSI drivers are attached to which nodes. The attacher of the
driver watches them, and reports when it has attached a volume."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from podtui.api.claims import attachment_name, claim_names, volume_in_use
from podtui.api.storage import (
    CSIDriver,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from podtui.api.v1 import Node, ObjectMeta, PersistentVolume, PersistentVolumeClaim, Pod
from podtui.client.cache import Cache, Key, Kind
from podtui.controllers.client import Writer
from podtui.controllers.events import ControllerEvents
from podtui.controllers.loop import Keys

NAME: Final = "attachdetach-controller"
_ENDED: Final = ("Succeeded", "Failed")
_OWN_NAME: Final = re.compile(r"csi-[0-9a-f]{64}")
"""Attachments with other names belong to other clients."""


def is_attached_by(volume: PersistentVolume, driver: CSIDriver | None) -> bool:
    """Return whether the volume's driver has to attach it to nodes."""
    required = driver is None or driver.spec.attachRequired is not False
    return volume.spec.csi is not None and required


class AttachmentController:
    """The name of a node and that of a volume are a key."""

    name = NAME

    def __init__(self, cache: Cache, writer: Writer, events: ControllerEvents) -> None:
        self._cache = cache
        self._writer = writer
        self._events = events
        self._recorded: dict[str, str] = {}
        """The last message about each attachment, by its UID."""

    @property
    def kinds(self) -> Mapping[Kind, Keys]:
        return {
            Pod: self._of_pod,
            PersistentVolumeClaim: self._of_claim,
            PersistentVolume: self._of_volume,
            CSIDriver: self._of_driver,
            VolumeAttachment: lambda item: [
                (item.spec.nodeName, item.spec.source.persistentVolumeName)
            ],
            Node: self._of_node,
        }

    def _of_pod(self, pod: Pod) -> Iterable[Key]:
        if pod.spec.nodeName:
            for name in claim_names(pod):
                claim = self._cache.get(PersistentVolumeClaim, pod.metadata.namespace, name)
                if claim is not None and claim.spec.volumeName:
                    yield (pod.spec.nodeName, claim.spec.volumeName)

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[Key]:
        if claim.spec.volumeName:
            for pod in self._cache.list(Pod, claim.metadata.namespace):
                if pod.spec.nodeName and claim.metadata.name in claim_names(pod):
                    yield (pod.spec.nodeName, claim.spec.volumeName)

    def _of_volume(self, volume: PersistentVolume) -> Iterable[Key]:
        for pod in self._cache.list(Pod):
            yield from (key for key in self._of_pod(pod) if key[1] == volume.metadata.name)

    def _of_driver(self, driver: CSIDriver) -> Iterable[Key]:
        for volume in self._cache.list(PersistentVolume):
            if volume.spec.csi is not None and volume.spec.csi.driver == driver.metadata.name:
                yield from self._of_volume(volume)

    def _of_node(self, node: Node) -> Iterable[Key]:
        for item in self._cache.list(VolumeAttachment):
            if item.spec.nodeName == node.metadata.name:
                yield (item.spec.nodeName, item.spec.source.persistentVolumeName)

    async def sync(self, key: Key) -> float | None:
        node_name, volume_name = key
        items = [
            item
            for item in self._cache.list(VolumeAttachment)
            if (item.spec.nodeName, item.spec.source.persistentVolumeName) == key
            and _OWN_NAME.fullmatch(item.metadata.name)
        ]
        pods = [
            pod
            for pod in self._cache.list(Pod)
            if pod.status.phase not in _ENDED and key in self._of_pod(pod)
        ]
        for item in items:
            self._report(item, pods)
        volume = self._cache.get(PersistentVolume, "", volume_name)
        if not pods:
            for item in items:
                if item.metadata.deletionTimestamp is None and not self._is_in_use(item, volume):
                    await self._writer.delete(VolumeAttachment, item)
            return None
        if not items and volume is not None and volume.spec.csi is not None:
            csi = volume.spec.csi
            if is_attached_by(volume, self._cache.get(CSIDriver, "", csi.driver)):
                new = attachment(csi.volumeHandle, csi.driver, node_name, volume_name)
                await self._writer.create(VolumeAttachment, new)
        return None

    def _is_in_use(self, item: VolumeAttachment, volume: PersistentVolume | None) -> bool:
        """Return whether the kubelet of the node may still have the volume mounted."""
        node = self._cache.get(Node, "", item.spec.nodeName)
        if node is None or volume is None or volume.spec.csi is None:
            return False
        csi = volume.spec.csi
        return volume_in_use(csi.driver, csi.volumeHandle) in node.status.volumesInUse

    def _report(self, item: VolumeAttachment, pods: Iterable[Pod]) -> None:
        """Record an event of each pod when the volume is attached, or could not be."""
        error, name = item.status.attachError, item.spec.source.persistentVolumeName
        if item.status.attached:
            message = f'AttachVolume.Attach succeeded for volume "{name}" '
        elif error is not None:
            message = f'AttachVolume.Attach failed for volume "{name}" : {error.message}'
        else:
            return
        if self._recorded.get(item.metadata.uid) == message:
            return
        self._recorded[item.metadata.uid] = message
        for pod in pods:
            if item.status.attached:
                self._events.record(NAME, pod, "Normal", "SuccessfulAttachVolume", message)
            else:
                self._events.record(NAME, pod, "Warning", "FailedAttachVolume", message)


def attachment(handle: str, driver: str, node: str, volume: str) -> VolumeAttachment:
    return VolumeAttachment(
        metadata=ObjectMeta(name=attachment_name(handle, driver, node)),
        spec=VolumeAttachmentSpec(
            attacher=driver,
            nodeName=node,
            source=VolumeAttachmentSource(persistentVolumeName=volume),
        ),
    )
