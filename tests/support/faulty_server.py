"""An API server whose answers fail as a test says: podtui's own, over TCP on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from served import Served, serving

from podtui.agent.cluster_member import node_client
from podtui.client.cluster import ClusterClient
from podtui.clock import Clock
from podtui.kubeconfig import choose, load
from podtui.settings import Settings

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Fault = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]
"""Answers a request in place of the server."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that arrived; ``at`` is the loop's time."""

    at: float
    method: str
    path: str
    watch: bool


@dataclass
class FaultyServer:
    """``fault`` answers all requests until it is None. ``calls`` are all requests so far."""

    served: Served | None = None
    port: int = 0
    fault: Fault | None = None
    calls: list[Call] = field(default_factory=list)
    _site: web.TCPSite | None = None
    _transports: set[asyncio.Transport] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @web.middleware
    async def front(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        watch = "watch" in request.query
        now = asyncio.get_running_loop().time()
        self.calls.append(Call(now, request.method, request.path_qs, watch))
        assert request.transport is not None
        self._transports.add(request.transport)
        return await (handler(request) if self.fault is None else self.fault(request, handler))

    async def start(self) -> None:
        """Accept connections, at the same port as before."""
        assert self.served is not None
        self._site = web.TCPSite(self.served.runner, "127.0.0.1", self.port)
        await self._site.start()
        if not self.port:
            self.port = self.served.runner.addresses[-1][1]

    async def stop(self) -> None:
        """Refuse connections, and drop those that are open."""
        assert self._site is not None
        await self._site.stop()
        self.cut()

    def cut(self) -> None:
        """Drop all connections, with their watches."""
        transports, self._transports = self._transports, set()
        for transport in transports:
            transport.abort()

    def since(self, at: float) -> list[Call]:
        return [call for call in self.calls if call.at >= at]


@asynccontextmanager
async def faulty_server(folder: Path) -> AsyncGenerator[FaultyServer]:
    server = FaultyServer()
    async with serving(folder / "s.sock", middlewares=[server.front]) as served:
        server.served = served
        await server.start()
        yield server
        # Requests that hang would delay the end of the server.
        server.cut()


def cluster_client(server: FaultyServer, folder: Path, clock: Clock) -> ClusterClient:
    """Return a client of a node."""
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "x",
                "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            }
        )
    )
    settings = Settings(rootDir=folder, staticPodPath=folder, nodeName="n1")
    return node_client(choose(load(path, {})), settings, clock)


# --- faults


def status(code: int, reason: str = "", message: str = "", after: str = "") -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": message or f"fault {code}"}
    return web.json_response(body, status=code, headers={"Retry-After": after} if after else {})


def refuses(code: int, reason: str = "", after: str = "") -> Fault:
    """Answer with an error status; ``after`` is the header ``Retry-After``."""

    async def fault(request: web.Request, handler: Handler) -> web.StreamResponse:
        return status(code, reason, after=after)

    return fault


def delays(seconds: float) -> Fault:
    async def fault(request: web.Request, handler: Handler) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await handler(request)

    return fault


async def is_silent(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Accept watches without ever sending anything, and never answer other requests."""
    if "watch" in request.query:
        await web.StreamResponse().prepare(request)
    return await hangs(request, handler)


async def hangs(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def halves(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Cut each body in the middle, after the request has had its effect; a watch in the middle of a
    line."""
    transport = request.transport
    assert transport is not None
    if "watch" in request.query:
        body, length = b'{"type":"MODIFIED","object":{"apiVersion":"v1","ki', None
    else:
        response = await handler(request)
        assert isinstance(response, web.Response)
        whole = bytes(response.body or b"")  # type: ignore[arg-type]
        body, length = whole[: len(whole) // 2], len(whole)
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    answer.content_length = length
    await answer.prepare(request)
    await answer.write(body)
    # The half arrives before the connection ends.
    await asyncio.sleep(0.01)
    transport.close()
    return answer


async def breaks_chunks(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer each watch with what is no chunk."""
    if "watch" not in request.query:
        return await handler(request)
    answer = web.StreamResponse()
    answer.enable_chunked_encoding()
    await answer.prepare(request)
    assert isinstance(request.transport, asyncio.Transport)
    request.transport.write(b"no chunk\r\n")
    await asyncio.sleep(0.01)
    request.transport.close()
    return answer


def events(*lines: bytes) -> Fault:
    """Answer each watch with these lines, and other requests as usual."""

    async def fault(request: web.Request, handler: Handler) -> web.StreamResponse:
        if "watch" not in request.query:
            return await handler(request)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        for line in lines:
            await answer.write(line)
        return answer

    return fault


EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired",'
    b'"message":"too old resource version: 1 (2)"}}\n'
)
