"""The grpc handler: one health check over an unencrypted HTTP/2 connection (reference §8).

This module imports h2; import it only where a check is made.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

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

from podtui.kubelet.prober.address import Address
from podtui.kubelet.prober.go_words import read_error
from podtui.kubelet.prober.grpc_words import (
    BODY_LIMIT,
    PATH,
    Reply,
    judge,
    not_connected,
    request,
    rpc_failed,
)
from podtui.kubelet.prober.http_request import PROBE_AGENT
from podtui.kubelet.prober.outcome import Outcome
from podtui.kubelet.prober.tcp import OpenSocket, from_here, open_connection

_FIRST_PAUSE: Final = 1.0
_GROWTH: Final = 1.6
_PIECE: Final = 64 * 1024
_RESETS: Final[Mapping[int, str]] = {
    ErrorCodes.REFUSED_STREAM: "Unavailable",
    ErrorCodes.CANCEL: "Canceled",
    ErrorCodes.ENHANCE_YOUR_CALM: "ResourceExhausted",
    ErrorCodes.INADEQUATE_SECURITY: "PermissionDenied",
}


class _Failed(Exception):
    """Raised when a call ends without a reply: the status code and the message."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


async def check(
    address: Address, service: str, timeout: float, open_socket: OpenSocket = from_here
) -> Outcome:
    """Query a service's health; ``timeout`` in seconds covers the connection and the call.

    A failed connection is retried until the timeout, as a gRPC client does. Raises `EngineError`.
    """
    connected = False
    sock = await open_socket(address)
    try:
        async with asyncio.timeout(timeout), _connected(address, sock, open_socket) as channel:
            connected = True
            return judge(await channel.call(service, timeout), timeout)
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
                if await channel.greet():
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

    async def greet(self) -> bool:
        """Exchange settings. Return whether the server sent any."""
        self._http2.initiate_connection()
        try:
            while True:
                await self._flush()
                events = await self._events()
                if events is None:
                    return False
                if any(isinstance(one, RemoteSettingsChanged) for one in events):
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
    words = f"stream terminated by RST_STREAM with error code: {name}"
    return _Failed(_RESETS.get(code, "Internal"), words)
