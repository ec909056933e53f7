"""The admission plugins DefaultStorageClass, StorageObjectInUseProtection and
PersistentVolumeClaimResize, and the class that podtui publishes."""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from uuid import uuid4

from msgspec import structs

from podtui.api.objects import T
from podtui.api.storage import StorageClass
from podtui.api.times import rfc3339
from podtui.api.v1 import Namespace, ObjectMeta, PersistentVolume, PersistentVolumeClaim
from podtui.clock import Clock
from podtui.errors import AlreadyExists
from podtui.manifest.strategies.strategy import with_meta
from podtui.manifest.validation.storage_classes import DEFAULT_CLASS, is_default_class
from podtui.manifest.validation.volume_claims import class_of_claim, requested_storage
from podtui.server.resources.field_managers import API_SERVER, managed
from podtui.server.status import forbidden
from podtui.store.protocol import Records

STANDARD: Final = "standard"
PROVISIONER: Final = "podtui.dev/directory"
CLAIM_PROTECTION: Final = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION: Final = "kubernetes.io/pv-protection"
_PUBLISHED: Final = "podtui.dev/storage-class-published"
"""An annotation of the namespace kube-system: whoever deletes the class does not get it back."""


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
    defaults = [
        (each.metadata.creationTimestamp or "", each.metadata.name)
        for each in listing.items
        if isinstance(each, StorageClass) and is_default_class(each)
    ]
    if not defaults:
        return item
    newest = max(created for created, _ in defaults)
    name = min(name for created, name in defaults if created == newest)
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
    """Create the default class at the first start. It can be changed and deleted."""
    namespace = await records.get("namespaces", "", "kube-system")
    if not isinstance(namespace, Namespace) or _PUBLISHED in namespace.metadata.annotations:
        return
    now = rfc3339(clock.now())
    item = StorageClass(
        metadata=ObjectMeta(
            name=STANDARD,
            uid=str(uuid4()),
            creationTimestamp=now,
            annotations={DEFAULT_CLASS: "true"},
        ),
        provisioner=PROVISIONER,
        reclaimPolicy="Delete",
        volumeBindingMode="WaitForFirstConsumer",
        allowVolumeExpansion=True,
    )
    with suppress(AlreadyExists):
        await records.create("storageclasses", managed(item, None, manager=API_SERVER, now=now))

    def marked(item: Namespace) -> Namespace:
        return with_meta(item, annotations={**item.metadata.annotations, _PUBLISHED: "true"})

    await records.update("namespaces", "", "kube-system", marked)
