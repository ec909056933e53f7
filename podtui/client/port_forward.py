"""Port-forward: a port on this machine's loopback address that leads to a pod.

Each connection has a separate WebSocket with the two SPDY streams of the protocol. So no connection
blocks another, each side is slowed down when the other does not read, and each connection uses the
current state of the pod.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

import aiohttp

from podtui.client.connection import HttpConnection
from podtui.client.exec_sessions import pod_path
from podtui.errors import PodtuiError, first_error
from podtui.wire import channels
from podtui.wire.spdy import Data, Ping, Reset, Spdy, SpdyError

LOOPBACK: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 256
_PIECE: Final = 32 * 1024
_ERROR: Final = 1
_DATA: Final = 3
_LONGEST_PROBLEM: Final = 4096
REST_SECONDS: Final = 0.5


def listen(local_port: int) -> socket.socket:
    """Return a listening socket. Raises `PodtuiError` if the port is not available."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, local_port))
        listener.listen(128)
        listener.setblocking(False)
    except (OSError, OverflowError) as error:
        listener.close()
        why = error.strerror if isinstance(error, OSError) else "no such port"
        raise PodtuiError(f"cannot listen on {LOOPBACK}:{local_port}: {why}") from error
    return listener


class Forward:
    """Implements `podtui.client.protocol.PortForward`."""

    def __init__(
        self,
        connection: HttpConnection,
        namespace: str,
        pod: str,
        port: int,
        listener: socket.socket,
    ) -> None:
        self._connection = connection
        self._peer = connection.peer
        self._path = pod_path(namespace, pod, "portforward")
        self._listener = listener
        self.remote_port = port
        self.local_port: int = listener.getsockname()[1]
        self.connections = 0
        self.accepted = 0
        self.sent = 0
        self.received = 0
        self.problem = ""

    def close(self) -> None:
        self._listener.close()

    async def run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                while self._listener.fileno() >= 0:
                    if (caller := await self._caller()) is None:
                        continue
                    if self.connections >= MOST_CONNECTIONS:
                        self.problem = f"more than {MOST_CONNECTIONS} connections at once"
                        caller.close()
                        continue
                    self.connections += 1
                    self.accepted += 1
                    group.create_task(self._serve(caller), name=f"forward {self.local_port}")
        finally:
            self.close()

    async def _caller(self) -> socket.socket | None:
        """Accept the next connection. If that fails, for example because too many files are open,
        return None after a pause: other connections may close meanwhile."""
        try:
            return (await asyncio.get_running_loop().sock_accept(self._listener))[0]
        except OSError as error:
            self.problem = f"cannot accept a connection: {error.strerror or error}"
            await asyncio.sleep(REST_SECONDS)
            return None

    async def _serve(self, caller: socket.socket) -> None:
        """Forward one connection until it ends. Errors are stored in ``problem``."""
        caller.setblocking(False)
        try:
            async with self._connection.socket(self._path, (), channels.PORT_FORWARD) as remote:
                self.problem = await self._forward_data(caller, remote)
        except PodtuiError as error:
            self.problem = str(error)
        finally:
            self.connections -= 1
            caller.close()

    async def _forward_data(
        self, caller: socket.socket, remote: aiohttp.ClientWebSocketResponse
    ) -> str:
        """Forward until the pod closes its side. Returns the problem, empty for none."""
        spdy, problem = Spdy(), ""
        headers = {channels.PORT: str(self.remote_port), channels.REQUEST: "0"}
        try:
            for stream, kind in ((_ERROR, channels.ERROR_STREAM), (_DATA, channels.DATA_STREAM)):
                opened = spdy.open(
                    stream, headers | {channels.STREAM_TYPE: kind}, fin=stream == _ERROR
                )
                await remote.send_bytes(opened)
            async with asyncio.TaskGroup() as group:
                upward = group.create_task(self._up(caller, remote, spdy))
                problem = await self._down(caller, remote, spdy)
                upward.cancel()
        except* ConnectionError:
            # One side disconnected, and closing both sides informs the other.
            problem = ""
        except* SpdyError as errors:
            problem = f"not a port-forward: {first_error(errors)}"
        return problem

    async def _up(
        self, caller: socket.socket, remote: aiohttp.ClientWebSocketResponse, spdy: Spdy
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            data = await loop.sock_recv(caller, _PIECE)
            try:
                await remote.send_bytes(spdy.data(_DATA, data, fin=not data))
            except ConnectionError:
                # Keep reading: the output sent before the disconnect is still unread.
                return
            if not data:
                return
            self.sent += len(data)

    async def _down(
        self, caller: socket.socket, remote: aiohttp.ClientWebSocketResponse, spdy: Spdy
    ) -> str:
        loop = asyncio.get_running_loop()
        error_text = b""
        async for message in remote:
            if not isinstance(message.data, bytes):
                continue
            for frame in spdy.feed(message.data):
                match frame:
                    case Data(stream, payload, fin) if stream == _DATA:
                        await loop.sock_sendall(caller, payload)
                        self.received += len(payload)
                        if fin and not error_text:
                            return ""
                    case Data(stream, payload, fin) if stream == _ERROR:
                        error_text = (error_text + payload)[:_LONGEST_PROBLEM]
                        if fin and error_text:
                            return error_text.decode(errors="replace")
                    case Ping():
                        await remote.send_bytes(spdy.pong(frame))
                    case Reset():
                        return f"{self._peer} aborted the connection"
                    case _:
                        pass
        return error_text.decode(errors="replace") or f"{self._peer} closed the connection"
