"""What the agent tells of one pod beyond its record (`podtui.api.insight`)."""

from __future__ import annotations

from typing import Protocol

import msgspec
from aiohttp import web

from podtui.api.insight import PodInsight, ProbeRun
from podtui.api.names import GROUP_VERSION
from podtui.server.status import StatusError, json_response

_POD = f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/pods/{{pod}}"


class PodInsights(Protocol):
    """Both raise `LookupError`, with a text for the user, where there is nothing to tell."""

    async def insight(self, namespace: str, name: str) -> PodInsight: ...

    async def run_probe(
        self, namespace: str, name: str, container: str, probe: str
    ) -> ProbeRun: ...


class Insight:
    """``GET …/insight``; ``POST …/probe?container=NAME&probe=Readiness`` runs one now."""

    def __init__(self, insights: PodInsights) -> None:
        self._insights = insights

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(f"{_POD}/insight", self.insight),
            web.post(f"{_POD}/probe", self.run_probe),
        ]

    async def insight(self, request: web.Request) -> web.Response:
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        try:
            found = await self._insights.insight(namespace, pod)
        except LookupError as error:
            raise StatusError(404, str(error.args[0])) from error
        return json_response(msgspec.json.encode(found))

    async def run_probe(self, request: web.Request) -> web.Response:
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        container, probe = request.query.get("container", ""), request.query.get("probe", "")
        if not container or not probe:
            raise StatusError(400, "container and probe must be given")
        try:
            run = await self._insights.run_probe(namespace, pod, container, probe)
        except LookupError as error:
            raise StatusError(404, str(error.args[0])) from error
        return json_response(msgspec.json.encode(run))
