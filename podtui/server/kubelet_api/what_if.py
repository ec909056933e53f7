"""Answer what would happen, without doing it: whether this node would admit the pod of a manifest,
and what a change of a manifest file would do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from podtui.api.local import Plan, Severity, WhatIf
from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import Pod, StatusCause, StatusDetails
from podtui.manifest.result import ReadResult
from podtui.server.resources.objects import encode
from podtui.server.status import StatusError, bad_request, json_response

ManifestReader = Callable[[bytes], ReadResult]
"""Reads a YAML or JSON manifest like a file of the manifest folder. Called in a thread."""
Simulator = Callable[[Pod], Awaitable[WhatIf]]
"""Returns whether this node would admit a pod."""
Planner = Callable[[str, bytes | None], Awaitable[Plan]]
"""Takes a file's name, and its text or None for a removed file. Raises `ValueError` for a name that
the manifest folder would ignore."""


class WhatIfRoutes:
    def __init__(self, simulator: Simulator, read: ManifestReader) -> None:
        self._simulator = simulator
        self._read = read

    def routes(self) -> list[web.RouteDef]:
        return [web.post(f"/apis/{GROUP_VERSION}/whatifs", self.simulate)]

    async def simulate(self, request: web.Request) -> web.Response:
        """The request body is a manifest. Responds with 422 if it defines no pod."""
        answer = await self._simulator(await self._pod(request))
        return json_response(encode(answer, GROUP_VERSION, "WhatIf"))

    async def _pod(self, request: web.Request) -> Pod:
        result = await asyncio.to_thread(self._read, await request.read())
        pod = result.pods[0] if result.pods else None
        if pod is not None:
            return pod
        errors = [
            diagnostic for diagnostic in result.diagnostics if diagnostic.severity is Severity.ERROR
        ]
        if not errors:
            raise StatusError(422, "there is no Pod in the manifest")
        causes = tuple(
            StatusCause(reason=error.code, message=error.message, field=error.field)
            for error in errors
        )
        first = errors[0]
        position = f"line {first.line}: " if first.line else ""
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        text = f"the manifest does not define a valid pod: {position}{first.text}{more}"
        raise StatusError(422, text, details=StatusDetails(kind="Pod", causes=causes))


class PlanRoutes:
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
