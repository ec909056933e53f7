"""The kinds of the group storage.k8s.io."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import storage

STORAGE_CLASSES = Resource(
    api_version="storage.k8s.io/v1",
    plural="storageclasses",
    singular="storageclass",
    kind="StorageClass",
    namespaced=False,
    short_names=("sc",),
    record="storageclasses",
    strategy=storage.STORAGE_CLASSES,
)
