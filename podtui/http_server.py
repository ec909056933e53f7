"""Changes to aiohttp's HTTP server, for the API and ``podtui web``.

aiohttp has no settings for these: the changes are made to the objects of a request, and to the
bytes of a WebSocket before aiohttp reads them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import SERVER_SOFTWARE, RawRequestMessage, StreamWriter
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict, CIMultiDictProxy

from podtui.text.json_text import valid_text

_SERVER: Final = "Server"
_MASK_SIZE: Final = 4
_LENGTH_SIZES: Final = {126: 2, 127: 8}
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
