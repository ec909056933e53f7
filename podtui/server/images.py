"""The engine's images, which Kubernetes' API has no resource for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from podtui.api.images import NodeImageList
from podtui.api.names import GROUP_VERSION
from podtui.server.status import json_response


class Images:
    """``read`` asks the engine; it raises `podtui.errors.EngineUnavailable`."""

    def __init__(self, read: Callable[[], Awaitable[NodeImageList]]) -> None:
        self._read = read

    def routes(self) -> list[web.RouteDef]:
        return [web.get(f"/apis/{GROUP_VERSION}/images", self.list)]

    async def list(self, request: web.Request) -> web.Response:
        answer = await self._read()
        head = b'{"kind":"%s","apiVersion":"%s",' % (answer.kind.encode(), GROUP_VERSION.encode())
        items = msgspec.json.encode(answer.items)
        return json_response(head + b'"items":%s}' % items)
