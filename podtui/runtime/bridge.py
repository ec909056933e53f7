"""A connection to a pod as a socket, for code that needs one."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from podtui.errors import EngineError
from podtui.http.client import beside
from podtui.runtime.protocol import Duplex

_LOG = logging.getLogger(__name__)
_PIECE: Final = 64 * 1024


@asynccontextmanager
async def bridged(stream: Duplex) -> AsyncGenerator[socket.socket]:
    """Return a socket whose bytes a pair of sockets and two tasks carry. Raises `EngineError` if
    there is no socket, and the errors of the block."""
    try:
        near, far = socket.socketpair()
    except OSError as error:
        raise EngineError(f"socket: {(error.strerror or str(error)).lower()}") from None
    near.setblocking(False)
    far.setblocking(False)
    try:
        async with beside(_up(far, stream), _down(stream, far)):
            yield near
    finally:
        near.close()
        far.close()


async def _up(far: socket.socket, stream: Duplex) -> None:
    """Carry bytes to the pod. If it has left, they are discarded: its response may still come."""
    loop, broken = asyncio.get_running_loop(), False
    while data := await loop.sock_recv(far, _PIECE):
        try:
            if not broken:
                await stream.write(data)
        except EngineError as error:
            _LOG.debug("the pod stopped reading: %s", error)
            broken = True
    if not broken:
        await stream.end()


async def _down(stream: Duplex, far: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    try:
        while data := await stream.read():
            await loop.sock_sendall(far, data)
    except EngineError as error:
        _LOG.debug("the connection to the pod failed: %s", error)
    except ConnectionError:
        return  # Our side is closed.
    far.shutdown(socket.SHUT_WR)
