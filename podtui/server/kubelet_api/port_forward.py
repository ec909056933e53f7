"""``portforward`` of pods: SPDY streams, two for each connection, in a WebSocket or without one;
or two channels of a WebSocket for each port of the request.

For every accepted connection, kubectl opens an error stream and a data stream with the same request
id. Errors are sent on the error stream; the data stream carries the connection's bytes. Clients
without SPDY (Python, JavaScript) open a WebSocket for each connection instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Final

from aiohttp import web

from podtui.api.v1 import Pod
from podtui.errors import EngineError, SessionError, first_error, without_group
from podtui.runtime.protocol import Duplex
from podtui.server.kubelet_api.locations import PodLocations
from podtui.server.protocol import SessionEndpoints
from podtui.server.status import StatusError, bad_request, refusals
from podtui.server.transport.sockets import Socket, Sockets, require_upgrade
from podtui.server.transport.spdy_upgrade import STREAMS_SECONDS, SpdySocket
from podtui.wire import channels
from podtui.wire.spdy import CANCEL, REFUSED, Data, Opened, Ping, Reset, Spdy, SpdyError

log = logging.getLogger(__name__)

PROTOCOLS: Final = (channels.PORT_FORWARD, channels.V4, channels.BASE64_V4, channels.NONE)
SPDY_PROTOCOLS: Final = (channels.SPDY_PORT_FORWARD,)
MOST_CONNECTIONS: Final = 256
MAX_PORTS: Final = 128
"""Two channels for each: the number of a channel is a byte."""
_MOST_WAITING: Final = 512 * 1024
_PIECE: Final = 32 * 1024


class PortForwardRoutes:
    def __init__(self, pods: SessionEndpoints, sockets: Sockets) -> None:
        self._pods = pods
        self._sockets = sockets

    def kubelet_routes(self) -> list[web.RouteDef]:
        return [
            route(f"/portForward/{{namespace}}/{{pod}}{uid}", self.forward)
            for uid in ("", "/{uid}")
            for route in (web.get, web.post)
        ]

    def api_routes(self, locations: PodLocations) -> list[web.RouteDef]:
        path = "/api/v1/namespaces/{namespace}/pods/{pod}/portforward"
        handler = locations.checked(self.forward, container=False)
        return [route(path, handler) for route in (web.get, web.post)]

    async def forward(self, request: web.Request) -> web.StreamResponse:
        match = request.match_info
        with refusals():
            pod = self._pods.find(match["namespace"], match["pod"])
        if match.get("uid", pod.metadata.uid) != pod.metadata.uid:
            raise StatusError(404, "pod not found")
        if pod.status.phase != "Running":
            raise bad_request(
                "unable to forward port because pod is not running."
                f" Current status={pod.status.phase}"
            )
        protocol = require_upgrade(request, PROTOCOLS, SPDY_PROTOCOLS)
        spdy = protocol in (channels.PORT_FORWARD, channels.SPDY_PORT_FORWARD)
        ports = () if spdy else parse_ports(request)
        async with (
            self._sockets.counted(request),
            self._sockets.accept(request, PROTOCOLS, SPDY_PROTOCOLS) as socket,
        ):
            forwarding = (
                Forwarding(self._pods, pod, socket)
                if spdy
                else PortChannels(self._pods, pod, socket, ports)
            )
            try:
                await self._sockets.run(request, socket, forwarding.run())
            except* SpdyError as errors:
                log.warning("%s broke off: %s", request.path, first_error(errors))
        return socket.response


class Inflow:
    """A buffer of bytes for a pod. When it is full, the client's frames wait; when it is closed,
    all data is discarded."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._waiting = 0
        self._ended = False
        self._closed = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, data: bytes) -> None:
        if self._closed or self._ended:
            return
        self._pieces.append(data)
        self._waiting += len(data)
        self._changed.set()
        while self._waiting > _MOST_WAITING and not self._closed:
            self._room.clear()
            await self._room.wait()

    def end(self) -> None:
        self._ended = True
        self._changed.set()

    def close(self) -> None:
        self._closed = True
        self._pieces.clear()
        self._room.set()

    async def get(self) -> bytes:
        """Return the next bytes; empty at the end."""
        while not self._pieces:
            if self._ended:
                return b""
            self._changed.clear()
            await self._changed.wait()
        data = self._pieces.popleft()
        self._waiting -= len(data)
        self._room.set()
        return data


