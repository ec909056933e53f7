"""The client of the standard Kubernetes API, common to agents and clusters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import quote

import msgspec

from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.names import LOG_GAPS, METRICS_GROUP_VERSION
from podtui.api.objects import T
from podtui.api.v1 import DeleteOptions, EphemeralContainer, Event, Pod, Preconditions, Struct
from podtui.client.any_kind import (
    DISCOVERY,
    PARTIAL_LIST,
    AnyObject,
    DiscoveryList,
    ObjectReader,
    ServedKind,
    TableReader,
    listed_kinds,
)
from podtui.client.connection import HttpConnection
from podtui.client.copying import Copying
from podtui.client.decoding import (
    LineSplitter,
    ObjectList,
    decode_response,
    decode_with,
    kind_of,
    without_managed_fields,
)
from podtui.client.exec_sessions import attach_session, exec_session, pod_path
from podtui.client.following import REFUSED_DELAY, Following, Reader
from podtui.client.port_forward import Forward, listen
from podtui.client.protocol import (
    MERGE,
    STRATEGIC_MERGE,
    AttachQuery,
    CopyResult,
    Delta,
    ExecQuery,
    LogQuery,
    PortForward,
    RemoteSession,
)
from podtui.clock import Clock, SystemClock
from podtui.errors import ApiError

MAX_LINE = 1024 * 1024
JSON = "application/json"
YAML = "application/yaml"
APPLY = "application/apply-patch+yaml"
Propagation = Literal["", "Background", "Foreground", "Orphan"]
_DRY_RUN = {"dryRun": "All"}
_METRICS = f"/apis/{METRICS_GROUP_VERSION}"
_Metrics = TypeVar("_Metrics", PodMetrics, NodeMetrics)


class ApiClient:
    """The part of `podtui.client.protocol.Client` in the standard Kubernetes API. Belongs to one
    event loop."""

    page = 0
    """Objects per page of a list; 0 disables paging."""
    watch_seconds = 0
    """The requested duration of a watch; 0 leaves it to the server."""
    refused_delay = REFUSED_DELAY
    """The seconds until a list or watch that was refused is tried again."""

    def __init__(self, target: str, connection: HttpConnection, clock: Clock | None = None) -> None:
        self._target = target
        self._connection = connection
        self._clock = clock or SystemClock()

    async def ask(self, path: str, accept: str = "application/json") -> bytes:
        """Return the raw response of a path. Raises `podtui.errors.AgentUnavailable` and
        `podtui.errors.ApiError`."""
        return await self._connection.get(path, accept=accept)

    @property
    def target(self) -> str:
        return self._target

    @property
    def namespace(self) -> str | None:
        """See `Client.namespace`."""
        return ""

    def follow(
        self,
        kind: type[T],
        namespace: str = "",
        *,
        fields: str = "",
        refused_delay: float | None = None,
    ) -> AsyncGenerator[Delta]:
        """See `Client.follow`. ``fields`` is a field selector; ``refused_delay`` replaces the
        client's."""
        reader = kind_of(kind)
        if fields:
            reader = replace(reader, params={**reader.params, "fieldSelector": fields})
        # API servers send no bookmarks for events, because they do not cache events.
        bookmarks = kind is not Event
        return self._follow(reader, namespace, bookmarks=bookmarks, refused_delay=refused_delay)

    def _follow(
        self,
        kind: Reader,
        namespace: str,
        *,
        bookmarks: bool = False,
        refused_delay: float | None = None,
    ) -> AsyncGenerator[Delta]:
        async def where() -> str:
            return namespace or await self._scope()

        return Following(
            self._connection,
            kind,
            where,
            self._clock,
            page=self.page,
            watch_seconds=self.watch_seconds,
            bookmarks=bookmarks,
            refused_delay=self.refused_delay if refused_delay is None else refused_delay,
        ).run()

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        path = _object_path(kind, namespace, name)
        body = await self._connection.get(path)
        return decode_with(path, lambda: kind_of(kind).decode(body))

    async def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncGenerator[list[bytes]]:
        """See `Client.logs`. A line longer than 1 MiB is split."""
        splitter = LineSplitter(MAX_LINE)
        async with self._connection.stream(
            "GET", pod_path(namespace, pod, "log"), _log_params(query)
        ) as response:
            while chunk := await response.content.readany():
                if lines := splitter.feed(chunk):
                    yield lines
        if lines := splitter.finish():
            yield lines

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return await self._metrics(await self._collection(_METRICS, "pods"), PodMetrics)

    async def node_metrics(self) -> NodeMetrics | None:
        metrics = await self.nodes_metrics()
        return metrics[0] if metrics else None

    async def nodes_metrics(self) -> tuple[NodeMetrics, ...]:
        """See `Client.nodes_metrics`."""
        return await self._metrics(f"{_METRICS}/nodes", NodeMetrics)

    async def version(self) -> str:
        """The server's version in the Kubernetes format: ``v1.36.0+podtui-0.1.0``."""
        body = await self._connection.get("/version")
        return decode_response("/version", body, _Version).gitVersion

    async def debug(self, namespace: str, pod: str, container: EphemeralContainer) -> Pod:
        """See `Client.debug`."""
        path = pod_path(namespace, pod, "ephemeralcontainers")
        body = msgspec.json.encode({"spec": {"ephemeralContainers": [container]}})
        answer = await self._connection.patch(path, body, STRATEGIC_MERGE)
        return decode_response(path, answer, Pod)

    async def create_pod(self, namespace: str, text: bytes, *, dry_run: bool = False) -> None:
        """See `Client.create_pod`."""
        path = kind_of(Pod).collection(namespace)
        params = {"dryRun": "All"} if dry_run else None
        await self._connection.post(path, params, body=text, content_type=YAML)

    async def replace_pod(
        self,
        namespace: str,
        name: str,
        text: bytes,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> None:
        """See `Client.replace_pod`."""
        path = pod_path(namespace, name) + f"/{subresource}" * bool(subresource)
        await self._connection.put(path, text, YAML, {"dryRun": "All"} if dry_run else None)

    async def delete_pod(self, pod: Pod) -> None:
        """See `Client.delete_pod`."""
        meta = pod.metadata
        await self.delete(Pod, meta.namespace, meta.name, uid=meta.uid)

    # --- writes

    async def create(self, kind: type[T], item: T) -> T:
        """Create an object in the namespace of its metadata; return it as it was stored."""
        where = kind_of(kind)
        path = where.collection(item.metadata.namespace)
        answer = await self._connection.post(
            path, body=msgspec.json.encode(item), content_type=JSON
        )
        return decode_with(path, lambda: where.decode(answer))

    async def update(self, kind: type[T], item: T, *, subresource: str = "") -> T:
        """Replace an object, or one of its subresources, if it still has the version of ``item``;
        return it as it was stored. The server keeps the managed fields."""
        meta = item.metadata
        path = _object_path(kind, meta.namespace, meta.name)
        path += f"/{subresource}" if subresource else ""
        body = msgspec.json.encode(without_managed_fields(item))
        answer = await self._connection.put(path, body, JSON)
        return decode_with(path, lambda: kind_of(kind).decode(answer))

    async def create_sub(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        subresource: str,
        item: Struct | Mapping[str, Any],
    ) -> bytes:
        """Create a subresource of an object, such as a ``Binding``; return the raw response."""
        path = f"{_object_path(kind, namespace, name)}/{subresource}"
        return await self._connection.post(path, body=msgspec.json.encode(item), content_type=JSON)

    async def patch(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        content_type: str = STRATEGIC_MERGE,
    ) -> T:
        """Patch an object, or one of its subresources; return the object as it was stored."""
        path = _object_path(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        answer = await self._connection.patch(path, msgspec.json.encode(patch), content_type)
        return decode_with(path, lambda: kind_of(kind).decode(answer))

    async def apply(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        configuration: Mapping[str, Any],
        *,
        manager: str,
        force: bool = False,
        dry_run: bool = False,
    ) -> T:
        """Apply a configuration on the server's side; return the object as it was stored."""
        path = _object_path(kind, namespace, name)
        params = {"fieldManager": manager, "force": "true" if force else "false"}
        params |= {"dryRun": "All"} if dry_run else {}
        body = msgspec.json.encode(configuration)
        answer = await self._connection.patch(path, body, APPLY, params)
        return decode_with(path, lambda: kind_of(kind).decode(answer))

    async def scale(self, kind: type[T], namespace: str, name: str, replicas: int) -> None:
        """Set the number of replicas of an object, by its subresource ``scale``."""
        path = f"{_object_path(kind, namespace, name)}/scale"
        patch = msgspec.json.encode({"spec": {"replicas": replicas}})
        await self._connection.patch(path, patch, MERGE)

    async def delete(
        self,
        kind: type[T],
        namespace: str,
        name: str,
        *,
        uid: str = "",
        policy: Propagation = "",
        grace_seconds: int | None = None,
    ) -> bytes:
        """Delete an object, by default with its own grace period; with ``uid``, exactly that one.
        ``policy`` is for its dependents. Return the raw response: the deleted object or a
        Status."""
        options = DeleteOptions(
            apiVersion="v1",
            kind="DeleteOptions",
            gracePeriodSeconds=grace_seconds,
            preconditions=Preconditions(uid=uid) if uid else None,
            propagationPolicy=policy,
        )
        path = _object_path(kind, namespace, name)
        return await self._connection.delete(path, msgspec.json.encode(options))

    # --- objects of any kind

    async def kinds(self) -> tuple[ServedKind, ...]:
        """See `Client.kinds`."""
        documents = [
            decode_response(path, await self.ask(path, DISCOVERY), DiscoveryList)
            for path in ("/api", "/apis")
        ]
        return listed_kinds(documents)

    def follow_table(self, kind: ServedKind, namespace: str = "") -> AsyncGenerator[Delta]:
        """See `Client.follow_table`."""
        return self._follow(TableReader(kind), namespace)

    def follow_objects(
        self, kind: ServedKind, namespace: str = "", name: str = ""
    ) -> AsyncGenerator[Delta]:
        """See `Client.follow_objects`."""
        return self._follow(ObjectReader(kind, name), namespace)

    async def count(self, kind: ServedKind, namespace: str = "") -> int:
        """See `Client.count`."""
        path = kind.collection(namespace or await self._scope())
        accept = f"{PARTIAL_LIST},{JSON}"
        body = await self._connection.get(path, {"limit": "1"}, accept=accept)
        listing = decode_response(path, body, ObjectList)
        return len(listing.items or ()) + (listing.metadata.remainingItemCount or 0)

    async def get_object(self, kind: ServedKind, namespace: str, name: str) -> AnyObject:
        """See `Client.get_object`."""
        path = _path_of(kind, namespace, name)
        return _object_in(path, kind, await self._connection.get(path))

    async def create_object(
        self, kind: ServedKind, namespace: str, content: Mapping[str, Any], *, dry_run: bool = False
    ) -> AnyObject:
        """See `Client.create_object`."""
        path, body = kind.collection(namespace), msgspec.json.encode(content)
        answer = await self._connection.post(
            path, _DRY_RUN if dry_run else None, body=body, content_type=JSON
        )
        return _object_in(path, kind, answer)

    async def patch_object(
        self,
        kind: ServedKind,
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        *,
        subresource: str = "",
        content_type: str = MERGE,
        dry_run: bool = False,
    ) -> AnyObject:
        """See `Client.patch_object`."""
        path = _path_of(kind, namespace, name) + (f"/{subresource}" if subresource else "")
        body, params = msgspec.json.encode(patch), _DRY_RUN if dry_run else None
        answer = await self._connection.patch(path, body, content_type, params)
        return _object_in(path, kind, answer)

    async def delete_object(
        self, kind: ServedKind, namespace: str, name: str, *, uid: str, dry_run: bool = False
    ) -> None:
        """See `Client.delete_object`."""
        options = DeleteOptions(
            apiVersion="v1",
            kind="DeleteOptions",
            dryRun=("All",) if dry_run else (),
            preconditions=Preconditions(uid=uid),
            propagationPolicy="Background",
        )
        path = _path_of(kind, namespace, name)
        await self._connection.delete(path, msgspec.json.encode(options))

    # --- sessions with pods

    def exec(
        self, namespace: str, pod: str, query: ExecQuery
    ) -> AbstractAsyncContextManager[RemoteSession]:
        return exec_session(self._connection, namespace, pod, query)

    def attach(
        self, namespace: str, pod: str, query: AttachQuery
    ) -> AbstractAsyncContextManager[RemoteSession]:
        return attach_session(self._connection, namespace, pod, query)

    async def port_forward(
        self, namespace: str, pod: str, port: int, *, local_port: int = 0
    ) -> PortForward:
        return Forward(self._connection, namespace, pod, port, listen(local_port))

    async def copy_from(
        self, namespace: str, pod: str, container: str, path: str, destination: Path
    ) -> CopyResult:
        copying = self._copying(namespace, pod, container)
        return await copying.out(path, destination)

    async def copy_to(
        self, namespace: str, pod: str, container: str, source: Path, path: str
    ) -> CopyResult:
        copying = self._copying(namespace, pod, container)
        return await copying.into(source, path)

    def _copying(self, namespace: str, pod: str, container: str) -> Copying:
        return Copying(self._connection, namespace, pod, container)

    async def reset(self) -> None:
        """Close the open connections: running requests fail, and later ones connect again."""
        await self._connection.reset()

    async def close(self) -> None:
        await self._connection.close()

    # --- namespaces and paths

    async def _scope(self) -> str:
        """Return the namespace for lists, empty for all."""
        return ""

    async def _collection(self, root: str, plural: str) -> str:
        namespace = await self._scope()
        return (
            f"{root}/namespaces/{quote(namespace, safe='')}/{plural}"
            if namespace
            else f"{root}/{plural}"
        )

    async def _metrics(self, path: str, kind: type[_Metrics]) -> tuple[_Metrics, ...]:
        try:
            body = await self._connection.get(path)
        except ApiError as error:
            if error.code in (403, 404, 503):
                # Metrics are not available, or this user may not read them.
                return ()
            raise
        items = decode_response(path, body, ObjectList).items or ()
        return tuple(decode_response(path, item, kind) for item in items)


def _object_path(kind: type[T], namespace: str, name: str) -> str:
    return f"{kind_of(kind).collection(namespace)}/{quote(name, safe='')}"


def _path_of(kind: ServedKind, namespace: str, name: str) -> str:
    return f"{kind.collection(namespace)}/{quote(name, safe='')}"


def _object_in(path: str, kind: ServedKind, body: bytes) -> AnyObject:
    return decode_with(path, lambda: ObjectReader(kind).decode(body))


class _Version(msgspec.Struct, frozen=True):
    gitVersion: str = ""


def _log_params(query: LogQuery) -> dict[str, str]:
    values = {
        "container": query.container,
        "follow": "true" if query.follow else "",
        "previous": "true" if query.previous else "",
        "timestamps": "true" if query.timestamps else "",
        "tailLines": "" if query.tail is None else str(query.tail),
        "sinceSeconds": "" if query.since_seconds is None else str(query.since_seconds),
        "sinceTime": query.since_time,
        LOG_GAPS: "true" if query.gaps else "",
    }
    return {name: value for name, value in values.items() if value}
