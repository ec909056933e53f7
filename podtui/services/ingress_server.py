"""The server of Ingresses: HTTP and HTTPS on one port, passed on to pods.

The first byte of a connection says whether it is TLS. Each request has a connection of its own to a
pod, so that none is lost because a pod closed an idle one. A request is tried at another pod only
if the first one does not accept the connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web
from multidict import CIMultiDict

from podtui.clock import Clock
from podtui.errors import EngineError
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
from podtui.http.server import UpgradedSocket, prepare_requests
from podtui.services.backends import Backend
from podtui.services.ingress_rules import (
    RouteTable,
    Target,
    Unrouted,
    certificate_of,
    route,
)
from podtui.services.proxies import Dialer
from podtui.text.terminal_text import one_line

_LOG = logging.getLogger(__name__)
MAX_CONNECTIONS: Final = 512
HEAD_SECONDS: Final = 30.0
"""Until a client has sent its first byte, its TLS handshake, or its request head."""
RESPONSE_SECONDS: Final = 300.0
"""Until a pod has sent the head of its response."""
IDLE_SECONDS: Final = 4 * 3600.0
"""An upgraded connection without any data is closed."""
_OPTIONS: Final[Mapping[str, Any]] = {
    "keepalive_timeout": HEAD_SECONDS,
    "lingering_time": 2.0,
    "max_line_size": 32 * 1024,
    "max_field_size": 32 * 1024,
    "max_headers": 128,
    # Bodies are passed on as they are.
    "auto_decompress": False,
}
_TRIES: Final = 3
_RETRY_SECONDS: Final = 0.2
_CLOSE_SECONDS: Final = 1.0
_TLS: Final = b"\x16"
"""The type of the first record of TLS."""
_REPLACED: Final = frozenset(
    {
        "expect",
        "content-length",
        "x-real-ip",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-port",
        "x-forwarded-proto",
        "x-forwarded-scheme",
    }
)
"""Headers that the server sets itself: a client cannot pretend to be another one."""
BackendsOf = Callable[[Target], tuple[Backend, ...]]


class Refusal(Exception):
    """The answer to a request that no pod answers."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Certificates:
    """The TLS contexts by server name. `replace` changes them for new connections.

    ``fallback`` has the certificate for names without one.
    """

    def __init__(self, fallback: ssl.SSLContext, table_of: Callable[[], RouteTable]) -> None:
        self.context = fallback
        self._table_of = table_of
        self._contexts: Mapping[tuple[str, str], ssl.SSLContext] = {}
        fallback.sni_callback = self._select

    def replace(self, contexts: Mapping[tuple[str, str], ssl.SSLContext]) -> None:
        """``contexts`` are by namespace and name of their Secrets."""
        self._contexts = contexts

    def _select(self, connection: ssl.SSLObject, name: str | None, context: object) -> None:
        certificate = certificate_of(self._table_of(), (name or "").lower())
        if certificate is not None:
            selected = self._contexts.get((certificate.namespace, certificate.secret))
            if selected is not None:
                connection.context = selected


