"""Connect the terminal to a process in a container: raw keys as input, raw output."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from tty import setraw
from typing import Any

from podtui.client.protocol import RemoteSession
from podtui.errors import PodtuiError

DETACH = b"\x10\x11"
"""ctrl+p ctrl+q, as in docker."""
INTERRUPT = b"\x03"


@dataclass(slots=True)
class DetachKeys:
    """Detects the detach keys in the input. ``keys`` may arrive in several chunks."""

    keys: bytes
    _held: bytes = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """Return the bytes to pass on, and whether the detach keys were typed."""
        data = self._held + data
        position = data.find(self.keys) if self.keys else -1
        if position >= 0:
            return data[:position], True
        held = 0
        for length in range(min(len(self.keys) - 1, len(data)), 0, -1):
            if data.endswith(self.keys[:length]):
                held = length
                break
        self._held = data[len(data) - held :]
        return data[: len(data) - held], False


@dataclass(slots=True)
class SessionResult:
    """The result of a session. ``typed`` is true if the user typed anything, ``left`` if that
    included the detach keys.
    """

    typed: bool = False
    left: bool = False


@contextmanager
def raw(fd: int, *, lines: bool = False) -> Generator[None]:
    """Put the terminal into raw mode. With ``lines``, a line feed in the output still starts a new
    line at the left margin.
    """
    before = termios.tcgetattr(fd)
    setraw(fd, termios.TCSANOW)
    now = termios.tcgetattr(fd)
    if lines:
        now[1] |= termios.OPOST | termios.ONLCR
    set_modes(fd, now)
    try:
        yield
    finally:
        set_modes(fd, before)


def set_modes(fd: int, modes: list[Any]) -> None:
    """Set the modes of a terminal, and discard input that was not read.

    Does not block: TCSAFLUSH would wait until the terminal has taken all output, which a serial
    line that is stopped (ctrl+s) never does.
    """
    termios.tcflush(fd, termios.TCIFLUSH)
    termios.tcsetattr(fd, termios.TCSANOW, modes)


async def run_session(
    session: RemoteSession, *, keys: bytes = b"", tty: bool = True, typed: int = 0, shown: int = 1
) -> SessionResult:
    """Connect a terminal to a session until it ends or ``keys`` are typed.

    ``typed`` and ``shown`` are file descriptors of the terminal. With ``tty``, the session receives
    the terminal's size. Raises what the session raises.
    """
    result = SessionResult()
    failed: list[PodtuiError] = []

    async def show() -> None:
        try:
            async for _, data in session.output():
                await asyncio.to_thread(_write_all, shown, data)
        except PodtuiError as error:
            failed.append(error)

    async def send_input() -> None:
        try:
            await pass_on()
        except PodtuiError as error:
            failed.append(error)
            output.cancel()

    async def pass_on() -> None:
        wanted = DetachKeys(keys)
        async for data in _typed(typed):
            data, leave = wanted.feed(data)
            if data:
                result.typed = True
                await session.write(data)
            if leave:
                result.left = True
                output.cancel()
                return
        await session.end_input()

    # A process without a terminal ends its lines with a line feed only.
    with raw(typed, lines=not tty):
        async with asyncio.TaskGroup() as group:
            output = group.create_task(show(), name="show")
            others = [group.create_task(send_input(), name="send input")]
            if tty:
                others.append(group.create_task(_keep_size(session, shown), name="keep size"))
            await asyncio.wait({output})
            for task in others:
                task.cancel()
    if failed:
        raise failed[0]
    return result


def print_line(text: str, fd: int = 1) -> None:
    """Print a line on a terminal that is not in raw mode."""
    _write_all(fd, f"{text}\n".encode())


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


async def _typed(fd: int) -> AsyncIterator[bytes]:
    """Yield the input as it is typed; read nothing before the consumer asks for it."""
    loop = asyncio.get_running_loop()
    while True:
        there: asyncio.Future[None] = loop.create_future()
        loop.add_reader(fd, lambda there=there: there.done() or there.set_result(None))
        try:
            await there
        finally:
            loop.remove_reader(fd)
        data = os.read(fd, 4096)
        if not data:
            return
        yield data


async def _keep_size(session: RemoteSession, fd: int) -> None:
    """Send the terminal's size to the session, now and after each change."""
    loop = asyncio.get_running_loop()
    changed = asyncio.Event()
    changed.set()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            await changed.wait()
            changed.clear()
            size = os.get_terminal_size(fd)
            await session.resize(size.columns, size.lines)
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
