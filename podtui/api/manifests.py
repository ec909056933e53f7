"""Lookup of the manifest that a pod came from."""

from __future__ import annotations

from collections.abc import Iterable

from podtui.api.local import Manifest
from podtui.api.names import MANIFEST_PATH
from podtui.api.v1 import Pod


def manifest_of(pod: Pod, manifests: Iterable[Manifest]) -> Manifest | None:
    """Return the manifest that a pod came from. It is matched by UID, then by path, then by name,
    which is not unique among the files."""
    meta = pod.metadata
    path = meta.annotations.get(MANIFEST_PATH)
    of_path: Manifest | None = None
    of_name: Manifest | None = None
    for manifest in manifests:
        status = manifest.status
        if status.podUID and status.podUID == meta.uid:
            return manifest
        if path and manifest.spec.path == path:
            of_path = of_path or manifest
        elif (status.podName, status.podNamespace) == (meta.name, meta.namespace):
            of_name = of_name or manifest
    return of_path or of_name