def server_context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """Return the context for a certificate and its key, in PEM. Raises ValueError.

    The library only reads files, and the key must not be written to a disk.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    opened: list[int] = []
    try:
        for name, data in (("certificate", certificate), ("key", key)):
            opened.append(os.memfd_create(name, os.MFD_CLOEXEC))
            with open(opened[-1], "wb", closefd=False) as file:
                file.write(data)
        paths = [f"/proc/self/fd/{descriptor}" for descriptor in opened]
        # With an empty password, the library does not prompt for one on the terminal.
        context.load_cert_chain(*paths, password="")
    except ssl.SSLError as error:
        matches = "MISMATCH" not in (error.reason or "")
        problem = "cannot be read" if matches else "do not match"
        raise ValueError(f"certificate and key {problem}") from None
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return context


class IngressServer:
    def __init__(
        self, backends_of: BackendsOf, dialer: Dialer, fallback: ssl.SSLContext, clock: Clock
    ) -> None:
        self.table = RouteTable({}, None, ())
        self.certificates = Certificates(fallback, lambda: self.table)
        self._backends_of = backends_of
        self._dialer = dialer
        self._clock = clock
        self._random = random.Random()
        self._starting = 0
        """The number of connections that are not known to be HTTP or TLS yet."""

    async def run(self, listener: socket.socket) -> None:
        """Serve a listening socket, which this owns, until cancelled."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1, **_OPTIONS
        )
        try:
            await runner.setup()
            prepare_requests(runner)
            server = runner.server
            assert server is not None
            async with asyncio.TaskGroup() as group:
                await self._accept(listener, server, group)
        finally:
            listener.close()
            await runner.cleanup()

    async def _accept(
        self, listener: socket.socket, server: web.Server, group: asyncio.TaskGroup
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                # Out of file descriptors, or the client left before it was accepted.
                _LOG.debug("cannot accept a connection: %s", error)
                await self._clock.sleep(_RETRY_SECONDS)
                continue
            if len(server.connections) + self._starting >= MAX_CONNECTIONS:
                _LOG.debug("too many connections: one was closed")
                connection.close()
                continue
            self._starting += 1
            group.create_task(self._start(connection, server))

    async def _start(self, connection: socket.socket, server: web.Server) -> None:
        """Find out whether a connection is TLS; the server has it afterwards."""
        try:
            connection.setblocking(False)
            async with asyncio.timeout(HEAD_SECONDS):
                is_tls = await _first_byte(connection) == _TLS
            await asyncio.get_running_loop().connect_accepted_socket(
                server,
                connection,
                ssl=self.certificates.context if is_tls else None,
                ssl_handshake_timeout=HEAD_SECONDS if is_tls else None,
            )
        except OSError as error:
            # Also SSLError and TimeoutError: the client does not trust us, or sends nothing.
            _LOG.debug("a connection failed: %s", error)
            connection.close()
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            self._starting -= 1

    # --- a request

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            return await self._pass_on(request)
        except Refusal as refusal:
            phrase = HTTPStatus(refusal.status).phrase
            text = f"{refusal.status} {phrase}\n\npodtui: {one_line(str(refusal))}\n"
            return web.Response(status=refusal.status, text=text)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        """Raises `Refusal`."""
        target = route(self.table, request.headers.get("Host", ""), request.rel_url.raw_path)
        if isinstance(target, Unrouted):
            raise Refusal(404, target.reason)
        if target.problem:
            raise Refusal(503, target.problem)
        if request.method == "CONNECT":
            raise Refusal(405, "the method CONNECT is not served")
        async with AsyncExitStack() as stack:
            try:
                connection = await self._connect(stack, target)
                headers = forwarded_headers(request)
                await connection.send_head(request.method, request.rel_url.raw_path_qs, headers)
                upload = send_body(request, connection, headers)
                await stack.enter_async_context(beside(upload))
                async with asyncio.timeout(RESPONSE_SECONDS):
                    head = await connection.read_head()
            except (HttpProblem, ConnectionError) as error:
                raise Refusal(502, f"{_name(target)}: {error}") from error
            except TimeoutError as error:
                text = f"{_name(target)} did not answer within {RESPONSE_SECONDS:.0f} s"
                raise Refusal(504, text) from error
            if head.status == HTTPStatus.SWITCHING_PROTOCOLS:
                if "Upgrade" not in headers:
                    raise Refusal(502, f"{_name(target)} switched to another protocol")
                return await self._tunnel(request, connection, head)
            return await _respond(request, connection, head)

    async def _connect(self, stack: AsyncExitStack, target: Target) -> HttpConnection:
        """Raises `Refusal`, and `HttpProblem` if TLS fails."""
        backends = [*self._backends_of(target)]
        if not backends:
            raise Refusal(503, f"{_name(target)} has no ready endpoints")
        self._random.shuffle(backends)
        problems: list[str] = []
        for backend in backends[:_TRIES]:
            try:
                dialled = self._dialer.connect(backend.ip, backend.port)
                sock = await stack.enter_async_context(dialled)
            except EngineError as error:
                problems.append(str(error))
                continue
            tls = unverified() if target.is_tls else None
            return await stack.enter_async_context(http_connection(sock, tls))
        raise Refusal(502, f"{_name(target)}: {'; '.join(problems)}")

    async def _tunnel(
        self, request: web.Request, connection: HttpConnection, head: ResponseHead
    ) -> web.StreamResponse:
        """Answer 101 as the pod did, then pass on the bytes of both sides until one ends."""
        tunnel = UpgradedSocket(head.headers, self._clock)
        try:
            await tunnel.start(request)
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(send_upgraded(tunnel, connection)),
                    group.create_task(receive_upgraded(connection, tunnel)),
                    group.create_task(tunnel.wait_until_idle(IDLE_SECONDS)),
                ]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
            await tunnel.drain(_CLOSE_SECONDS)
        except* OSError as errors:
            _LOG.debug("an upgraded connection broke: %s", errors.exceptions[0])
        return tunnel.response


def _name(target: Target) -> str:
    port = "" if target.port is None else f" port {target.port.name or target.port.port}"
    return f"Service {target.namespace}/{target.service}{port}"


def forwarded_headers(request: web.Request) -> CIMultiDict[str]:
    """Return the headers for the pod. Host is that of the client."""
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in end_to_end(request.headers).items():
        if name.lower() not in _REPLACED:
            headers.add(name, value)
    client, host = request.remote or "", request.headers.get("Host", "")
    port = host.rpartition(":")[2]
    is_tls = request.secure
    headers["X-Real-IP"] = headers["X-Forwarded-For"] = client
    headers["X-Forwarded-Host"] = host
    headers["X-Forwarded-Port"] = port if port.isdecimal() else "443" if is_tls else "80"
    headers["X-Forwarded-Proto"] = headers["X-Forwarded-Scheme"] = request.scheme
    upgrade = request.headers.get("Upgrade", "")
    # HTTP/2 could ask for paths that have other rules.
    if upgrade and upgrade.lower() != "h2c" and not request.can_read_body:
        headers["Connection"] = "Upgrade"
        headers["Upgrade"] = upgrade
        return headers
    frame_body(request, headers)
    return headers


async def _respond(
    request: web.Request, connection: HttpConnection, head: ResponseHead
) -> web.StreamResponse:
    response = web.StreamResponse(status=head.status, headers=end_to_end(head.headers))
    await response.prepare(request)
    try:
        async for data in connection.body(head, request.method):
            await response.write(data)
        await response.write_eof()
    except ConnectionError as error:
        # The client must not take what it has for the whole response.
        _LOG.debug("a response was cut off: %s", error)
        if request.transport is not None:
            request.transport.abort()
    return response


async def _first_byte(connection: socket.socket) -> bytes:
    """Return the first byte without taking it from the connection. Raises OSError."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(connection, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(connection)
    byte = connection.recv(1, socket.MSG_PEEK)
    if not byte:
        raise ConnectionAbortedError("the client has left")
    return byte
