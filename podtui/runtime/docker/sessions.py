"""Commands in containers, run to their end or as interactive sessions, and attached containers."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Final

from podtui.clock import Clock
from podtui.errors import EngineConflict, EngineError, ExecStartError, ExecTimeout
from podtui.runtime.docker.answers import labels_of
from podtui.runtime.docker.errors import Refused, translate_errors, translate_transport_errors
from podtui.runtime.docker.hijack import Channel
from podtui.runtime.docker.identity import STDIN_ONCE_LABEL
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.log_stream import Frames
from podtui.runtime.docker.removal import Ownership
from podtui.runtime.docker.wire import pieces
from podtui.runtime.protocol import ExecResult, Output, ProcessSession

_LOG = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_EXEC_FAILED: Final = re.compile(
    rb"OCI runtime exec failed: |Error: ((read|write) unixpacket |.*: OCI )"
)
"""The refusals of Docker and of Podman."""
LOST_OUTPUT: Final = re.compile(rb"Error: (read|write) unixpacket ")
"""Podman's message in place of the last output of a command: if it exited with unread input, or
could not start."""
_NOT_STARTED: Final = {126: "the command cannot be executed", 127: "the command was not found"}
"""By exit code."""
_CALL_SECONDS: Final = 30.0
_START_TRIES: Final = 40
_START_PAUSE: Final = 0.05
_EXIT_CODE_TRIES: Final = 50
_EXIT_CODE_PAUSE: Final = 0.02


class Execs:
    """Runs commands to their end. `Sessions` opens interactive ones."""

    def __init__(self, connection: Connection, ownership: Ownership, clock: Clock) -> None:
        self._connection = connection
        self._ownership = ownership
        self._clock = clock

    async def run(
        self, container_id: str, command: Sequence[str], *, timeout: float, limit: int
    ) -> ExecResult:
        link = self._connection.link
        await self._ownership.check(container_id)
        with translate_errors():
            identity = await _create_exec(link, container_id, command)
            try:
                async with asyncio.timeout(timeout):
                    standard_output, standard_error = await self._output(link, identity, limit)
            except TimeoutError as error:
                await _kill_exec(link, self._clock, container_id, identity)
                text = f'command "{" ".join(command)}" timed out after {timeout:g}s'
                raise ExecTimeout(text) from error
            return ExecResult(
                exit_code=await self._exit_code(link, identity),
                output=(standard_output + standard_error)[:limit],
                stderr=standard_error,
            )

    async def _output(self, link: Link, exec_id: str, limit: int) -> tuple[bytes, bytes]:
        """Read stdout and stderr to their ends, and keep the first ``limit`` bytes of each."""
        kept = {"stdout": bytearray(), "stderr": bytearray()}
        frames = Frames()
        path = f"/exec/{exec_id}/start"
        async with link.wire.open("POST", path, body={"Detach": False, "Tty": False}) as response:
            async for piece in pieces(response):
                for stream, payload in frames.feed(piece):
                    kept[stream] += payload[: limit - len(kept[stream])]
        return bytes(kept["stdout"]), bytes(kept["stderr"])

    async def _exit_code(self, link: Link, exec_id: str) -> int:
        """Poll, because the engine may end the stream shortly before it has the exit code."""
        for _ in range(_EXIT_CODE_TRIES):
            if (code := await _exec_exit(link, exec_id)) is not None:
                return code
            await self._clock.sleep(_EXIT_CODE_PAUSE)
        raise EngineError("the engine does not report the command's exit code")


async def _create_exec(
    link: Link, container_id: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
) -> str:
    """Create an exec without starting it, and return its id. Raises `Refused`."""
    body = {
        "AttachStdin": stdin,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": tty,
        "Cmd": list(command),
    }
    made: dict[str, Any] = await link.wire.send(
        "POST", f"/containers/{container_id}/exec", body=body, total=_CALL_SECONDS
    )
    return str(made["Id"])


async def _exec_exit(link: Link, exec_id: str) -> int | None:
    """Return the exit code; None while the command runs. Raises `Refused`."""
    state = await _state(link, exec_id)
    code = state.get("ExitCode")
    return None if state.get("Running") or code is None else int(code)


async def _kill_exec(link: Link, clock: Clock, container_id: str, exec_id: str) -> None:
    """Kill an abandoned command by a signal on this machine: the API has no call for it."""
    if not link.info.local:
        return
    try:
        for _ in range(_START_TRIES):
            state = await _state(link, exec_id)
            if state.get("Running") and (pid := int(state.get("Pid") or 0)):
                container = await link.wire.send(
                    "GET", f"/containers/{container_id}/json", total=_CALL_SECONDS
                )
                _kill_inside(pid, int(container["State"].get("Pid") or 0))
                return
            if state.get("ExitCode") is not None:
                return
            # The engine returned before it started the process.
            await clock.sleep(_START_PAUSE)
    except (EngineError, OSError):
        return


async def _state(link: Link, exec_id: str) -> dict[str, Any]:
    return await link.wire.send("GET", f"/exec/{exec_id}/json", total=_CALL_SECONDS)


def _kill_inside(pid: int, first: int) -> None:
    """Send SIGKILL to a process if it shares the mount namespace of the container's process
    ``first``, which proves that it belongs to the container. A rootless engine may have no cgroup
    to check. Raises OSError."""
    handle = os.pidfd_open(pid)
    try:
        if os.path.samestat(os.stat(f"/proc/{pid}/ns/mnt"), os.stat(f"/proc/{first}/ns/mnt")):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)


class DockerSession:
    """One hijacked connection. ``resize_path`` is the API's path; ``code`` waits for the exit code.

    ``closes`` means that the process should see the end of its input. Otherwise the connection is
    not half-closed, because the engine would treat that as a detach.
    """

    def __init__(
        self,
        link: Link,
        channel: Channel,
        *,
        tty: bool,
        resize_path: str,
        closes: bool = True,
        code: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self._link = link
        self._channel = channel
        self._tty = tty
        self._resize_path = resize_path
        self._closes = closes
        self._code = code
        self._url = link.endpoint.url

    async def output(self) -> AsyncGenerator[Output]:
        begun = self._code is None
        held: list[Output] = []
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                pattern = LOST_OUTPUT if begun else _EXEC_FAILED
                if (held or not begun) and pattern.match(piece[1]):
                    begun = True
                    held.append(piece)
                    continue
                begun = True
                for output in held:
                    yield output
                held.clear()
                yield piece
        if not held:
            return
        # The engine reports a command that it cannot start as the command's only output.
        code = await self.exit_code()
        reason = None if code is None else _NOT_STARTED.get(code)
        if reason is not None:
            text = held[0][1]
            if not LOST_OUTPUT.match(text):
                reason = text.decode(errors="replace").strip()
            raise ExecStartError(f"failed to exec in container: failed to start exec: {reason}")
        for output in held:
            yield output

    async def _pieces(self) -> AsyncGenerator[Output]:
        frames = None if self._tty else Frames()
        while piece := await self._read():
            if frames is None:
                yield "stdout", piece
            else:
                for output in frames.feed(piece):
                    yield output

    async def _read(self) -> bytes:
        with translate_transport_errors(self._url):
            try:
                return await self._channel.read()
            except ConnectionResetError:
                # The process exited with unread input.
                return b""

    async def write(self, data: bytes) -> None:
        try:
            await self._channel.write(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    async def end_input(self) -> None:
        if not self._closes:
            return
        try:
            await self._channel.end()
        except OSError:
            # The process has already exited.
            return

    async def resize(self, columns: int, rows: int) -> None:
        if not self._tty:
            return
        query = {"w": str(columns), "h": str(rows)}
        try:
            await self._link.wire.send("POST", self._resize_path, query=query, total=_CALL_SECONDS)
        except Refused as error:
            _LOG.debug("no resize to %dx%d: %s", columns, rows, error)

    async def exit_code(self) -> int | None:
        return None if self._code is None else await self._code()


class Sessions:
    def __init__(self, connection: Connection, ownership: Ownership, clock: Clock) -> None:
        self._connection = connection
        self._ownership = ownership
        self._clock = clock

    @asynccontextmanager
    async def exec(
        self, container_id: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AsyncGenerator[ProcessSession]:
        link = self._connection.link
        await self._ownership.check(container_id)
        ended = False

        async def code() -> int:
            nonlocal ended
            exit_code = await self._exit_code(link, identity)
            ended = True
            return exit_code

        async with AsyncExitStack() as stack:
            with translate_errors():
                identity = await _create_exec(link, container_id, command, stdin=stdin, tty=tty)
                body = {"Detach": False, "Tty": tty}
                channel = await stack.enter_async_context(
                    link.wire.hijack(f"/exec/{identity}/start", body=body)
                )
            resize = f"/exec/{identity}/resize"
            try:
                yield DockerSession(link, channel, tty=tty, resize_path=resize, code=code)
            finally:
                if not ended:
                    await _kill_exec(link, self._clock, container_id, identity)

    @asynccontextmanager
    async def attach(self, container_id: str, *, stdin: bool) -> AsyncGenerator[ProcessSession]:
        link = self._connection.link
        inspection = await self._ownership.inspect(container_id)
        if not inspection["State"].get("Running"):
            raise EngineConflict(f"container {container_id} is not running")
        query = {"stream": "1", "stdout": "1", "stderr": "1", "stdin": "1" if stdin else "0"}
        async with AsyncExitStack() as stack:
            with translate_errors():
                channel = await stack.enter_async_context(
                    link.wire.hijack(f"/containers/{container_id}/attach", query=query)
                )
            resize = f"/containers/{container_id}/resize"
            tty = bool(inspection["Config"].get("Tty"))
            once = STDIN_ONCE_LABEL in labels_of(inspection["Config"])
            closes = (once or bool(inspection["Config"].get("StdinOnce"))) and not tty
            yield DockerSession(link, channel, tty=tty, resize_path=resize, closes=closes)

    async def _exit_code(self, link: Link, exec_id: str) -> int:
        """Poll, because the output may end long before the command exits."""
        pause = _FIRST_PAUSE
        with translate_errors():
            while (exit_code := await _exec_exit(link, exec_id)) is None:
                await self._clock.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        return exit_code
