"""The data that the manifest package passes to the kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podtui.api.local import Manifest
from podtui.api.v1 import ConfigMap, Pod, Secret


@dataclass(frozen=True, slots=True)
class Folder:
    """A complete snapshot of the folder; the kubelet compares it with the previous one.

    ``pods`` are the pods to run by UID, defaulted, identified and valid, including the last good
    version of a broken file. ``manifests`` has one record per file, including ignored ones, by file
    name. ``error`` is set if the folder cannot be read (``pods`` are then the last known ones).
    ``config_maps`` and ``secrets`` are those of the folder (departure 7), by (namespace, name).
    """

    pods: Mapping[str, Pod] = field(default_factory=dict[str, Pod])
    manifests: Mapping[str, Manifest] = field(default_factory=dict[str, Manifest])
    error: str = ""
    config_maps: Mapping[tuple[str, str], ConfigMap] = field(
        default_factory=dict[tuple[str, str], ConfigMap]
    )
    secrets: Mapping[tuple[str, str], Secret] = field(default_factory=dict[tuple[str, str], Secret])
