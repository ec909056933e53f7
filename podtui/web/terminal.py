"""A program on a pseudo-terminal of its own, which ends with whoever looks at it.

The kernel helps: when the last holder of the terminal's other end goes, however it goes, the
program's session is hung up.
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

from podtui.settings import WEB_TERMINAL

CHUNK: Final = 64 * 1024
HANG_UP_SECONDS: Final = 3.0
KILL_SECONDS: Final = 5.0
WRITE_SECONDS: Final = 20.0
_OTHERS: Final = ("TMUX", "TMUX_PANE", "STY", "LINES", "COLUMNS", "TERM_PROGRAM_VERSION",
                  "WINDOWID", "VTE_VERSION", "KITTY_WINDOW_ID")  # fmt: skip


def terminal_environment(environ: Mapping[str, str], *, readonly: bool) -> dict[str, str]:
    """The environment of a program whose terminal is the page, not the one we were started in.

    With ``readonly`` the pager is less, and it may start no program.
    """
    found = {key: value for key, value in environ.items() if key not in _OTHERS}
    found |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TERM_PROGRAM": WEB_TERMINAL}
    if readonly:
        found |= {"PAGER": "less", "LESSSECURE": "1"}
    return found


class Terminal:
    """One program and the terminal it runs on; `start`, and at last `end`, whatever came between.

    `read` and `write` may run at the same time, but each in one task only.
    """

    def __init__(self, process: asyncio.subprocess.Process, descriptor: int) -> None:
        self._process = process
        self._descriptor = descriptor

    @classmethod
    async def start(
        cls, words: Sequence[str], *, columns: int, rows: int, environment: Mapping[str, str]
    ) -> Terminal:
        """Start a program, without a shell, in a session of its own. Raises OSError."""
        ours, theirs = os.openpty()
        try:
            os.set_blocking(ours, False)
            _resize(ours, columns, rows)
            process = await asyncio.create_subprocess_exec(
                *words, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(environment),
                start_new_session=True,
            )  # fmt: skip
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    def resize(self, columns: int, rows: int) -> None:
        """Tell the program its size in cells."""
        _resize(self._descriptor, columns, rows)

    async def read(self) -> bytes:
        """What the program wrote next; nothing at its end."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return os.read(self._descriptor, CHUNK)
            except BlockingIOError:
                await _ready(self._descriptor, loop.add_reader, loop.remove_reader)
            except OSError as error:
                # Linux says so when nobody holds the other end any more.
                if error.errno == errno.EIO:
                    return b""
                raise

    async def write(self, data: bytes) -> None:
        """Type something. Raises TimeoutError for a program that reads nothing for a long time,
        and OSError for one that has gone."""
        loop = asyncio.get_running_loop()
        rest = memoryview(data)
        async with asyncio.timeout(WRITE_SECONDS):
            while rest:
                try:
                    rest = rest[os.write(self._descriptor, rest) :]
                except BlockingIOError:
                    await _ready(self._descriptor, loop.add_writer, loop.remove_writer)

    async def wait(self) -> int:
        """The program's exit status, once it has ended."""
        return await self._process.wait()

    async def end(self) -> int:
        """Hang up, wait a little, then kill what is left of the session; returns the exit status.

        Idempotent. Nobody may read or write any more.
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
            # psutil signals none whose number has since been given to another.
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                member.kill()
        async with asyncio.timeout(KILL_SECONDS):
            return await self._process.wait()


def _resize(descriptor: int, columns: int, rows: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


async def _ready(
    descriptor: int, add: Callable[..., None], remove: Callable[[int], object]
) -> None:
    """Wait until the terminal has something, or takes something."""
    ready = asyncio.Event()
    add(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        remove(descriptor)


def _session(leader: int) -> set[psutil.Process]:
    """The processes of a session whose leader has not been waited for yet: so its number is still
    its own."""
    found: set[psutil.Process] = set()
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == leader:
                found.add(psutil.Process(pid))
        except (OSError, psutil.NoSuchProcess):
            continue
    return found
