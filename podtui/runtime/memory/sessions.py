"""Talking with simulated containers: a small shell at a small terminal, and ports that answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Final

from podtui.clock import Clock
from podtui.runtime.memory.behaviour import KILLED, Actor, Behaviour, BehaviourActor
from podtui.runtime.memory.cells import ContainerCell
from podtui.runtime.memory.process import MAX_STEPS, Process
from podtui.runtime.memory.program import ShellActor, exec_shell
from podtui.runtime.memory.shell import Shell
from podtui.runtime.memory.terminal import Terminal
from podtui.runtime.protocol import LogLine
from podtui.runtime.sessions import Output

LIMIT: Final = 64 * 1024
"""Bytes of input that wait at most."""
_READERS: Final = frozenset(
    {"cat", "wc", "grep", "head", "tail", "sort", "sed", "tr", "tee", "xargs", "read"}
)
_ABSENT: Final = frozenset({"tar", "nc", "socat"})
"""What no simulated image has: it could not be done well."""
_MOST_INPUT: Final = 16 << 20
_INTERRUPTED: Final = 130
_INTERRUPT: Final = b"\x03"
_FOREVER: Final = 1e9
_PROMPT: Final = b"/ # "
_EXIT: Final = re.compile(r"(?:^|[;&|])\s*exit\b")


class ExecSession:
    """A command in a container. Whoever waits does so on the container's signal; ``check`` raises
    `podtui.errors.EngineUnavailable` once the engine is gone."""

    def __init__(
        self,
        cell: ContainerCell,
        words: tuple[str, ...],
        behaviour: Behaviour | None,
        clock: Clock,
        check: Callable[[], None],
        *,
        stdin: bool,
        tty: bool,
    ) -> None:
        self._cell = cell
        self._words = words
        self._behaviour = behaviour
        self._clock = clock
        self._check = check
        self._tty = tty
        self._input = bytearray()
        self._input_ended = not stdin
        self._over = False
        self._code = 0

    # --- what the caller does

    async def output(self) -> AsyncGenerator[Output]:
        running = self._run()
        async with aclosing(running):
            async for stream, data in running:
                yield stream, data
        self.close()

    async def write(self, data: bytes) -> None:
        while len(self._input) >= LIMIT and not self._deaf:
            await self._cell.signal.wait()
        if not self._deaf:
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
    def _deaf(self) -> bool:
        return self._over or self._input_ended or not self._cell.running

    # --- what the command does

    def _run(self) -> AsyncGenerator[Output]:
        name = self._words[0].rsplit("/", 1)[-1] if self._words else ""
        if self._behaviour is None:
            if name == "cat" and len(self._words) == 1:
                return self._copy()
            if name in _ABSENT or not name:
                return self._missing(name)
        return self._command()

    async def _missing(self, name: str) -> AsyncGenerator[Output]:
        self._code = 127
        yield "stderr", f'exec: "{name}": executable file not found in $PATH\n'.encode()

    async def _copy(self) -> AsyncGenerator[Output]:
        while piece := await self._read():
            yield "stdout", piece

    async def _command(self) -> AsyncGenerator[Output]:
        text = ""
        if not self._tty and _READERS & set(re.findall(r"\w+", " ".join(self._words))):
            gathered = bytearray()
            while piece := await self._read():
                gathered += piece[: _MOST_INPUT - len(gathered)]
            text = gathered.decode(errors="replace")
        shell = exec_shell(self._cell.config, self._cell.files, self._clock.now)
        declared = self._behaviour
        actor = BehaviourActor(declared) if declared else ShellActor(shell, self._words, text)
        async with aclosing(self._process(actor)) as said:
            async for output in said:
                yield output
        if shell.asked_for_a_shell:
            async with aclosing(self._typed(shell)) as said:
                async for output in said:
                    yield output

    async def _typed(self, shell: Shell) -> AsyncGenerator[Output]:
        """Reads commands to the end of its input; at a terminal with a prompt and an echo."""
        terminal = Terminal(echo=self._tty)
        if self._tty:
            yield "stdout", _PROMPT
        while (piece := await self._read()) or not self._tty:
            for said, line in terminal.feed(piece or b"\n"):
                if said:
                    yield "stdout", said
                if line is None:
                    continue
                if line == terminal.END:
                    return
                if line.strip():
                    actor = ShellActor(shell, ("sh", "-c", line))
                    async with aclosing(self._process(actor)) as outputs:
                        async for output in outputs:
                            yield output
                if _EXIT.search(line):
                    return
                if self._tty:
                    yield "stdout", _PROMPT
            if not piece:
                return

    async def _process(self, actor: Actor) -> AsyncGenerator[Output]:
        process = Process(actor, self._clock.now(), keep=MAX_STEPS)
        started, number = self._clock.monotonic(), 0
        ending = b"\r\n" if self._tty else b"\n"
        while True:
            lines, number = tuple(process.lines_from(number)), process.written
            for line in lines:
                yield line.stream if not self._tty else "stdout", line.content + ending
            if process.exit is not None:
                self._code = process.exit.code
                return
            self._check()
            elapsed = self._clock.monotonic() - started
            wait = process.wakes_at - elapsed
            if not self._cell.running:
                process.kill(elapsed)
            elif self._tty and _INTERRUPT in self._input:
                del self._input[: self._input.index(_INTERRUPT) + 1]
                process.kill(elapsed, _INTERRUPTED)
                yield "stdout", b"^C\r\n"
            elif wait <= 0:
                process.step(process.wakes_at)
            else:
                await self._changed(wait)

    async def _read(self) -> bytes:
        """Input, empty at its end; a container that ends takes its commands with it."""
        while True:
            self._check()
            if not self._cell.running:
                self._code = KILLED
                return b""
            if self._input:
                piece = bytes(self._input)
                self._input.clear()
                self._cell.signal.notify()
                return piece
            if self._input_ended:
                return b""
            await self._cell.signal.wait()

    async def _changed(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, _FOREVER)):
                await self._cell.signal.wait()
        except TimeoutError:
            return


class AttachSession:
    """A container's own process: what it says from now on. It reads nothing."""

    def __init__(self, log: AsyncIterator[LogLine], *, tty: bool) -> None:
        self._log = log
        self._ending = b"\r\n" if tty else b"\n"

    async def output(self) -> AsyncGenerator[Output]:
        async for line in self._log:
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
    """Answers one HTTP request, whatever it asks for. ``name`` says who answers."""

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
