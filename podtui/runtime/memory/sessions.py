"""Sessions with simulated containers, and ports that answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Final

from podtui.clock import Clock
from podtui.errors import ExecStartError
from podtui.runtime.memory.cells import ContainerCell
from podtui.runtime.memory.process import Behaviour, Process
from podtui.runtime.protocol import LogLines, Output

LIMIT: Final = 64 * 1024
"""Input is accepted until this many bytes wait to be read."""
NOT_STARTED: Final = 127
"""The exit code of a command that does not exist."""
_INTERRUPTED: Final = 130
_INTERRUPT: Final = b"\x03"
_FOREVER: Final = 1e9


class ExecSession:
    """A command in a container. ``check`` raises `podtui.errors.EngineUnavailable` once the engine
    is gone."""

    def __init__(
        self,
        cell: ContainerCell,
        behaviour: Behaviour,
        clock: Clock,
        check: Callable[[], None],
        *,
        stdin: bool,
        tty: bool,
    ) -> None:
        self._cell = cell
        self._behaviour = behaviour
        self._clock = clock
        self._check = check
        self._tty = tty
        self._input = bytearray()
        self._input_ended = not stdin
        self._over = False
        self._code = 0

    async def output(self) -> AsyncGenerator[Output]:
        if self._behaviour.start_error:
            self._code = NOT_STARTED
            self.close()
            raise ExecStartError(self._behaviour.start_error)
        process = Process(self._behaviour, self._clock.now())
        started, number = self._clock.monotonic(), 0
        ending = b"\r\n" if self._tty else b"\n"
        while True:
            lines, number = tuple(process.lines_from(number)), process.written
            for line in lines:
                yield "stdout" if self._tty else line.stream, line.content + ending
            if process.exit is not None:
                self._code = process.exit.code
                self.close()
                return
            self._check()
            elapsed = self._clock.monotonic() - started
            if not self._cell.running:
                process.kill(elapsed)
            elif self._tty and _INTERRUPT in self._input:
                process.kill(elapsed, _INTERRUPTED)
                yield "stdout", b"^C\r\n"
            elif self._behaviour.echoes and self._input:
                yield "stdout", self._read()
            elif self._behaviour.echoes and self._input_ended:
                process.kill(elapsed, self._behaviour.exit_code)
            elif process.wakes_at <= elapsed:
                process.advance(elapsed)
            else:
                await self._changed(process.wakes_at - elapsed)

    async def write(self, data: bytes) -> None:
        while len(self._input) >= LIMIT and not self._ignores_input:
            await self._cell.signal.wait()
        if not self._ignores_input:
            self._input += data
            self._cell.signal.notify()

    async def end_input(self) -> None:
        self._input_ended = True
        self._cell.signal.notify()

    async def resize(self, columns: int, rows: int) -> None:
        return

    async def exit_code(self) -> int | None:
        while not self._over:
            await self._cell.signal.wait()
        return self._code

    def close(self) -> None:
        self._over = True
        self._cell.signal.notify()

    @property
    def _ignores_input(self) -> bool:
        return self._over or self._input_ended or not self._cell.running

    def _read(self) -> bytes:
        piece = bytes(self._input)
        self._input.clear()
        self._cell.signal.notify()
        return piece

    async def _changed(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, _FOREVER)):
                await self._cell.signal.wait()
        except TimeoutError:
            return


class AttachSession:
    """The output of a container's main process from now on. It reads no input."""

    def __init__(self, log: AsyncIterator[LogLines], *, tty: bool) -> None:
        self._log = log
        self._ending = b"\r\n" if tty else b"\n"

    async def output(self) -> AsyncGenerator[Output]:
        async for lines in self._log:
            for line in lines:
                yield line.stream, line.content + self._ending

    async def write(self, data: bytes) -> None:
        return

    async def end_input(self) -> None:
        return

    async def resize(self, columns: int, rows: int) -> None:
        return

    async def exit_code(self) -> int | None:
        return None


class SimulatedServer:
    """Answers one HTTP request with ``name``, whatever the request is."""

    def __init__(self, name: str) -> None:
        body = f"simulated: {name}\n"
        head = "HTTP/1.1 200 OK", "Content-Type: text/plain", f"Content-Length: {len(body)}"
        self._answer = "\r\n".join((*head, "Connection: close", "", body)).encode()
        self._asked = bytearray()
        self._complete = asyncio.Event()

    async def read(self) -> bytes:
        await self._complete.wait()
        answer, self._answer = self._answer, b""
        return answer

    async def write(self, data: bytes) -> None:
        self._asked = (self._asked + data)[-LIMIT:]
        if b"\r\n\r\n" in self._asked:
            self._complete.set()

    async def end(self) -> None:
        self._complete.set()
