"""A simulated process: its declared behaviour, its log and its end, by seconds since the start.

The log of a process that prints in rounds is written when it is read. A process therefore needs a
timer for its end only.
"""

from __future__ import annotations

import math
import shlex
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Literal

from msgspec.structs import replace

from podtui.api.times import rfc3339_micros
from podtui.runtime.memory.scripts import run_command
from podtui.runtime.protocol import ContainerConfig, LogLine

KILLED: Final = 137
_SHOWN: Final = 200
_ABSENT: Final = (("nc",), ("socat",), ("tar",), ("test", "-d"))
"""Commands that podtui itself runs in containers. Simulated images lack them, so that podtui uses
its other ways."""
KEPT_LINES: Final = 10_000
OLDER_LINES: Final = "Older lines are gone: the simulated engine keeps the last"
MAX_LAG: Final = 3600.0
"""Rounds that are older than this when the log is read are skipped, like rotated lines."""
_ROUNDING: Final = 1e-6


@dataclass(frozen=True, slots=True)
class OutputLine:
    """One line of output, without its line feed."""

    text: str
    stream: Literal["stdout", "stderr"] = "stdout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """By default a container prints nothing, runs until it is stopped, and then exits with 0."""

    lines: tuple[str | OutputLine, ...] = ()
    """Printed at the start."""
    loop: tuple[str | OutputLine, ...] = ()
    """Printed every ``period`` seconds, first after one period; ``{n}`` is the round, from 1."""
    period: float = 1.0
    exit_after: float | None = None
    """Seconds; None: runs until it is stopped."""
    exit_code: int = 0
    oom: bool = False
    """The kernel ends it after ``exit_after`` because its memory ran out (exit code 137)."""
    ignores_term: bool = False
    term_after: float = 0.0
    """Seconds from the stop signal to the end."""
    term_code: int = 0
    start_error: str = ""
    """If set, the container or command fails to start with this text of the engine."""
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Written at the start, by absolute path."""
    echoes: bool = False
    """A command copies its input to its output, and exits when the input ends."""


def simulated_container(config: ContainerConfig) -> Behaviour:
    """Print the image and command, and run until stopped. A command that is understood prints what
    it prints, and ends when it ends."""
    command = (*(config.command or ()), *(config.args or ()))
    shown = _simulated((config.image, *command))
    run = run_command(command, dict(config.env)) if config.command else None
    if run is None:
        return Behaviour(lines=(shown,))
    return Behaviour(lines=run.lines or (shown,), exit_after=run.seconds, exit_code=run.code)


def completed(config: ContainerConfig) -> Behaviour | None:
    """Exit with 0 at once if the pod waits for the container's end."""
    if not config.completes:
        return None
    command = (*(config.command or ()), *(config.args or ()))
    return Behaviour(lines=(_simulated((config.image, *command)),), exit_after=0.0)


def simulated_command(command: tuple[str, ...]) -> Behaviour:
    """Print the command and exit with 0, or fail to start as one that the image does not have."""
    if not command or any(command[: len(absent)] == absent for absent in _ABSENT):
        name = command[0] if command else ""
        return Behaviour(start_error=f'exec: "{name}": executable file not found in $PATH')
    return Behaviour(lines=(_simulated(command),), exit_after=0.0)


def _simulated(command: tuple[str, ...]) -> str:
    line = " ".join(shlex.join(command).split())
    return f"simulated: {line if len(line) <= _SHOWN else line[:_SHOWN] + '…'}"


# --- one run of a behaviour


def rfc3339(moment: datetime) -> str:
    """Format with nanoseconds, as an engine does."""
    return f"{rfc3339_micros(moment).removesuffix('Z')}000Z"


@dataclass(frozen=True, slots=True)
class Exit:
    code: int
    oom: bool = False


class Process:
    """A behaviour being run. ``elapsed`` is always seconds since ``started_at``."""

    def __init__(
        self, behaviour: Behaviour, started_at: datetime, *, keep: int = KEPT_LINES
    ) -> None:
        self._behaviour = behaviour
        self._started_at = started_at
        self._keep = keep
        self._lines: deque[LogLine] = deque(maxlen=keep)
        self._rounds = 0
        self._term: float | None = None
        self.written = 0
        """The number of lines ever written; the newest are kept."""
        self.exit: Exit | None = None
        self._print(behaviour.lines, 0.0)

    @property
    def ends_at(self) -> float | None:
        """When it ends if nothing else happens; None: never, or it has ended."""
        ends = [at for at in (self._behaviour.exit_after, self._term) if at is not None]
        return None if self.exit is not None else min(ends, default=None)

    @property
    def wakes_at(self) -> float:
        """When it prints or ends next; infinite if never."""
        if self.exit is not None:
            return math.inf
        ends_at = math.inf if self.ends_at is None else self.ends_at
        return min(ends_at, self._next_round)

    @property
    def _next_round(self) -> float:
        behaviour = self._behaviour
        endless = behaviour.loop and behaviour.period > 0
        return (self._rounds + 1) * behaviour.period if endless else math.inf

    def advance(self, elapsed: float) -> None:
        """Print and end as far as that is due."""
        if self.exit is not None:
            return
        due = elapsed + _ROUNDING
        ends_at = self.ends_at
        last = due if ends_at is None else min(due, ends_at)
        if last - self._next_round > MAX_LAG:
            self._rounds = int((last - MAX_LAG) // self._behaviour.period)
        while self._next_round <= last:
            at = self._next_round
            self._rounds += 1
            self._print(self._numbered(), at)
        if ends_at is not None and ends_at <= due:
            self.exit = self._end(ends_at)

    def terminate(self, elapsed: float) -> None:
        """Deliver the stop signal."""
        behaviour = self._behaviour
        if self._term is None and not behaviour.ignores_term:
            self._term = elapsed + behaviour.term_after
        self.advance(elapsed)

    def kill(self, elapsed: float, code: int = KILLED, *, oom: bool = False) -> None:
        self.advance(elapsed)
        if self.exit is None:
            self.exit = Exit(code, oom)

    def print_line(self, line: str | OutputLine, elapsed: float) -> None:
        """Write a line into the log from outside."""
        self.advance(elapsed)
        self._print((line,), elapsed)

    def lines_from(self, number: int) -> Iterator[LogLine]:
        """Return the kept lines, from the ``number``-th line that was ever written."""
        first = self.written - len(self._lines)
        skipped = max(0, number - first)
        gap = f"{OLDER_LINES} {self._keep:,}" if first > number else ""
        for index in range(skipped, len(self._lines)):
            line = self._lines[index]
            yield replace(line, gap=gap) if gap else line
            gap = ""

    def _end(self, at: float) -> Exit:
        behaviour = self._behaviour
        if self._term is not None and at == self._term:
            return Exit(behaviour.term_code)
        return Exit(KILLED, oom=True) if behaviour.oom else Exit(behaviour.exit_code)

    def _numbered(self) -> tuple[OutputLine, ...]:
        lines = [
            line if isinstance(line, OutputLine) else OutputLine(line)
            for line in self._behaviour.loop
        ]
        number = str(self._rounds)
        return tuple(OutputLine(line.text.replace("{n}", number), line.stream) for line in lines)

    def _print(self, lines: tuple[str | OutputLine, ...], at: float) -> None:
        stamp = rfc3339(self._started_at + timedelta(seconds=at))
        for line in lines:
            text, stream = (
                (line.text, line.stream) if isinstance(line, OutputLine) else (line, "stdout")
            )
            self._lines.append(LogLine(timestamp=stamp, stream=stream, content=text.encode()))
            self.written += 1
