"""What the manifest room hands to the kubelet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podtui.api.local import Manifest
from podtui.api.v1 import ConfigMap, Pod, Secret


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder at one moment, whole: the kubelet takes the difference to the last one.

    ``pods`` are those to run, defaulted, identified and valid, by UID (a broken file's last good
    version among them); ``manifests`` one record per file, ignored ones included, by file name;
    ``error`` is why the folder cannot be read at all (the pods are then the last known ones).
    ``config_maps`` and ``secrets`` are those that stand in the folder (departure 7), by
    (namespace, name).
    """

    pods: Mapping[str, Pod] = field(default_factory=dict[str, Pod])
    manifests: Mapping[str, Manifest] = field(default_factory=dict[str, Manifest])
    error: str = ""
    config_maps: Mapping[tuple[str, str], ConfigMap] = field(
        default_factory=dict[tuple[str, str], ConfigMap]
    )
    secrets: Mapping[tuple[str, str], Secret] = field(default_factory=dict[tuple[str, str], Secret])