class Pair:
    """The two stream ids of a connection; 0 for a stream that is not open yet."""

    def __init__(self, request: str, port: int) -> None:
        self.request = request
        self.port = port
        self.error = 0
        self.data = 0
        self.inflow = Inflow()
        self.task: asyncio.Task[None] | None = None
        self.limit: asyncio.Task[None] | None = None
        """Ends the pair if its second stream is not opened in time."""

    def stream(self, kind: str) -> int:
        return self.error if kind == channels.ERROR_STREAM else self.data


class Forwarding:
    """The connections of one client to one pod."""

    def __init__(self, pods: SessionEndpoints, pod: Pod, socket: Socket | SpdySocket) -> None:
        self._pods = pods
        self._pod = pod
        self._socket = socket
        self._spdy = Spdy()
        self._pairs: dict[str, Pair] = {}
        self._of_stream: dict[int, Pair] = {}

    async def run(self) -> None:
        """Run until the client disconnects. Raises `SpdyError`."""
        with without_group():
            async with asyncio.TaskGroup() as group:
                await self._receive(group)

    async def _receive(self, group: asyncio.TaskGroup) -> None:
        async with aclosing(self._socket.messages()) as messages:
            async for message in messages:
                for frame in self._spdy.feed(message):
                    match frame:
                        case Opened():
                            await self._open(frame, group)
                        case Data(stream, payload, fin):
                            await self._take(stream, payload, fin=fin)
                        case Reset(stream):
                            self._close_stream(stream)
                        case Ping(number) if number % 2 == 0:
                            pass  # The answer to one of ours.
                        case Ping():
                            await self._socket.send(self._spdy.pong(frame))
            for pair in self._pairs.values():
                for task in (pair.task, pair.limit):
                    if task is not None:
                        task.cancel()

    async def _open(self, frame: Opened, group: asyncio.TaskGroup) -> None:
        kind = frame.headers.get(channels.STREAM_TYPE, "")
        request = frame.headers.get(channels.REQUEST, "") or f"stream {frame.stream}"
        port = parse_port(frame.headers.get(channels.PORT, ""))
        pair = self._pairs.get(request)
        if (
            port is None
            or frame.stream % 2 == 0
            or frame.stream in self._of_stream
            or kind not in (channels.ERROR_STREAM, channels.DATA_STREAM)
            or (len(self._pairs) >= MOST_CONNECTIONS if pair is None else pair.stream(kind))
        ):
            await self._socket.send(self._spdy.reset(frame.stream, REFUSED))
            return
        if pair is None:
            pair = self._pairs[request] = Pair(request, port)
            pair.limit = group.create_task(self._expire(pair), name="second stream")
        self._of_stream[frame.stream] = pair
        if kind == channels.ERROR_STREAM:
            pair.error = frame.stream
        else:
            pair.data = frame.stream
            if frame.fin:
                pair.inflow.end()
        await self._socket.send(self._spdy.reply(frame.stream))
        if pair.error and pair.data and pair.task is None:
            if pair.limit is not None:
                pair.limit.cancel()
            pair.task = group.create_task(self._serve(pair), name=f"port {port}")

    async def _take(self, stream: int, payload: bytes, *, fin: bool) -> None:
        pair = self._of_stream.get(stream)
        if pair is None or stream != pair.data:
            return
        if payload:
            await pair.inflow.put(payload)
        if fin:
            pair.inflow.end()

    def _close_stream(self, stream: int) -> None:
        pair = self._of_stream.get(stream)
        if pair is None:
            return
        if pair.task is not None:
            pair.task.cancel()
        else:
            self._forget(pair)

    async def _expire(self, pair: Pair) -> None:
        await asyncio.sleep(STREAMS_SECONDS)
        pair.limit = None
        if pair.error:
            text = f"request {pair.request}: timed out waiting for streams"
            await self._socket.send(self._spdy.data(pair.error, text.encode(), fin=True))
        if pair.data:
            await self._socket.send(self._spdy.reset(pair.data, CANCEL))
        self._forget(pair)

    async def _serve(self, pair: Pair) -> None:
        """Forward one connection until it ends, and report errors to the client."""

        async def send(data: bytes) -> None:
            await self._socket.send(self._spdy.data(pair.data, data))

        try:
            error = await forwarded(self._pods, self._pod, pair.port, pair.inflow, send)
            if error:
                await self._socket.send(self._spdy.data(pair.error, error.encode()))
            for number in (pair.data, pair.error):
                await self._socket.send(self._spdy.data(number, b"", fin=True))
        finally:
            self._forget(pair)

    def _forget(self, pair: Pair) -> None:
        if pair.limit is not None:
            pair.limit.cancel()
        pair.inflow.close()
        self._pairs.pop(pair.request, None)
        for number in (pair.error, pair.data):
            self._of_stream.pop(number, None)


