"""The ConfigMaps and Secrets that stand in the folder, as containers find them when they start
(departure 7)."""

from __future__ import annotations

from collections.abc import Mapping

from podtui.api.v1 import ConfigMap, Secret
from podtui.manifest.types import Folder


class Documents:
    """By (namespace, name), as the folder last had them."""

    def __init__(self) -> None:
        self.config_maps: Mapping[tuple[str, str], ConfigMap] = {}
        self.secrets: Mapping[tuple[str, str], Secret] = {}

    def take(self, folder: Folder) -> None:
        self.config_maps = folder.config_maps
        self.secrets = folder.secrets
