"""Exec and attach: sessions with container processes over a WebSocket."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import aiohttp
import msgspec

from podtui.api.v1 import Status
from podtui.client.connection import HttpConnection
from podtui.client.protocol import AttachQuery, ExecQuery, Output, RemoteSession
from podtui.errors import AgentUnavailable, ApiError
from podtui.wire import channels

_PIECE: Final = 64 * 1024
_PROTOCOLS: Final = (channels.V5, channels.V4)
_STREAMS: Final = {channels.STDOUT: "stdout", channels.STDERR: "stderr"}


def pod_path(namespace: str, pod: str, subresource: str = "") -> str:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}"
    return f"{path}/{subresource}" if subresource else path


@asynccontextmanager
async def exec_session(
    connection: HttpConnection, namespace: str, pod: str, query: ExecQuery
) -> AsyncGenerator[RemoteSession]:
    """See `podtui.client.protocol.SessionClient.exec`."""
    params = [("command", word) for word in query.command]
    params += _parameters(query.container, stdin=query.stdin, tty=query.tty)
    path = pod_path(namespace, pod, "exec")
    async with connection.socket(path, params, *_PROTOCOLS) as socket:
        yield SocketSession(socket, connection.peer)


@asynccontextmanager
async def attach_session(
    connection: HttpConnection, namespace: str, pod: str, query: AttachQuery
) -> AsyncGenerator[RemoteSession]:
    """See `podtui.client.protocol.SessionClient.attach`."""
    params = _parameters(query.container, stdin=query.stdin, tty=query.tty)
    path = pod_path(namespace, pod, "attach")
    async with connection.socket(path, params, *_PROTOCOLS) as socket:
        yield SocketSession(socket, connection.peer)


def _parameters(container: str, *, stdin: bool, tty: bool) -> Sequence[tuple[str, str]]:
    parameters = {
        "container": container,
        "stdin": "true" if stdin else "",
        "stdout": "true",
        "stderr": "" if tty else "true",
        "tty": "true" if tty else "",
    }
    return [(name, value) for name, value in parameters.items() if value]


class SocketSession:
    """A `podtui.client.protocol.RemoteSession` over an open WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, peer: str = "the agent") -> None:
        self._socket = socket
        self._peer = peer
        self._status: Status | None = None
        self._input_ended = False

    async def output(self) -> AsyncGenerator[Output]:
        async for message in self._socket:
            # An empty message only announces its channel.
            if not isinstance(message.data, bytes) or len(message.data) < 2:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == channels.ERROR:
                self._status = _decoded(data, self._peer)
                return
            if channel in _STREAMS:
                yield "stderr" if channel == channels.STDERR else "stdout", data
        raise AgentUnavailable(f"{self._peer} closed the connection")

    async def write(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE):
            await self._send(channels.STDIN, data[at : at + _PIECE])

    @property
    def can_end_input(self) -> bool:
        return self._socket.protocol != channels.V4

    async def end_input(self) -> None:
        if not self._input_ended and self.can_end_input:
            self._input_ended = True
            await self._send(channels.CLOSE, bytes([channels.STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        size = msgspec.json.encode({"Width": columns, "Height": rows})
        await self._send(channels.RESIZE, size)

    def exit_code(self) -> int:
        if self._status is None:
            raise AgentUnavailable(f"{self._peer} did not report how the command ended")
        return exit_code(self._status)

    async def _send(self, channel: int, data: bytes) -> None:
        try:
            await self._socket.send_bytes(bytes([channel]) + data)
        except ConnectionError:
            # The process has ended; its output has the reason.
            return


def exit_code(status: Status) -> int:
    """Return a command's exit code. Raises `ApiError` if the failure is not the command's."""
    if status.status == "Success":
        return 0
    for cause in status.details.causes if status.details else ():
        if cause.reason == channels.EXIT_CODE and cause.message.isdigit():
            return int(cause.message)
    raise ApiError(status.code or 500, status.reason or "Unknown", status.message)


def _decoded(data: bytes, peer: str) -> Status:
    try:
        return msgspec.json.decode(data, type=Status)
    except msgspec.DecodeError as error:
        raise ApiError(
            500, "InternalError", f"the final message of {peer} is not a Status"
        ) from error
