"""Serve the agent's journal of engine calls."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from podtui.api.engine_calls import EngineCall, EngineCallList
from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta
from podtui.server.objects import encode
from podtui.server.status import json_response

Calls = Callable[[str], tuple[EngineCall, ...]]
"""Takes a pod's UID, or an empty string for all pods; returns the oldest call first."""


class EngineCalls:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def routes(self) -> list[web.RouteDef]:
        return [web.get(f"/apis/{GROUP_VERSION}/enginecalls", self.calls)]

    async def calls(self, request: web.Request) -> web.Response:
        """Return the calls, with query parameter ``uid`` only those of one pod."""
        found = self._calls(request.query.get("uid", ""))
        answer = EngineCallList(metadata=ObjectMeta(), items=found)
        return json_response(encode(answer, GROUP_VERSION, "EngineCallList"))
