"""The tcpSocket handler: succeeds if a connection can be opened (kubelet.md §8).

Also opens the connections of the other handlers.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

from podtui.kubelet.prober.address import Address
from podtui.kubelet.prober.state import SUCCESS, ProbeOutcome, failure
from podtui.runtime.protocol import Runtime

OpenSocket = Callable[[Address], Awaitable[socket.socket | None]]
"""Opens an unconnected socket from which to dial the address; returns None to dial from this
machine. Raises `EngineError`. Called before the timeout starts, so that the engine's time does not
count against the container."""


async def from_here(address: Address) -> socket.socket | None:
    """An `OpenSocket` that always dials from this machine."""
    return None


def pod_sockets(runtime: Runtime) -> OpenSocket:
    async def open_socket(address: Address) -> socket.socket | None:
        if not address.sandbox_id:
            return None
        return await runtime.pod_socket(address.sandbox_id, address.host)

    return open_socket


async def open_connection(
    address: Address, sock: socket.socket | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a connection on the socket. Raises OSError."""
    if sock is None:
        return await asyncio.open_connection(address.host, address.port)
    with ExitStack() as on_failure:
        on_failure.callback(sock.close)
        await asyncio.get_running_loop().sock_connect(sock, (address.host, address.port))
        opened = await asyncio.open_connection(sock=sock)
        on_failure.pop_all()
        return opened


async def connect(
    address: Address, timeout: float, open_socket: OpenSocket = from_here
) -> ProbeOutcome:
    """Open a connection and close it. ``timeout`` is in seconds. Raises `EngineError`."""
    sock = await open_socket(address)
    try:
        async with asyncio.timeout(timeout):
            _, writer = await open_connection(address, sock)
    except OSError as error:
        if isinstance(error, TimeoutError) and error.errno is None:
            return failure(dial_timeout(address))
        return failure(dial_error(address, error))
    # Nothing was sent, so close without waiting.
    writer.transport.abort()
    return SUCCESS


# --- messages, as Go's net package words them: kubelet users search for them


def dial_error(address: Address, error: OSError) -> str:
    """Format a failed connection attempt."""
    if isinstance(error, socket.gaierror):
        return f"dial tcp: lookup {address.host}: no such host"
    return f"dial tcp {address}: connect: {_reason(error)}"


def dial_timeout(address: Address) -> str:
    return f"dial tcp {address}: i/o timeout"


def read_error(address: Address, error: OSError) -> str:
    """Format a broken connection."""
    return f"read tcp {address}: read: {_reason(error)}"


def _reason(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    text = os.strerror(error.errno)
    return text[:1].lower() + text[1:]
