"""The get, list and watch handlers, common to all resources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import msgspec
from aiohttp import web
from msgspec import structs

from podtui.clock import Clock
from podtui.errors import StoreGone
from podtui.server.encoding.media_types import PARTIAL, PARTIAL_LIST, TABLE, MediaType, negotiate
from podtui.server.resources.definitions import SERVED_HINT
from podtui.server.resources.objects import ApiObject, ObjectChange, Objects, ObjectSource
from podtui.server.resources.paging import LATEST, Continued, ContinueToken, encode_token, too_old
from podtui.server.resources.query import ListQuery, check_version, include_object, parse_query
from podtui.server.resources.resource import AnyResource
from podtui.server.resources.table import empty_row, partial_metadata, table
from podtui.server.status import (
    StatusError,
    expired,
    json_response,
    not_found,
    too_large_version,
)
from podtui.server.transport.socket_streams import accept_watch
from podtui.server.transport.streams import Outflow, Producer, Streams, closed_after
from podtui.server.transport.websocket_headers import is_websocket
from podtui.store.protocol import WatchType

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class ResourceRoutes:
    """The handlers of one resource. ``bookmark_seconds`` is the interval of watch bookmarks."""

    def __init__(
        self,
        resource: AnyResource,
        source: ObjectSource,
        *,
        clock: Clock,
        streams: Streams,
        bookmark_seconds: float,
    ) -> None:
        self._resource = resource
        self._source = source
        self._rendering = Rendering(resource, clock)
        self._streams = streams
        self._bookmark_seconds = bookmark_seconds

    def routes(self) -> list[web.RouteDef]:
        root, plural = self._resource.root, self._resource.plural
        within = f"{root}/{plural}"
        collections = [within]
        if self._resource.namespaced:
            within = f"{root}/namespaces/{{namespace}}/{plural}"
            collections.append(within)
        item = f"{within}/{{name}}"
        # The methods of one path follow each other: the router has one entry for them.
        routes = [web.get(path, self.collection) for path in collections]
        if self._resource.strategy is None:
            routes.append(web.post(within, self.refuse))
        routes.append(web.get(item, self.item))
        if self._resource.strategy is None:
            routes += (method(item, self.refuse) for method in (web.put, web.patch, web.delete))
        if self._resource.watchable:
            # Deprecated since Kubernetes v1.11, and still served.
            routes += (
                web.get(path.replace(root, f"{root}/watch", 1), self.watch)
                for path in (*collections, item)
            )
        return routes

    async def item(self, request: web.Request) -> web.Response:
        media = negotiate(request.headers.get("Accept", ""), TABLE, PARTIAL)
        await check_version(request, self._source)
        item = await self._existing(request)
        return json_response(self._rendering.encode_one(media, include_object(request), item))

    async def refuse(self, request: web.Request) -> web.Response:
        """Refuse a write, and say what clients can write."""
        resource, name = self._resource, request.match_info.get("name", "")
        if resource.is_absent:
            why = f"podtui has no {resource.plural}"
        else:
            why = f"{resource.qualified_name} are read-only"
        text = f"{why}; {SERVED_HINT}"
        if not name:
            raise StatusError(404 if resource.is_absent else 405, text)
        await self._existing(request)
        raise StatusError(405, text)

    async def _existing(self, request: web.Request) -> ApiObject:
        """Return the object that a request names. Raises `StatusError` 404."""
        name, resource = request.match_info["name"], self._resource
        item = await self._source.get(request.match_info.get("namespace", ""), name)
        if item is not None:
            return item
        error = not_found(resource.plural, name, resource.group)
        if not resource.is_absent:
            raise error
        why = f"podtui has no {resource.plural}; {SERVED_HINT}"
        raise StatusError(404, f"{error}: {why}", details=error.details)

    async def collection(self, request: web.Request) -> web.StreamResponse:
        query = parse_query(request, self._resource)
        return await (self._watch(request, query) if query.watch else self._list(query))

    async def watch(self, request: web.Request) -> web.StreamResponse:
        return await self._watch(request, parse_query(request, self._resource, watch=True))

    async def _list(self, query: ListQuery) -> web.Response:
        listing = await self._listing(query)
        items = [item for item in listing.items if query.selects(item)]
        if query.token is not None:
            items = [item for item in items if _key(item) > query.token.start]
        version, more = listing.resource_version, None
        if version is not None and 0 < query.limit < len(items):
            left = len(items) - query.limit
            items = items[: query.limit]
            token = encode_token(ContinueToken(version, _key(items[-1])))
            more = Continued(token, None if query.selective else left)
        shown = "" if version is None else str(version)
        return self._rendering.listed(query.media, query.include, items, shown, more)

    async def _listing(self, query: ListQuery) -> Objects:
        """Read the objects as of the version that the client asks for."""
        if query.token is not None and query.token.rv != LATEST:
            try:
                return await self._source.list(query.namespace, query.token.rv)
            except StoreGone:
                raise too_old(query.token) from None
        listing = await self._source.list(query.namespace)
        requested, current = query.resource_version, listing.resource_version
        if requested is None or current is None:
            return listing
        if requested > current:
            raise too_large_version(requested, current)
        if query.exact and requested < current:
            try:
                return await self._source.list(query.namespace, requested)
            except StoreGone:
                raise expired("The resourceVersion for the provided list is too old.") from None
        return listing

    async def _watch(self, request: web.Request, query: ListQuery) -> web.StreamResponse:
        produce: Producer
        try:
            beginning = await self._begin(query)
        except StoreGone as error:
            produce = partial(_report_gone, error)
        else:
            produce = Watch(query, beginning, self._rendering, self._bookmark_seconds).produce
        if is_websocket(request.headers):
            response = await accept_watch(request)
        else:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
        return await self._streams.run(request, response, produce, timeout=query.timeout)

    async def _begin(self, query: ListQuery) -> WatchStart:
        if query.resource_version is not None and not query.initial_events:
            version = query.resource_version
            return WatchStart([], version, self._source.watch(version))
        listing = await self._source.list(query.namespace)
        current = listing.resource_version
        if current is None:
            return WatchStart([], 0, self._source.watch(0))
        if query.resource_version is not None and query.resource_version > current:
            raise too_large_version(query.resource_version, current)
        items = [item for item in listing.items if query.selects(item)]
        if query.initial_events is False:
            items = []
        return WatchStart(items, current, self._source.watch(current))


def _with_version(item: ApiObject, version: int) -> ApiObject:
    meta = structs.replace(item.metadata, resourceVersion=str(version))
    return cast("ApiObject", structs.replace(cast("Any", item), metadata=meta))


def _key(item: ApiObject) -> tuple[str, str]:
    return item.metadata.namespace, item.metadata.name


async def _report_gone(error: StoreGone, outflow: Outflow) -> None:
    """End a watch whose changes are no longer kept. As in an API server, this is an event, also if
    they were not kept when the watch began."""
    status = msgspec.json.encode(expired(str(error)).status())
    outflow.add(b'{"type":"ERROR","object":%s}\n' % status)
    outflow.end()


class WatchStart(NamedTuple):
    """The start of a watch: objects to send first, then the changes after ``version``."""

    initial: list[ApiObject]
    version: int
    changes: AsyncIterator[ObjectChange]


class Watch:
    """The watch of one client. An object that stops or starts matching the selector is reported as
    a deletion or an addition."""

    def __init__(
        self, query: ListQuery, beginning: WatchStart, rendering: Rendering, bookmark_seconds: float
    ) -> None:
        self._query = query
        self._beginning = beginning
        self._rendering = rendering
        self._bookmark_seconds = bookmark_seconds
        self._version = beginning.version
        self._first = True

    async def produce(self, outflow: Outflow) -> None:
        for item in self._beginning.initial:
            if not self._send(outflow, WatchType.ADDED, item):
                await outflow.room()
        if self._query.initial_events and self._query.bookmarks:
            self._bookmark(outflow, initial_end=True)
        async with asyncio.TaskGroup() as group:
            bookmarks = None
            if self._query.bookmarks:
                bookmarks = group.create_task(self._bookmarks(outflow))
            try:
                await self._follow(outflow)
            except StoreGone as error:
                await _report_gone(error, outflow)
            if bookmarks is not None:
                bookmarks.cancel()
        outflow.end()

    async def _follow(self, outflow: Outflow) -> None:
        async with closed_after(self._beginning.changes) as changes:
            async for change in changes:
                self._version = change.resource_version
                kind, item = self._change_type(change), change.object
                if kind is None or item is None:
                    continue
                if kind is WatchType.DELETED and change.previous is not None:
                    # The client gets the last object that it selects, with the change's version.
                    item = _with_version(change.previous, change.resource_version)
                if not self._send(outflow, kind, item):
                    await outflow.room()

    def _change_type(self, change: ObjectChange) -> WatchType | None:
        """Return the change type for this client; None if the change is not relevant."""
        if change.type is WatchType.BOOKMARK:
            return None
        now = change.type is not WatchType.DELETED and self._query.selects(change.object)
        # Without a previous state, assume that the selector matched before as it does now.
        previous = None if change.type is WatchType.ADDED else change.previous or change.object
        before = self._query.selects(previous)
        if now:
            return WatchType.MODIFIED if before else WatchType.ADDED
        return WatchType.DELETED if before else None

    def _send(self, outflow: Outflow, kind: WatchType, item: ApiObject) -> bool:
        body = self._rendering.watched(self._query, item, first=self._first)
        self._first = False
        return outflow.add(b'{"type":"%s","object":%s}\n' % (kind.value.encode(), body))

    def _bookmark(self, outflow: Outflow, *, initial_end: bool = False) -> None:
        body = self._rendering.bookmark(self._query, self._version, initial_end=initial_end)
        outflow.add(b'{"type":"BOOKMARK","object":%s}\n' % body)

    async def _bookmarks(self, outflow: Outflow) -> None:
        while True:
            await asyncio.sleep(self._bookmark_seconds)
            await outflow.room()
            self._bookmark(outflow)


class Rendering:
    def __init__(self, resource: AnyResource, clock: Clock) -> None:
        self._resource = resource
        self._clock = clock

    def encode(self, item: ApiObject) -> bytes:
        return self._resource.encode(item)

    def encode_one(
        self, media: MediaType, include: str, item: ApiObject, *, definitions: bool = True
    ) -> bytes:
        """Encode one object in the shape that the client asks for."""
        if not media.shape:
            return self.encode(item)
        if media.shape == PARTIAL:
            return msgspec.json.encode(partial_metadata(item, media.version))
        version = item.metadata.resourceVersion
        return self._table(media, include, [item], version, definitions=definitions)

    def listed(
        self,
        media: MediaType,
        include: str,
        items: Sequence[ApiObject],
        version: str,
        continued: Continued | None = None,
    ) -> web.Response:
        """Return the response of a list."""
        more = continued.metadata() if continued is not None else {}
        if media.shape == PARTIAL_LIST:
            partial = {
                "kind": PARTIAL_LIST,
                "apiVersion": f"meta.k8s.io/{media.version}",
                "metadata": {"resourceVersion": version, **more},
                "items": [partial_metadata(item, media.version) for item in items],
            }
            return json_response(msgspec.json.encode(partial))
        if media.shape:
            return json_response(self._table(media, include, items, version, more=more))
        metadata = msgspec.json.encode({"resourceVersion": version, **more})
        return json_response(
            b'{"kind":"%sList","apiVersion":"%s","metadata":%s,"items":[%s]}'
            % (
                self._resource.kind.encode(),
                self._resource.api_version.encode(),
                metadata,
                b",".join(map(self._resource.encode_in_list, items)),
            )
        )

    def _table(
        self,
        media: MediaType,
        include: str,
        items: Sequence[ApiObject],
        version: str,
        *,
        definitions: bool = True,
        more: Mapping[str, object] = MappingProxyType({}),
    ) -> bytes:
        return table(
            self._resource.columns,
            ((item, msgspec.Raw(self.encode(item))) for item in items),
            now=self._clock.now(),
            version=media.version,
            metadata={"resourceVersion": version, **more} if version else {},
            include=include,
            definitions=definitions,
        )

    def watched(self, query: ListQuery, item: ApiObject, *, first: bool) -> bytes:
        """Encode an object in the watch's format. Only the first Table includes the column
        definitions."""
        return self.encode_one(query.media, query.include, item, definitions=first)

    def bookmark(self, query: ListQuery, version: int, *, initial_end: bool) -> bytes:
        annotations = {"annotations": {INITIAL_EVENTS_END: "true"}} if initial_end else {}
        metadata = {"resourceVersion": str(version), **annotations}
        if query.media.shape == TABLE:
            return empty_row(self._resource.columns, query.media.version, metadata)
        kind, api_version = self._resource.kind, self._resource.api_version
        if query.media.shape:
            kind, api_version = PARTIAL, f"meta.k8s.io/{query.media.version}"
        return msgspec.json.encode(
            {
                "kind": kind,
                "apiVersion": api_version,
                "metadata": metadata,
            }
        )
