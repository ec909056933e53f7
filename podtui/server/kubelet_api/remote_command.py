"""``exec`` and ``attach`` of pods, as used by kubectl (kubelet.md §16).

The streams of a session are channels of a WebSocket, or streams of SPDY.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Annotated, Final, Protocol

import msgspec
from aiohttp import web

from podtui.api.v1 import Pod, Status, StatusCause, StatusDetails
from podtui.errors import EngineError, SessionError, first_error
from podtui.runtime.protocol import ProcessSession
from podtui.server.kubelet_api.locations import PodLocations
from podtui.server.protocol import SessionEndpoints
from podtui.server.resources.query import flag
from podtui.server.status import StatusError, bad_request, entered, refusals
from podtui.server.transport.sockets import Socket, Sockets, require_upgrade
from podtui.server.transport.spdy_upgrade import STREAMS_SECONDS, SpdySocket
from podtui.server.transport.streams import closed_after
from podtui.wire import channels
from podtui.wire.spdy import REFUSED, Data, Opened, Ping, Reset, Spdy, SpdyError

log = logging.getLogger(__name__)
EXEC_FAILED: Final = "error executing command in container"
ATTACH_FAILED: Final = "error attaching to container"
PROTOCOLS: Final = (
    channels.V5,
    channels.V4,
    channels.BASE64_V4,
    channels.V1,
    channels.BASE64_V1,
    channels.NONE,
)
SPDY_PROTOCOLS: Final = (channels.V4, channels.V3, channels.V2, channels.V1)
KUBELET_TARGETS: Final = (
    "{namespace}/{pod}/{container}",
    "{namespace}/{pod}/{uid}/{container}",
)
"""The rest of a kubelet's path, after its first part."""
MOST_RUN_OUTPUT: Final = 16 * 1024 * 1024
"""The bytes of each output of a command that ``/run`` answers with: containerd's limit."""
_API: Final = "/api/"
_CHANNELS: Final = {"stdout": channels.STDOUT, "stderr": channels.STDERR}
_SIZE_LIMIT: Final = 1 << 16


class RemoteCommandRoutes:
    def __init__(self, pods: SessionEndpoints, sockets: Sockets) -> None:
        self._pods = pods
        self._sockets = sockets

    def kubelet_routes(self) -> list[web.RouteDef]:
        return [
            route(f"/{name}/{target}", handler)
            for name, handler in (("exec", self.exec), ("attach", self.attach))
            for target in KUBELET_TARGETS
            for route in (web.get, web.post)
        ]

    def api_routes(self, locations: PodLocations) -> list[web.RouteDef]:
        return [
            route(f"/api/v1/namespaces/{{namespace}}/pods/{{pod}}/{name}", handler)
            for name, handler in (
                ("exec", locations.checked(self.exec, container=True)),
                ("attach", locations.checked(self.attach, container=True)),
            )
            for route in (web.get, web.post)
        ]

    async def exec(self, request: web.Request) -> web.StreamResponse:
        pod, container = await self._target(request)
        wanted = parse_wanted(request)
        command = request.query.getall("command", [])
        if not command:
            raise bad_request("you must specify at least one command for the container")
        require_upgrade(request, PROTOCOLS, SPDY_PROTOCOLS)
        session = self._pods.exec(pod, container, command, stdin=wanted.stdin, tty=wanted.tty)
        return await self._run_session(request, wanted, session, EXEC_FAILED)

    async def attach(self, request: web.Request) -> web.StreamResponse:
        pod, container = await self._target(request)
        wanted = parse_wanted(request)
        require_upgrade(request, PROTOCOLS, SPDY_PROTOCOLS)
        session = self._pods.attach(pod, container, stdin=wanted.stdin)
        return await self._run_session(request, wanted, session, ATTACH_FAILED)

    async def run(self, request: web.Request) -> web.Response:
        """Run a command without input, and answer with its output: the kubelet's ``/run``."""
        pod, container = await self._target(request)
        command = request.query.get("cmd", "").split(" ")
        output = {"stdout": bytearray(), "stderr": bytearray()}
        session = self._pods.exec(pod, container, command, stdin=False, tty=False)
        with refusals():
            async with session as process, closed_after(process.output()) as pieces:
                async for stream, data in pieces:
                    kept = output[stream]
                    kept += data[: MOST_RUN_OUTPUT - len(kept)]
                code = await process.exit_code()
        if code:
            text = output["stderr"].decode(errors="replace")
            raise StatusError(500, f"command '{' '.join(command)}' exited with {code}: {text}")
        headers = {"Content-Type": "application/json"}  # As a kubelet, whatever the output is.
        return web.Response(body=bytes(output["stdout"] + output["stderr"]), headers=headers)

    async def _target(self, request: web.Request) -> tuple[Pod, str]:
        match = request.match_info
        with refusals():
            pod = self._pods.find(match["namespace"], match["pod"])
            requested = match.get("container") or request.query.get("container", "")
            if match.get("uid", pod.metadata.uid) != pod.metadata.uid:
                raise SessionError(500, f'container not found ("{requested}")')
            return pod, await self._pods.container(pod, requested)

    async def _run_session(
        self,
        request: web.Request,
        wanted: Wanted,
        opened: AbstractAsyncContextManager[ProcessSession],
        failed: str,
    ) -> web.StreamResponse:
        """Run a session until it ends. ``failed`` begins the message of an engine's error."""
        async with (
            self._sockets.counted(request),
            entered(opened) as session,
            self._sockets.accept(request, PROTOCOLS, SPDY_PROTOCOLS) as socket,
        ):
            translated = request.path.startswith(_API) or socket.protocol == channels.V5
            streams: RemoteStreams
            if isinstance(socket, Socket):
                streams = ChannelStreams(socket, wanted)
            else:
                streams = SpdyStreams(socket, wanted)
            try:
                await self._sockets.run(
                    request,
                    socket,
                    _forward_input(streams, session, wanted),
                    _forward_output(streams, session, wanted, failed, translated=translated),
                )
            except* EngineError as errors:
                log.warning("%s broke off: %s", request.path, first_error(errors))
                error = first_error(errors)
                await streams.finish(stream_failure(failed, error, translated=translated))
            except* SpdyError as errors:
                log.warning("%s broke off: %s", request.path, first_error(errors))
        return socket.response


