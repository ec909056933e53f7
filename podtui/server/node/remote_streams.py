"""The streams of one exec or attach session, over the channels of a WebSocket or over SPDY."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Final, Protocol

import msgspec

from podtui.api import channels
from podtui.api.spdy import REFUSED, Data, Opened, Ping, Reset, Spdy
from podtui.api.v1 import Status
from podtui.server.transport.sockets import Socket
from podtui.server.transport.spdy_upgrade import SpdySocket

_CHANNELS: Final = {"stdout": channels.STDOUT, "stderr": channels.STDERR}
_MOST: Final = 1 << 16
STREAMS_SECONDS: Final = 30.0
"""The kubelet's ``streamCreationTimeout``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


@dataclass(frozen=True, slots=True)
class Resize:
    columns: int
    rows: int


Received = bytes | Resize | None
"""Input, a new size of the terminal, or None at the end of the input."""


class RemoteStreams(Protocol):
    def received(self) -> AsyncGenerator[Received]:
        """Yield what the client sends until it disconnects."""
        ...

    async def send(self, stream: str, data: bytes) -> None:
        """Send output. Raises ConnectionError if the client has disconnected."""
        ...

    async def finish(self, status: Status) -> None:
        """End the streams with the outcome of the session."""
        ...


class ChannelStreams:
    """Messages of a WebSocket, whose first byte is the number of a channel."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket

    async def received(self) -> AsyncGenerator[Received]:
        async with aclosing(self._socket.messages()) as messages:
            async for message in messages:
                channel, data = message[0], message[1:]
                if channel == channels.STDIN:
                    yield data
                elif channel == channels.RESIZE:
                    if size := parse_size(data):
                        yield size
                elif channel == channels.CLOSE and data[:1] == bytes([channels.STDIN]):
                    yield None

    async def send(self, stream: str, data: bytes) -> None:
        await self._socket.send(bytes([_CHANNELS[stream]]) + data)

    async def finish(self, status: Status) -> None:
        await self._socket.send(bytes([channels.ERROR]) + msgspec.json.encode(status))


class SpdyStreams:
    """A SPDY stream for each of stdin, stdout and stderr, for errors and for sizes.

    The client opens them all at the start; until then, output waits.
    """

    def __init__(self, socket: SpdySocket, wanted: Wanted) -> None:
        self._socket = socket
        self._spdy = Spdy()
        self._expected = _expected(socket.protocol, wanted)
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._complete = asyncio.Event()

    async def received(self) -> AsyncGenerator[Received]:
        """Raises `podtui.api.spdy.SpdyError`."""
        async with aclosing(self._socket.messages()) as messages:
            async for message in messages:
                for frame in self._spdy.feed(message):
                    match frame:
                        case Opened():
                            await self._open(frame)
                        case Data(stream, payload, fin):
                            name = self._names.get(stream)
                            if name == "stdin" and payload:
                                yield payload
                            elif name == "resize" and (size := parse_size(payload)):
                                yield size
                            if name == "stdin" and fin:
                                yield None
                        case Reset(stream):
                            if self._names.pop(stream, None) == "stdin":
                                yield None
                        case Ping(number) if number % 2 == 0:
                            pass  # The answer to one of ours.
                        case Ping():
                            await self._socket.send(self._spdy.pong(frame))

    async def _open(self, frame: Opened) -> None:
        name = frame.headers.get(channels.STREAM_TYPE, "").lower()
        if name not in self._expected or name in self._ids:
            await self._socket.send(self._spdy.reset(frame.stream, REFUSED))
            return
        self._ids[name] = frame.stream
        self._names[frame.stream] = name
        await self._socket.send(self._spdy.reply(frame.stream))
        if self._ids.keys() == self._expected:
            self._complete.set()

    async def wait_complete(self) -> None:
        """Wait until the client has opened the streams. Raises ConnectionError if it takes too
        long."""
        try:
            async with asyncio.timeout(STREAMS_SECONDS):
                await self._complete.wait()
        except TimeoutError as error:
            raise ConnectionResetError("timed out waiting for client to create streams") from error

    async def send(self, stream: str, data: bytes) -> None:
        await self.wait_complete()
        await self._socket.send(self._spdy.data(self._ids[stream], data))

    async def finish(self, status: Status) -> None:
        await self.wait_complete()
        for name in ("stdout", "stderr"):
            if name in self._ids:
                await self._socket.send(self._spdy.data(self._ids[name], b"", fin=True))
        text = error_text(self._socket.protocol, status)
        await self._socket.send(self._spdy.data(self._ids["error"], text, fin=True))


def _expected(protocol: str, wanted: Wanted) -> Collection[str]:
    """Return the names of the streams that a client opens."""
    names = {"error"}
    names |= {name for name in ("stdin", "stdout", "stderr") if getattr(wanted, name)}
    if wanted.tty and protocol not in (channels.V2, channels.V1):
        names.add("resize")
    return names


def error_text(protocol: str, status: Status) -> bytes:
    """Return what the error stream carries: a ``Status``, before version 4 only its message."""
    if protocol == channels.V4:
        return msgspec.json.encode(status)
    return b"" if status.status == "Success" else status.message.encode()


def parse_size(data: bytes) -> Resize | None:
    """Return the size of a terminal; None if it is not valid."""
    try:
        size = msgspec.json.decode(data, type=_Size)
    except msgspec.DecodeError:
        return None
    return Resize(size.Width, size.Height) if size.Width and size.Height else None


class _Size(msgspec.Struct):
    Width: Annotated[int, msgspec.Meta(ge=0, lt=_MOST)]
    Height: Annotated[int, msgspec.Meta(ge=0, lt=_MOST)]
