"""Kinds that a server names in its discovery documents: their objects as plain data, and as rows of
Tables with the columns that kubectl prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from podtui.api.lenient import lenient_decode
from podtui.api.v1 import ListMeta, ObjectMeta
from podtui.client.decoding import ObjectList, collection_path

DISCOVERY: Final = ",".join(
    f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    for version in ("v2", "v2beta1")
)
"""The media types of the discovery document with all groups; Kubernetes 1.27 and newer have it."""
PARTIAL_LIST: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
_TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"


class ServedKind(Struct, frozen=True, kw_only=True):
    """A kind of objects, with the names that clients may use for it."""

    api_version: str
    kind: str
    plural: str
    singular: str = ""
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: frozenset[str] = frozenset()
    subresources: frozenset[str] = frozenset()

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def qualified_name(self) -> str:
        """The name with the group: ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def collection(self, namespace: str) -> str:
        return collection_path(self.api_version, self.plural, namespace if self.namespaced else "")


class AnyObject(Struct, frozen=True):
    """An object as plain data. ``content`` is the whole object, without managedFields."""

    metadata: ObjectMeta
    content: dict[str, Any]


class TableColumn(Struct, frozen=True):
    """A column of a Table; one with a ``priority`` is only shown with ``-o wide``."""

    name: str
    type: str = "string"
    priority: int = 0


class TableRow(Struct, frozen=True):
    """An object as a row of a Table."""

    metadata: ObjectMeta
    cells: tuple[Any, ...]
    columns: tuple[TableColumn, ...]


class _ResponseKind(Struct, frozen=True):
    kind: str = ""


class _Subresource(Struct, frozen=True):
    subresource: str


class _Resource(Struct, frozen=True):
    resource: str
    scope: str
    responseKind: _ResponseKind | None = None
    singularResource: str = ""
    verbs: tuple[str, ...] = ()
    shortNames: tuple[str, ...] = ()
    subresources: tuple[_Subresource, ...] = ()


class _Version(Struct, frozen=True):
    version: str
    resources: tuple[_Resource, ...] = ()


class _Group(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    versions: tuple[_Version, ...] = ()


class DiscoveryList(Struct, frozen=True):
    """An ``APIGroupDiscoveryList``."""

    items: tuple[_Group, ...]


def listed_kinds(documents: Iterable[DiscoveryList]) -> tuple[ServedKind, ...]:
    """Return the kinds that can be listed, each in the version that the server prefers."""
    kinds: dict[str, ServedKind] = {}
    for group in (group for document in documents for group in document.items):
        for version in group.versions:
            name = group.metadata.name
            api_version = f"{name}/{version.version}" if name else version.version
            for resource in version.resources:
                kind = ServedKind(
                    api_version=api_version,
                    kind=resource.responseKind.kind if resource.responseKind else "",
                    plural=resource.resource,
                    singular=resource.singularResource,
                    short_names=resource.shortNames,
                    namespaced=resource.scope == "Namespaced",
                    verbs=frozenset(resource.verbs),
                    subresources=frozenset(sub.subresource for sub in resource.subresources),
                )
                if "list" in kind.verbs:
                    # The preferred version of a group comes first.
                    kinds.setdefault(kind.qualified_name, kind)
    return tuple(kinds.values())


class _Row(Struct, frozen=True):
    object: msgspec.Raw
    cells: tuple[Any, ...] = ()


class _Table(Struct, frozen=True):
    kind: str
    metadata: ListMeta = ListMeta()
    columnDefinitions: tuple[TableColumn, ...] | None = None
    rows: tuple[_Row, ...] | None = None
    items: tuple[msgspec.Raw, ...] | None = None


class _Described(Struct, frozen=True):
    """The metadata of an object."""

    metadata: ObjectMeta


_TABLES: Final = msgspec.json.Decoder(_Table)
_LISTS: Final = msgspec.json.Decoder(ObjectList)
_DESCRIBED: Final = msgspec.json.Decoder(_Described)
_NAME_ONLY: Final = (TableColumn("Name"),)


def _metadata(item: msgspec.Raw | bytes) -> ObjectMeta:
    meta = lenient_decode(item, _DESCRIBED).metadata
    return msgspec.structs.replace(meta, managedFields=()) if meta.managedFields else meta


class TableReader:
    """Decodes the Tables of a kind. Only the first Table of a watch has the columns."""

    def __init__(self, kind: ServedKind) -> None:
        self._kind = kind
        self._columns: tuple[TableColumn, ...] = ()
        self.accept = f"{_TABLE},application/json"
        self.params: Mapping[str, str] = {}
        self.watches = "watch" in kind.verbs

    def collection(self, namespace: str) -> str:
        return self._kind.collection(namespace)

    def decode_list(self, body: bytes) -> tuple[list[Any], ListMeta]:
        table = _TABLES.decode(body)
        if table.kind != "Table":
            # A server without Tables for this kind: only the names are known.
            self._columns = _NAME_ONLY
            return [self._named(item) for item in table.items or ()], table.metadata
        return self._rows(table), table.metadata

    def decode(self, item: msgspec.Raw | bytes) -> Any:
        table = _TABLES.decode(item)
        return self._rows(table)[0] if table.kind == "Table" else self._named(item)

    def _rows(self, table: _Table) -> list[TableRow]:
        self._columns = table.columnDefinitions or self._columns
        return [
            TableRow(_metadata(row.object), row.cells, self._columns) for row in table.rows or ()
        ]

    def _named(self, item: msgspec.Raw | bytes) -> TableRow:
        meta = _metadata(item)
        return TableRow(meta, (meta.name,), self._columns)


class ObjectReader:
    """Decodes the objects of a kind as plain data; ``name`` selects a single one."""

    def __init__(self, kind: ServedKind, name: str = "") -> None:
        self._kind = kind
        self.accept = ""
        self.params: Mapping[str, str] = {"fieldSelector": f"metadata.name={name}"} if name else {}
        self.watches = "watch" in kind.verbs

    def collection(self, namespace: str) -> str:
        return self._kind.collection(namespace)

    def decode_list(self, body: bytes) -> tuple[list[Any], ListMeta]:
        listing = _LISTS.decode(body)
        return [self.decode(item) for item in listing.items or ()], listing.metadata

    def decode(self, item: msgspec.Raw | bytes) -> AnyObject:
        content: dict[str, Any] = msgspec.json.decode(item)
        metadata: dict[str, Any] = content.get("metadata") or {}
        metadata.pop("managedFields", None)
        # The items of a list have neither.
        head = {"apiVersion": self._kind.api_version, "kind": self._kind.kind}
        return AnyObject(_metadata(item), head | content)
