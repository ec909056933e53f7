"""One forwarded connection against a scripted server."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from podtui.client import port_forward as module
from podtui.client.port_forward import Forward, listen
from podtui.errors import PodtuiError
from podtui.wire.spdy import Spdy


@dataclass
class _Message:
    data: bytes


class _ClosedConnection:
    """A connection that sent an error and accepts no data."""

    def __init__(self) -> None:
        self._spdy = Spdy()
        self._refused = asyncio.Event()
        self.sent = 0

    async def send_bytes(self, data: bytes) -> None:
        self.sent += 1
        if self.sent > 2:
            self._refused.set()
            raise ConnectionResetError("Cannot write to closing transport")

    async def __aiter__(self) -> AsyncIterator[_Message]:
        await self._refused.wait()
        await asyncio.sleep(0)
        yield _Message(self._spdy.data(1, b"error forwarding port 80: refused"))
        yield _Message(self._spdy.data(1, b"", fin=True))


class _Server:
    """Opens WebSockets to a pod that refuses, or fails to open them."""

    peer = "the API server"

    def __init__(self, *, fails: bool = False) -> None:
        self._fails = fails

    @asynccontextmanager
    async def socket(self, *_: object) -> AsyncIterator[_ClosedConnection]:
        if self._fails:
            raise PodtuiError("no such pod")
        yield _ClosedConnection()


def forward_to(server: _Server) -> Forward:
    return Forward(cast("Any", server), "default", "web", 80, listen(0))


async def test_a_failed_accept_does_not_end_the_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forward = forward_to(_Server(fails=True))
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]
    problems: list[str] = []

    async def failing_accept(listener: socket.socket) -> Any:
        problems.append(forward.problem)
        if failures:
            raise failures.pop()
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", failing_accept)
    monkeypatch.setattr(module, "REST_SECONDS", 0.01)
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        task = group.create_task(forward.run())
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
        assert await reader.read() == b""
        writer.close()
        task.cancel()
    assert problems[:2] == ["", "cannot accept a connection: Too many open files"]
    assert forward.problem == "no such pod"


async def test_a_refusal_is_reported_after_the_server_disconnected() -> None:
    forward = forward_to(_Server())
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        task = group.create_task(forward.run())
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
        writer.write(b"GET / HTTP/1.0")
        assert await reader.read() == b""
        writer.close()
        task.cancel()
    assert forward.problem == "error forwarding port 80: refused"
