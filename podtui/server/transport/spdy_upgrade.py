"""Connections that a client upgraded to SPDY/3.1, as kubectl before 1.30 and 1.31 does.

aiohttp has no upgrades other than WebSockets. The bytes after the answer 101 are read by a protocol
that replaces aiohttp's on the transport, and passes everything but the bytes on to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final

from aiohttp import web

from podtui.clock import Clock
from podtui.server.status import StatusError
from podtui.wire.spdy import ping_frame

UPGRADE: Final = "SPDY/3.1"
_HEADER: Final = "X-Stream-Protocol-Version"
_MOST_WAITING: Final = 256 * 1024
_PING_NUMBER: Final = 2
STREAMS_SECONDS: Final = 30.0
"""The kubelet's ``streamCreationTimeout``: how long a client may take to open streams."""


def is_upgrade(request: web.Request) -> bool:
    return request.headers.get("Upgrade", "").lower() == UPGRADE.lower()


def negotiated(request: web.Request, served: Sequence[str]) -> str:
    """Return the first protocol of the client that is served; the oldest if it names none.

    Raises `StatusError` 403.
    """
    lines = request.headers.getall(_HEADER, [])
    offered = [name.strip() for line in lines for name in line.split(",") if name.strip()]
    if not offered:
        # ``served`` begins with the newest protocol.
        return served[-1]
    for name in offered:
        if name in served:
            return name
    raise StatusError(
        403,
        f"unable to upgrade: unable to negotiate protocol: client supports {_listed(offered)},"
        f" server accepts {_listed(served)}",
    )


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


class UpgradedSocket:
    """The bytes of an upgraded connection, like `podtui.server.transport.sockets.Socket`.
    ``headers`` are those of the answer 101."""

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


class SpdySocket(UpgradedSocket):
    def __init__(self, protocol: str, clock: Clock) -> None:
        super().__init__({"Connection": "Upgrade", "Upgrade": UPGRADE, _HEADER: protocol}, clock)
        self.protocol = protocol

    async def ping(self) -> None:
        await self.response.write(ping_frame(_PING_NUMBER))


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
