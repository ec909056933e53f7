"""Persistent volumes, claims, and storage classes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from podtui.api.storage import StorageClass
from podtui.api.times import since
from podtui.api.v1 import PersistentVolume, PersistentVolumeClaim
from podtui.manifest.strategies import volumes
from podtui.manifest.validation.storage_classes import is_default_class
from podtui.manifest.validation.volume_claims import class_of_claim, class_of_volume
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import AGE, NAME, Cell, Columns, TableColumn

_SHORT_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_UNSET: Final = "<unset>"


def short_modes(modes: Iterable[str]) -> str:
    """Return access modes as Tables show them: ``RWO,RWX``."""
    given = set(modes)
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in given)


def _volume(item: PersistentVolume, now: datetime) -> list[Cell]:
    meta, spec, claim = item.metadata, item.spec, item.spec.claimRef
    return [
        meta.name,
        spec.capacity.get("storage", "0"),
        short_modes(spec.accessModes),
        spec.persistentVolumeReclaimPolicy,
        item.status.phase if meta.deletionTimestamp is None else "Terminating",
        "" if claim is None else f"{claim.namespace}/{claim.name}",
        class_of_volume(item),
        spec.volumeAttributesClassName or _UNSET,
        item.status.reason,
        since(meta.creationTimestamp, now),
        spec.volumeMode or _UNSET,
    ]


def _claim(item: PersistentVolumeClaim, now: datetime) -> list[Cell]:
    meta, spec, status = item.metadata, item.spec, item.status
    bound = bool(spec.volumeName)
    return [
        meta.name,
        status.phase if meta.deletionTimestamp is None else "Terminating",
        spec.volumeName,
        status.capacity.get("storage", "0") if bound else "",
        short_modes(status.accessModes) if bound else "",
        class_of_claim(item) or "",
        spec.volumeAttributesClassName or _UNSET,
        since(meta.creationTimestamp, now),
        spec.volumeMode or _UNSET,
    ]


def _storage_class(item: StorageClass, now: datetime) -> list[Cell]:
    meta = item.metadata
    return [
        f"{meta.name} (default)" if is_default_class(item) else meta.name,
        item.provisioner,
        item.reclaimPolicy,
        item.volumeBindingMode,
        bool(item.allowVolumeExpansion),
        since(meta.creationTimestamp, now),
    ]


_CLASS = TableColumn("StorageClass", "The storage class.")
_ATTRIBUTES = TableColumn("VolumeAttributesClass", "The class of further attributes.")
_MODE = TableColumn("VolumeMode", "Whether it is a file system or a device.", wide=True)
_STATUS = {"status": ("get", "patch", "update")}
VOLUMES = Resource(
    api_version="v1",
    plural="persistentvolumes",
    singular="persistentvolume",
    kind="PersistentVolume",
    namespaced=False,
    columns=Columns(
        (
            NAME,
            TableColumn("Capacity", "The size of the volume."),
            TableColumn("Access Modes", "How the volume may be mounted."),
            TableColumn("Reclaim Policy", "What happens to the volume without its claim."),
            TableColumn("Status", "Whether the volume is bound to a claim."),
            TableColumn("Claim", "The claim to which the volume is bound, or reserved."),
            _CLASS,
            _ATTRIBUTES,
            TableColumn("Reason", "Why the volume has failed."),
            AGE,
            _MODE,
        ),
        _volume,
    ),
    short_names=("pv",),
    subresources=_STATUS,
    record="persistentvolumes",
    strategy=volumes.VOLUMES,
    updates={"status": volumes.VOLUME_STATUS},
)
VOLUME_CLAIMS = Resource(
    api_version="v1",
    plural="persistentvolumeclaims",
    singular="persistentvolumeclaim",
    kind="PersistentVolumeClaim",
    namespaced=True,
    columns=Columns(
        (
            NAME,
            TableColumn("Status", "Whether the claim is bound to a volume."),
            TableColumn("Volume", "The volume to which the claim is bound."),
            TableColumn("Capacity", "The size of the volume."),
            TableColumn("Access Modes", "How the volume may be mounted."),
            _CLASS,
            _ATTRIBUTES,
            AGE,
            _MODE,
        ),
        _claim,
    ),
    short_names=("pvc",),
    subresources=_STATUS,
    record="persistentvolumeclaims",
    strategy=volumes.VOLUME_CLAIMS,
    updates={"status": volumes.VOLUME_CLAIM_STATUS},
)
STORAGE_CLASSES = Resource(
    api_version="storage.k8s.io/v1",
    plural="storageclasses",
    singular="storageclass",
    kind="StorageClass",
    namespaced=False,
    columns=Columns(
        (
            NAME,
            TableColumn("Provisioner", "What creates the volumes of the class."),
            TableColumn("ReclaimPolicy", "What happens to its volumes without their claims."),
            TableColumn("VolumeBindingMode", "When claims are bound."),
            TableColumn("AllowVolumeExpansion", "Whether claims may ask for more later."),
            AGE,
        ),
        _storage_class,
    ),
    short_names=("sc",),
    record="storageclasses",
    strategy=volumes.STORAGE_CLASSES,
)
