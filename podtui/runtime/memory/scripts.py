"""What the simulated engine understands of commands: ``echo``, ``sleep``, ``true``, ``false`` and
``exit``, also several of them in a script of ``sh -c``. Jobs and init containers thereby end."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_SHELLS: Final = ("sh", "bash", "/bin/sh", "/bin/bash")
_ENDS: Final = re.compile(r"\s*(;|&&|\n)\s*")
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_]\w*)\}?")
_FORBIDDEN: Final = re.compile(r"[|<>`()*?]|\$[(?@#]|\$\{\w*[^}\w]|&(?!&)(?<!&&)")
_DIRECTORIES: Final = ("/bin/", "/usr/bin/")


@dataclass(frozen=True, slots=True)
class Run:
    """The output of commands, and when and how they end."""

    lines: tuple[str, ...]
    seconds: float
    code: int


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> Run | None:
    """Return the run of a command with arguments; None if a part of it is not understood."""
    if len(command) == 3 and command[0] in _SHELLS and command[1] in ("-c", "-ec", "-ce"):
        return _script(command[2].strip(), environment)
    return _commands([list(command)], [])


def _script(text: str, environment: Mapping[str, str]) -> Run | None:
    if _FORBIDDEN.search(text):
        return None
    parts = _ENDS.split(text)
    expanded = (_VARIABLE.sub(lambda m: environment.get(m[1], ""), part) for part in parts[::2])
    try:
        commands = [shlex.split(part) for part in expanded]
    except ValueError:
        return None
    return _commands(commands, parts[1::2])


def _commands(commands: Sequence[Sequence[str]], ends: Sequence[str]) -> Run | None:
    lines: list[str] = []
    seconds, code = 0.0, 0
    skips = False
    for index, command in enumerate(commands):
        end = ends[index] if index < len(ends) else ""
        if not command and index > 0 and index == len(commands) - 1:
            break
        if not skips:
            name, arguments = _name(command), command[1:]
            match name, arguments:
                case "echo", _:
                    lines.append(" ".join(arguments[arguments[:1] == ["-n"] :]))
                    code = 0
                case "true" | "false", _:
                    code = int(name == "false")
                case "sleep", [amount] if re.fullmatch(r"\d+(\.\d+)?s?", amount):
                    seconds += float(amount.rstrip("s"))
                    code = 0
                case "exit", [] | [_] if len(commands) > 1 or ends or arguments:
                    if arguments and not arguments[0].isdecimal():
                        return None
                    return Run(
                        tuple(lines), seconds, int(arguments[0]) % 256 if arguments else code
                    )
                case _:
                    return None
        skips = end == "&&" and code != 0
    return Run(tuple(lines), seconds, code)


def _name(command: Sequence[str]) -> str:
    name = command[0] if command else ""
    for directory in _DIRECTORIES:
        name = name.removeprefix(directory)
    return name
