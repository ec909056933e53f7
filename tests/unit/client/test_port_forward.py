"""One forwarded connection against a server that is played."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from podtui.api.spdy import Spdy
from podtui.client import port_forward as module
from podtui.client.connection import HttpConnection
from podtui.client.port_forward import Forward, listen


@dataclass
class _Message:
    data: bytes


class _Leaving:
    """Takes no data, and sent an error before."""

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


async def test_a_failed_accept_does_not_end_the_forward(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forward = Forward(
        HttpConnection("http://x", cast("Any", None)), "default", "web", 80, listen(0)
    )
    loop = asyncio.get_running_loop()
    accept, failures = loop.sock_accept, [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]

    async def scarce(listener: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return await accept(listener)

    async def serve(caller: socket.socket) -> None:
        problems.append(forward.problem)
        forward.connections -= 1
        caller.close()

    problems: list[str] = []
    monkeypatch.setattr(loop, "sock_accept", scarce)
    monkeypatch.setattr(module, "_REST_SECONDS", 0.01)
    monkeypatch.setattr(forward, "_serve", serve)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        task = group.create_task(forward.run())
        reader, writer = await asyncio.open_connection("127.0.0.1", forward.local_port)
        assert await reader.read() == b""
        writer.close()
        task.cancel()
    assert problems == ["cannot take a connection: Too many open files"]


async def test_a_refusal_is_reported_after_the_server_disconnected() -> None:
    forward = Forward(
        HttpConnection("http://x", cast("Any", None)), "default", "web", 80, listen(0)
    )
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.send(b"GET / HTTP/1.0")
        async with asyncio.timeout(10):
            said = await forward._carry(ours, cast("Any", _Leaving()))
    forward.close()
    assert said == "error forwarding port 80: refused"
