"""The grpc handler: one health check over an unencrypted HTTP/2 connection (kubelet.md §8).

This module imports h2; import it only where a check is made.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)
from h2.exceptions import ProtocolError

from podtui.kubelet.prober.dialing import (
    Address,
    OpenSocket,
    from_here,
    open_connection,
    read_error,
)
from podtui.kubelet.prober.http_get import PROBE_AGENT
from podtui.kubelet.prober.state import SUCCESS, ProbeOutcome, failure
from podtui.text.go_format import go_duration, quoted
from podtui.wire.grpc_status import code_name
from podtui.wire.varint import encode_varint

PATH: Final = "/grpc.health.v1.Health/Check"
BODY_LIMIT: Final = 10 * 1024
"""Bytes; a health reply has seven."""
_BY_HTTP_STATUS: Final = {
    400: "Internal",
    401: "Unauthenticated",
    403: "PermissionDenied",
    404: "Unimplemented",
    429: "Unavailable",
    502: "Unavailable",
    503: "Unavailable",
    504: "Unavailable",
}
_STATUSES: Final = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
_SERVING: Final = 1
_CONTENT_TYPE: Final = "application/grpc"
_FIRST_PAUSE: Final = 1.0
_GROWTH: Final = 1.6
_PIECE: Final = 64 * 1024
_RESETS: Final[Mapping[int, str]] = {
    ErrorCodes.REFUSED_STREAM: "Unavailable",
    ErrorCodes.CANCEL: "Canceled",
    ErrorCodes.ENHANCE_YOUR_CALM: "ResourceExhausted",
    ErrorCodes.INADEQUATE_SECURITY: "PermissionDenied",
}


async def check(
    address: Address, service: str, timeout: float, open_socket: OpenSocket = from_here
) -> ProbeOutcome:
    """Query a service's health; ``timeout`` in seconds covers the connection and the call.

    A failed connection is retried until the timeout, as a gRPC client does. Raises `EngineError`.
    """
    connected = False
    sock = await open_socket(address)
    try:
        async with asyncio.timeout(timeout), _connected(address, sock, open_socket) as channel:
            connected = True
            return probe_outcome(await channel.call(service, timeout), timeout)
    except _Failed as problem:
        return rpc_failed(problem.code, problem.text, timeout)
    except TimeoutError:
        if connected:
            return rpc_failed("DeadlineExceeded", "", timeout)
        return not_connected(address, timeout)


@asynccontextmanager
async def _connected(
    address: Address, sock: socket.socket | None, open_socket: OpenSocket
) -> AsyncGenerator[_Channel]:
    """Open a connection; retry until a server has sent its HTTP/2 settings. ``sock`` is for the
    first attempt."""
    pause = _FIRST_PAUSE
    while True:
        try:
            reader, writer = await open_connection(address, sock)
        except OSError:
            reader = writer = None
        if reader is not None and writer is not None:
            channel = _Channel(address, reader, writer)
            try:
                if await channel.exchange_settings():
                    yield channel
                    return
            finally:
                writer.transport.abort()
        await asyncio.sleep(pause)
        pause *= _GROWTH
        sock = await open_socket(address)


class _Channel:
    def __init__(
        self, address: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._address = address
        self._reader = reader
        self._writer = writer
        self._http2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))

    async def exchange_settings(self) -> bool:
        """Exchange settings. Return whether the server sent any."""
        self._http2.initiate_connection()
        try:
            while True:
                await self._flush()
                events = await self._events()
                if events is None:
                    return False
                if any(isinstance(event, RemoteSettingsChanged) for event in events):
                    await self._flush()
                    return True
        except (OSError, ProtocolError):
            return False

    async def call(self, service: str, timeout: float) -> Reply:
        """Call the health service. Raises `_Failed`."""
        stream = self._http2.get_next_available_stream_id()
        self._http2.send_headers(
            stream,
            [
                (":method", "POST"),
                (":scheme", "http"),
                (":path", PATH),
                (":authority", str(self._address)),
                ("content-type", "application/grpc"),
                ("user-agent", PROBE_AGENT),
                ("te", "trailers"),
                ("grpc-timeout", f"{int(timeout * 1000)}m"),
            ],
        )
        self._http2.send_data(stream, request(service), end_stream=True)
        try:
            return await self._reply()
        except OSError as error:
            text = f"error reading from server: {read_error(self._address, error)}"
            raise _Failed("Unavailable", text) from error
        except ProtocolError as error:
            raise _Failed("Unavailable", f"connection error: desc = {error}") from error

    async def _reply(self) -> Reply:
        headers: dict[str, str] = {}
        trailers: dict[str, str] = {}
        body = bytearray()
        while True:
            await self._flush()
            events = await self._events()
            if events is None:
                raise _Failed("Unavailable", "error reading from server: EOF")
            for event in events:
                match event:
                    case ResponseReceived():
                        headers = _text(event.headers)
                    case TrailersReceived():
                        trailers = _text(event.headers)
                    case DataReceived():
                        body += event.data or b""
                        if len(body) > BODY_LIMIT:
                            text = "grpc: received message larger than max"
                            raise _Failed("ResourceExhausted", text)
                    case StreamEnded():
                        return Reply(headers=headers, body=bytes(body), trailers=trailers)
                    case StreamReset():
                        raise _reset(event)
                    case ConnectionTerminated():
                        raise _Failed("Unavailable", "the connection is draining")
                    case _:
                        pass

    async def _flush(self) -> None:
        self._writer.write(self._http2.data_to_send())
        await self._writer.drain()

    async def _events(self) -> list[Event] | None:
        """Return the received events; None at the end of the connection."""
        data = await self._reader.read(_PIECE)
        return self._http2.receive_data(data) if data else None


def _text(headers: Iterable[tuple[bytes | str, bytes | str]]) -> dict[str, str]:
    return {_decoded(name): _decoded(value) for name, value in headers}


def _decoded(word: bytes | str) -> str:
    return word if isinstance(word, str) else word.decode(errors="replace")


def _reset(event: StreamReset) -> _Failed:
    code = event.error_code
    name = code.name if isinstance(code, ErrorCodes) else str(code)
    message = f"stream terminated by RST_STREAM with error code: {name}"
    return _Failed(_RESETS.get(code, "Internal"), message)


# --- messages of the health protocol, and errors as the kubelet's Go client words them


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply: the first header block, the body and the trailers. In a reply without a body, the
    first block also holds the trailers."""

    headers: Mapping[str, str]
    body: bytes = b""
    trailers: Mapping[str, str] = field(default_factory=dict[str, str])


