"""Connect to a TCP port of a pod, with the best available method, and work in its network.

First, from inside the pod's network namespace, like a kubelet's runtime. This also reaches a
process that listens only on the pod's loopback address. It requires an engine on this machine, and
root or the user of a rootless engine. Second, at the pod's IP, if this machine's route to it leads
over the engine's bridge; otherwise the address belongs to another host. Third, through ``nc`` in
one of the pod's containers, which is the only way for an engine in a virtual machine.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar

from podtui.errors import EngineConflict, EngineError, ExecStartError, NetworkUnavailable
from podtui.runtime.docker.hijack import SocketChannel, connected
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.sandboxes import Sandboxes
from podtui.runtime.docker.sessions import LOST_OUTPUT, Sessions
from podtui.runtime.protocol import Duplex, EngineInfo, ProcessSession, SandboxState, SandboxStatus

DIAL_SECONDS: Final = 10.0
_LOOPBACK: Final = "127.0.0.1"
_LOOPBACKS: Final = ((socket.AF_INET, _LOOPBACK), (socket.AF_INET6, "::1"))
HELPER: Final = Path(__file__).with_name("netns_helper.py")
_HELPER_SECONDS: Final = 10.0
_ANSWER_LIMIT: Final = 4096
_NOT_FOUND: Final = (126, 127)
_MAX_ENTERED: Final = 1000
_ROOT_ONLY: Final = (
    "only root may set rules in the host's network, with an engine that runs as root"
)
T = TypeVar("T")

RunningIn = Callable[[str, str], Awaitable[Sequence[str]]]
"""(sandbox id, pod UID) → ids of its running containers."""


class PodNamespaces:
    """Works in the network namespaces of processes, through `netns_helper`.

    The helper starts with the first request and exits with this process. It cannot leave the user
    namespace that it joined; after a restart of a rootless engine, a new helper replaces it.
    """

    def __init__(self) -> None:
        # With a single thread, requests and responses alternate: a response does not say to which
        # request it belongs.
        self._thread = ThreadPoolExecutor(1, "netns")
        self._helper: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._users: os.stat_result | None = None

    async def open(
        self, pid: int, ips: Sequence[str], operation: str, *arguments: str | int
    ) -> socket.socket:
        """Return a socket that is not blocking. Raises OSError."""
        future = asyncio.get_running_loop().run_in_executor(
            self._thread, self._request, pid, ips, operation, arguments
        )
        try:
            # A thread cannot be cancelled. A socket that arrives after the caller is gone is
            # closed.
            opened = await asyncio.shield(future)
        except asyncio.CancelledError:
            future.add_done_callback(_close_opened)
            raise
        if opened is None:
            raise ConnectionAbortedError("the helper process sent no socket")
        return opened

    async def perform(
        self,
        pid: int,
        ips: Sequence[str],
        operation: str,
        *arguments: str | int,
        content: str | None = None,
    ) -> None:
        """Change something. Raises OSError, and `EngineError` if a program refuses."""
        await asyncio.get_running_loop().run_in_executor(
            self._thread, self._request, pid, ips, operation, arguments, content
        )

    async def close(self) -> None:
        """Stop the helper. The next request starts a new one."""
        if self._helper is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._end)

    def _request(
        self,
        pid: int,
        ips: Sequence[str],
        operation: str,
        arguments: Sequence[str | int],
        content: str | None = None,
    ) -> socket.socket | None:
        channel = self._channel_to(pid)
        request = json.dumps([operation, pid, list(ips), *arguments]).encode()
        try:
            with _files_with(content) as files:
                socket.send_fds(channel, [request], files)
            answer, descriptors, _, _ = socket.recv_fds(channel, _ANSWER_LIMIT, 1)
        except OSError:
            self._end()
            raise
        if descriptors:
            opened = socket.socket(fileno=descriptors[0])
            opened.setblocking(False)
            return opened
        if not answer:
            self._end()
            raise ConnectionAbortedError("the helper process ended")
        number, text = json.loads(answer)
        if number == errno.EOPNOTSUPP:
            raise NetworkUnavailable(text)
        if number == errno.EINVAL:
            raise EngineError(text)
        if number:
            raise OSError(number, text)
        return None

    def _channel_to(self, pid: int) -> socket.socket:
        users = os.stat(f"/proc/{pid or 'self'}/ns/user")
        if self._channel is not None and self._users and os.path.samestat(self._users, users):
            return self._channel
        self._end()
        channel, helper_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        channel.settimeout(_HELPER_SECONDS)
        with helper_end:
            # The helper needs only the standard library (-I, -S), so that the user's environment
            # cannot change what it imports. In a session of its own it does not get the terminal's
            # Ctrl-C.
            self._helper = subprocess.Popen(
                [sys.executable, "-I", "-S", str(HELPER), str(pid or os.getpid())],
                stdin=helper_end.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._channel, self._users = channel, users
        return channel

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        if self._helper is not None:
            self._helper.kill()
            self._helper.wait()
        self._channel = self._helper = self._users = None


@contextmanager
def _files_with(content: str | None) -> Generator[list[int]]:
    """Yield the descriptor of a file in memory: a message of a socket has a size limit."""
    if content is None:
        yield []
        return
    with open(os.memfd_create("podtui-rules"), "w+b") as file:
        file.write(content.encode())
        file.flush()
        file.seek(0)
        yield [file.fileno()]


def _close_opened(future: asyncio.Future[socket.socket | None]) -> None:
    if not future.cancelled() and future.exception() is None:
        opened = future.result()
        if opened is not None:
            opened.close()


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
        self._namespaces = PodNamespaces()
        self._entered: dict[str, tuple[int, tuple[str, ...]]] = {}
        """A process and the IPs of the sandboxes in which something was done last."""

    async def close(self) -> None:
        await self._namespaces.close()

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        """Return an unconnected socket in the pod's network. Raises `EngineError`."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return await self._inside_network(
            sandbox_id, lambda pid, ips: self._namespaces.open(pid, ips, "socket", family)
        )

    async def listener(self, sandbox_id: str, protocol: str, address: str) -> socket.socket:
        return await self._inside_network(
            sandbox_id,
            lambda pid, ips: self._namespaces.open(pid, ips, "listen", protocol, address),
        )

    async def set_rules(self, sandbox_id: str, rules: str) -> None:
        await self._inside_network(
            sandbox_id,
            lambda pid, ips: self._namespaces.perform(pid, ips, "rules", content=rules),
        )

    async def check_table(self, sandbox_id: str, table: str) -> None:
        await self._inside_network(
            sandbox_id, lambda pid, ips: self._namespaces.perform(pid, ips, "table", table)
        )

    async def forget_flows(self, sandbox_id: str, ip: str, port: int) -> None:
        await self._inside_network(
            sandbox_id, lambda pid, ips: self._namespaces.perform(pid, ips, "flows", ip, port)
        )

    async def _inside_network(
        self, sandbox_id: str, call: Callable[[int, tuple[str, ...]], Awaitable[T]]
    ) -> T:
        """Make a call with a process and the IPs of the sandbox. Raises `EngineError`."""
        try:
            entered = self._entered.pop(sandbox_id, None)
            if entered is not None:
                with suppress(OSError):
                    # The process may have ended. Then, the engine knows whether another one runs.
                    return self._remember(sandbox_id, entered, await call(*entered))
            entered = await self._enter(sandbox_id)
            return self._remember(sandbox_id, entered, await call(*entered))
        except OSError as error:
            reason = error.strerror or str(error)
            denied = isinstance(error, PermissionError)
            raise (NetworkUnavailable if denied else EngineError)(
                f"failed to enter the network namespace of the pod: {reason}"
            ) from error

    def note(self, status: SandboxStatus) -> None:
        """Remember an inspected sandbox, so that it need not be inspected again to enter it."""
        if status.enterable and status.pid is not None:
            self._remember(status.record.id, (status.pid, status.ips), None)

    def _remember(self, sandbox_id: str, entered: tuple[int, tuple[str, ...]], result: T) -> T:
        self._entered[sandbox_id] = entered
        while len(self._entered) > _MAX_ENTERED:
            del self._entered[next(iter(self._entered))]
        return result

    async def _enter(self, sandbox_id: str) -> tuple[int, tuple[str, ...]]:
        """Raises OSError and `EngineError`."""
        if not sandbox_id:
            info = self._connection.link.info
            if not info.local_host_network or info.rootless or os.geteuid() != 0:
                raise NetworkUnavailable(_ROOT_ONLY)
            return 0, ()
        status = await self._ready(sandbox_id)
        if not status.enterable or status.pid is None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return status.pid, status.ips

    async def _open(self, status: SandboxStatus, family: int) -> socket.socket:
        """Raises OSError."""
        if not status.enterable or status.pid is None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return await self._namespaces.open(status.pid, status.ips, "socket", family)

    async def _ready(self, sandbox_id: str) -> SandboxStatus:
        status = await self._sandboxes.status(sandbox_id)
        if status.record.state is not SandboxState.READY:
            raise EngineConflict(f"sandbox {sandbox_id} is not running")
        return status

    @asynccontextmanager
    async def dial(self, sandbox_id: str, port: int) -> AsyncGenerator[Duplex]:
        info = self._connection.link.info
        status = await self._ready(sandbox_id)
        async with AsyncExitStack() as stack:
            # In the order of how much they reach: inside, also the pod's loopback; ``nc`` comes
            # last, because it needs an image that has it and a process for each connection.
            sock = await self._inside(status, port)
            if sock is None and (host := _host(info, status)):
                sock = await _outside(host, port)
            if sock is None:
                yield await self._through_container(stack, status, port)
                return
            channel = PortChannel(sock, port)
            stack.push_async_callback(channel.close)
            yield channel

    async def _inside(self, status: SandboxStatus, port: int) -> socket.socket | None:
        """Return None if this process may not enter the pod's network. Raises `EngineError`."""
        loop = asyncio.get_running_loop()
        failures: list[Exception] = []
        for family, address in _LOOPBACKS:
            try:
                sock = await self._open(status, family)
            except OSError:
                # Not permitted, or the machine has no IPv6.
                continue
            with ExitStack() as on_failure:
                on_failure.callback(sock.close)
                try:
                    async with asyncio.timeout(DIAL_SECONDS):
                        await loop.sock_connect(sock, (address, port))
                except (OSError, TimeoutError) as error:
                    failures.append(error)
                else:
                    on_failure.pop_all()
                    return sock
        # A refusal inside the namespace is final: nothing listens there, so no other method can
        # reach it. If no socket could be opened at all, the next method is tried.
        if failures:
            raise _refused(port, failures[0]) from failures[0]
        return None

    async def _through_container(
        self, stack: AsyncExitStack, status: SandboxStatus, port: int
    ) -> Duplex:
        record = status.record
        running = await self._running(record.id, record.uid)
        if not running:
            raise EngineError(
                f"port {port} of the pod can only be reached through a container, but none is"
                " running"
            )
        command = ("nc", _LOOPBACK, str(port))
        session = await stack.enter_async_context(
            self._sessions.exec(running[0], command, stdin=True, tty=False)
        )
        return CommandChannel(session, port)


