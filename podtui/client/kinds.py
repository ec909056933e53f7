"""The API path and decoder of each object type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import quote

import msgspec

from podtui.api.insight import Timeline
from podtui.api.local import Manifest
from podtui.api.names import GROUP_VERSION
from podtui.api.reading import decoded
from podtui.api.v1 import Event, ListMeta, Node, Pod
from podtui.client.protocol import T

Object = Pod | Node | Event | Manifest | Timeline


class ObjectList(msgspec.Struct, frozen=True):
    """A list of objects of any kind."""

    items: tuple[msgspec.Raw, ...] | None
    metadata: ListMeta = ListMeta()


class WatchEvent(msgspec.Struct, frozen=True):
    """One line of a watch; the type of ``object`` depends on ``type``."""

    type: str
    object: msgspec.Raw


class Versioned(msgspec.Struct, frozen=True):
    """The part of a bookmark that is read."""

    metadata: ListMeta


@dataclass(frozen=True, slots=True)
class Kind:
    root: str
    plural: str
    namespaced: bool
    decoder: msgspec.json.Decoder[Any]

    def decode(self, item: msgspec.Raw | bytes) -> Any:
        """Decode an object and drop its managedFields, which are unused here but often the larger
        part of the object. Raises `msgspec.MsgspecError`."""
        found = decoded(item, self.decoder)
        meta = found.metadata
        if not meta.managedFields:
            return found
        return msgspec.structs.replace(
            found, metadata=msgspec.structs.replace(meta, managedFields=())
        )

    def collection(self, namespace: str) -> str:
        if namespace and self.namespaced:
            return f"{self.root}/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{self.root}/{self.plural}"


_KINDS: Mapping[type[Object], Kind] = {
    Pod: Kind("/api/v1", "pods", True, msgspec.json.Decoder(Pod)),
    Node: Kind("/api/v1", "nodes", False, msgspec.json.Decoder(Node)),
    Event: Kind("/api/v1", "events", True, msgspec.json.Decoder(Event)),
    Manifest: Kind(f"/apis/{GROUP_VERSION}", "manifests", False, msgspec.json.Decoder(Manifest)),
    Timeline: Kind(f"/apis/{GROUP_VERSION}", "timelines", True, msgspec.json.Decoder(Timeline)),
}


def kind_of(kind: type[T]) -> Kind:
    return _KINDS[cast("type[Object]", kind)]
