"""Run a program of the user in the background: read its output and wait for its end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from podtui.tui.commands.terminal import ProgramFailed, ending, why_not_run

PIECE: Final = 64 * 1024
GRACE_SECONDS: Final = 2.0
"""Seconds between SIGTERM and SIGKILL."""
LINGER_SECONDS: Final = 1.0
"""Seconds to wait for more output after the program has exited: other processes of its group may
hold the pipe open forever.
"""
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """The result of a run: the exit ``status``, negative for a signal, None after the timeout."""

    status: int | None

    @property
    def good(self) -> bool:
        return self.status == 0

    @property
    def text(self) -> str:
        if self.status is None:
            return "timed out and was terminated"
        return ending(self.status) if self.status < 0 else f"exit status {self.status}"


async def run_program(
    command: Sequence[str],
    environment: Mapping[str, str],
    take: Callable[[bytes], None],
    *,
    seconds: float = 0.0,
) -> ProcessResult:
    """Run a program without a shell, terminal or input; ``take`` receives its output in chunks.

    The program has its own process group, which is ended after ``seconds`` (0 for no timeout) and
    on cancellation. Raises `ProgramFailed` if it cannot be run.
    """
    # Use our own pipe: it can be closed while a process left by the program still holds the other
    # end.
    output, printed = os.pipe()
    os.set_blocking(output, False)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, **environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ProgramFailed(why_not_run(command[0], error)) from error
        finally:
            os.close(printed)
        complete = False
        try:
            async with asyncio.timeout(seconds or None):
                complete = await _read_to_the_end(process, output, take)
        except TimeoutError:
            return ProcessResult(None)
        finally:
            if not complete:
                await _end(process)
        return ProcessResult(process.returncode)
    finally:
        os.close(output)


async def _read_to_the_end(
    process: asyncio.subprocess.Process, output: int, take: Callable[[bytes], None]
) -> bool:
    """Read until both the program and its output have ended, at most `LINGER_SECONDS` after the
    program.

    Return whether the output has ended, that is, no process can write to it any more.
    """
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(_read(output, take))
        while not reading.done() and process.returncode is None:
            await asyncio.wait({reading}, timeout=_POLL_SECONDS)
        if not reading.done():
            await asyncio.wait({reading}, timeout=LINGER_SECONDS)
            reading.cancel()
    await process.wait()
    if not reading.cancelled():
        return True
    # All output of the program itself is in the pipe now; read what is left of it.
    with suppress(BlockingIOError):
        take(os.read(output, PIECE))
    return False


async def _read(output: int, take: Callable[[bytes], None]) -> None:
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(output, readable.set)
    try:
        while True:
            readable.clear()
            with suppress(BlockingIOError):
                piece = os.read(output, PIECE)
                if not piece:
                    return
                take(piece)
            # Always wait at least once, so that endless output does not starve the key handling.
            await readable.wait()
    finally:
        loop.remove_reader(output)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM to the process group, SIGKILL after the grace period or on cancellation, and
    wait for its end.
    """
    try:
        _signal(process, signal.SIGTERM)
        await _has_exited(process)
    finally:
        _signal(process, signal.SIGKILL)
        await _has_exited(process)


def _signal(process: asyncio.subprocess.Process, order: signal.Signals) -> None:
    # The process may be gone, or its ID may already belong to another user's process.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, order)


async def _has_exited(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await process.wait()