class PortChannel(SocketChannel):
    """A socket connected to a port of a pod. Raises `EngineError`."""

    def __init__(self, sock: socket.socket, port: int) -> None:
        super().__init__(sock)
        self._port = port

    async def read(self) -> bytes:
        with self._translate_errors():
            return await super().read()

    async def write(self, data: bytes) -> None:
        with self._translate_errors():
            await super().write(data)

    async def end(self) -> None:
        with suppress(OSError):  # The peer has already closed the connection.
            await super().end()

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise EngineError(
                f"the connection to port {self._port} of the pod failed: {reason}"
            ) from error


class CommandChannel:
    """A command that forwards its standard streams to a port."""

    def __init__(self, session: ProcessSession, port: int) -> None:
        self._session = session
        self._output = session.output()
        self._port = port
        self._complaint = b""

    async def read(self) -> bytes:
        try:
            async for stream, data in self._output:
                if stream == "stdout":
                    return data
                self._complaint = (self._complaint + data)[-1024:]
        except ExecStartError as error:
            raise self._no_command() from error
        # The output has ended: the peer closed the connection (0), or ``nc`` failed.
        code = await self._session.exit_code()
        if code in _NOT_FOUND:
            raise self._no_command()
        if code:
            text = self._complaint.decode(errors="replace").strip()
            if not text or LOST_OUTPUT.match(self._complaint):
                text = f"nc ended with {code}"
            raise EngineError(f"failed to connect to port {self._port} of the pod: {text}")
        return b""

    def _no_command(self) -> EngineError:
        return EngineError(
            f"port {self._port} of the pod can only be reached through a container,"
            " which does not have nc"
        )

    async def write(self, data: bytes) -> None:
        await self._session.write(data)

    async def end(self) -> None:
        await self._session.end_input()


def _host(info: EngineInfo, status: SandboxStatus) -> str:
    """Return the pod address that this machine can dial; empty if it would reach another host."""
    if status.host_network:
        return _LOOPBACK if info.local_host_network else ""
    # `routable_pods` is about the engine, `routable` about this pod: this machine's route to its
    # address may lead to another host.
    return status.ips[0] if info.routable_pods and status.routable and status.ips else ""


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