async def _forward_input(streams: RemoteStreams, session: ProcessSession, wanted: Wanted) -> None:
    """Forward what the client sends until it disconnects."""
    async with aclosing(streams.received()) as received:
        async for frame in received:
            match frame:
                case Resize(columns, rows):
                    await session.resize(columns, rows)
                case None:
                    await session.end_input()
                case data if wanted.stdin:
                    await session.write(data)
                case _:
                    pass


async def _forward_output(
    streams: RemoteStreams,
    session: ProcessSession,
    wanted: Wanted,
    failed: str,
    *,
    translated: bool,
) -> None:
    """Forward the process's output, then its exit status or the engine's error."""
    await streams.open()
    try:
        async with closed_after(session.output()) as output:
            async for stream, data in output:
                if wanted.stdout if stream == "stdout" else wanted.stderr:
                    await streams.send(stream, data)
        status = outcome(await session.exit_code())
    except EngineError as error:
        log.warning("%s: %s", failed, error)
        status = stream_failure(failed, error, translated=translated)
    await streams.finish(status)


def parse_wanted(request: web.Request) -> Wanted:
    """Parse the requested streams, with the API's or the kubelet's parameter names. Raises
    `StatusError` 400."""
    stdin = flag(request, "stdin") or flag(request, "input")
    stdout = flag(request, "stdout") or flag(request, "output")
    tty = flag(request, "tty")
    stderr = flag(request, "stderr") or flag(request, "error")
    if not (stdin or stdout or stderr):
        raise bad_request("you must specify at least 1 of stdin, stdout, stderr")
    # A terminal merges both streams into stdout.
    return Wanted(stdin=stdin, stdout=stdout, stderr=stderr and not tty, tty=tty)


def outcome(exit_code: int | None) -> Status:
    """Return the ``Status`` of a command's exit code."""
    if not exit_code:
        return Status(status="Success")
    cause = StatusCause(reason=channels.EXIT_CODE, message=str(exit_code))
    return Status(
        status="Failure",
        message=f"command terminated with non-zero exit code: exit status {exit_code}",
        reason=channels.NON_ZERO,
        details=StatusDetails(causes=(cause,)),
    )


def failure(message: str) -> Status:
    """Return the ``Status`` of an internal error, not caused by the command."""
    return Status(
        status="Failure",
        message=f"Internal error occurred: {message}",
        reason="InternalError",
        details=StatusDetails(causes=(StatusCause(message=message),)),
        code=500,
    )


def stream_failure(failed: str, error: Exception, *, translated: bool) -> Status:
    """Return the ``Status`` of a session that an engine's error ended. An API server translates the
    streams of a session for the client, and a kubelet does so for version 5: both name the internal
    error once more."""
    message = f"{failed}: {error}"
    return failure(f"Internal error occurred: {message}" if translated else message)


# --- the streams of one session


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool


@dataclass(frozen=True, slots=True)
class Resize:
    columns: int
    rows: int


Received = bytes | Resize | None
"""Input, a new size of the terminal, or None at the end of the input."""


class RemoteStreams(Protocol):
    async def open(self) -> None:
        """Return when output can be sent. Raises ConnectionError if the client has disconnected,
        or does not open its streams in time."""
        ...

    def received(self) -> AsyncGenerator[Received]:
        """Yield what the client sends until it disconnects."""
        ...

    async def send(self, stream: str, data: bytes) -> None:
        """Send output. Raises ConnectionError if the client has disconnected."""
        ...

    async def finish(self, status: Status) -> None:
        """End the streams with the outcome of the session."""
        ...


