"""CSI drivers, the drivers of nodes, and attachments of volumes."""

from __future__ import annotations

from datetime import datetime

from podtui.api.storage import CSIDriver, CSINode, VolumeAttachment
from podtui.api.times import since
from podtui.manifest.strategies import csi
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import AGE, NAME, Cell, Columns, TableColumn


def _driver(item: CSIDriver, now: datetime) -> list[Cell]:
    meta, spec = item.metadata, item.spec
    return [
        meta.name,
        spec.attachRequired is not False,
        bool(spec.podInfoOnMount),
        bool(spec.storageCapacity),
        ",".join(request.audience for request in spec.tokenRequests)
        if spec.tokenRequests
        else "<unset>",
        bool(spec.requiresRepublish),
        ",".join(spec.volumeLifecycleModes) or "<none>",
        since(meta.creationTimestamp, now),
    ]


def _node(item: CSINode, now: datetime) -> list[Cell]:
    meta = item.metadata
    return [meta.name, len(item.spec.drivers), since(meta.creationTimestamp, now)]


def _attachment(item: VolumeAttachment, now: datetime) -> list[Cell]:
    meta, spec = item.metadata, item.spec
    return [
        meta.name,
        spec.attacher,
        spec.source.persistentVolumeName,
        spec.nodeName,
        item.status.attached,
        since(meta.creationTimestamp, now),
    ]


CSI_DRIVERS = Resource(
    api_version="storage.k8s.io/v1",
    plural="csidrivers",
    singular="csidriver",
    kind="CSIDriver",
    namespaced=False,
    columns=Columns(
        (
            NAME,
            TableColumn("AttachRequired", "Whether volumes are attached to nodes.", type="boolean"),
            TableColumn("PodInfoOnMount", "Whether mounts tell the pod.", type="boolean"),
            TableColumn("StorageCapacity", "Whether it reports free space.", type="boolean"),
            TableColumn("TokenRequests", "The audiences of the tokens that it gets."),
            TableColumn("RequiresRepublish", "Whether mounts are renewed.", type="boolean"),
            TableColumn("Modes", "How long its volumes live."),
            AGE,
        ),
        _driver,
    ),
    record="csidrivers",
    strategy=csi.CSI_DRIVERS,
)
CSI_NODES = Resource(
    api_version="storage.k8s.io/v1",
    plural="csinodes",
    singular="csinode",
    kind="CSINode",
    namespaced=False,
    columns=Columns(
        (NAME, TableColumn("Drivers", "How many drivers have registered.", type="integer"), AGE),
        _node,
    ),
    record="csinodes",
    strategy=csi.CSI_NODES,
)
VOLUME_ATTACHMENTS = Resource(
    api_version="storage.k8s.io/v1",
    plural="volumeattachments",
    singular="volumeattachment",
    kind="VolumeAttachment",
    namespaced=False,
    columns=Columns(
        (
            NAME,
            TableColumn("Attacher", "The CSI driver that attaches the volume."),
            TableColumn("PV", "The persistent volume."),
            TableColumn("Node", "The node to which the volume is attached."),
            TableColumn("Attached", "Whether the volume is attached.", type="boolean"),
            AGE,
        ),
        _attachment,
    ),
    subresources={"status": ("get", "patch", "update")},
    record="volumeattachments",
    strategy=csi.VOLUME_ATTACHMENTS,
    updates={"status": csi.VOLUME_ATTACHMENT_STATUS},
)
