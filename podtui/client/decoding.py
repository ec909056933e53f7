"""Decode responses: single answers, objects by type, lists, watch events and lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast
from urllib.parse import quote

import msgspec

from podtui.api.insight import Timeline
from podtui.api.lenient import lenient_decode
from podtui.api.local import Manifest
from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import Event, ListMeta, Namespace, Node, Pod
from podtui.client.protocol import Object, T
from podtui.errors import ApiError

Decoded = TypeVar("Decoded")


def decode_response(path: str, body: bytes | msgspec.Raw, kind: type[Decoded]) -> Decoded:
    """Decode the response of ``path``. Raises `ApiError` if it is no ``kind``: other versions of
    podtui, proxies and login pages also respond with 200."""
    decoder = msgspec.json.Decoder(kind)
    return decode_with(path, lambda: lenient_decode(body, decoder))


def decode_with(path: str, read: Callable[[], Decoded]) -> Decoded:
    """Call ``read`` to decode a response. Raises the same errors as `decode_response`."""
    try:
        return read()
    except msgspec.MsgspecError as error:
        raise ApiError(200, "InternalError", f"{path}: cannot be read: {error}") from error


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
class ObjectKind:
    root: str
    plural: str
    namespaced: bool
    decoder: msgspec.json.Decoder[Any]

    def decode(self, item: msgspec.Raw | bytes) -> Any:
        """Decode an object and drop its managedFields, which are unused here but often the larger
        part of the object. Raises `msgspec.MsgspecError`."""
        decoded = lenient_decode(item, self.decoder)
        meta = decoded.metadata
        if not meta.managedFields:
            return decoded
        return msgspec.structs.replace(
            decoded, metadata=msgspec.structs.replace(meta, managedFields=())
        )

    def collection(self, namespace: str) -> str:
        if namespace and self.namespaced:
            return f"{self.root}/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{self.root}/{self.plural}"


def kind_of(kind: type[T]) -> ObjectKind:
    return _KINDS[cast("type[Object]", kind)]


_KINDS: Mapping[type[Object], ObjectKind] = {
    Pod: ObjectKind("/api/v1", "pods", True, msgspec.json.Decoder(Pod)),
    Node: ObjectKind("/api/v1", "nodes", False, msgspec.json.Decoder(Node)),
    Event: ObjectKind("/api/v1", "events", True, msgspec.json.Decoder(Event)),
    Namespace: ObjectKind("/api/v1", "namespaces", False, msgspec.json.Decoder(Namespace)),
    Manifest: ObjectKind(
        f"/apis/{GROUP_VERSION}", "manifests", False, msgspec.json.Decoder(Manifest)
    ),
    Timeline: ObjectKind(
        f"/apis/{GROUP_VERSION}", "timelines", True, msgspec.json.Decoder(Timeline)
    ),
}


class LineSplitter:
    """Removes the line feeds. Splits a line longer than ``limit`` bytes into pieces."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._tail = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now."""
        lines = chunk.split(b"\n")
        lines[0] = self._tail + lines[0]
        if max(map(len, lines)) > self._limit:
            lines = [piece for line in lines for piece in self._pieces(line)]
        self._tail = lines.pop()
        return lines

    def finish(self) -> list[bytes]:
        """Return the rest without a line feed."""
        rest, self._tail = self._tail, b""
        return [rest] if rest else []

    def _pieces(self, line: bytes) -> list[bytes]:
        starts = range(0, len(line), self._limit) or (0,)
        return [line[start : start + self._limit] for start in starts]
