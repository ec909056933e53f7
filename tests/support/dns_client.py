"""A name server on loopback sockets, clients of it, and resolvers that it asks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import dns.message
from dns_world import DOMAIN, DnsWorld
from pod_builders import make_pod

from podtui.clock import SystemClock
from podtui.services.dns_server import DnsServer
from podtui.services.forwarding import Forwarder, Resolver
from podtui.services.protocol import AttachedPod

LOOPBACK = "127.0.0.1"
SECONDS = 20.0
Reply = Callable[[bytes, tuple[str, int]], bytes | None]


def udp_socket() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.bind((LOOPBACK, 0))
    return sock


def tcp_socket() -> socket.socket:
    sock = socket.socket()
    sock.setblocking(False)
    sock.bind((LOOPBACK, 0))
    sock.listen(16)
    return sock


class ServedPod:
    """A pod's side of a name server."""

    def __init__(self, udp: socket.socket, tcp: socket.socket) -> None:
        self.udp: tuple[str, int] = udp.getsockname()
        self.tcp: tuple[str, int] = tcp.getsockname()

    async def send(self, data: bytes) -> bytes:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.connect(self.udp)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(sock, data)
            async with asyncio.timeout(SECONDS):
                return await loop.sock_recv(sock, 65535)

    async def ask(self, name: str, kind: str = "A", *, size: int = 0) -> dns.message.Message:
        query = dns.message.make_query(name, kind, use_edns=0 if size else None, payload=size)
        return dns.message.from_wire(await self.send(query.to_wire()))

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self.tcp)

    async def ask_over_tcp(self, name: str, kind: str = "A") -> dns.message.Message:
        reader, writer = await self.connect()
        try:
            return await exchange(reader, writer, dns.message.make_query(name, kind).to_wire())
        finally:
            writer.close()


async def served(server: DnsServer, sandbox_id: str) -> ServedPod:
    """Attach a pod to a server."""
    sockets = udp_socket(), tcp_socket()
    pod = ServedPod(*sockets)
    await server.attach(AttachedPod(pod=make_pod(), sandbox_id=sandbox_id, ips=()), sockets)
    return pod


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, query: bytes
) -> dns.message.Message:
    writer.write(len(query).to_bytes(2) + query)
    async with asyncio.timeout(SECONDS):
        length = int.from_bytes(await reader.readexactly(2))
        return dns.message.from_wire(await reader.readexactly(length))


@asynccontextmanager
async def name_server(
    world: DnsWorld, *resolvers: Resolver, listed: bool = True
) -> AsyncGenerator[DnsServer]:
    async def resolvers_of_node() -> Sequence[Resolver]:
        return resolvers

    if listed:
        world.set_listed()
    server = DnsServer(world.index, DOMAIN, Forwarder(resolvers_of_node), SystemClock())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.run())
        await asyncio.sleep(0)
        try:
            yield server
        finally:
            task.cancel()
    server.close()


class FakeResolver(asyncio.DatagramProtocol):
    """A resolver of the node. ``reply`` returns what it answers over UDP; None for nothing."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.queries: list[bytes] = []
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.queries.append(data)
        answer = self._reply(data, addr)
        if answer is not None:
            self._transport.sendto(answer, addr)


@asynccontextmanager
async def resolver(reply: Reply) -> AsyncGenerator[tuple[FakeResolver, Resolver]]:
    """A resolver that answers over UDP and, with the same answers, over TCP."""
    fake = FakeResolver(reply)
    listening = tcp_socket()
    address: Resolver = listening.getsockname()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: fake, local_addr=address)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            length = int.from_bytes(await reader.readexactly(2))
            query = await reader.readexactly(length)
            answer = reply(query, address)
            if answer is not None:
                writer.write(len(answer).to_bytes(2) + answer)
                await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(serve, sock=listening)
    try:
        yield fake, address
    finally:
        transport.close()
        server.close()


async def until(condition: Callable[[], Awaitable[bool] | bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            result = condition()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(0.005)
