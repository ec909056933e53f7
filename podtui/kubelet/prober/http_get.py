"""Send HTTP requests as the kubelet does: no proxy, no cookies, no keep-alive, no compression, TLS
unverified, redirects followed within one host (kubelet.md §8).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from podtui.api.v1 import HTTPGetAction
from podtui.kubelet.prober.dialing import (
    Address,
    OpenSocket,
    dial_error,
    dial_timeout,
    from_here,
    read_error,
)

VERSION: Final = "1.36"
PROBE_AGENT: Final = f"kube-probe/{VERSION}"
HOOK_AGENT: Final = f"kube-lifecycle/{VERSION}"
_PATH_CHARACTERS: Final = "/%?:@!$&'()*+,;=~-._[]"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
BODY_LIMIT: Final = 10 * 1024
REDIRECT_LIMIT: Final = 10
HEADER_LIMIT: Final = 1 << 20
PLAIN_ANSWER: Final = "http: server gave HTTP response to HTTPS client"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_AWAITING: Final = "(Client.Timeout exceeded while awaiting headers)"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A GET request. ``target`` is the path and query as sent; ``host`` is the Host header, empty
    for the address."""

    scheme: str
    address: Address
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    host: str = ""

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.address}{self.target}"

    def over_http(self) -> HttpRequest:
        """Return the same request without TLS and without the Authorization header, which must not
        be sent unencrypted."""
        headers = [header for header in self.headers if header[0].lower() != "authorization"]
        return replace(self, scheme="http", headers=tuple(headers))


def request_for(action: HTTPGetAction, address: Address, agent: str) -> HttpRequest:
    """Build the request of a probe or hook to ``address``."""
    given = [(header.name, header.value) for header in action.httpHeaders]
    host = next((value for name, value in given if name.lower() == "host"), "")
    headers = [header for header in given if header[0].lower() != "host"]
    names = {name.lower() for name, _ in headers}
    if "user-agent" not in names:
        headers.append(("User-Agent", agent))
    if "accept" not in names:
        headers.append(("Accept", "*/*"))
    return HttpRequest(
        scheme=action.scheme.lower() or "http",
        address=address,
        target=_target(action.path),
        headers=tuple(_without_empty(headers, ("accept", "user-agent"))),
        host=host,
    )


def _without_empty(
    headers: Iterable[tuple[str, str]], names: tuple[str, ...]
) -> Iterable[tuple[str, str]]:
    """Drop the named headers if their value is empty: an empty value disables the default
    header."""
    return [header for header in headers if header[1] or header[0].lower() not in names]


def _target(path: str) -> str:
    whole = path.partition("#")[0]
    if not whole.startswith("/"):
        whole = f"/{whole}"
    return quote(whole, safe=_PATH_CHARACTERS)


@dataclass(frozen=True, slots=True)
class Redirect:
    """A redirect target; ``request`` is None if it is on another host."""

    request: HttpRequest | None
    problem: str = ""
    """Why the redirect cannot be followed."""


