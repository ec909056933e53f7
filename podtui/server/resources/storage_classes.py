"""The admission plugins DefaultStorageClass, StorageObjectInUseProtection and
PersistentVolumeClaimResize, and the class that podtui publishes."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from podtui.api.objects import T
from podtui.api.storage import StorageClass
from podtui.api.v1 import ObjectMeta, PersistentVolume, PersistentVolumeClaim
from podtui.clock import Clock
from podtui.manifest.strategies.strategy import with_meta
from podtui.manifest.validation.storage_classes import DEFAULT_CLASS, is_default_class
from podtui.manifest.validation.volume_claims import class_of_claim, requested_storage
from podtui.server.resources.default_classes import newest_name, publish_class
from podtui.server.status import forbidden
from podtui.store.protocol import Records

STANDARD: Final = "standard"
PROVISIONER: Final = "podtui.dev/directory"
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"


def protected(item: T, finalizer: str) -> T:
    """Return the object with a finalizer."""
    finalizers = item.metadata.finalizers
    return item if finalizer in finalizers else with_meta(item, finalizers=(*finalizers, finalizer))


def protected_volume(item: PersistentVolume) -> PersistentVolume:
    return protected(item, VOLUME_PROTECTION)


async def admitted_claim(item: PersistentVolumeClaim, records: Records) -> PersistentVolumeClaim:
    """Return a new claim with the default class, if it does not say which one it wants, and with
    its finalizer. Of several default classes, the newest counts."""
    item = protected(item, CLAIM_PROTECTION)
    if class_of_claim(item) is not None:
        return item
    listing = await records.list("storageclasses")
    name = newest_name(
        each for each in listing.items if isinstance(each, StorageClass) and is_default_class(each)
    )
    if not name:
        return item
    return structs.replace(item, spec=structs.replace(item.spec, storageClassName=name))


async def class_of(item: PersistentVolumeClaim, records: Records) -> StorageClass | None:
    name = class_of_claim(item)
    storage_class = await records.get("storageclasses", "", name) if name else None
    return storage_class if isinstance(storage_class, StorageClass) else None


def check_expansion(
    new: PersistentVolumeClaim, old: PersistentVolumeClaim, storage_class: StorageClass | None
) -> None:
    """Refuse a larger claim if it is not bound, or its class does not allow it. Raises
    `StatusError` 403."""
    if requested_storage(new) <= requested_storage(old):
        return
    if old.status.phase != "Bound":
        why = "Only bound persistent volume claims can be expanded"
    elif (
        storage_class is None
        or not storage_class.allowVolumeExpansion
        or class_of_claim(new) != class_of_claim(old)
    ):
        why = (
            "only dynamically provisioned pvc can be resized and the storageclass that provisions"
            " the pvc must support resize"
        )
    else:
        return
    raise forbidden("persistentvolumeclaims", new.metadata.name, why)


async def publish_standard_class(records: Records, clock: Clock) -> None:
    """Create the default class at the first start."""
    item = StorageClass(
        metadata=ObjectMeta(name=STANDARD, annotations={DEFAULT_CLASS: "true"}),
        provisioner=PROVISIONER,
        reclaimPolicy="Delete",
        volumeBindingMode="WaitForFirstConsumer",
        allowVolumeExpansion=True,
    )
    await publish_class(
        records, "storageclasses", item, "podtui.dev/storage-class-published", clock
    )
