"""``exec`` and ``attach`` of pods, as used by kubectl (kubelet.md §16)."""

from __future__ import annotations

import logging
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Final

from aiohttp import web

from podtui.api import channels
from podtui.api.spdy import SpdyError
from podtui.api.v1 import Pod, Status, StatusCause, StatusDetails
from podtui.errors import EngineError
from podtui.runtime.protocol import ProcessSession
from podtui.server.node.locations import PodLocations
from podtui.server.node.remote_streams import (
    ChannelStreams,
    RemoteStreams,
    Resize,
    SpdyStreams,
    Wanted,
)
from podtui.server.protocol import SessionEndpoints
from podtui.server.resources.query import flag
from podtui.server.status import bad_request, entered, refusals
from podtui.server.transport.sockets import Socket, Sockets, chosen
from podtui.server.transport.streams import closed_after

log = logging.getLogger(__name__)
EXEC_FAILED: Final = "error executing command in container"
ATTACH_FAILED: Final = "error attaching to container"
PROTOCOLS: Final = (channels.V5, channels.V4)
SPDY_PROTOCOLS: Final = (channels.V4, channels.V3, channels.V2, channels.V1)


class RemoteCommandRoutes:
    def __init__(self, pods: SessionEndpoints, sockets: Sockets, locations: PodLocations) -> None:
        self._pods = pods
        self._locations = locations
        self._sockets = sockets

    def routes(self) -> list[web.RouteDef]:
        api = "/api/v1/namespaces/{namespace}/pods/{pod}"
        target = "{namespace}/{pod}/{container}"
        return [
            route(path, handler)
            for path, handler in (
                (f"{api}/exec", self._locations.checked(self.exec, container=True)),
                (f"/exec/{target}", self.exec),
                (f"{api}/attach", self._locations.checked(self.attach, container=True)),
                (f"/attach/{target}", self.attach),
            )
            for route in (web.get, web.post)
        ]

    async def exec(self, request: web.Request) -> web.StreamResponse:
        pod, container = await self._target(request)
        wanted = parse_wanted(request)
        command = request.query.getall("command", [])
        if not command:
            raise bad_request("you must specify at least one command for the container")
        chosen(request, PROTOCOLS, SPDY_PROTOCOLS)
        session = self._pods.exec(pod, container, command, stdin=wanted.stdin, tty=wanted.tty)
        return await self._run_session(request, wanted, session, EXEC_FAILED)

    async def attach(self, request: web.Request) -> web.StreamResponse:
        pod, container = await self._target(request)
        wanted = parse_wanted(request)
        chosen(request, PROTOCOLS, SPDY_PROTOCOLS)
        session = self._pods.attach(pod, container, stdin=wanted.stdin)
        return await self._run_session(request, wanted, session, ATTACH_FAILED)

    async def _target(self, request: web.Request) -> tuple[Pod, str]:
        match = request.match_info
        with refusals():
            pod = self._pods.find(match["namespace"], match["pod"])
            requested = match.get("container") or request.query.get("container", "")
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
            self._sockets.counted(),
            entered(opened) as session,
            self._sockets.accept(request, PROTOCOLS, SPDY_PROTOCOLS) as socket,
        ):
            streams: RemoteStreams
            if isinstance(socket, Socket):
                streams = ChannelStreams(socket)
            else:
                streams = SpdyStreams(socket, wanted)
            try:
                await self._sockets.run(
                    request,
                    socket,
                    _forward_input(streams, session, wanted),
                    _forward_output(streams, session, wanted, failed),
                )
            except* EngineError as errors:
                log.warning("%s broke off: %s", request.path, errors.exceptions[0])
                await streams.finish(failure(f"{failed}: {errors.exceptions[0]}"))
            except* SpdyError as errors:
                log.warning("%s broke off: %s", request.path, errors.exceptions[0])
        return socket.response


async def _forward_input(streams: RemoteStreams, session: ProcessSession, wanted: Wanted) -> None:
    """Forward what the client sends until it disconnects."""
    async with aclosing(streams.received()) as received:
        async for one in received:
            match one:
                case Resize(columns, rows):
                    await session.resize(columns, rows)
                case None:
                    await session.end_input()
                case data if wanted.stdin:
                    await session.write(data)
                case _:
                    pass


async def _forward_output(
    streams: RemoteStreams, session: ProcessSession, wanted: Wanted, failed: str
) -> None:
    """Forward the process's output, then its exit status or the engine's error."""
    try:
        async with closed_after(session.output()) as output:
            async for stream, data in output:
                if wanted.stdout if stream == "stdout" else wanted.stderr:
                    await streams.send(stream, data)
        status = outcome(await session.exit_code())
    except EngineError as error:
        log.warning("%s: %s", failed, error)
        status = failure(f"{failed}: {error}")
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
