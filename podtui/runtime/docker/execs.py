"""The engine's execs: made, asked about, and ended where the API has no call for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any, Final

from podtui.clock import Clock
from podtui.errors import EngineError
from podtui.runtime.docker.link import Link

CALL_SECONDS: Final = 30.0
_START_TRIES: Final = 40
_START_PAUSE: Final = 0.05


async def create_exec(
    link: Link, container_id: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
) -> str:
    """The id of an exec that has yet to be started. Raises `Refused`."""
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
    """The exit code, None while there is none. Raises `Refused`."""
    found = await _state(link, exec_id)
    code = found.get("ExitCode")
    return None if found.get("Running") or code is None else int(code)


async def kill_exec(link: Link, clock: Clock, container_id: str, exec_id: str) -> None:
    """End a command that nobody wants any more. The API can't; on this machine a signal can."""
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
            # The engine answers before it has started it.
            await clock.sleep(_START_PAUSE)
    except (EngineError, OSError):
        return


async def _state(link: Link, exec_id: str) -> dict[str, Any]:
    return await link.wire.send("GET", f"/exec/{exec_id}/json", total=CALL_SECONDS)


def _kill_inside(pid: int, first: int) -> None:
    """SIGKILL to a process, once it is sure to be of the container whose first process is given:
    it has the same mount namespace. A rootless engine may have no cgroup to tell by. Raises
    OSError."""
    handle = os.pidfd_open(pid)
    try:
        if os.path.samestat(os.stat(f"/proc/{pid}/ns/mnt"), os.stat(f"/proc/{first}/ns/mnt")):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    finally:
        os.close(handle)
