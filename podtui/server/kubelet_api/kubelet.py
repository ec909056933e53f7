"""The kubelet's own endpoints (kubelet.md §16), and the retry and restart requests."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Protocol

import msgspec
from aiohttp import web

from podtui.api.names import GROUP_VERSION
from podtui.api.summary import Summary, only_cpu_and_memory
from podtui.api.v1 import Pod
from podtui.errors import RestartRefused
from podtui.server.auth.access import USER
from podtui.server.auth.users import ANONYMOUS, MASTERS
from podtui.server.protocol import KubeletEndpoints
from podtui.server.resources.objects import encode_in_list
from podtui.server.resources.query import flag
from podtui.server.status import StatusError, json_response, success
from podtui.text.terminal_text import one_line

NODE_PROXY = "/api/v1/nodes/{node}/proxy"


class KubeletRoutes:
    def __init__(self, kubelet: KubeletEndpoints) -> None:
        self._kubelet = kubelet

    def kubelet_routes(self) -> list[web.RouteDef]:
        return self._health_routes("/healthz")

    def api_routes(self) -> list[web.RouteDef]:
        return [
            *self._health_routes("/livez", "/readyz", f"{NODE_PROXY}/healthz"),
            web.post(
                f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/pods/{{pod}}/retry", self.retry
            ),
            web.post(
                f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/pods/{{pod}}/restart",
                self.restart,
            ),
        ]

    def _health_routes(self, *prefixes: str) -> list[web.RouteDef]:
        return [
            web.get(f"{prefix}{path}", partial(self.health, prefix.rpartition("/")[2]))
            for prefix in prefixes
            for path in ("", "/{check}")
        ]

    async def health(self, name: str, request: web.Request) -> web.Response:
        """Return ``ok``, or 500 with one line per check and, for the admin, the reasons of the
        failed ones. With query parameter ``verbose``, always list the checks; ``exclude`` leaves
        one out."""
        requested = request.match_info.get("check", "")
        problems = self._kubelet.health_checks()
        if requested and requested not in problems:
            raise web.HTTPNotFound
        # Reasons may contain names of objects.
        shown = MASTERS in request.get(USER, ANONYMOUS).groups
        lines: list[str] = []
        failed = False
        for check, problem in problems.items():
            if check in request.query.getall("exclude", []):
                lines.append(f"[+]{check} excluded: ok")
            elif problem:
                reason = one_line(problem) if shown else "reason withheld"
                lines.append(f"[-]{check} failed: {reason}")
                failed |= requested in ("", check)
            else:
                lines.append(f"[+]{check} ok")
        if failed or ("verbose" in request.query and not requested):
            lines.append(f"{name} check {'failed' if failed else 'passed'}")
            return web.Response(text="\n".join([*lines, ""]), status=500 if failed else 200)
        return web.Response(text="ok", headers={"X-Content-Type-Options": "nosniff"})

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
    message = str(error.args[0]) if error.args else f'pod "{pod}" not found'
    return StatusError(404, message)


class KubeletFigures(Protocol):
    """The kubelet's figures. `summary` raises `EngineUnavailable`; the others return metrics in the
    Prometheus text format."""

    async def summary(self) -> Summary: ...

    def pods(self) -> tuple[Pod, ...]: ...

    def running_pods(self) -> tuple[Pod, ...]: ...

    def prometheus(self) -> bytes: ...

    def probe_prometheus(self) -> bytes: ...

    def sli_prometheus(self) -> bytes: ...

    async def resource_prometheus(self) -> bytes: ...

    async def cadvisor_prometheus(self) -> bytes: ...


class FigureRoutes:
    """Metrics, summary, pods and configuration, at the kubelet's paths and, for ``kubectl
    get --raw``, at those of the API server's node proxy. ``config`` is the body of ``/configz``."""

    def __init__(self, figures: KubeletFigures, config: bytes) -> None:
        self._figures = figures
        self._config = config

    def kubelet_routes(self, prefix: str = "") -> list[web.RouteDef]:
        handlers = {
            "/stats/summary": self.summary,
            "/pods": self.pods,
            "/runningpods/": self.running_pods,
            "/metrics": self.metrics,
            "/metrics/probes": self.probes,
            "/metrics/slis": self.slis,
            "/metrics/resource": self.resource,
            "/metrics/cadvisor": self.cadvisor,
            "/configz": self.configz,
        }
        return [web.get(f"{prefix}{path}", handler) for path, handler in handlers.items()]

    def routes(self) -> list[web.RouteDef]:
        return [*self.kubelet_routes(), *self.kubelet_routes(NODE_PROXY)]

    async def summary(self, request: web.Request) -> web.Response:
        """With query parameter ``only_cpu_and_memory=true``, leave out everything else."""
        summary = await self._figures.summary()
        if flag(request, "only_cpu_and_memory"):
            summary = only_cpu_and_memory(summary)
        return json_response(msgspec.json.encode(summary))

    async def pods(self, request: web.Request) -> web.Response:
        return _pod_list(self._figures.pods())

    async def running_pods(self, request: web.Request) -> web.Response:
        return _pod_list(self._figures.running_pods())

    async def metrics(self, request: web.Request) -> web.Response:
        return _exposed(self._figures.prometheus())

    async def probes(self, request: web.Request) -> web.Response:
        return _exposed(self._figures.probe_prometheus())

    async def slis(self, request: web.Request) -> web.Response:
        return _exposed(self._figures.sli_prometheus())

    async def resource(self, request: web.Request) -> web.Response:
        return _exposed(await self._figures.resource_prometheus())

    async def cadvisor(self, request: web.Request) -> web.Response:
        return _exposed(await self._figures.cadvisor_prometheus())

    async def configz(self, request: web.Request) -> web.Response:
        return json_response(self._config)


def _exposed(body: bytes) -> web.Response:
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return web.Response(body=body, headers=headers)


def _pod_list(pods: Iterable[Pod]) -> web.Response:
    items = b",".join(map(encode_in_list, pods))
    return json_response(b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[%s]}' % items)
