"""Logs and watches as messages of a WebSocket, for clients that cannot read endless responses."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from aiohttp import web

from podtui.http.server import require_masked_frames
from podtui.server.transport.sockets import is_base64, websocket_protocol
from podtui.wire import channels

LOG_PROTOCOLS = (channels.BINARY, channels.BASE64_BINARY, channels.NONE)


class SocketStream(web.WebSocketResponse):
    """A response that `podtui.server.transport.streams.Streams` writes. With ``lines``, each line
    is a text message of its own."""

    def __init__(self, protocols: Sequence[str], *, lines: bool = False) -> None:
        super().__init__(protocols=[name for name in protocols if name], compress=False)
        self._lines = lines

    async def wait_closed(self) -> None:
        """Return when the client closes the WebSocket. What it sends is ignored."""
        async for _ in self:
            pass

    async def write(self, data: bytes | bytearray | memoryview[int] | memoryview[bytes]) -> None:
        """Raises ConnectionError."""
        if self._lines:
            for line in bytes(data).splitlines(keepends=True):
                await self.send_str(line.decode())
        elif is_base64(self.ws_protocol or channels.NONE):
            await self.send_str(base64.b64encode(data).decode())
        else:
            await self.send_bytes(bytes(data))


async def accept_log(request: web.Request) -> SocketStream:
    """Accept a WebSocket for a log; an empty message tells the client that it is open. Raises
    `StatusError` 403."""
    websocket_protocol(request, LOG_PROTOCOLS)
    response = await _accepted(request, SocketStream(LOG_PROTOCOLS))
    await response.write(b"")
    return response


async def accept_watch(request: web.Request) -> SocketStream:
    """Accept a WebSocket for a watch, whose events are text messages."""
    header = request.headers.get("Sec-WebSocket-Protocol", "")
    protocols = [name.strip() for name in header.split(",")]
    return await _accepted(request, SocketStream(protocols, lines=True))


async def _accepted(request: web.Request, response: SocketStream) -> SocketStream:
    require_masked_frames(request)
    await response.prepare(request)
    return response
