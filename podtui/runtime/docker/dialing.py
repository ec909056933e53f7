"""Ways to a TCP port of a pod, the best that there is first.

From inside the pod's network namespace, as a kubelet's runtime does it: then what listens on the
pod's loopback address alone is reached too. That takes an engine on this machine and the right to
enter. Else at the pod's IP, where this machine's route to it leads over the engine's bridge: any
other owner of the address is a stranger. Else through ``nc`` in one of the pod's containers, which
a rootless engine and one in a virtual machine leave as the only way.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from podtui.errors import EngineConflict, EngineError
from podtui.runtime.docker.hijack import SocketChannel, connected
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.sandboxes import Sandboxes
from podtui.runtime.docker.sessions import Sessions
from podtui.runtime.protocol import EngineInfo, SandboxState, SandboxStatus
from podtui.runtime.sessions import Duplex, Session

DIAL_SECONDS: Final = 10.0
_LOOPBACKS: Final = ("127.0.0.1", "::1")
_CLONE_NEWNET: Final = 0x40000000
_NOT_FOUND: Final = (126, 127)
_LOST_OUTPUT: Final = "Error: read unixpacket"
"""What Podman writes in place of the last output of a command that ended with unread input."""

RunningIn = Callable[[str, str], Awaitable[Sequence[str]]]
"""(sandbox id, pod UID) → ids of the containers that run in it."""


class Dialing:
    def __init__(
        self,
        connection: Connection,
        sandboxes: Sandboxes,
        sessions: Sessions,
        running: RunningIn,
    ) -> None:
        self._connection = connection
        self._sandboxes = sandboxes
        self._sessions = sessions
        self._running = running

    @asynccontextmanager
    async def dial(self, sandbox_id: str, port: int) -> AsyncGenerator[Duplex]:
        info = self._connection.link.info
        status = await self._sandboxes.status(sandbox_id)
        if status.record.state is not SandboxState.READY:
            raise EngineConflict(f"sandbox {sandbox_id} is not running")
        async with AsyncExitStack() as stack:
            sock = await _inside(status, port) if info.local and status.pid else None
            if sock is None and (host := _host(info, status)):
                sock = await _outside(host, port)
            if sock is None:
                yield await self._through_container(stack, status, port)
                return
            channel = PortChannel(sock, port)
            stack.push_async_callback(channel.close)
            yield channel

    async def _through_container(
        self, stack: AsyncExitStack, status: SandboxStatus, port: int
    ) -> Duplex:
        record = status.record
        running = await self._running(record.id, record.uid)
        if not running:
            raise EngineError(
                f"port {port} of the pod can be reached through a container alone, and none runs"
            )
        command = ("nc", _LOOPBACKS[0], str(port))
        session = await stack.enter_async_context(
            self._sessions.exec(running[0], command, stdin=True, tty=False)
        )
        return CommandChannel(session, port)


class PortChannel:
    """A socket whose failures are told in the engine's terms."""

    def __init__(self, sock: socket.socket, port: int) -> None:
        self._channel = SocketChannel(sock)
        self._port = port

    async def read(self) -> bytes:
        try:
            return await self._channel.read()
        except OSError as error:
            raise _broke(self._port, error) from error

    async def write(self, data: bytes) -> None:
        try:
            await self._channel.write(data)
        except OSError as error:
            raise _broke(self._port, error) from error

    async def end(self) -> None:
        try:
            await self._channel.end()
        except OSError:
            # It has been closed from the other side.
            return

    async def close(self) -> None:
        await self._channel.close()


class CommandChannel:
    """A command that carries bytes between its standard streams and a port."""

    def __init__(self, session: Session, port: int) -> None:
        self._session = session
        self._output = session.output()
        self._port = port
        self._complaint = b""

    async def read(self) -> bytes:
        async for stream, data in self._output:
            if stream == "stdout":
                return data
            self._complaint = (self._complaint + data)[-1024:]
        code = await self._session.exit_code()
        if code in _NOT_FOUND:
            raise EngineError(
                f"port {self._port} of the pod can be reached through a container alone,"
                " and that has no nc"
            )
        if code:
            text = self._complaint.decode(errors="replace").strip()
            if not text or text.startswith(_LOST_OUTPUT):
                text = f"nc ended with {code}"
            raise EngineError(f"failed to connect to port {self._port} of the pod: {text}")
        return b""

    async def write(self, data: bytes) -> None:
        await self._session.write(data)

    async def end(self) -> None:
        await self._session.end_input()


def _host(info: EngineInfo, status: SandboxStatus) -> str:
    """The address of the pod that this machine can dial; empty where it would be a stranger's."""
    if status.host_network:
        return _LOOPBACKS[0] if info.local_host_network else ""
    return status.ips[0] if info.routable_pods and status.routable and status.ips else ""


async def _inside(status: SandboxStatus, port: int) -> socket.socket | None:
    """None where this process may not enter the pod's network. Raises `EngineError`."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as enterer:
        # A thread that ends: it never comes back from the other network. What it makes there
        # stays there.
        sockets = await loop.run_in_executor(enterer, _sockets_inside, status.pid, status.ips)
    if sockets is None:
        return None
    failures: list[Exception] = []
    chosen: socket.socket | None = None
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            for address, sock in zip(_LOOPBACKS, sockets, strict=False):
                try:
                    await loop.sock_connect(sock, (address, port))
                except OSError as error:
                    failures.append(error)
                else:
                    chosen = sock
                    return sock
    except TimeoutError as error:
        failures.insert(0, error)
    finally:
        for sock in sockets:
            if sock is not chosen:
                sock.close()
    raise _refused(port, failures[0])


def _sockets_inside(pid: int | None, ips: Sequence[str]) -> list[socket.socket] | None:
    """One for each kind of address that the pod's network has; None where the namespace cannot be
    entered, or has not got the pod's addresses: a process id may be one of another namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if libc.setns(there, _CLONE_NEWNET) != 0:
            return None
    finally:
        os.close(there)
    if not all(_is_ours(ip) for ip in ips):
        return None
    made: list[socket.socket] = []
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            # A machine without IPv6.
            continue
        sock.setblocking(False)
        made.append(sock)
    return made


def _is_ours(address: str) -> bool:
    """Whether an interface of this thread's network has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.bind((address, 0))
    except OSError:
        return False
    return True


async def _outside(host: str, port: int) -> socket.socket:
    """Raises `EngineError`."""
    try:
        async with asyncio.timeout(DIAL_SECONDS):
            return await connected(host, port)
    except (OSError, TimeoutError) as error:
        raise _refused(port, error) from error


def _refused(port: int, error: Exception) -> EngineError:
    number = error.errno if isinstance(error, OSError) else None
    reason = os.strerror(number) if number else str(error) or "no answer"
    return EngineError(f"failed to connect to port {port} of the pod: {reason}")


def _broke(port: int, error: OSError) -> EngineError:
    return EngineError(f"the connection to port {port} of the pod broke: {error.strerror or error}")
