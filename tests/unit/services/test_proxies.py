"""The proxies of node ports, with real sockets."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import cast

import pytest
from service_world import (
    LOOPBACK,
    LoopbackDialer,
    backends_port,
    closed_port,
    tcp_server,
    until,
)

from podtui.clock import SystemClock
from podtui.services import proxies
from podtui.services.backends import Backend
from podtui.services.balancing import Balancer
from podtui.services.proxies import Slots, TcpProxy, UdpProxy, is_allowed, listening_socket


def balancer(*backends: Backend, affinity: int = 0) -> Balancer:
    return Balancer(backends_port(*backends, affinity=affinity), SystemClock().monotonic)


@asynccontextmanager
async def tcp_proxy(
    *backends: Backend,
    dialer: LoopbackDialer | None = None,
    slots: Slots | None = None,
    max_connections: int = 512,
) -> AsyncGenerator[tuple[TcpProxy, int]]:
    listener = listening_socket("TCP", LOOPBACK, 0)
    port = listener.getsockname()[1]
    proxy = TcpProxy(
        listener,
        balancer(*backends),
        dialer or LoopbackDialer(),
        SystemClock(),
        slots or Slots(),
        max_connections=max_connections,
    )
    async with asyncio.TaskGroup() as group:
        task = group.create_task(proxy.run(group))
        yield proxy, port
        task.cancel()
        await until(lambda: proxy.open == 0)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer when the client has ended its side."""
    data = await reader.read()
    writer.write(b"<" + data + b">")
    writer.close()


async def exchange(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(data)
    writer.write_eof()
    try:
        return await reader.read()
    finally:
        writer.close()


async def test_each_direction_ends_on_its_own() -> None:
    async with tcp_server(echo) as backend, tcp_proxy(backend) as (_, port):
        assert await exchange(port, b"hello") == b"<hello>"


async def test_many_connections_leave_no_socket() -> None:
    dialer = LoopbackDialer()
    async with tcp_server(echo) as backend, tcp_proxy(backend, dialer=dialer) as (proxy, port):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            answers = await asyncio.gather(*(exchange(port, b"x" * 1000) for _ in range(50)))
            assert {len(answer) for answer in answers} == {1002}
        await until(lambda: proxy.open == 0 and dialer.open == 0)
        assert len(os.listdir("/proc/self/fd")) <= before + 2


async def test_another_backend_is_tried_if_the_first_refuses() -> None:
    async with tcp_server(echo) as backend, tcp_proxy(closed_port(), backend) as (_, port):
        for _ in range(20):
            assert await exchange(port, b"x") == b"<x>"


async def test_without_a_backend_the_connection_is_reset() -> None:
    async with tcp_proxy() as (_, port):
        with pytest.raises(ConnectionResetError):
            await exchange(port, b"x")
    async with tcp_proxy(closed_port()) as (_, port):
        with pytest.raises(ConnectionResetError):
            await exchange(port, b"x")


async def test_a_connection_survives_the_removal_of_its_endpoint_and_of_the_listener() -> None:
    async def lines(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    listener = listening_socket("TCP", LOOPBACK, 0)
    port = listener.getsockname()[1]
    async with tcp_server(lines) as backend, asyncio.TaskGroup() as group:
        proxy = TcpProxy(listener, balancer(backend), LoopbackDialer(), SystemClock(), Slots())
        task = group.create_task(proxy.run(group))
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"1\n")
        assert await reader.readline() == b"1\n"
        proxy.balancer.port = backends_port()
        task.cancel()
        await asyncio.wait([task])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"2\n")
        assert await reader.readline() == b"2\n"
        writer.close()


async def test_a_client_that_does_not_read_blocks_the_server() -> None:
    written = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            written += 65536

    async with tcp_server(flood) as backend, tcp_proxy(backend) as (_, port):
        _, writer = await asyncio.open_connection(LOOPBACK, port, limit=65536)
        last = -1
        async with asyncio.timeout(60):
            while written != last or not written:
                last = written
                await asyncio.sleep(0.5)
        assert written < 64 << 20
        writer.transport.abort()


async def test_a_reset_of_the_server_is_a_reset_for_the_client() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        proxies.reset(writer.get_extra_info("socket"))
        writer.transport.abort()

    async with tcp_server(break_off) as backend, tcp_proxy(backend) as (_, port):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        writer.write(b"x")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


async def test_more_connections_wait_until_others_end() -> None:
    async with (
        tcp_server(echo) as backend,
        tcp_proxy(backend, max_connections=2) as (proxy, port),
    ):
        opened = [await asyncio.open_connection(LOOPBACK, port) for _ in range(2)]
        await until(lambda: proxy.open == 2)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(exchange(port, b"third"))
            await asyncio.sleep(0.2)
            assert not waiting.done()
            assert proxy.open == 2
            for reader, writer in opened:
                writer.write_eof()
                assert await reader.read() == b"<>"
                writer.close()
            assert await waiting == b"<third>"


