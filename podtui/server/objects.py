"""The sources of served objects, and their JSON encoding.

Sources are the records, metrics from the kubelet, and namespaces, which are derived from the pods
because they have no records.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import msgspec
from msgspec import structs

from podtui.api.v1 import ObjectMeta, Struct
from podtui.server.status import StatusError
from podtui.store.protocol import Records, WatchType
from podtui.store.resources import Resource


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

    async def list(self, namespace: str) -> Objects: ...

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

    async def list(self, namespace: str) -> Objects:
        listing = await self._records.list(self._resource, namespace)
        return Objects(listing.items, listing.resource_version)

    def watch(self, since: int) -> AsyncIterator[ObjectChange]:
        return self._records.watch(self._resource, since=since)


class LiveObjects:
    """Metrics read from the kubelet on each request, without a history."""

    def __init__(self, read: Callable[[], Awaitable[Sequence[ApiObject]]]) -> None:
        self._read = read

    async def get(self, namespace: str, name: str) -> ApiObject | None:
        for item in await self._read():
            if (item.metadata.namespace, item.metadata.name) == (namespace, name):
                return item
        return None

    async def list(self, namespace: str) -> Objects:
        items = await self._read()
        mine = [o for o in items if not namespace or o.metadata.namespace == namespace]
        return Objects(mine, None)

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


@functools.cache
def _identity_defaults(kind: type[ApiObject]) -> tuple[str, str]:
    defaults = {f.name: f.default for f in structs.fields(cast("type[msgspec.Struct]", kind))}
    return defaults["apiVersion"], defaults["kind"]


ALWAYS = "default"


class NamespaceStatus(Struct, frozen=True, kw_only=True):
    phase: str


class Namespace(Struct, frozen=True, kw_only=True):
    metadata: ObjectMeta
    status: NamespaceStatus
    apiVersion: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class NamespaceChange:
    type: WatchType
    object: Namespace
    resource_version: int
    previous: Namespace | None = None


class NamespacesOfPods:
    """A source of namespaces, computed from the pod records."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def get(self, namespace: str, name: str) -> ApiObject | None:
        found = [item for item in (await self.list("")).items if item.metadata.name == name]
        return found[0] if found else None

    async def list(self, namespace: str) -> Objects:
        listing = await self._records.list("pods")
        oldest: dict[str, str] = {ALWAYS: ""}
        for pod in listing.items:
            name, born = pod.metadata.namespace, pod.metadata.creationTimestamp or ""
            oldest[name] = min(filter(None, (oldest.get(name, ""), born)), default="")
        items = [_namespace(name, oldest[name], listing.resource_version) for name in oldest]
        return Objects(sorted(items, key=lambda o: o.metadata.name), listing.resource_version)

    def watch(self, since: int) -> AsyncIterator[ObjectChange]:
        return self._changes(self._records.watch("pods", since=since))

    async def _changes(self, changes: AsyncIterator[ObjectChange]) -> AsyncIterator[ObjectChange]:
        """Yield namespace changes. Events from before this call may repeat, but none is missed: the
        pod counts are current, so a namespace that appeared or disappeared since is reported with a
        change of its pods."""
        listing = await self._records.list("pods")
        pods = Counter(pod.metadata.namespace for pod in listing.items)
        async for change in changes:
            if change.object is None or change.type is WatchType.MODIFIED:
                continue
            name, version = change.object.metadata.namespace, change.resource_version
            added = change.type is WatchType.ADDED
            if version > listing.resource_version:
                pods[name] += 1 if added else -1
                turned = pods[name] == added
            else:
                turned = bool(pods[name]) == added
            if name == ALWAYS or not turned:
                continue
            item = _namespace(name, change.object.metadata.creationTimestamp or "", version)
            yield NamespaceChange(change.type, item, version, None if added else item)


def _namespace(name: str, born: str, version: int) -> Namespace:
    return Namespace(
        metadata=ObjectMeta(
            name=name,
            uid=f"namespace-{name}",
            creationTimestamp=born or None,
            resourceVersion=str(version),
            labels={"kubernetes.io/metadata.name": name},
        ),
        status=NamespaceStatus(phase="Active"),
    )
