"""``proxy`` of pods and Services: requests of any method to a server in a pod, and upgrades to
other protocols.

As in an API server, the pod or Service is named as ``NAME``, ``NAME:PORT`` or ``SCHEME:NAME:PORT``;
the port of a Service is a name or a number. A pod's certificate is not verified. The connection is
made in the same way as for ``port-forward``.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from podtui.api.v1 import Pod
from podtui.errors import EngineError, SessionError
from podtui.http.client import (
    HttpConnection,
    HttpProblem,
    ResponseHead,
    beside,
    end_to_end,
    http_connection,
    unverified,
)
from podtui.http.proxy import frame_body, receive_upgraded, send_body, send_upgraded
from podtui.runtime.bridge import bridged
from podtui.server.kubelet_api.html_links import is_page, linked
from podtui.server.kubelet_api.locations import PodLocations, ProxyTarget, parse_target
from podtui.server.kubelet_api.port_forward import parse_port
from podtui.server.protocol import SessionEndpoints
from podtui.server.status import StatusError, bad_request
from podtui.server.transport.sockets import IDLE_SECONDS, Sockets
from podtui.server.transport.streams import Outflow, Streams

log = logging.getLogger(__name__)

_PODS: Final = "/api/v1/namespaces/{namespace}/pods/{pod}/proxy"
_SERVICES: Final = "/api/v1/namespaces/{namespace}/services/{service}/proxy"
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""The route of GET is that of HEAD, too."""
_DEFAULT_PORTS: Final = {"": 80, "http": 80, "https": 443}
_PRIVATE: Final = ("authorization", "impersonate-")
"""The beginnings of headers that are for the API alone."""
_REPLACED: Final = ("expect", "content-length", "x-forwarded-for")
_CORS: Final = "access-control-allow-"


def target_port(pod: Pod, target: ProxyTarget) -> int:
    """Return the port of the request, or else the first that a container declares. Raises
    `StatusError` 503."""
    if target.port:
        port = parse_port(target.port)
        if port is None:
            raise _refused(f"dial tcp: address {target.port}: invalid port", "")
        return port
    declared = (
        port.containerPort for container in pod.spec.containers for port in container.ports[:1]
    )
    return next(declared, _DEFAULT_PORTS[target.scheme])


def pod_address(pod: Pod) -> str:
    """Return the pod's IP. Raises `StatusError` 400."""
    address = pod.status.podIP or next((entry.ip for entry in pod.status.podIPs), "")
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise bad_request("address not allowed") from error
    return address


def dial_problem(address: str, port: int, error: Exception) -> str:
    """Return why a connection failed, in the words of Go's dialler if the system said why."""
    cause = error.__cause__
    host = f"[{address}]" if ":" in address else address
    if isinstance(cause, TimeoutError) and not cause.errno:
        return f"dial tcp {host}:{port}: i/o timeout"
    if isinstance(cause, OSError) and cause.errno:
        return f"dial tcp {host}:{port}: connect: {os.strerror(cause.errno).lower()}"
    return str(error)


def request_headers(request: web.Request) -> CIMultiDict[str]:
    """Return the headers for the pod: without those that are for the API or this connection."""
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in end_to_end(request.headers).items():
        lower = name.lower()
        if not lower.startswith(_PRIVATE) and lower not in _REPLACED:
            headers.add(name, value)
    clients = [*request.headers.getall("X-Forwarded-For", []), request.remote or ""]
    if any(clients):
        headers["X-Forwarded-For"] = ", ".join(filter(None, clients))
    headers["X-Forwarded-Uri"] = request.rel_url.raw_path
    if "Upgrade" in request.headers:
        headers["Connection"] = "Upgrade"
        headers["Upgrade"] = request.headers["Upgrade"]
        return headers
    frame_body(request, headers)
    return headers


def response_headers(head: ResponseHead) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in end_to_end(head.headers).items():
        if not name.lower().startswith(_CORS):
            headers.add(name, value)
    return headers


