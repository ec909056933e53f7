"""Services on loopback: servers in place of pods, a dialer that connects to them, and objects."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from podtui.errors import EngineError
from podtui.services.backends import Backend, PortBackends

LOOPBACK = "127.0.0.1"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def backends_port(*backends: Backend, affinity: int = 0, protocol: str = "TCP") -> PortBackends:
    return PortBackends(
        namespace="default",
        service="web",
        port_name="",
        protocol=protocol,
        addresses=(),
        port=80,
        node_port=30080,
        backends=backends,
        affinity=affinity,
    )


@dataclass
class LoopbackDialer:
    """``open`` is the number of open connections. IPs other than loopback addresses refuse."""

    open: int = 0
    dialled: list[str] = field(default_factory=list[str])

    @asynccontextmanager
    async def connect(self, ip: str, port: int) -> AsyncGenerator[socket.socket]:
        self.dialled.append(f"{ip}:{port}")
        with socket.socket() as sock:
            sock.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(sock, (ip, port))
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                raise EngineError(f"failed to connect to {ip}:{port}: {reason}") from error
            self.open += 1
            try:
                yield sock
            finally:
                self.open -= 1

    async def datagrams(self, ip: str, port: int) -> socket.socket:
        sock = socket.socket(type=socket.SOCK_DGRAM)
        sock.setblocking(False)
        sock.connect((ip, port))
        return sock


@asynccontextmanager
async def tcp_server(handler: Handler) -> AsyncGenerator[Backend]:
    """Serve connections in place of a pod."""
    server = await asyncio.start_server(handler, LOOPBACK, 0)
    try:
        yield Backend(LOOPBACK, server.sockets[0].getsockname()[1])
    finally:
        server.close()


def closed_port() -> Backend:
    """Return a backend that refuses connections."""
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        return Backend(LOOPBACK, sock.getsockname()[1])


def free_port() -> int:
    return closed_port().port


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - conditions of plain data
            await asyncio.sleep(0.01)
