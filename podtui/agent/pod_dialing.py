"""Connections from this machine to the endpoints of Services.

A pod is reached at its IP if the machine's route leads there, else from inside its network, else
through the engine. Other addresses are connected to as they are.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from podtui.agent.pod_networks import EngineNetworks
from podtui.errors import EngineError
from podtui.runtime.bridge import bridged
from podtui.runtime.protocol import Runtime, SandboxStatus

DIAL_SECONDS: Final = 5.0
_KEEP_ALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)
"""A pod that is removed does not always end its connections."""
_MAX_STATUSES: Final = 4096


class EndpointDialer:
    """Implements `podtui.services.proxies.Dialer`."""

    def __init__(self, runtime: Runtime, networks: EngineNetworks) -> None:
        self._runtime = runtime
        self._networks = networks
        self._statuses: dict[str, SandboxStatus] = {}
        """By sandbox: an inspection for each connection would take longer than the connection."""

    @asynccontextmanager
    async def connect(self, ip: str, port: int) -> AsyncGenerator[socket.socket]:
        async with AsyncExitStack() as stack:
            yield await self._connected(stack, ip, port)

    async def _connected(self, stack: AsyncExitStack, ip: str, port: int) -> socket.socket:
        status = await self._status(ip)
        if status is None or status.routable:
            sock = _new_socket(ip, socket.SOCK_STREAM)
        elif status.enterable:
            sock = await self._runtime.pod_socket(status.record.id, ip)
        else:
            stream = await stack.enter_async_context(self._runtime.dial(status.record.id, port))
            return await stack.enter_async_context(bridged(stream))
        stack.enter_context(sock)
        await _connect(sock, ip, port)
        for level, option, value in _KEEP_ALIVE:
            sock.setsockopt(level, option, value)
        return sock

    async def datagrams(self, ip: str, port: int) -> socket.socket:
        status = await self._status(ip)
        if status is None or status.routable:
            sock = _new_socket(ip, socket.SOCK_DGRAM)
        else:
            sock = await self._networks.datagrams(ip)
        try:
            await _connect(sock, ip, port)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _status(self, ip: str) -> SandboxStatus | None:
        """Return the status of the sandbox with an IP; None if it is no pod of this machine."""
        sandbox_id = self._networks.sandbox_of(ip)
        if not sandbox_id:
            return None
        status = self._statuses.get(sandbox_id)
        if status is None:
            status = await self._runtime.sandbox_status(sandbox_id)
            while len(self._statuses) >= _MAX_STATUSES:
                del self._statuses[next(iter(self._statuses))]
            self._statuses[sandbox_id] = status
        return status


def _new_socket(ip: str, kind: socket.SocketKind) -> socket.socket:
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in ip else socket.AF_INET, kind)
    except OSError as error:
        raise EngineError(_text(error)) from error
    sock.setblocking(False)
    return sock


async def _connect(sock: socket.socket, ip: str, port: int) -> None:
    """Raises `EngineError`."""
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            await asyncio.get_running_loop().sock_connect(sock, (ip, port))
    except (OSError, TimeoutError) as error:
        host = f"[{ip}]" if ":" in ip else ip
        raise EngineError(f"failed to connect to {host}:{port}: {_text(error)}") from error


def _text(error: OSError | TimeoutError) -> str:
    number = error.errno
    return os.strerror(number) if number else str(error) or "no answer"
