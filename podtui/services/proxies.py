"""Proxies from an address of this machine to the backends of a Service: TCP and UDP.

A connection keeps its backend until one side ends it, whatever happens to the endpoints. If a
backend refuses a connection, another one is tried. The number of connections is limited: more wait
in the kernel until others end.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import struct
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Final, Protocol

from podtui.clock import Clock
from podtui.errors import EngineError
from podtui.services.backends import Backend
from podtui.services.balancing import Balancer

_LOG = logging.getLogger(__name__)
MAX_CONNECTIONS: Final = 512
"""Of one port of a Service."""
MAX_FLOWS: Final = 512
"""The number of UDP clients of one port of a Service."""
MAX_TOTAL: Final = 4096
"""Of all ports."""
FLOW_SECONDS: Final = 120.0
"""As Linux keeps a UDP flow with answers."""
_MAX_BACKENDS: Final = 3
"""The number of backends that are tried for a connection."""
_PIECE: Final = 64 * 1024
_BACKLOG: Final = 1024
_ACCEPT_RETRY_SECONDS: Final = 0.2
_RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER without a delay: closing the socket resets the connection."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Slots:
    """The free connections and UDP clients of all ports. Each needs up to two file descriptors,
    which the process must not run out of."""

    def __init__(self, size: int = MAX_TOTAL) -> None:
        self._free = size

    def take(self) -> bool:
        """Return False if there is no slot."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    def release(self, task: object = None) -> None:
        self._free += 1


class Dialer(Protocol):
    """Connects to endpoints. Raises `EngineError`."""

    def connect(self, ip: str, port: int) -> AbstractAsyncContextManager[socket.socket]:
        """Return a connected, non-blocking TCP socket, which is closed at the end of the block."""
        ...

    async def datagrams(self, ip: str, port: int) -> socket.socket:
        """Return a connected, non-blocking UDP socket."""
        ...


def listening_socket(protocol: str, address: str, port: int) -> socket.socket:
    """Return a bound socket, for TCP a listening one. Raises OSError."""
    kind = socket.SOCK_DGRAM if protocol == "UDP" else socket.SOCK_STREAM
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, kind)
    try:
        sock.setblocking(False)
        if kind == socket.SOCK_STREAM:
            # Only for connections in TIME_WAIT: two programs cannot listen on the same port.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def is_allowed(client: str, sources: Sequence[Network]) -> bool:
    """Return whether a client may connect. Without ``sources`` every client may; this machine's own
    clients always may."""
    address = ipaddress.ip_address(client.partition("%")[0])
    return not sources or address.is_loopback or any(address in network for network in sources)


class TcpProxy:
    """Accepts connections on a listening socket, which it owns."""

    def __init__(
        self,
        sock: socket.socket,
        balancer: Balancer,
        dialer: Dialer,
        clock: Clock,
        slots: Slots,
        *,
        max_connections: int = MAX_CONNECTIONS,
    ) -> None:
        self.balancer = balancer
        self.sources: Sequence[Network] = ()
        self._slots = slots
        self._socket = sock
        self._dialer = dialer
        self._clock = clock
        self._free = asyncio.Semaphore(max_connections)
        self.open = 0

    async def run(self, connections: asyncio.TaskGroup) -> None:
        """Accept until cancelled. The tasks of the connections are in ``connections``: they outlive
        the listener."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await self._free.acquire()
                client = await self._accept(loop)
                if not self._slots.take():
                    _LOG.debug("too many connections: one was reset")
                    with client:
                        reset(client)
                    self._free.release()
                    continue
                self.open += 1
                task = connections.create_task(self._serve(client))
                task.add_done_callback(self._ended)
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening. Idempotent."""
        self._socket.close()

    async def _accept(self, loop: asyncio.AbstractEventLoop) -> socket.socket:
        while True:
            try:
                client, _ = await loop.sock_accept(self._socket)
            except OSError as error:
                # Out of file descriptors, or the client left before it was accepted.
                _LOG.debug("cannot accept a connection: %s", error)
                await self._clock.sleep(_ACCEPT_RETRY_SECONDS)
                continue
            return client

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.open -= 1
        self._free.release()
        self._slots.release()

    async def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                address: str = client.getpeername()[0]
            except OSError:
                return  # The client has left.
            async with AsyncExitStack() as stack:
                backend = None
                if is_allowed(address, self.sources):
                    backend = await self._dial(stack, address)
                if backend is None:
                    reset(client)
                    return
                await splice(client, backend)

    async def _dial(self, stack: AsyncExitStack, client: str) -> socket.socket | None:
        refused: list[Backend] = []
        while len(refused) < _MAX_BACKENDS:
            backend = self.balancer.choose(client, refused)
            if backend is None:
                break
            try:
                return await stack.enter_async_context(
                    self._dialer.connect(backend.ip, backend.port)
                )
            except EngineError as error:
                _LOG.debug("%s:%d: %s", backend.ip, backend.port, error)
                refused.append(backend)
        return None


