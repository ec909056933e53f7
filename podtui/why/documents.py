"""The document of the folder that an object comes from, with the position of a field in it and the
edits that change it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs

from podtui.api.local import Manifest, ManifestIndex, ManifestState
from podtui.api.names import MANIFEST_PATH
from podtui.api.places import Path, field_text, read_places
from podtui.api.v1 import Pod
from podtui.editing.source import Source, Value, find_place
from podtui.why.inventory import Inventory
from podtui.why.types import Diagnosis, Fix


def manifest_of(inventory: Inventory, item: Any) -> Manifest | None:
    """Return the manifest that an object comes from, with the positions of that object; None for an
    object that a client created."""
    meta = item.metadata
    path = meta.annotations.get(MANIFEST_PATH, "")
    if isinstance(item, Pod):
        return ManifestIndex(inventory.list(Manifest)).manifest_of(item)
    if not path:
        return None
    for manifest in inventory.list(Manifest):
        if path not in (manifest.spec.path, manifest.metadata.name):
            continue
        for part in manifest.status.objects:
            same = (part.kind, part.name) == (type(item).__name__, meta.name)
            if same and part.namespace in ("", meta.namespace):
                return _with_places(manifest, part.places)
    return None


def _with_places(manifest: Manifest, places: str) -> Manifest:
    return structs.replace(manifest, status=structs.replace(manifest.status, places=places))


def placed(
    inventory: Inventory,
    item: Any,
    diagnosis: Diagnosis,
    path: Path,
    *changes: tuple[str, Path, Value],
) -> Diagnosis:
    """Add the position of the field to change, and a fix for each change: its title, the path and
    the new value. A change that is not safe is left out."""
    diagnosis = replace(diagnosis, field=field_text(path))
    manifest = manifest_of(inventory, item)
    if manifest is None or manifest.status.state is not ManifestState.ACCEPTED:
        return diagnosis
    source = Source.of(manifest)
    if source is None:
        position, written = find_place(read_places(manifest.status.places), path)
        return replace(diagnosis, position=position, written=written)
    position, written = source.find(path)
    fixes = tuple(
        Fix(title, edits) for title, field, value in changes if (edits := source.set(field, value))
    )
    return replace(diagnosis, position=position, written=written, fixes=fixes)


def patch_command(kind: str, item: Any, patch: Mapping[str, Any] | list[dict[str, str]]) -> str:
    """Return the kubectl command that applies a merge patch, or a JSON patch, to an object."""
    meta = item.metadata
    command = ["kubectl", "patch", kind, meta.name]
    if meta.namespace:
        command += ["-n", meta.namespace]
    text = json.dumps(patch, separators=(",", ":"), ensure_ascii=False)
    return shlex.join(
        [*command, f"--type={'json' if isinstance(patch, list) else 'merge'}", "-p", text]
    )
