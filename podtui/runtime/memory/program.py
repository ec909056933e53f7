"""Which program a container or an exec gets when no test says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from podtui.runtime.memory.behaviour import Actor, Behaviour, BehaviourActor, Exit, Program
from podtui.runtime.memory.files import ContainerFiles
from podtui.runtime.memory.shell import KNOWN, Shell
from podtui.runtime.protocol import ContainerConfig

# Images without an entry point, whose command a shell would run.
_BASES: Final = ("busybox", "alpine", "debian", "ubuntu", "fedora", "bash", "toybox")
_INTERPRETED: Final = KNOWN | {"bash", "dash"}
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ShellActor:
    """A container's or an exec's command, interpreted; ``stdin`` is all that it can read."""

    ends_at: float | None = None
    end = Exit(0)

    def __init__(self, shell: Shell, command: Sequence[str], stdin: str = "") -> None:
        self._shell = shell
        self._command = command
        self._stdin = stdin

    def main(self) -> Program:
        return self._shell.program(self._command, self._stdin)

    def terminate(self) -> Program | Exit | None:
        return self._shell.terminate()


def _command(config: ContainerConfig) -> tuple[str, ...] | None:
    """The argv that is known to run; None for an image's own entry point.

    A bare shell without a terminal would end at once; here it runs on, like any other entry point.
    """
    if config.command is not None:
        return (*config.command, *(config.args or ()))
    name = config.image.rsplit("/", 1)[-1].split("@")[0].split(":")[0]
    return config.args if name in _BASES and config.args else None


def _is_interpreted(command: tuple[str, ...]) -> bool:
    return bool(command) and command[0].rsplit("/", 1)[-1] in _INTERPRETED


def behaviour_of(config: ContainerConfig) -> Behaviour:
    """A server that is not known: says so, runs until it is stopped, and exits 0 at once."""
    words = _command(config) or (config.image, *(config.args or ()))
    return Behaviour(lines=(f"simulated: {' '.join(words).splitlines()[0][:200]}",))


def _shell(
    config: ContainerConfig, files: ContainerFiles, now: Callable[[], datetime], lives_on: bool
) -> Shell:
    env = {"PATH": _PATH, "HOSTNAME": config.pod_name, "HOME": "/root", **dict(config.env)}
    env.setdefault("PWD", config.working_dir or "/")
    memory = config.resources.memory
    return Shell(files, env, now, memory_limit=memory, lives_on=lives_on)


def actor_of(config: ContainerConfig, files: ContainerFiles, now: Callable[[], datetime]) -> Actor:
    """What a container runs: its command interpreted where it is one of the known ones."""
    command = _command(config)
    if command is None or not _is_interpreted(command):
        return BehaviourActor(behaviour_of(config))
    return ShellActor(_shell(config, files, now, lives_on=True), command)


def exec_actor(
    config: ContainerConfig,
    files: ContainerFiles,
    command: tuple[str, ...],
    behaviour: Behaviour | None,
    now: Callable[[], datetime],
    stdin: str = "",
) -> Actor:
    """What a command executed in a container runs; ``behaviour`` is a test's word on it."""
    if behaviour is not None:
        return BehaviourActor(behaviour)
    return ShellActor(exec_shell(config, files, now), command, stdin)


def exec_shell(
    config: ContainerConfig, files: ContainerFiles, now: Callable[[], datetime]
) -> Shell:
    """A shell for commands executed in a container; its variables last as long as it does."""
    return _shell(config, files, now, lives_on=False)