async def test_the_number_of_connections_of_all_ports_is_limited() -> None:
    slots = Slots(1)
    async with (
        tcp_server(echo) as backend,
        tcp_proxy(backend, slots=slots) as (proxy, port),
        tcp_proxy(backend, slots=slots) as (_, other),
    ):
        reader, writer = await asyncio.open_connection(LOOPBACK, port)
        await until(lambda: proxy.open == 1)
        with pytest.raises(ConnectionResetError):
            await exchange(other, b"x")
        writer.write_eof()
        assert await reader.read() == b"<>"
        writer.close()
        await until(lambda: proxy.open == 0)
        assert await exchange(other, b"x") == b"<x>"


def test_a_port_in_use_is_an_error() -> None:
    with listening_socket("TCP", LOOPBACK, 0) as sock, pytest.raises(OSError, match="in use"):
        listening_socket("TCP", LOOPBACK, sock.getsockname()[1])
    with listening_socket("UDP", LOOPBACK, 0) as sock, pytest.raises(OSError, match="in use"):
        listening_socket("UDP", LOOPBACK, sock.getsockname()[1])


def test_source_ranges() -> None:
    ranges = [ip_network("10.0.0.0/8")]
    assert is_allowed("10.1.2.3", ranges)
    assert not is_allowed("192.0.2.1", ranges)
    assert is_allowed("127.0.0.1", ranges)
    assert is_allowed("192.0.2.1", [])


# --- UDP


class UdpServer(asyncio.DatagramProtocol):
    """Answers with its name and the datagram."""

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self.transport is not None
        self.transport.sendto(self.name + data, addr)


@asynccontextmanager
async def udp_server(name: bytes) -> AsyncGenerator[Backend]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: UdpServer(name), local_addr=(LOOPBACK, 0)
    )
    try:
        yield Backend(LOOPBACK, transport.get_extra_info("sockname")[1])
    finally:
        transport.close()


@asynccontextmanager
async def udp_proxy(*backends: Backend) -> AsyncGenerator[tuple[UdpProxy, int]]:
    sock = listening_socket("UDP", LOOPBACK, 0)
    port = sock.getsockname()[1]
    proxy = UdpProxy(sock, balancer(*backends), LoopbackDialer(), SystemClock(), Slots())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(proxy.run(group))
        yield proxy, port
        task.cancel()


@asynccontextmanager
async def udp_client(port: int) -> AsyncGenerator[socket.socket]:
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        sock.connect((LOOPBACK, port))
        yield sock


async def ask(client: socket.socket, data: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(client, data)
    async with asyncio.timeout(30):
        return await loop.sock_recv(client, 65536)


async def test_datagrams_and_their_answers() -> None:
    async with (
        udp_server(b"a") as backend,
        udp_proxy(backend) as (proxy, port),
        udp_client(port) as first,
        udp_client(port) as second,
    ):
        assert await ask(first, b"1") == b"a1"
        assert await ask(second, b"x" * 9000) == b"a" + b"x" * 9000
        assert await ask(first, b"") == b"a"
        assert proxy.open == 2


async def test_a_flow_keeps_its_backend_until_that_is_gone() -> None:
    async with (
        udp_server(b"a") as first,
        udp_server(b"b") as second,
        udp_proxy(first, second) as (proxy, port),
        udp_client(port) as client,
    ):
        name = (await ask(client, b""))[:1]
        for _ in range(20):
            assert await ask(client, b"x") == name + b"x"
        rest = second if name == b"a" else first
        proxy.balancer.port = backends_port(rest)
        assert await ask(client, b"") == (b"b" if name == b"a" else b"a")


async def test_an_idle_flow_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "FLOW_SECONDS", 0.2)
    async with (
        udp_server(b"a") as backend,
        udp_proxy(backend) as (proxy, port),
        udp_client(port) as client,
    ):
        assert await ask(client, b"1") == b"a1"
        await until(lambda: proxy.open == 0)
        assert await ask(client, b"2") == b"a2"


async def test_the_number_of_flows_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxies, "MAX_FLOWS", 3)
    async with udp_server(b"a") as backend, udp_proxy(backend) as (proxy, port):
        for _ in range(10):
            async with udp_client(port) as client:
                assert await ask(client, b"1") == b"a1"
        assert proxy.open == 3


async def test_a_backend_that_does_not_listen_yet() -> None:
    async with udp_server(b"a") as backend:
        port_number = backend.port
    async with udp_proxy(backend) as (_, port), udp_client(port) as client:
        await asyncio.get_running_loop().sock_sendall(client, b"lost")
        await asyncio.sleep(0.1)
        with socket.socket(type=socket.SOCK_DGRAM) as server:
            server.setblocking(False)
            server.bind((LOOPBACK, port_number))
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(client, b"again")
            async with asyncio.timeout(30):
                assert (await loop.sock_recvfrom(server, 100))[0] == b"again"
