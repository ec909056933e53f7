"""Commands in containers, on the engine's exec objects: create, run, inspect, and kill."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from typing import Any, Final

from podtui.clock import Clock
from podtui.errors import EngineError, ExecTimeout
from podtui.runtime.docker.errors import translate_errors
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.log_stream import Frames
from podtui.runtime.docker.removal import Ownership
from podtui.runtime.docker.wire import pieces
from podtui.runtime.protocol import ExecResult

CALL_SECONDS: Final = 30.0
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
            identity = await create_exec(link, container_id, command)
            try:
                async with asyncio.timeout(timeout):
                    standard_output, standard_error = await self._output(link, identity, limit)
            except TimeoutError as error:
                await kill_exec(link, self._clock, container_id, identity)
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
            if (code := await exec_exit(link, exec_id)) is not None:
                return code
            await self._clock.sleep(_EXIT_CODE_PAUSE)
        raise EngineError("the engine does not report the command's exit code")


async def create_exec(
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
        "POST", f"/containers/{container_id}/exec", body=body, total=CALL_SECONDS
    )
    return str(made["Id"])


async def exec_exit(link: Link, exec_id: str) -> int | None:
    """Return the exit code; None while the command runs. Raises `Refused`."""
    found = await _state(link, exec_id)
    code = found.get("ExitCode")
    return None if found.get("Running") or code is None else int(code)


async def kill_exec(link: Link, clock: Clock, container_id: str, exec_id: str) -> None:
    """Kill an abandoned command by a signal on this machine: the API has no call for it."""
    if not link.info.local:
        return
    try:
        for _ in range(_START_TRIES):
            found = await _state(link, exec_id)
            if found.get("Running") and (pid := int(found.get("Pid") or 0)):
                container = await link.wire.send(
                    "GET", f"/containers/{container_id}/json", total=CALL_SECONDS
                )
                _kill_inside(pid, int(container["State"].get("Pid") or 0))
                return
            if found.get("ExitCode") is not None:
                return
            # The engine returned before it started the process.
            await clock.sleep(_START_PAUSE)
    except (EngineError, OSError):
        return


async def _state(link: Link, exec_id: str) -> dict[str, Any]:
    return await link.wire.send("GET", f"/exec/{exec_id}/json", total=CALL_SECONDS)


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
