"""Long-lived WebSockets and SPDY connections: their number, idle timeout and shutdown."""

from __future__ import annotations

import asyncio
import base64
import logging
import select
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import WSCloseCode, web

from podtui.clock import Clock
from podtui.http.server import UpgradedSocket, require_masked_frames
from podtui.server.status import StatusError, bad_request
from podtui.server.transport.spdy_upgrade import SpdySocket, is_upgrade, negotiated
from podtui.server.transport.unix import connected_socket, is_local
from podtui.server.transport.websocket_headers import is_websocket
from podtui.wire import channels

log = logging.getLogger(__name__)

MOST_OPEN: Final = 512
RESERVED: Final = 64
"""The part of `MOST_OPEN` that is for requests on the unix socket."""
IDLE_SECONDS: Final = 4 * 3600.0
"""The kubelet's ``streamingConnectionIdleTimeout``."""
DISCONNECT_SECONDS: Final = 5.0
"""Seconds between checks for a client that has left."""
_CLOSE_SECONDS: Final = 1.0
_LONGEST_MESSAGE: Final = 1 << 20
_ZERO: Final = ord("0")


class Socket:
    """One WebSocket. Each message is a channel's number and data, with SPDY frames only data."""

    def __init__(self, response: web.WebSocketResponse, clock: Clock) -> None:
        self.response = response
        self._clock = clock
        self._last = clock.monotonic()

    @property
    def protocol(self) -> str:
        return self.response.ws_protocol or channels.NONE

    async def messages(self) -> AsyncGenerator[bytes]:
        """Yield messages until the client disconnects; invalid base64 is ignored."""
        async for message in self.response:
            self._last = self._clock.monotonic()
            data = message.data.encode() if isinstance(message.data, str) else message.data
            if not isinstance(data, bytes) or not data:
                continue
            if is_base64(self.protocol):
                data = decoded_message(data)
            if data is not None:
                yield data

    async def send(self, data: bytes) -> None:
        """Return when there is room for more. Raises ConnectionError if the client has
        disconnected."""
        self._last = self._clock.monotonic()
        if is_base64(self.protocol):
            await self.response.send_str(encoded_message(data))
        else:
            await self.response.send_bytes(data)

    async def ping(self) -> None:
        """Send a ping. Raises ConnectionError if the client has disconnected."""
        await self.response.ping()

    async def wait_until_idle(self, seconds: float) -> None:
        """Return after no message was sent or received for this long."""
        while (left := self._last + seconds - self._clock.monotonic()) > 0:
            await self._clock.sleep(left)


class Sockets:
    """All open WebSockets of a server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open = 0
        self._closing = asyncio.Event()

    def __len__(self) -> int:
        return self._open

    def close(self) -> None:
        """End all sockets, and immediately any that opens later."""
        self._closing.set()

    @asynccontextmanager
    async def accept(
        self, request: web.Request, protocols: Sequence[str], spdy_protocols: Sequence[str]
    ) -> AsyncGenerator[Socket | SpdySocket]:
        """Accept a WebSocket or a SPDY connection with the client's first supported protocol, and
        close it at the end. Raises `StatusError` 403, and ConnectionError."""
        if is_upgrade(request):
            spdy = SpdySocket(negotiated(request, spdy_protocols), self._clock)
            await spdy.start(request)
            yield spdy
            await spdy.drain(_CLOSE_SECONDS)
            return
        response = web.WebSocketResponse(
            protocols=[name for name in protocols if name],
            timeout=_CLOSE_SECONDS,
            max_msg_size=_LONGEST_MESSAGE,
            compress=False,
        )
        require_masked_frames(request)
        await response.prepare(request)
        try:
            yield Socket(response, self._clock)
        finally:
            going = self._closing.is_set()
            await response.close(code=WSCloseCode.GOING_AWAY if going else WSCloseCode.OK)

    @asynccontextmanager
    async def upgrade(
        self, request: web.Request, headers: Mapping[str, str]
    ) -> AsyncGenerator[UpgradedSocket]:
        """Answer 101 with the headers, and pass on the bytes of the protocol that they name.
        Raises ConnectionError."""
        socket = UpgradedSocket(headers, self._clock)
        await socket.start(request)
        yield socket
        await socket.drain(_CLOSE_SECONDS)

    @asynccontextmanager
    async def counted(self, request: web.Request) -> AsyncGenerator[None]:
        """Count a session. Raises `StatusError` 429 if too many are open."""
        most = MOST_OPEN if is_local(request) else MOST_OPEN - RESERVED
        if self._open >= most:
            message = f"{self._open} sessions are open; the maximum is {most}"
            raise StatusError(429, message, reason="TooManyRequests")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1

    async def run(
        self,
        request: web.Request,
        socket: Socket | UpgradedSocket,
        *jobs: Coroutine[Any, Any, None],
    ) -> None:
        """Run jobs concurrently until one of them ends, the client disconnects, the socket is idle
        for too long or the server stops. A client disconnect is no error; other errors are raised
        as an `ExceptionGroup`."""
        ends = (
            socket.wait_until_idle(IDLE_SECONDS),
            self._disconnected(request, socket),
            self._stopped(),
        )
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(job) for job in (*jobs, *ends)]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
        except* ConnectionError:
            log.debug("a client left its session")

    async def _disconnected(self, request: web.Request, socket: Socket | UpgradedSocket) -> None:
        """Return when the client has closed its connection.

        A job that waits until the pod reads its input does not read from the client, and would not
        notice. If unread input fills the buffers of TCP, the end of the connection cannot arrive
        behind it; a ping to a client that has left is answered by a reset.
        """
        while not _has_left(request):
            await self._clock.sleep(DISCONNECT_SECONDS)
            await socket.ping()

    async def _stopped(self) -> None:
        await self._closing.wait()


def _has_left(request: web.Request) -> bool:
    sock = connected_socket(request)
    descriptor: int = -1 if sock is None else sock.fileno()
    if descriptor < 0:
        return True
    poll = select.poll()
    # Linux reports a peer that closed its connection although bytes are left to read.
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(0))


def require_upgrade(request: web.Request, served: Sequence[str], spdy_served: Sequence[str]) -> str:
    """Return the protocol of an upgrade. Raises `StatusError` 400 if the request is none, and 403
    if it names no supported protocol."""
    if is_upgrade(request):
        return negotiated(request, spdy_served)
    if not is_websocket(request.headers):
        raise bad_request("Upgrade request required")
    return websocket_protocol(request, served)


def websocket_protocol(request: web.Request, served: Sequence[str]) -> str:
    """Return the first protocol of the client that is served. Raises `StatusError` 403."""
    header = request.headers.get("Sec-WebSocket-Protocol", "").strip()
    offered = [name.strip() for name in header.split(",")]
    for name in offered:
        if name in served:
            return name
    raise StatusError(
        403,
        f"requested protocol(s) are not supported: {_listed(offered)};"
        f" supports {_listed([name for name in served if name])}",
    )


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


def is_base64(protocol: str) -> bool:
    return "base64." in protocol


def encoded_message(data: bytes) -> str:
    """Encode a channel's number and its data as text."""
    return chr(_ZERO + data[0]) + base64.b64encode(data[1:]).decode()


def decoded_message(text: bytes) -> bytes | None:
    """Return the channel's number and the data of a text message; None if it is not valid."""
    try:
        return bytes([text[0] - _ZERO]) + base64.b64decode(text[1:], validate=True)
    except ValueError:
        return None