class PortChannels:
    """The connections of one client to ports of a pod, one to each, over a WebSocket: channel 2n
    carries the bytes of port n, channel 2n+1 its error. The first message of each is the port."""

    def __init__(
        self,
        pods: SessionEndpoints,
        pod: Pod,
        socket: Socket | SpdySocket,
        ports: Sequence[int],
    ) -> None:
        self._pods = pods
        self._pod = pod
        self._socket = socket
        self._ports = ports
        self._inflows = [Inflow() for _ in ports]

    async def run(self) -> None:
        """Run until the client disconnects, or all connections have ended."""
        async with asyncio.TaskGroup() as group:
            receiving = group.create_task(self._receive(), name="port-forward")
            serving = group.create_task(self._serve_all(), name="ports")
            receiving.add_done_callback(lambda _: serving.cancel())
            serving.add_done_callback(lambda _: receiving.cancel())

    async def _receive(self) -> None:
        async with aclosing(self._socket.messages()) as messages:
            async for message in messages:
                number, error = divmod(message[0], 2)
                if not error and number < len(self._inflows):
                    await self._inflows[number].put(message[1:])

    async def _serve_all(self) -> None:
        for number, port in enumerate(self._ports):
            for channel in (2 * number, 2 * number + 1):
                await self._socket.send(bytes([channel]) + port.to_bytes(2, "little"))
        async with asyncio.TaskGroup() as group:
            for number, port in enumerate(self._ports):
                group.create_task(self._serve(number, port), name=f"port {port}")

    async def _serve(self, number: int, port: int) -> None:
        async def send(data: bytes) -> None:
            await self._socket.send(bytes([2 * number]) + data)

        inflow = self._inflows[number]
        try:
            error = await forwarded(self._pods, self._pod, port, inflow, send)
            if error:
                await self._socket.send(bytes([2 * number + 1]) + error.encode())
        finally:
            inflow.close()


async def forwarded(
    pods: SessionEndpoints,
    pod: Pod,
    port: int,
    inflow: Inflow,
    send: Callable[[bytes], Awaitable[None]],
) -> str:
    """Forward one connection until the pod closes its side; the client may close its side earlier.
    Return the error for the client; empty if there is none."""
    try:
        async with pods.dial(pod, port) as stream:
            await _exchange(inflow, stream, send)
    except (EngineError, SessionError) as error:
        which = f"pod {pod.metadata.name}, uid {pod.metadata.uid}"
        text = f"error forwarding port {port} to {which}: {error}"
        log.info("%s", text)
        return text
    return ""


async def _exchange(
    inflow: Inflow, stream: Duplex, send: Callable[[bytes], Awaitable[None]]
) -> None:
    with without_group():
        async with asyncio.TaskGroup() as group:
            upward = group.create_task(_up(inflow, stream))
            while data := await stream.read():
                for at in range(0, len(data), _PIECE):
                    await send(data[at : at + _PIECE])
            upward.cancel()


async def _up(inflow: Inflow, stream: Duplex) -> None:
    while data := await inflow.get():
        await stream.write(data)
    await stream.end()


def parse_ports(request: web.Request) -> tuple[int, ...]:
    """Return the ports of a request without SPDY, whose parameter the API and the kubelet name
    differently. Raises `StatusError` 400."""
    name = "port" if request.path.startswith("/portForward/") else "ports"
    texts = [text for value in request.query.getall(name, []) for text in value.split(",")]
    if not texts:
        raise bad_request('query parameter "port" is required')
    if len(texts) > MAX_PORTS:
        raise bad_request(f"more than {MAX_PORTS} ports")
    ports: list[int] = []
    for text in texts:
        port = parse_port(text)
        if port is None:
            raise bad_request(f'unable to parse "{text}" as a port')
        ports.append(port)
    return tuple(ports)


def parse_port(text: str) -> int | None:
    """Return None for an invalid TCP port."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0
    return number if 0 < number < 65536 else None
