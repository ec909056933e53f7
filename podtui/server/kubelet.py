"""The kubelet's own endpoints (kubelet.md §16), and the retry and restart requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from podtui.api.names import GROUP_VERSION
from podtui.api.summary import Summary
from podtui.errors import RestartRefused
from podtui.server.objects import encode
from podtui.server.protocol import KubeletEndpoints
from podtui.server.status import StatusError, json_response, success
from podtui.store.protocol import Records

CHECKS = ("ping", "log", "syncloop")


class KubeletRoutes:
    def __init__(self, records: Records, kubelet: KubeletEndpoints) -> None:
        self._records = records
        self._kubelet = kubelet

    def routes(self) -> list[web.RouteDef]:
        return [
            *(web.get(path, self.health) for path in ("/healthz", "/livez", "/readyz")),
            web.get("/healthz/{check}", self.health),
            web.get("/pods", self.pods),
            web.post(
                f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/pods/{{pod}}/retry", self.retry
            ),
            web.post(
                f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/pods/{{pod}}/restart",
                self.restart,
            ),
        ]

    async def health(self, request: web.Request) -> web.Response:
        """Return ``ok``, or 500 with one line per check and the reason of the failed one."""
        check = request.match_info.get("check", "")
        if check and check not in CHECKS:
            raise web.HTTPNotFound
        well, reason = self._kubelet.healthy()
        if well or check in ("ping", "log"):
            return web.Response(text="ok", headers={"X-Content-Type-Options": "nosniff"})
        lines = ["[+]ping ok", "[+]log ok", f"[-]syncloop failed: {reason}", "healthz check failed"]
        return web.Response(text="\n".join([*lines, ""]), status=500)

    async def pods(self, request: web.Request) -> web.Response:
        pods = (await self._records.list("pods")).items
        items = b",".join(encode(pod, "v1", "Pod") for pod in pods)
        return json_response(
            b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[%s]}' % items
        )

    async def retry(self, request: web.Request) -> web.Response:
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        try:
            await self._kubelet.retry(namespace, pod)
        except LookupError as error:
            raise _missing(error, pod) from error
        except RestartRefused as error:
            raise StatusError(409, str(error)) from error
        return success()

    async def restart(self, request: web.Request) -> web.Response:
        """Restart a pod, or with query parameter ``container`` only that container."""
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        try:
            await self._kubelet.restart(namespace, pod, request.query.get("container", ""))
        except LookupError as error:
            raise _missing(error, pod) from error
        except RestartRefused as error:
            raise StatusError(409, str(error)) from error
        return success()


def _missing(error: LookupError, pod: str) -> StatusError:
    words = str(error.args[0]) if error.args else f'pod "{pod}" not found'
    return StatusError(404, words)


class SummaryRoutes:
    """``summary`` raises `EngineUnavailable`."""

    def __init__(self, summary: Callable[[], Awaitable[Summary]]) -> None:
        self._summary = summary

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/stats/summary", self.summary)]

    async def summary(self, request: web.Request) -> web.Response:
        return json_response(msgspec.json.encode(await self._summary()))
