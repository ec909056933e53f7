"""The get, list and watch handlers, common to all resources."""

from __future__ import annotations

from aiohttp import web

from podtui.clock import Clock
from podtui.server.accept import negotiate
from podtui.server.objects import Source
from podtui.server.query import Query, parse_query
from podtui.server.rendering import Rendering
from podtui.server.resources import Resource
from podtui.server.status import expired, json_response, not_found, too_large_version
from podtui.server.stream import Streams
from podtui.server.watching import Beginning, Watch


class Reading:
    """The handlers of one resource. ``bookmark_seconds`` is the interval of watch bookmarks."""

    def __init__(
        self,
        resource: Resource,
        source: Source,
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
        collections = [f"{root}/{plural}"]
        within = f"{root}/{plural}"
        if self._resource.namespaced:
            within = f"{root}/namespaces/{{namespace}}/{plural}"
            collections.append(within)
        return [
            *(web.get(path, self.collection) for path in collections),
            web.get(f"{within}/{{name}}", self.one),
        ]

    async def one(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        media = negotiate(request.headers.get("Accept", ""), "Table")
        item = await self._source.get(request.match_info.get("namespace", ""), name)
        if item is None:
            raise not_found(self._resource.plural, name, self._resource.group)
        if not media.shape:
            return json_response(self._rendering.encode(item))
        query = parse_query(request, self._resource)
        version = item.metadata.resourceVersion
        return json_response(self._rendering.table(query, [item], version))

    async def collection(self, request: web.Request) -> web.StreamResponse:
        query = parse_query(request, self._resource)
        return await (self._watch(request, query) if query.watch else self._list(query))

    async def _list(self, query: Query) -> web.Response:
        listing = await self._source.list(query.namespace)
        current = listing.resource_version
        if query.resource_version is not None and current is not None:
            if query.resource_version > current:
                raise too_large_version(query.resource_version, current)
            if query.match == "Exact" and query.resource_version < current:
                raise expired("The resourceVersion for the provided list is too old.")
        items = [item for item in listing.items if query.selects(item)]
        version = "" if current is None else str(current)
        if query.media.shape:
            return json_response(self._rendering.table(query, items, version))
        return json_response(
            b'{"kind":"%sList","apiVersion":"%s","metadata":{"resourceVersion":"%s"},"items":[%s]}'
            % (
                self._resource.kind.encode(),
                self._resource.api_version.encode(),
                version.encode(),
                b",".join(map(self._rendering.encode, items)),
            )
        )

    async def _watch(self, request: web.Request, query: Query) -> web.StreamResponse:
        beginning = await self._begin(query)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        watch = Watch(query, beginning, self._rendering, self._bookmark_seconds)
        return await self._streams.run(request, response, watch.produce, timeout=query.timeout)

    async def _begin(self, query: Query) -> Beginning:
        if query.resource_version is not None and not query.initial_events:
            version = query.resource_version
            return Beginning([], version, self._source.watch(version))
        listing = await self._source.list(query.namespace)
        current = listing.resource_version
        if current is None:
            return Beginning([], 0, self._source.watch(0))
        if query.resource_version is not None and query.resource_version > current:
            raise too_large_version(query.resource_version, current)
        items = [item for item in listing.items if query.selects(item)]
        return Beginning(items, current, self._source.watch(current))
