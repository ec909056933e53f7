"""A program on its own pseudo-terminal, which ends when its viewer is gone.

The kernel ensures this: when the last process that holds our end of the terminal exits, for any
reason, the program's session gets a hang-up.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import termios
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import psutil

from podtui.resources import WEB_TERMINAL

CHUNK: Final = 64 * 1024
HANG_UP_SECONDS: Final = 3.0
KILL_SECONDS: Final = 5.0
WRITE_SECONDS: Final = 20.0
_OTHERS: Final = ("TMUX", "TMUX_PANE", "STY", "LINES", "COLUMNS", "TERM_PROGRAM_VERSION",
                  "WINDOWID", "VTE_VERSION", "KITTY_WINDOW_ID")  # fmt: skip


def terminal_environment(environ: Mapping[str, str], *, readonly: bool) -> dict[str, str]:
    """Return the environment of a program whose terminal is the page, not ours.

    With ``readonly``, the pager is less, without permission to start programs.
    """
    variables = {key: value for key, value in environ.items() if key not in _OTHERS}
    variables |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TERM_PROGRAM": WEB_TERMINAL}
    if readonly:
        variables |= {"PAGER": "less", "LESSSECURE": "1"}
    return variables


class Terminal:
    """One program and its terminal. Call `start` first and always call `end`.

    `read` and `write` may run concurrently, but each in only one task.
    """

    def __init__(self, process: asyncio.subprocess.Process, descriptor: int) -> None:
        self._process = process
        self._descriptor = descriptor

    @classmethod
    async def start(
        cls, command: Sequence[str], *, columns: int, rows: int, environment: Mapping[str, str]
    ) -> Terminal:
        """Start a program in a new session, without a shell. Raises OSError."""
        controller, terminal = os.openpty()
        try:
            os.set_blocking(controller, False)
            _resize(controller, columns, rows)
            process = await asyncio.create_subprocess_exec(
                *command, stdin=terminal, stdout=terminal, stderr=terminal, env=dict(environment),
                start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(controller)
            raise
        finally:
            os.close(terminal)
        return cls(process, controller)

    @property
    def pid(self) -> int:
        return self._process.pid

    def resize(self, columns: int, rows: int) -> None:
        """Set the terminal size in cells."""
        _resize(self._descriptor, columns, rows)

    async def read(self) -> bytes:
        """Return the program's next output; empty at the end."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                await _ready(self._descriptor, loop.add_reader, loop.remove_reader)
            except OSError as error:
                # Linux returns EIO when no process holds the other end.
                if error.errno == errno.EIO:
                    return b""
                raise

    async def write(self, data: bytes) -> None:
        """Write input. Raises TimeoutError if the program does not read for a long time, and
        OSError if it has exited."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        async with asyncio.timeout(WRITE_SECONDS):
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    await _ready(self._descriptor, loop.add_writer, loop.remove_writer)

    async def wait(self) -> int:
        """Wait until the program exits, and return its exit status."""
        return await self._process.wait()

    async def end(self) -> int:
        """Hang up, wait briefly, then kill the rest of the session; returns the exit status.

        Idempotent. Do not read or write afterwards.
        """
        running = self._process.returncode is None
        members = _session(self._process.pid) if running else set[psutil.Process]()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        try:
            async with asyncio.timeout(HANG_UP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            members |= _session(self._process.pid)
        for member in members:
            # psutil does not signal a process whose id was reused.
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                member.kill()
        async with asyncio.timeout(KILL_SECONDS):
            return await self._process.wait()


def _resize(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def _ready(
    descriptor: int, add: Callable[..., None], remove: Callable[[int], object]
) -> None:
    """Wait until the terminal is readable or writable."""
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


def _session(leader: int) -> set[psutil.Process]:
    """Return the processes of a session. Its leader must not have been reaped, so that its id
    cannot have been reused."""
    members: set[psutil.Process] = set()
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == leader:
                members.add(psutil.Process(pid))
        except (OSError, psutil.NoSuchProcess):
            continue
    return members
