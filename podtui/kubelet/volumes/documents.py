"""ConfigMaps and Secrets, as pods see them: those of the API, and those of the manifest folder
(departure 7)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from podtui.api.pod_resources import is_static
from podtui.api.v1 import ConfigMap, Pod, Secret
from podtui.kubelet.ports import DocumentSource
from podtui.manifest.folder_state import Folder
from podtui.manifest.objects import ObjectKey, document_key, references

_LOG = logging.getLogger(__name__)
_Document = TypeVar("_Document", ConfigMap, Secret)
_ByName = Mapping[tuple[str, str], _Document]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDocuments:
    """The documents that one pod refers to and that exist, by (namespace, name)."""

    config_maps: Mapping[tuple[str, str], ConfigMap]
    secrets: Mapping[tuple[str, str], Secret]


class Documents:
    """Looks up documents: for a static pod in the folder and then in the API, for an API pod in the
    API alone.

    A document of the folder with ``immutable: true`` keeps its first content until it leaves the
    folder: a kubelet does not read it again, and an API server rejects changes to it.
    """

    def __init__(self, source: DocumentSource) -> None:
        self._source = source
        self._config_maps: Mapping[tuple[str, str], ConfigMap] = {}
        self._secrets: Mapping[tuple[str, str], Secret] = {}

    def take(self, folder: Folder) -> frozenset[ObjectKey]:
        """Apply a folder scan. Return the keys of the documents that were added, removed or
        changed."""
        before = (self._config_maps, self._secrets)
        self._config_maps = _kept(self._config_maps, folder.config_maps)
        self._secrets = _kept(self._secrets, folder.secrets)
        return _changed(before[0], self._config_maps) | _changed(before[1], self._secrets)

    async def of(self, pod: Pod) -> PodDocuments:
        """Return the documents that the pod refers to now."""
        config_maps: dict[tuple[str, str], ConfigMap] = {}
        secrets: dict[tuple[str, str], Secret] = {}
        for key in references(pod).keys:
            document = await self._get(key, folder=is_static(pod))
            if isinstance(document, ConfigMap):
                config_maps[key[1:]] = document
            elif document is not None:
                secrets[key[1:]] = document
        return PodDocuments(config_maps=config_maps, secrets=secrets)

    async def _get(self, key: ObjectKey, *, folder: bool) -> ConfigMap | Secret | None:
        document = None
        if folder:
            documents = self._config_maps if key[0] == "ConfigMap" else self._secrets
            document = documents.get(key[1:])
        return document or await self._source.get(key)


def _kept(old: _ByName[_Document], new: _ByName[_Document]) -> _ByName[_Document]:
    frozen = {
        name: document
        for name, document in old.items()
        if document.immutable and name in new and new[name] != document
    }
    for namespace, name in frozen:
        _LOG.warning("%s/%s is immutable: its change is ignored", namespace, name)
    return {**new, **frozen} if frozen else new


def _changed(old: _ByName[_Document], new: _ByName[_Document]) -> frozenset[ObjectKey]:
    if old is new:
        return frozenset()
    names = old.keys() | new.keys()
    pairs = ((old.get(name), new.get(name)) for name in names)
    return frozenset(
        document_key(document)
        for was, now in pairs
        if was is not now and was != now and (document := was or now) is not None
    )
