"""The engine's exec objects: create, inspect, and kill (the API has no call to kill one)."""

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
