"""Connections from this machine to pods: at their IP, from inside their network, or through the
engine."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from service_world import LOOPBACK, closed_port, tcp_server

from podtui.agent.pod_dialing import EndpointDialer
from podtui.agent.pod_networks import EngineNetworks
from podtui.errors import EngineError


class FakeDuplex:
    """Answers with what it gets, and ends with it."""

    def __init__(self) -> None:
        self._data: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        return await self._data.get()

    async def write(self, data: bytes) -> None:
        await self._data.put(data)

    async def end(self) -> None:
        await self._data.put(b"")


class FakeEngine:
    """The parts of `Runtime` and of `EngineNetworks` that the dialer uses. ``calls`` are the calls
    of the engine."""

    def __init__(self, *, routable: bool = False, enterable: bool = False) -> None:
        self.calls: list[str] = []
        self._status = SimpleNamespace(
            record=SimpleNamespace(id="s"), routable=routable, enterable=enterable
        )

    def sandbox_of(self, ip: str) -> str:
        return "s" if ip == LOOPBACK else ""

    async def sandbox_status(self, sandbox_id: str) -> Any:
        self.calls.append(f"status {sandbox_id}")
        return self._status

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        self.calls.append(f"socket {sandbox_id} {host}")
        sock = socket.socket()
        sock.setblocking(False)
        return sock

    async def datagrams(self, ip: str) -> socket.socket:
        self.calls.append(f"datagrams {ip}")
        sock = socket.socket(type=socket.SOCK_DGRAM)
        sock.setblocking(False)
        return sock

    @asynccontextmanager
    async def dial(self, sandbox_id: str, port: int) -> AsyncGenerator[FakeDuplex]:
        self.calls.append(f"dial {sandbox_id} {port}")
        yield FakeDuplex()


def dialer(engine: FakeEngine) -> EndpointDialer:
    return EndpointDialer(cast("Any", engine), cast("EngineNetworks", engine))


async def pod(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"<" + await reader.read() + b">")
    writer.close()


async def exchange(endpoints: EndpointDialer, ip: str, port: int) -> bytes:
    loop = asyncio.get_running_loop()
    async with endpoints.connect(ip, port) as sock, asyncio.timeout(60):
        await loop.sock_sendall(sock, b"x")
        sock.shutdown(socket.SHUT_WR)
        answer = b""
        while data := await loop.sock_recv(sock, 100):
            answer += data
        return answer


async def test_a_routable_pod_is_reached_at_its_ip() -> None:
    engine = FakeEngine(routable=True)
    async with tcp_server(pod) as backend:
        endpoints = dialer(engine)
        for _ in range(3):
            assert await exchange(endpoints, backend.ip, backend.port) == b"<x>"
    assert engine.calls == ["status s"], "one inspection for all connections"


async def test_a_pod_without_a_route_is_reached_from_inside_its_network() -> None:
    engine = FakeEngine(enterable=True)
    async with tcp_server(pod) as backend:
        assert await exchange(dialer(engine), backend.ip, backend.port) == b"<x>"
    assert engine.calls == ["status s", f"socket s {LOOPBACK}"]


async def test_a_pod_of_a_virtual_machine_is_reached_through_the_engine() -> None:
    engine = FakeEngine()
    assert await exchange(dialer(engine), LOOPBACK, 80) == b"x"
    assert engine.calls == ["status s", "dial s 80"]


async def test_other_addresses_are_connected_to_as_they_are() -> None:
    engine = FakeEngine()
    port = closed_port().port
    with pytest.raises(EngineError, match=rf"failed to connect to 127.0.0.2:{port}: "):
        async with dialer(engine).connect("127.0.0.2", port):
            pass
    assert engine.calls == []


@pytest.mark.parametrize("routable", [True, False])
async def test_datagrams(routable: bool) -> None:
    engine = FakeEngine(routable=routable, enterable=True)
    loop = asyncio.get_running_loop()
    with socket.socket(type=socket.SOCK_DGRAM) as server:
        server.setblocking(False)
        server.bind((LOOPBACK, 0))
        sock = await dialer(engine).datagrams(LOOPBACK, server.getsockname()[1])
        with sock:
            await loop.sock_sendall(sock, b"x")
            async with asyncio.timeout(60):
                assert await loop.sock_recv(server, 10) == b"x"
    assert engine.calls[1:] == ([] if routable else [f"datagrams {LOOPBACK}"])
