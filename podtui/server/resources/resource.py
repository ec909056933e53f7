"""What the API serves of a kind of object: its names, selectable fields, columns, and the
strategies of its writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias

import msgspec

from podtui.api.objects import T
from podtui.manifest.strategies.strategy import Strategy
from podtui.server.encoding.decoding import Tree
from podtui.server.resources import table
from podtui.server.resources.objects import ApiObject, encode, encode_in_list
from podtui.store.resources import RESOURCES
from podtui.store.resources import Resource as RecordName

_IDENTITY = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource(Generic[T]):
    """One resource of the API, with records of type ``T``. ``fields`` can be used in field
    selectors."""

    api_version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    columns: table.Columns = table.NAMES
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The verbs by subresource."""
    watchable: bool = True
    record: RecordName | None = None
    """The records of the objects."""
    live_struct: type[msgspec.Struct] | None = None
    """The type of objects that are read from the kubelet on each request."""
    strategy: Strategy[T] | None = None
    """The strategy of writes; None for objects that are only read."""
    updates: Mapping[str, Strategy[T]] = field(default_factory=dict[str, Strategy[T]])
    """The strategies of updates, by subresource."""
    to_wire: Callable[[T], Tree] | None = None
    """Returns an object's JSON form, if that is not the form of its record."""
    from_wire: Callable[[Tree], Tree] | None = None
    """The reverse of ``to_wire``."""
    is_virtual: bool = False
    """True if objects are requests that are answered and never stored."""
    warning: str = ""
    """A warning in every response: the resource is deprecated."""
    is_absent: bool = False
    """True if there are no objects, and clients cannot create any."""
    _last_encoded: list[tuple[ApiObject, bytes]] = field(
        default_factory=list[tuple[ApiObject, bytes]], init=False, repr=False, compare=False
    )
    """The last object and its JSON form: a change is sent to every watch."""

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def qualified_name(self) -> str:
        """The plural with the group: ``leases.coordination.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def kind_group(self) -> str:
        """The group of the kind in messages about an object: events have core's in both groups."""
        return "" if self.record == "events" else self.group

    @property
    def root(self) -> str:
        """The path of the group version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def verbs(self) -> tuple[str, ...]:
        if self.is_virtual:
            return ("create",)
        if self.strategy is None:
            return ("get", "list", "watch") if self.watchable else ("get", "list")
        collection = ("deletecollection",) if self.deletes_collections else ()
        return ("create", "delete", *collection, "get", "list", "patch", "update", "watch")

    @property
    def deletes_collections(self) -> bool:
        """True if a whole collection can be deleted; namespaces can only be deleted by name."""
        return self.kind != "Namespace"

    def encode(self, item: T) -> bytes:
        if self._last_encoded and self._last_encoded[0][0] is item:
            return self._last_encoded[0][1]
        if self.to_wire is not None:
            body = msgspec.json.encode(self.to_wire(item))
        else:
            body = encode(item, self.api_version, self.kind)
        self._last_encoded[:] = [(item, body)]
        return body

    def encode_in_list(self, item: T) -> bytes:
        if self.to_wire is not None:
            tree = self.to_wire(item)
            return msgspec.json.encode(
                {name: tree[name] for name in tree if name not in ("apiVersion", "kind")}
            )
        return encode_in_list(item)

    @property
    def struct(self) -> type[msgspec.Struct] | None:
        """The type of the objects; None for requests and for kinds without objects."""
        return self.live_struct if self.record is None else RESOURCES[self.record].type

    @property
    def selectable(self) -> frozenset[str]:
        return frozenset((*_IDENTITY, *self.fields))


AnyResource: TypeAlias = Resource[Any]
"""A resource whose type of objects does not matter, or is not a type of the records."""
