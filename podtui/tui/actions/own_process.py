"""A program of the user's, run beside the screen: what it prints, and how it ends."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from podtui.tui.actions.terminal import ProgramFailed, ending, why_not_run

PIECE: Final = 64 * 1024
GRACE_SECONDS: Final = 2.0
"""Between the request to end and the order."""
LINGER_SECONDS: Final = 1.0
"""How long is waited for more output once the program itself has ended: others of its group may
hold the pipe for ever."""
_LOOK_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Outcome:
    """``status`` is the exit status, negative for a signal; None where it was ended as too slow."""

    status: int | None

    @property
    def good(self) -> bool:
        return self.status == 0

    @property
    def words(self) -> str:
        if self.status is None:
            return "not done in time, and ended"
        return ending(self.status) if self.status < 0 else f"exit status {self.status}"


async def run_program(
    words: Sequence[str],
    environment: Mapping[str, str],
    take: Callable[[bytes], None],
    *,
    seconds: float = 0.0,
) -> Outcome:
    """Run it without a shell, a terminal or input; ``take`` gets what it prints, as it comes.

    It has a process group of its own, which is ended after ``seconds`` (0 for never) and when this
    is cancelled. Raises `ProgramFailed` where it cannot be run.
    """
    # A pipe of our own: it can be closed while a process that the program left behind still holds
    # the other end.
    output, printed = os.pipe()
    os.set_blocking(output, False)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                env={**os.environ, **environment},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ProgramFailed(why_not_run(words[0], error)) from error
        finally:
            os.close(printed)
        complete = False
        try:
            async with asyncio.timeout(seconds or None):
                complete = await _read_to_the_end(process, output, take)
        except TimeoutError:
            return Outcome(None)
        finally:
            if not complete:
                await _end(process)
        return Outcome(process.returncode)
    finally:
        os.close(output)


async def _read_to_the_end(
    process: asyncio.subprocess.Process, output: int, take: Callable[[bytes], None]
) -> bool:
    """Read until the program has ended and its output too, or `LINGER_SECONDS` later.

    Returns whether the output has ended, which is so once no process can write to it.
    """
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(_read(output, take))
        while not reading.done() and process.returncode is None:
            await asyncio.wait({reading}, timeout=_LOOK_SECONDS)
        if not reading.done():
            await asyncio.wait({reading}, timeout=LINGER_SECONDS)
            reading.cancel()
    await process.wait()
    if not reading.cancelled():
        return True
    # What the program itself printed is in the pipe by now, read or not.
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
            # Wait once in any case: endless output must not keep the screen from its keys.
            await readable.wait()
    finally:
        loop.remove_reader(output)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask the whole group to end, then order it; at once where nobody has time to wait."""
    try:
        _tell(process, signal.SIGTERM)
        await _gone(process)
    finally:
        _tell(process, signal.SIGKILL)
    await _gone(process)


def _tell(process: asyncio.subprocess.Process, order: signal.Signals) -> None:
    # It may be gone, or be another user's by now.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, order)


async def _gone(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await process.wait()
