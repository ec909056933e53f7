"""Plan the effect of a changed or removed manifest file. Nothing is written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from podtui.api.names import GROUP_VERSION
from podtui.api.plan import Plan
from podtui.server.objects import encode
from podtui.server.status import bad_request, json_response

Planner = Callable[[str, bytes | None], Awaitable[Plan]]
"""Takes a file's name, and its text or None for a removed file. Raises `ValueError` for a name that
the manifest folder would ignore."""


class Plans:
    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def routes(self) -> list[web.RouteDef]:
        return [web.post(f"/apis/{GROUP_VERSION}/manifests/{{name}}/plan", self.plan)]

    async def plan(self, request: web.Request) -> web.Response:
        """The request body is the file's text; with ``remove=true`` the file is removed instead."""
        name = request.match_info["name"]
        text: bytes | None = None
        if request.query.get("remove") != "true":
            text = await request.read()
        try:
            plan = await self._planner(name, text)
        except ValueError as error:
            raise bad_request(str(error)) from error
        return json_response(encode(plan, GROUP_VERSION, "Plan"))