def request(service: str) -> bytes:
    """Return a framed ``HealthCheckRequest``; an empty name checks the server as a whole."""
    name = service.encode()
    message = b"\x0a" + encode_varint(len(name)) + name if name else b""
    return b"\x00" + len(message).to_bytes(4, "big") + message


def probe_outcome(reply: Reply, timeout: float) -> ProbeOutcome:
    """Return the probe outcome of a reply. ``timeout`` is the probe's timeout in seconds."""
    problem = _http_problem(reply.headers)
    if problem is not None:
        return rpc_failed(*problem, timeout)
    last = reply.trailers or reply.headers
    code = code_name(last.get("grpc-status", "2"))
    if code != "OK":
        return rpc_failed(code, unquote(last.get("grpc-message", "")), timeout)
    try:
        number = _status(reply.body)
    except ValueError as error:
        return rpc_failed("Internal", str(error), timeout)
    if number == _SERVING:
        return SUCCESS
    name = _STATUSES[number] if number < len(_STATUSES) else str(number)
    return failure(f"service unhealthy (responded with {quoted(name)})")


def rpc_failed(code: str, text: str, timeout: float) -> ProbeOutcome:
    """Return the outcome of a call that ended with this status code."""
    if code == "Unimplemented":
        message = "error: this server does not implement the grpc health protocol"
        return failure(f"{message} (grpc.health.v1.Health): {text}")
    if code == "DeadlineExceeded":
        return failure(f"timeout: health rpc did not complete within {go_duration(timeout)}")
    return failure(f"error: health rpc probe failed: rpc error: code = {code} desc = {text}")


def not_connected(address: Address, timeout: float) -> ProbeOutcome:
    """Return the outcome if no connection was established in time, for any reason."""
    message = f'timeout: failed to connect service "{address}" within {go_duration(timeout)}'
    return failure(f"{message}: context deadline exceeded")


def _http_problem(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (code, message) if the headers are not those of a gRPC server."""
    status_text = headers.get(":status", "")
    status = int(status_text) if status_text.isascii() and status_text.isdigit() else 0
    kind = headers.get("content-type", "")
    problems: list[str] = []
    if not kind:
        problems.append("malformed header: missing HTTP content-type")
    elif not kind.lower().startswith(_CONTENT_TYPE):
        problems.append(f"transport: received unexpected content-type {quoted(kind)}")
    if status == HTTPStatus.OK and not problems:
        return None
    message = f"unexpected HTTP status code received from server: {status} ({_phrase(status)})"
    return _BY_HTTP_STATUS.get(status, "Unknown"), "; ".join([message, *problems])


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _status(body: bytes) -> int:
    """Return the ``status`` field of a framed ``HealthCheckResponse``. Raises `ValueError`."""
    if not body:
        raise ValueError(
            "cardinality violation: received no response message from non-server-streaming RPC"
        )
    if len(body) < 5 or len(body) != 5 + int.from_bytes(body[1:5], "big"):
        raise ValueError("unexpected EOF")
    if body[0]:
        raise ValueError("grpc: compressed flag set with identity or empty encoding")
    message, at, status = body[5:], 0, 0
    while at < len(message):
        tag, at = _read_varint(message, at)
        value, following = _read_varint(message, at)
        match tag & 7:
            case 0:
                at = following
            case 2:
                at = following + value
            case _:
                raise ValueError("grpc: failed to unmarshal the received message")
        if tag == 1 << 3:
            status = value
    return status


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (number, end offset). Raises `ValueError`."""
    number = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ValueError("grpc: failed to unmarshal the received message")


class _Failed(Exception):
    """Raised when a call ends without a reply: the status code and the message."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
