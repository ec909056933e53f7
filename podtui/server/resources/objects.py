"""The sources of served objects, and their JSON encoding.

Sources are the records, and metrics from the kubelet.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import msgspec
from msgspec import structs

from podtui.api.v1 import ObjectMeta
from podtui.server.status import StatusError
from podtui.store.protocol import Change, Records, WatchType
from podtui.store.resources import Resource

_SMALL: Final[Resource] = "services"
"""Records whose list is quick to read."""


class ApiObject(Protocol):
    """A Kubernetes API struct. It always has metadata."""

    @property
    def apiVersion(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def metadata(self) -> ObjectMeta: ...


class ObjectChange(Protocol):
    """A `podtui.store.protocol.Change` of any kind of object."""

    @property
    def type(self) -> WatchType: ...
    @property
    def object(self) -> ApiObject | None: ...
    @property
    def previous(self) -> ApiObject | None: ...
    @property
    def resource_version(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Objects:
    """A consistent list. ``resource_version`` is None for sources without a history to watch."""

    items: Sequence[ApiObject]
    resource_version: int | None


class ObjectSource(Protocol):
    async def get(self, namespace: str, name: str) -> ApiObject | None: ...

    async def list(self, namespace: str, at: int | None = None) -> Objects:
        """List the objects, with ``at`` as they were at that version. Raises
        `podtui.errors.StoreGone`."""
        ...

    def watch(self, since: int) -> AsyncIterator[ObjectChange]:
        """Watch all namespaces. Raises `podtui.errors.StoreGone`."""
        ...


class RecordedObjects:
    """A resource from the records."""

    def __init__(self, records: Records, resource: Resource) -> None:
        self._records = records
        self._resource: Resource = resource

    async def get(self, namespace: str, name: str) -> ApiObject | None:
        return await self._records.get(self._resource, namespace, name)

    async def list(self, namespace: str, at: int | None = None) -> Objects:
        listing = await self._records.list(self._resource, namespace, at)
        return Objects(listing.items, listing.resource_version)

    def watch(self, since: int) -> AsyncIterator[ObjectChange]:
        return self._records.watch(self._resource, since=since)


class NoObjects:
    """A resource without objects. Lists and watches have the versions of the records."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def get(self, namespace: str, name: str) -> ApiObject | None:
        return None

    async def list(self, namespace: str, at: int | None = None) -> Objects:
        listing = await self._records.list(_SMALL, namespace, at)
        return Objects((), listing.resource_version)

    async def watch(self, since: int) -> AsyncIterator[ObjectChange]:
        async for change in self._records.watch(_SMALL, since=since):
            yield Change(WatchType.BOOKMARK, None, change.resource_version)


class LiveObjects:
    """Metrics read from the kubelet on each request, without a history."""

    def __init__(self, read: Callable[[], Awaitable[Sequence[ApiObject]]]) -> None:
        self._read = read

    async def get(self, namespace: str, name: str) -> ApiObject | None:
        for item in await self._read():
            if (item.metadata.namespace, item.metadata.name) == (namespace, name):
                return item
        return None

    async def list(self, namespace: str, at: int | None = None) -> Objects:
        items = await self._read()
        selected = [o for o in items if not namespace or o.metadata.namespace == namespace]
        return Objects(selected, None)

    def watch(self, since: int) -> AsyncIterator[ObjectChange]:
        raise StatusError(405, "the server does not allow this method on the requested resource")


def encode(item: ApiObject, api_version: str, kind: str) -> bytes:
    """Encode as JSON with ``apiVersion`` and ``kind``, which the types omit as default values."""
    body = msgspec.json.encode(item)
    default_version, default_kind = _identity_defaults(type(item))
    head = b"{"
    if item.kind == default_kind:
        head += f'"kind":"{item.kind or kind}",'.encode()
    if item.apiVersion == default_version:
        head += f'"apiVersion":"{item.apiVersion or api_version}",'.encode()
    return head + body[1:]


def encode_in_list(item: ApiObject) -> bytes:
    """Encode as JSON without ``apiVersion`` and ``kind``: the list has them."""
    version, kind = _identity_defaults(type(item))
    if (item.apiVersion, item.kind) != (version, kind):
        item = structs.replace(cast("Any", item), apiVersion=version, kind=kind)
    return msgspec.json.encode(item)


@functools.cache
def _identity_defaults(kind: type[ApiObject]) -> tuple[str, str]:
    defaults = {f.name: f.default for f in structs.fields(cast("type[msgspec.Struct]", kind))}
    return defaults["apiVersion"], defaults["kind"]
