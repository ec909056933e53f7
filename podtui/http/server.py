"""Changes to aiohttp's HTTP server, for the API, Ingresses and ``podtui web``.

aiohttp has no settings for these: the changes are made to the objects of a request, and to the
bytes of a WebSocket before aiohttp reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import SERVER_SOFTWARE, RawRequestMessage, StreamWriter
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict, CIMultiDictProxy

from podtui.clock import Clock
from podtui.text.json_text import valid_text

_SERVER: Final = "Server"
_MASK_SIZE: Final = 4
_LENGTH_SIZES: Final = {126: 2, 127: 8}
_MOST_WAITING: Final = 256 * 1024
_RESERVED_BITS: Final = b"\x70\x80"
"""The head of a frame that every WebSocket refuses as a protocol error."""


Headers = CIMultiDictProxy[str]


def _unchanged(headers: Headers) -> Headers:
    return headers


def prepare_requests(
    runner: web.AppRunner, change_headers: Callable[[Headers], Headers] = _unchanged
) -> None:
    """Prepare a runner that is set up. ``change_headers`` changes the headers of each request.

    The headers of requests are valid Unicode: bytes that are not UTF-8 are replaced, so that they
    can be part of an answer. Responses, also those of the HTTP parser, do not have aiohttp's header
    ``Server``, which names the versions of Python and aiohttp.
    """
    server = runner.server
    assert server is not None
    make = server.request_factory

    def make_request(
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        quiet = _QuietWriter(protocol, asyncio.get_running_loop())
        message = _readable(message)
        headers = change_headers(message.headers)
        if headers is not message.headers:
            # The raw headers still have what was changed.
            message = message._replace(headers=headers, raw_headers=())
        return make(message, payload, protocol, quiet, task)

    server.request_factory = make_request


def _readable(message: RawRequestMessage) -> RawRequestMessage:
    if all(value.isascii() for value in message.headers.values()):
        return message
    headers = CIMultiDict((name, valid_text(value)) for name, value in message.headers.items())
    return message._replace(headers=CIMultiDictProxy(headers))


class _QuietWriter(StreamWriter):
    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        if headers.get(_SERVER) == SERVER_SOFTWARE:
            del headers[_SERVER]
        await super().write_headers(status_line, headers)


def require_masked_frames(request: web.BaseRequest) -> None:
    """End the WebSocket of a request with 1002 if the client does not mask its frames (RFC 6455
    section 5.1). Call it before the response 101."""
    transport = request.transport
    if transport is not None:
        transport.set_protocol(_MaskedFrames(transport))


class FrameHeads:
    """Finds the heads of a client's frames in the bytes of its WebSocket."""

    def __init__(self) -> None:
        self._head = b""
        """The beginning of a head that is not complete."""
        self._left = 0
        """The number of bytes until the next head."""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return the bytes of frames with a mask that have a complete head, and whether no frame
        without a mask follows."""
        data, at = self._head + data, self._left
        self._head = b""
        while at + 2 <= len(data):
            if not data[at + 1] & 0x80:
                return data[:at], False
            size = data[at + 1] & 0x7F
            extended = _LENGTH_SIZES.get(size, 0)
            begin = at + 2 + extended
            if begin > len(data):
                break
            if extended:
                size = int.from_bytes(data[at + 2 : begin], "big")
            at = begin + _MASK_SIZE + size
        self._left = max(0, at - len(data))
        self._head = data[at:]
        return data[:at], True


class _MaskedFrames(asyncio.Protocol):
    """Takes the place of aiohttp's protocol on a transport, and passes on what it may read."""

    def __init__(self, transport: asyncio.Transport) -> None:
        before = transport.get_protocol()
        assert isinstance(before, asyncio.Protocol)
        self._before = before
        self._heads = FrameHeads()
        self._refused = False

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        frames, masked = self._heads.feed(data)
        if frames:
            self._before.data_received(frames)
        if not masked:
            self._refused = True
            self._before.data_received(_RESERVED_BITS)

    def eof_received(self) -> bool | None:
        return self._before.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._before.connection_lost(exc)

    def pause_writing(self) -> None:
        self._before.pause_writing()

    def resume_writing(self) -> None:
        self._before.resume_writing()


class UpgradedSocket:
    """The bytes of an upgraded connection. ``headers`` are those of the answer 101.

    aiohttp has no upgrades other than WebSockets. The bytes after the answer 101 are read by a
    protocol that replaces aiohttp's on the transport, and passes everything but the bytes on to it.
    """

    def __init__(self, headers: Mapping[str, str], clock: Clock) -> None:
        self.response = web.StreamResponse(status=101, headers=headers)
        # The session owns the connection: aiohttp must not wait for another request on it.
        self.response.force_close()
        self._clock = clock
        self._last = clock.monotonic()
        self._inflow: _Inflow | None = None

    async def start(self, request: web.Request) -> None:
        """Answer 101 and take over the connection. Raises ConnectionError."""
        transport = request.transport
        if transport is None:
            raise ConnectionResetError("the client has left")
        # Before the answer 101: a client may send frames as soon as it has the answer, and aiohttp
        # would read them as a request.
        self._inflow = _Inflow(transport)
        transport.set_protocol(self._inflow)
        await self.response.prepare(request)

    async def messages(self) -> AsyncGenerator[bytes]:
        """Yield the bytes as they arrive, until the client disconnects."""
        assert self._inflow is not None
        while data := await self._inflow.read():
            self._last = self._clock.monotonic()
            yield data

    async def send(self, data: bytes) -> None:
        """Return when there is room for more. Raises ConnectionError if the client has
        disconnected."""
        self._last = self._clock.monotonic()
        # Only reading is taken over. Writing goes through aiohttp, which waits while the transport
        # is full.
        await self.response.write(data)

    async def ping(self) -> None:
        """Send a ping, if the protocol has one. Raises ConnectionError if the client has
        disconnected."""

    async def wait_until_idle(self, seconds: float) -> None:
        """Return after nothing was sent or received for this long."""
        while (left := self._last + seconds - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)

    async def drain(self, seconds: float) -> None:
        """Discard what arrives until the client disconnects. If unread bytes remain when a
        connection is closed, the kernel resets it, and the client could lose our last bytes."""
        try:
            async with asyncio.timeout(seconds):
                async for _ in self.messages():
                    pass
        except TimeoutError:
            return


class _Inflow(asyncio.Protocol):
    """Buffers received bytes; a full buffer stops the transport from reading."""

    def __init__(self, transport: asyncio.Transport) -> None:
        # aiohttp's protocol still gets all events except the data: it has to learn that the
        # connection ended, and its writer waits for `resume_writing`.
        before = transport.get_protocol()
        assert isinstance(before, asyncio.Protocol)
        self._before = before
        self._transport = transport
        self._buffer = bytearray()
        self._paused = False
        self._ended = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """Return the next bytes; empty at the end."""
        while not self._buffer:
            if self._ended:
                return b""
            self._changed.clear()
            await self._changed.wait()
        # Everything at once: the parser of frames accepts pieces of any size.
        data, self._buffer = bytes(self._buffer), bytearray()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return data

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._changed.set()
        # When reading is paused, the buffers of the kernels fill up, and the client has to wait.
        if len(self._buffer) >= _MOST_WAITING and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def eof_received(self) -> bool | None:
        # The answer of aiohttp's protocol decides whether the transport stays open for writing.
        self._ended = True
        self._changed.set()
        return self._before.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._changed.set()
        self._before.connection_lost(exc)

    def pause_writing(self) -> None:
        self._before.pause_writing()

    def resume_writing(self) -> None:
        self._before.resume_writing()
