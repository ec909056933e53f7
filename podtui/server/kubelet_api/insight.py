"""Details of a pod or the node that are not in their records (`podtui.api.insight`), and the
journal of engine calls."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
from aiohttp import web

from podtui.api.insight import InsightPart, InsightQuery, NodeInsight, PodInsight, ProbeRun
from podtui.api.local import EngineCall, EngineCallList
from podtui.api.names import GROUP_VERSION
from podtui.api.v1 import ObjectMeta
from podtui.errors import first_error
from podtui.server.resources.objects import encode
from podtui.server.status import StatusError, json_response
from podtui.server.transport.streams import STREAMS

_POD = f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/pods/{{pod}}"
_LONGEST_SPAN = 7 * 86400.0
"""The longest history span of a request, in seconds."""


class PodInsights(Protocol):
    """Methods about pods raise `LookupError`, with a text for the user, if there is no information.
    None means that nothing new arrived within the wait time."""

    async def insight(
        self, namespace: str, name: str, query: InsightQuery
    ) -> PodInsight | None: ...

    async def node(self, query: InsightQuery) -> NodeInsight | None: ...

    async def run_probe(
        self, namespace: str, name: str, container: str, probe: str
    ) -> ProbeRun: ...


class InsightRoutes:
    """``GET …/pods/NAME/insight`` and ``GET …/nodeinsight``, both with ``span`` (seconds of
    history). For long polling, add ``seen`` and ``wait`` (seconds, then 204): the response is sent
    once there is something new. ``POST …/probe?container=NAME&probe=Readiness`` runs a probe
    now."""

    def __init__(self, insights: PodInsights) -> None:
        self._insights = insights

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(f"{_POD}/insight", self.insight),
            web.get(f"/apis/{GROUP_VERSION}/nodeinsight", self.node),
            web.post(f"{_POD}/probe", self.run_probe),
        ]

    async def insight(self, request: web.Request) -> web.Response:
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        query = _query(request)
        try:
            return await _answer(request, self._insights.insight(namespace, pod, query))
        except* LookupError as errors:
            raise StatusError(404, str(first_error(errors).args[0])) from errors

    async def node(self, request: web.Request) -> web.Response:
        return await _answer(request, self._insights.node(_query(request)))

    async def run_probe(self, request: web.Request) -> web.Response:
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        container, probe = request.query.get("container", ""), request.query.get("probe", "")
        if not container or not probe:
            raise StatusError(400, "container and probe are required")
        try:
            run = await self._insights.run_probe(namespace, pod, container, probe)
        except LookupError as error:
            raise StatusError(404, str(error.args[0])) from error
        return json_response(msgspec.json.encode(run))


async def _answer(
    request: web.Request, answer: Awaitable[PodInsight | NodeInsight | None]
) -> web.Response:
    insight = await request.app[STREAMS].unless_closed(answer)
    if insight is None:
        return web.Response(status=204)
    return json_response(msgspec.json.encode(insight))


def _query(request: web.Request) -> InsightQuery:
    requested = request.query
    default = InsightQuery()
    try:
        part = InsightPart(requested.get("part", default.part))
        span = float(requested.get("span", default.span))
        wait = float(requested.get("wait", default.wait))
        if not (0 < span < math.inf and 0 <= wait < math.inf):
            raise ValueError(f"span {span:g}, wait {wait:g}")
    except ValueError as error:
        raise StatusError(400, f"invalid insight query: {error}") from error
    return InsightQuery(
        part=part, span=min(span, _LONGEST_SPAN), seen=requested.get("seen", ""), wait=wait
    )


Calls = Callable[[str], tuple[EngineCall, ...]]
"""Takes a pod's UID, or an empty string for all pods; returns the oldest call first."""


class EngineCallRoutes:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def routes(self) -> list[web.RouteDef]:
        return [web.get(f"/apis/{GROUP_VERSION}/enginecalls", self.calls)]

    async def calls(self, request: web.Request) -> web.Response:
        """Return the calls, with query parameter ``uid`` only those of one pod."""
        calls = self._calls(request.query.get("uid", ""))
        answer = EngineCallList(metadata=ObjectMeta(), items=calls)
        return json_response(encode(answer, GROUP_VERSION, "EngineCallList"))