def reset(sock: socket.socket) -> None:
    """Let the end of a connection be a reset: the peer must not take it for a complete answer."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    except OSError:
        return  # A socket of another family, or the peer has left.


async def splice(near: socket.socket, far: socket.socket) -> None:
    """Carry the bytes of both directions until both have ended. If one side breaks, the other is
    reset."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_carry(near, far))
            group.create_task(_carry(far, near))
    except* OSError:
        reset(near)
        reset(far)


async def _carry(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _PIECE):
        await loop.sock_sendall(target, data)
    target.shutdown(socket.SHUT_WR)


class UdpProxy:
    """Passes on the datagrams of a bound socket, which it owns, and the answers. Each client has a
    flow: a socket that is connected to its backend, until it is idle or the backend is gone."""

    def __init__(
        self,
        sock: socket.socket,
        balancer: Balancer,
        dialer: Dialer,
        clock: Clock,
        slots: Slots,
    ) -> None:
        self.balancer = balancer
        self._slots = slots
        self.sources: Sequence[Network] = ()
        self._socket = sock
        self._dialer = dialer
        self._clock = clock
        self._flows: dict[tuple[str, int], _Flow] = {}
        """By the client's address, the one that was idle for the longest time first."""

    @property
    def open(self) -> int:
        return len(self._flows)

    async def run(self, connections: asyncio.TaskGroup) -> None:
        """Pass on datagrams until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._expire())
                while True:
                    try:
                        data, client = await loop.sock_recvfrom(self._socket, _PIECE)
                    except OSError as error:
                        _LOG.debug("cannot receive a datagram: %s", error)
                        await self._clock.sleep(_ACCEPT_RETRY_SECONDS)
                        continue
                    await self._pass_on(group, data, client)
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening, and end all flows. Idempotent."""
        self._socket.close()
        for flow in self._flows.values():
            flow.socket.close()

    async def _pass_on(
        self, group: asyncio.TaskGroup, data: bytes, client: tuple[str, int]
    ) -> None:
        if not is_allowed(client[0], self.sources):
            return
        flow = self._flows.pop(client, None)
        backends = self.balancer.port.backends
        if flow is not None and (flow.task.done() or flow.backend not in backends):
            # As kube-proxy deletes the flows of an endpoint that is gone.
            flow.task.cancel()
            flow = None
        if flow is None:
            flow = await self._opened(group, client)
            if flow is None:
                return
        flow.seen = self._clock.monotonic()
        self._flows[client] = flow
        try:
            flow.socket.send(data)
        except OSError as error:
            # Nothing listens there, or the buffer is full: datagrams may be lost.
            _LOG.debug("a datagram is lost: %s", error)

    async def _opened(self, group: asyncio.TaskGroup, client: tuple[str, int]) -> _Flow | None:
        backend = self.balancer.choose(client[0])
        if backend is None:
            return None
        try:
            sock = await self._dialer.datagrams(backend.ip, backend.port)
        except EngineError as error:
            _LOG.debug("%s:%d: %s", backend.ip, backend.port, error)
            return None
        while len(self._flows) >= MAX_FLOWS:
            self._flows.pop(next(iter(self._flows))).task.cancel()
        if not self._slots.take():
            _LOG.debug("too many clients: a datagram is lost")
            sock.close()
            return None
        task = group.create_task(self._answer(sock, client))
        task.add_done_callback(self._slots.release)
        return _Flow(backend, sock, task)

    async def _answer(self, sock: socket.socket, client: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        with sock:
            while True:
                try:
                    data = await loop.sock_recv(sock, _PIECE)
                    self._socket.sendto(data, client)
                except ConnectionRefusedError:
                    # Nothing listened when the last datagram arrived; this may change.
                    continue
                except OSError as error:
                    _LOG.debug("a flow of datagrams ended: %s", error)
                    return
                if (flow := self._flows.get(client)) is not None:
                    flow.seen = self._clock.monotonic()

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(FLOW_SECONDS / 4)
            now = self._clock.monotonic()
            for client, flow in list(self._flows.items()):
                if now - flow.seen > FLOW_SECONDS:
                    flow.task.cancel()
                    del self._flows[client]


class _Flow:
    def __init__(self, backend: Backend, sock: socket.socket, task: asyncio.Task[None]) -> None:
        self.backend = backend
        self.socket = sock
        self.task = task
        self.seen = 0.0
