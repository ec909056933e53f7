"""``GET /stats/summary``, as a kubelet serves it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from podtui.api.summary import Summary
from podtui.server.status import json_response


class StatsSummary:
    """``summary`` raises `EngineUnavailable`."""

    def __init__(self, summary: Callable[[], Awaitable[Summary]]) -> None:
        self._summary = summary

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/stats/summary", self.summary)]

    async def summary(self, request: web.Request) -> web.Response:
        return json_response(msgspec.json.encode(await self._summary()))
