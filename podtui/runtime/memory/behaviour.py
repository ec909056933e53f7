"""The declared behaviour of a simulated container or command."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from podtui.runtime.protocol import ContainerConfig

KILLED: Final = 137
_SHOWN: Final = 200
_ABSENT: Final = (("nc",), ("socat",), ("tar",), ("test", "-d"))
"""Commands that podtui itself runs in containers, with another way if they are missing."""


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
    """Print the image and command, and run until stopped."""
    words = (config.image, *(config.command or ()), *(config.args or ()))
    return Behaviour(lines=(_simulated(words),))


def simulated_command(words: tuple[str, ...]) -> Behaviour:
    """Print the command and exit with 0, or fail to start as one that the image does not have."""
    if not words or any(words[: len(absent)] == absent for absent in _ABSENT):
        name = words[0] if words else ""
        return Behaviour(start_error=f'exec: "{name}": executable file not found in $PATH')
    return Behaviour(lines=(_simulated(words),), exit_after=0.0)


def _simulated(words: tuple[str, ...]) -> str:
    line = " ".join(shlex.join(words).split())
    return f"simulated: {line if len(line) <= _SHOWN else line[:_SHOWN] + '…'}"