def rewritten_location(location: str, prefix: str, hosts: tuple[str, ...]) -> str:
    """Return the target of a redirect or link under the proxy's path. One to another host, or
    relative to the current path, stays as it is."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    if (parts.netloc and parts.netloc not in hosts) or not parts.path.startswith("/"):
        return location
    path = parts.path if parts.path.startswith(prefix) else prefix + parts.path
    return parts._replace(scheme="", netloc="", path=path).geturl()


class ProxyRoutes:
    def __init__(
        self,
        pods: SessionEndpoints,
        sockets: Sockets,
        streams: Streams,
        locations: PodLocations,
    ) -> None:
        self._pods = pods
        self._sockets = sockets
        self._streams = streams
        self._locations = locations

    def routes(self) -> list[web.RouteDef]:
        return [
            web.route(method, path, handler)
            for root, handler in ((_PODS, self.proxy_pod), (_SERVICES, self.proxy_service))
            for path in (root, root + "/{path:.*}")
            for method in _METHODS
        ]

    async def proxy_pod(self, request: web.Request) -> web.StreamResponse:
        target = parse_target(request.match_info["pod"], "pod")
        pod = await self._locations.named(request.match_info["namespace"], target.name)
        address, port = pod_address(pod), target_port(pod, target)
        return await self._proxy(request, pod, address, port, target.scheme)

    async def proxy_service(self, request: web.Request) -> web.StreamResponse:
        match = request.match_info
        location = await self._locations.of_service(match["namespace"], match["service"])
        return await self._proxy(
            request, location.pod, location.address, location.port, location.scheme
        )

    async def _proxy(
        self, request: web.Request, pod: Pod, address: str, port: int, scheme: str
    ) -> web.StreamResponse:
        self._locations.check_node(pod)
        upgrade = request.headers.get("Upgrade", "")
        if not _subpath(request) and not upgrade and request.method in ("GET", "HEAD"):
            query = request.rel_url.raw_query_string
            location = f"{request.rel_url.raw_path}/" + (f"?{query}" if query else "")
            return web.Response(status=301, headers={"Location": location})
        async with AsyncExitStack() as stack:
            if upgrade:
                await stack.enter_async_context(self._sockets.counted(request))
            try:
                stream = await stack.enter_async_context(self._pods.dial(pod, port))
                sock = await stack.enter_async_context(bridged(stream))
                tls = unverified() if scheme == "https" else None
                connection = await stack.enter_async_context(http_connection(sock, tls))
                headers = request_headers(request)
                await connection.send_head(request.method, _target(request), headers)
                upload = send_body(request, connection, headers)
                await stack.enter_async_context(beside(upload))
                async with asyncio.timeout(IDLE_SECONDS):
                    head = await connection.read_head()
            except (EngineError, SessionError) as error:
                raise _refused(dial_problem(address, port, error), upgrade) from error
            except (HttpProblem, ConnectionError) as error:
                raise _refused(str(error), upgrade) from error
            except TimeoutError as error:
                raise _refused("net/http: timeout awaiting response headers", upgrade) from error
            if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
                return await self._pass_on(request, connection, head)
            if upgrade and head.status < HTTPStatus.BAD_REQUEST:
                text = f"invalid upgrade response: status code {head.status}"
                raise StatusError(500, text, reason="")
            return await self._respond(request, connection, head, f"{address}:{port}")

    async def _respond(
        self, request: web.Request, connection: HttpConnection, head: ResponseHead, host: str
    ) -> web.StreamResponse:
        headers = response_headers(head)
        prefix, hosts = _prefix(request), (host, request.host)

        def link(target: str) -> str:
            return rewritten_location(target, prefix, hosts)

        if "Location" in headers:
            headers["Location"] = link(headers["Location"])
        body = connection.body(head, request.method)
        if request.method != "HEAD" and is_page(headers):
            headers.popall("Content-Length", None)
            body = linked(body, headers, link)
        response = web.StreamResponse(status=head.status, headers=headers)

        async def produce(outflow: Outflow) -> None:
            async for data in body:
                if not outflow.add(data):
                    await outflow.room()
            outflow.end()

        return await self._streams.run(request, response, produce)

    async def _pass_on(
        self, request: web.Request, connection: HttpConnection, head: ResponseHead
    ) -> web.StreamResponse:
        """Answer 101 as the pod did, then pass on the bytes of both sides."""
        async with self._sockets.upgrade(request, head.headers) as socket:
            await self._sockets.run(
                request,
                socket,
                send_upgraded(socket, connection),
                receive_upgraded(connection, socket),
            )
        return socket.response


def _subpath(request: web.Request) -> str:
    """Return the path on the pod's server, as the client wrote it, or from the query; empty if
    there is none, not even a slash."""
    path = request.rel_url.raw_path.removeprefix(_prefix(request))
    queried = request.query.get("path", "")
    if path or not queried:
        return path
    return URL.build(path=f"/{queried.lstrip('/')}").raw_path


def _prefix(request: web.Request) -> str:
    """Return the path of the proxy itself, as the client wrote it."""
    segments = request.rel_url.raw_path.split("/")
    return "/".join(segments[: _PODS.count("/") + 1])


def _target(request: web.Request) -> str:
    query = request.rel_url.raw_query_string
    return (_subpath(request) or "/") + (f"?{query}" if query else "")


def _refused(problem: str, upgrade: str) -> StatusError:
    """Return the API server's error for a pod that cannot be reached."""
    if upgrade:
        return StatusError(500, problem, reason="")
    return StatusError(503, f"error trying to reach service: {problem}")