class ChannelStreams:
    """Messages of a WebSocket, whose first byte is the number of a channel."""

    def __init__(self, socket: Socket, wanted: Wanted) -> None:
        self._socket = socket
        self._wanted = wanted

    async def open(self) -> None:
        """Tell the client by an empty message that the session runs."""
        wanted = self._wanted
        lowest = channels.STDERR if wanted.stderr else channels.ERROR
        await self._socket.send(bytes([channels.STDOUT if wanted.stdout else lowest]))

    async def received(self) -> AsyncGenerator[Received]:
        async with aclosing(self._socket.messages()) as messages:
            async for message in messages:
                channel, data = message[0], message[1:]
                if channel == channels.STDIN:
                    yield data
                elif channel == channels.RESIZE:
                    if size := parse_size(data):
                        yield size
                elif (
                    channel == channels.CLOSE
                    and self._socket.protocol == channels.V5
                    and data[:1] == bytes([channels.STDIN])
                ):
                    yield None

    async def send(self, stream: str, data: bytes) -> None:
        await self._socket.send(bytes([_CHANNELS[stream]]) + data)

    async def finish(self, status: Status) -> None:
        if text := error_text(self._socket.protocol, status):
            await self._socket.send(bytes([channels.ERROR]) + text)


class SpdyStreams:
    """A SPDY stream for each of stdin, stdout and stderr, for errors and for sizes.

    The client opens them all at the start; until then, output waits.
    """

    def __init__(self, socket: SpdySocket, wanted: Wanted) -> None:
        self._socket = socket
        self._spdy = Spdy()
        self._expected = _expected(socket.protocol, wanted)
        self._ids: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._complete = asyncio.Event()

    async def received(self) -> AsyncGenerator[Received]:
        """Raises `podtui.wire.spdy.SpdyError`."""
        async with aclosing(self._socket.messages()) as messages:
            async for message in messages:
                for frame in self._spdy.feed(message):
                    match frame:
                        case Opened():
                            await self._open(frame)
                        case Data(stream, payload, fin):
                            name = self._names.get(stream)
                            if name == "stdin" and payload:
                                yield payload
                            elif name == "resize" and (size := parse_size(payload)):
                                yield size
                            if name == "stdin" and fin:
                                yield None
                        case Reset(stream):
                            if self._names.pop(stream, None) == "stdin":
                                yield None
                        case Ping(number) if number % 2 == 0:
                            pass  # The answer to one of ours.
                        case Ping():
                            await self._socket.send(self._spdy.pong(frame))

    async def _open(self, frame: Opened) -> None:
        name = frame.headers.get(channels.STREAM_TYPE, "").lower()
        if name not in self._expected or name in self._ids:
            await self._socket.send(self._spdy.reset(frame.stream, REFUSED))
            return
        self._ids[name] = frame.stream
        self._names[frame.stream] = name
        await self._socket.send(self._spdy.reply(frame.stream))
        if self._ids.keys() == self._expected:
            self._complete.set()

    async def open(self) -> None:
        """Wait until the client has opened the streams."""
        try:
            async with asyncio.timeout(STREAMS_SECONDS):
                await self._complete.wait()
        except TimeoutError as error:
            raise ConnectionResetError("timed out waiting for client to create streams") from error

    async def send(self, stream: str, data: bytes) -> None:
        await self._socket.send(self._spdy.data(self._ids[stream], data))

    async def finish(self, status: Status) -> None:
        if not self._complete.is_set():
            return
        for name in ("stdout", "stderr"):
            if name in self._ids:
                await self._socket.send(self._spdy.data(self._ids[name], b"", fin=True))
        text = error_text(self._socket.protocol, status)
        await self._socket.send(self._spdy.data(self._ids["error"], text, fin=True))


def _expected(protocol: str, wanted: Wanted) -> Collection[str]:
    """Return the names of the streams that a client opens."""
    names = {"error"}
    names |= {name for name in ("stdin", "stdout", "stderr") if getattr(wanted, name)}
    if wanted.tty and protocol not in (channels.V2, channels.V1):
        names.add("resize")
    return names


def error_text(protocol: str, status: Status) -> bytes:
    """Return what the error stream carries: a ``Status``, before version 4 only the message of a
    failure."""
    if protocol in (channels.V5, channels.V4, channels.BASE64_V4):
        return msgspec.json.encode(status)
    return b"" if status.status == "Success" else status.message.encode()


def parse_size(data: bytes) -> Resize | None:
    """Return the size of a terminal; None if it is not valid."""
    try:
        size = msgspec.json.decode(data, type=_Size)
    except msgspec.DecodeError:
        return None
    return Resize(size.Width, size.Height) if size.Width and size.Height else None


class _Size(msgspec.Struct):
    Width: Annotated[int, msgspec.Meta(ge=0, lt=_SIZE_LIMIT)]
    Height: Annotated[int, msgspec.Meta(ge=0, lt=_SIZE_LIMIT)]