def redirected(request: HttpRequest, location: str) -> Redirect:
    """Resolve a ``Location`` header. Only redirects within the same host are followed."""
    try:
        parts = urlsplit(urljoin(request.url, location))
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        relative = not urlsplit(location).scheme
    except ValueError as error:
        return Redirect(None, f"failed to parse Location header: {error}")
    if (parts.hostname or "").lower() != request.address.host.lower():
        return Redirect(None)
    if parts.scheme not in _DEFAULT_PORTS:
        return Redirect(None, f'unsupported protocol scheme "{parts.scheme}"')
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    following = replace(
        request,
        scheme=parts.scheme,
        address=replace(request.address, port=port),
        target=_target(target),
        host=request.host if relative else "",
    )
    return Redirect(following)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """``body`` is cut at 10 KiB."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class HttpProblem:
    """A failed request. ``text`` is the whole message of a Go client; with ``broken_body`` only the
    cause."""

    text: str
    plain_answer: bool = False
    """The server replied with plain HTTP to a TLS request."""
    broken_body: bool = False


@dataclass(slots=True)
class _Progress:
    """The progress of a request, which determines the message of a timeout."""

    request: HttpRequest
    sock: socket.socket | None = None
    """The socket for the next connection."""
    connected: bool = False
    headers_read: bool = False

    def take_socket(self, info: tuple[Any, ...]) -> socket.socket:
        if self.sock is not None:
            sock, self.sock = self.sock, None
            return sock
        if self.request.address.sandbox_id:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        return socket.socket(*info[:3])

    def problem(self, cause: str, *, plain_answer: bool = False) -> HttpProblem:
        return HttpProblem(f'Get "{self.request.url}": {cause}', plain_answer)

    def timed_out(self) -> HttpProblem:
        if self.headers_read:
            cause = "context deadline exceeded (Client.Timeout or context cancellation while "
            return HttpProblem(f"{cause}reading body)", broken_body=True)
        if self.connected:
            return self.problem(f"context deadline exceeded {_AWAITING}")
        return self.problem(f"{dial_timeout(self.request.address)} {_AWAITING}")


async def get(
    request: HttpRequest, timeout: float, open_socket: OpenSocket = from_here
) -> HttpAnswer | HttpProblem:
    """Send one request and follow redirects; ``timeout`` in seconds covers everything.

    Raises `EngineError`.
    """
    progress = _Progress(request, await open_socket(request.address))
    try:
        async with asyncio.timeout(timeout), _session(progress) as session:
            return await _follow(session, progress, open_socket)
    except TimeoutError as error:
        # The kernel's connect timeout (ETIMEDOUT) is a TimeoutError, too.
        if error.errno is not None:
            return progress.problem(dial_error(progress.request.address, error))
        return progress.timed_out()
    finally:
        if progress.sock is not None:
            progress.sock.close()


def _session(progress: _Progress) -> aiohttp.ClientSession:
    async def connected(*_: object) -> None:
        progress.connected = True

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            ssl=False, force_close=True, use_dns_cache=False, socket_factory=progress.take_socket
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        trust_env=False,
        auto_decompress=False,
        max_line_size=HEADER_LIMIT,
        max_field_size=HEADER_LIMIT,
        trace_configs=[trace],
        middlewares=(_send_once,),
    )


class _Disconnected(aiohttp.ClientError):
    def __init__(self, cause: aiohttp.ClientError) -> None:
        super().__init__(str(cause))
        self.cause = cause


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Prevent aiohttp's retry over a second connection. Go's client retries only if the first
    connection was reused."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Disconnected(error) from error


async def _follow(
    session: aiohttp.ClientSession, progress: _Progress, open_socket: OpenSocket
) -> HttpAnswer | HttpProblem:
    followed = 0
    while True:
        answered = await _send(session, progress)
        if isinstance(answered, HttpProblem):
            return answered
        answer, location = answered
        if answer.status not in _REDIRECTS or not location:
            return answer
        redirect = redirected(progress.request, location)
        if redirect.problem:
            return progress.problem(redirect.problem)
        if redirect.request is None:
            return answer
        followed += 1
        if followed >= REDIRECT_LIMIT:
            return progress.problem(f"stopped after {REDIRECT_LIMIT} redirects")
        progress.request = redirect.request
        progress.sock = await open_socket(redirect.request.address)
        progress.connected = progress.headers_read = False


async def _send(
    session: aiohttp.ClientSession, progress: _Progress
) -> tuple[HttpAnswer, str] | HttpProblem:
    """Send one request and return the answer and its Location header."""
    request = progress.request
    headers = CIMultiDict(request.headers)
    headers["Host"] = request.host or str(request.address)
    try:
        async with session.get(
            URL(request.url, encoded=True), headers=headers, allow_redirects=False
        ) as response:
            progress.headers_read = True
            body = await _read_at_most(response.content, BODY_LIMIT)
            return HttpAnswer(response.status, body), response.headers.get("Location", "")
    except _Disconnected as error:
        return _problem(progress, error.cause)
    except (aiohttp.ClientError, ValueError) as error:
        return _problem(progress, error)


async def _read_at_most(content: aiohttp.StreamReader, limit: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < limit and (piece := await content.read(limit - len(pieces))):
        pieces += piece
    return bytes(pieces)


def _problem(progress: _Progress, error: aiohttp.ClientError | ValueError) -> HttpProblem:
    address = progress.request.address
    if progress.headers_read:
        return HttpProblem("unexpected EOF", broken_body=True)
    match error:
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, ssl.SSLError):
            return _tls_problem(progress, error.os_error)
        case aiohttp.ClientConnectorError():
            return progress.problem(dial_error(address, error.os_error))
        case aiohttp.ServerDisconnectedError():
            return progress.problem("EOF")
        case aiohttp.ClientOSError() if error.errno in (errno.ECONNRESET, errno.EPIPE):
            return progress.problem(read_error(address, error))
        case aiohttp.ClientResponseError():
            message = (error.message.splitlines() or [""])[0].rstrip(":")
            return progress.problem(f"malformed HTTP response: {message}")
        case _:
            return progress.problem(str(error) or type(error).__name__)


def _tls_problem(progress: _Progress, error: ssl.SSLError) -> HttpProblem:
    reason: str = error.reason or ""
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return progress.problem(PLAIN_ANSWER, plain_answer=True)
    return progress.problem(f"tls: {reason.lower().replace('_', ' ') or error}")
