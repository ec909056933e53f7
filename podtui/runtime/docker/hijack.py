"""Engine connections that are upgraded to plain byte streams: exec and attach.

They use raw sockets, whereas the rest of `podtui.runtime.docker` uses an HTTP library, for two
reasons. The library exposes an upgraded connection only through private attributes. And a stream
object fails in both directions at once: when a process stops reading its input, the write fails,
and the remaining output of the process would be lost. On a plain socket each direction ends
separately, and only the kernel buffers data.
"""

from __future__ import annotations

import asyncio
import json
import socket
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from podtui.errors import EngineError
from podtui.runtime.docker.errors import Refused
from podtui.runtime.docker.locate import Endpoint

PIECE: Final = 64 * 1024
CONNECT_SECONDS: Final = 10.0
_ANSWER_SECONDS: Final = 30.0
_LONGEST_HEAD: Final = 64 * 1024


class Channel(ABC):
    """A `podtui.runtime.protocol.Duplex` that can be closed from any task. Raises OSError."""

    # Bytes that came with the head of the response: the process may have written already.
    _first = b""

    async def read(self) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        return await self._receive()

    def put_back(self, data: bytes) -> None:
        """Return bytes to the front of the input."""
        self._first = data + self._first

    @abstractmethod
    async def _receive(self) -> bytes: ...

    @abstractmethod
    async def write(self, data: bytes) -> None: ...

    @abstractmethod
    async def end(self) -> None: ...

    @abstractmethod
    def shut(self) -> None:
        """Make reads see the end and writes fail. Idempotent."""
        ...

    async def close(self) -> None:
        self.shut()


class SocketChannel(Channel):
    """Over a connected socket, which it now owns."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._ended = False

    async def _receive(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._socket, PIECE)

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def end(self) -> None:
        if not self._ended:
            self._ended = True
            # A half-close: the process sees the end of its input, and its output still arrives.
            self._socket.shutdown(socket.SHUT_WR)

    def shut(self) -> None:
        # Not close(): another task may wait for this descriptor, whose number could be reused.
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The peer has already closed the connection.
            return

    async def close(self) -> None:
        self._socket.close()


class TlsChannel(Channel):
    """Over a TLS stream, which can't be closed in one direction."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def _receive(self) -> bytes:
        return await self._reader.read(PIECE)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        raise EngineError("standard input cannot be closed over a TLS connection to the engine")

    def shut(self) -> None:
        self._writer.transport.abort()


async def hijack(
    endpoint: Endpoint,
    path: str,
    *,
    query: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> Channel:
    """Send a POST request, and return the byte stream of the upgraded connection. ``path`` begins
    with the API version.

    Raises `Refused`, OSError, TimeoutError.
    """
    # Only connecting and the head of the response have timeouts: the stream may be silent for days.
    async with asyncio.timeout(CONNECT_SECONDS):
        channel = await _connect(endpoint)
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await channel.write(_request(endpoint, path, query or {}, body))
            await _upgraded(channel)
    # Close it on cancellation too: no other owner exists yet.
    except BaseException:
        await channel.close()
        raise
    return channel


async def _connect(endpoint: Endpoint) -> Channel:
    if endpoint.tls is not None:
        parts = urlsplit(endpoint.http_url)
        return TlsChannel(
            *await asyncio.open_connection(
                parts.hostname, parts.port, ssl=endpoint.tls.context(), limit=PIECE
            )
        )
    if endpoint.socket_path is None:
        parts = urlsplit(endpoint.http_url)
        return SocketChannel(await connected(parts.hostname or "", parts.port or 0))
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, endpoint.socket_path)
    except BaseException:
        sock.close()
        raise
    return SocketChannel(sock)


async def connected(host: str, port: int) -> socket.socket:
    """Return a socket connected to the first address that accepts. Raises OSError."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


def _request(
    endpoint: Endpoint, path: str, query: Mapping[str, str], body: Mapping[str, Any] | None
) -> bytes:
    content = b"" if body is None else json.dumps(body).encode()
    # HTTP/1.1 requires a Host, which means nothing on a unix socket.
    host = "engine" if endpoint.socket_path else urlsplit(endpoint.http_url).netloc
    lines = (
        f"POST {path}{'?' + urlencode(query) if query else ''} HTTP/1.1",
        f"Host: {host}",
        "Connection: Upgrade",
        "Upgrade: tcp",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    )
    return "\r\n".join((*lines, "", "")).encode() + content


async def _upgraded(channel: Channel) -> None:
    """Read the head of the response. Raises `Refused` if the connection was not upgraded."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = await channel.read()
        if not piece or len(received) > _LONGEST_HEAD:
            raise ConnectionError("the engine's response is incomplete")
        received += piece
    head, _, rest = received.partition(b"\r\n\r\n")
    status, headers = _head(head)
    # An engine that ignores the upgrade answers 200. The stream begins after the head in both
    # cases.
    if status in (101, 200):
        channel.put_back(rest)
        return
    # A refusal is an ordinary response, whose body has the engine's message.
    wanted = min(int(headers.get("content-length", "0")), _LONGEST_HEAD)
    while len(rest) < wanted and (piece := await channel.read()):
        rest += piece
    try:
        text = str(json.loads(rest)["message"])
    except (ValueError, KeyError, TypeError):
        text = rest.decode(errors="replace").strip() or f"HTTP status {status}"
    raise Refused(status, text)


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    tokens = first.split(None, 2)
    if len(tokens) < 2 or not tokens[1].isdigit():
        raise ConnectionError(f"not a response of a container engine: {first[:100]!r}")
    pairs = (line.partition(":") for line in lines)
    return int(tokens[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}
