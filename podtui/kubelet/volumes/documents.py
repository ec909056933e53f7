"""The ConfigMaps and Secrets of the manifest folder, as pods see them (departure 7)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TypeVar

from podtui.api.v1 import ConfigMap, Secret
from podtui.manifest.objects import ObjectKey, object_key
from podtui.manifest.types import Folder

_LOG = logging.getLogger(__name__)
_Document = TypeVar("_Document", ConfigMap, Secret)
_ByName = Mapping[tuple[str, str], _Document]


class Documents:
    """The ConfigMaps and Secrets of the last folder scan, by (namespace, name).

    A document with ``immutable: true`` keeps its first content until it leaves the folder: a
    kubelet does not read it again, and an API server rejects changes to it.
    """

    def __init__(self) -> None:
        self.config_maps: Mapping[tuple[str, str], ConfigMap] = {}
        self.secrets: Mapping[tuple[str, str], Secret] = {}

    def take(self, folder: Folder) -> frozenset[ObjectKey]:
        """Apply a folder scan. Return the keys of the documents that were added, removed or
        changed."""
        before = (self.config_maps, self.secrets)
        self.config_maps = _kept(self.config_maps, folder.config_maps)
        self.secrets = _kept(self.secrets, folder.secrets)
        return _changed(before[0], self.config_maps) | _changed(before[1], self.secrets)


def _kept(old: _ByName[_Document], new: _ByName[_Document]) -> _ByName[_Document]:
    frozen = {
        name: known
        for name, known in old.items()
        if known.immutable and name in new and new[name] != known
    }
    for namespace, name in frozen:
        _LOG.warning("%s/%s is immutable: its change is not taken", namespace, name)
    return {**new, **frozen} if frozen else new


def _changed(old: _ByName[_Document], new: _ByName[_Document]) -> frozenset[ObjectKey]:
    if old is new:
        return frozenset()
    names = old.keys() | new.keys()
    pairs = ((old.get(name), new.get(name)) for name in names)
    return frozenset(
        object_key(found)
        for was, now in pairs
        if was is not now and was != now and (found := was or now) is not None
    )
