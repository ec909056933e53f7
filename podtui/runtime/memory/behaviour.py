"""What a simulated container does: steps of a program, and the declarative form that tests give.

A program is a generator of steps, so that it costs nothing while nobody looks: a process that has
declared itself endless is only advanced when its log is read.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

KILLED: Final = 137
TERMINATED: Final = 143


@dataclass(frozen=True, slots=True)
class Say:
    """One line of output, without its line feed."""

    text: str
    stream: Literal["stdout", "stderr"] = "stdout"


@dataclass(frozen=True, slots=True)
class Pause:
    """Seconds in which nothing happens; a signal handler waits for its end unless it may cut it."""

    seconds: float
    interruptible: bool = False


@dataclass(frozen=True, slots=True)
class Endless:
    """From here on the program ends by a signal only: it may be advanced lazily."""


@dataclass(frozen=True, slots=True)
class Exit:
    code: int
    oom: bool = False


Step: TypeAlias = Say | Pause | Endless
Program: TypeAlias = Generator[Step, None, Exit | None]
"""Returns how it ended; None only from a signal handler, after which the main program goes on."""


class Actor(Protocol):
    """Something a process can run."""

    @property
    def ends_at(self) -> float | None:
        """Seconds after the start at which it ends whatever its program says; None: it doesn't."""
        ...

    @property
    def end(self) -> Exit:
        """How it ends at ``ends_at``."""
        ...

    def main(self) -> Program: ...

    def terminate(self) -> Program | Exit | None:
        """What the stop signal does: run a handler, end at once, or nothing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What one container does, declared.

    By default it says nothing, runs until it is stopped, and then exits 0 at once.
    """

    lines: tuple[str | Say, ...] = ()
    """Said at the start."""
    loop: tuple[str | Say, ...] = ()
    """Said every ``period`` seconds, first after one period; ``{n}`` is the round, from 1."""
    period: float = 1.0
    exit_after: float | None = None
    """Seconds; None: runs until it is stopped."""
    exit_code: int = 0
    oom: bool = False
    """Whether the end after ``exit_after`` is the kernel's doing (exit code 137)."""
    ignores_term: bool = False
    term_after: float = 0.0
    """Seconds from the stop signal to the end."""
    term_code: int = 0
    start_error: str = ""
    """When set it never starts; this is the engine's text."""
    termination_message: bytes = b""


class BehaviourActor:
    """Plays a `Behaviour`."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour

    @property
    def ends_at(self) -> float | None:
        return self._behaviour.exit_after

    @property
    def end(self) -> Exit:
        if self._behaviour.oom:
            return Exit(KILLED, oom=True)
        return Exit(self._behaviour.exit_code)

    def main(self) -> Program:
        behaviour = self._behaviour
        for line in behaviour.lines:
            yield line if isinstance(line, Say) else Say(line)
        yield Endless()
        number = 0
        while behaviour.loop and behaviour.period > 0:
            yield Pause(behaviour.period, interruptible=True)
            number += 1
            for line in behaviour.loop:
                said = line if isinstance(line, Say) else Say(line)
                yield Say(said.text.replace("{n}", str(number)), said.stream)
        yield Pause(math.inf, interruptible=True)
        return self.end

    def terminate(self) -> Program | Exit | None:
        if self._behaviour.ignores_term:
            return None
        if self._behaviour.term_after > 0:
            return self._linger()
        return Exit(self._behaviour.term_code)

    def _linger(self) -> Program:
        yield Pause(self._behaviour.term_after)
        return Exit(self._behaviour.term_code)
