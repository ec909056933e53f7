"""The behaviour of the simulated engine in place of the test scripts of real engines."""

from __future__ import annotations

from collections.abc import Mapping

from runtime_bench import IMAGE, MakeRuntime

from podtui.clock import Clock, SystemClock
from podtui.runtime.memory import Behaviour, MemoryEngine, MemoryRuntime, OutputLine
from podtui.runtime.memory.images import simulated_image
from podtui.runtime.protocol import ContainerConfig

NO_SUCH_COMMAND = 'exec: "nosuchcommand": executable file not found in $PATH'
_IGNORES = "trap '' TERM; "
_OLD_AND_NEW = "for i in 1 2 3 4 5 6; do seq -w ${i}0000 ${i}0090; sleep 0.1; done"


def ends(*lines: str | OutputLine, code: int = 0) -> Behaviour:
    """Print and exit at once."""
    return Behaviour(lines=lines, exit_after=0.0, exit_code=code)


CONTAINERS = {
    "true": ends(),
    "exit 3": ends(code=3),
    "echo try 0; exit 1": ends("try 0", code=1),
    "echo try 1; exit 1": ends("try 1", code=1),
    "/nosuch": Behaviour(start_error='exec: "/nosuch": no such file or directory'),
    _IGNORES + "echo ready; while :; do sleep 1; done": Behaviour(
        lines=("ready",), ignores_term=True
    ),
    _IGNORES + "sleep 300": Behaviour(ignores_term=True),
    "echo 0123456789 > /dev/termination-log; exit 1": Behaviour(
        exit_after=0.0, exit_code=1, files={"/dev/termination-log": b"0123456789\n"}
    ),
    "cat /dev/termination-log; exit 1": ends(code=1),
    "echo filling; tail /dev/zero; sleep 1; exit 137": Behaviour(
        lines=("filling",), exit_after=0.0, oom=True
    ),
    "echo one; sleep 0.1; echo two >&2; sleep 0.1; echo; echo '  é tail  '; printf end": ends(
        "one", OutputLine("two", "stderr"), "", "  é tail  ", "end"
    ),
    "for i in 1 2 3; do echo $i; sleep 0.2; done": Behaviour(
        loop=("{n}",), period=0.2, exit_after=0.7
    ),
    "echo one; echo two": ends("one", "two"),
    "seq 6000; seq 6001 12000": ends(*(str(number) for number in range(1, 12_001))),
    _OLD_AND_NEW: Behaviour(
        loop=tuple(f"{{n}}{number:04d}" for number in range(91)), period=0.1, exit_after=0.65
    ),
    f"echo {'x' * 40_000}; echo after": ends("x" * 40_000, "after"),
    "echo only; sleep 300": Behaviour(lines=("only",)),
    "echo up; sleep 300": Behaviour(lines=("up",)),
    "echo inside > /tmp/f; exit 0": Behaviour(exit_after=0.0, files={"/tmp/f": b"inside\n"}),
    "echo kept > /v/file": Behaviour(exit_after=0.0, files={"/v/file": b"kept\n"}),
    "test -f /h/d/f && echo yes": ends("yes"),
    "grep Cpus_allowed_list /proc/self/status": ends("Cpus_allowed_list:\t0"),
}
COMMANDS: dict[tuple[str, ...], Behaviour] = {
    ("cat",): Behaviour(echoes=True),
    ("sh", "-c", "cat; echo wrong >&2; exit 7"): Behaviour(
        lines=(OutputLine("wrong", "stderr"),), echoes=True, exit_code=7
    ),
    ("sleep", "60"): Behaviour(),
    ("sh", "-c", "echo done; exit 0"): ends("done"),
    ("nosuchcommand",): Behaviour(start_error=NO_SUCH_COMMAND),
}


def memory(
    containers: Mapping[str, Behaviour] = CONTAINERS,
    commands: Mapping[tuple[str, ...], Behaviour] = COMMANDS,
    *,
    clock: Clock | None = None,
) -> MakeRuntime:
    def behave(config: ContainerConfig) -> Behaviour | None:
        script = config.command[-1] if config.command else ""
        return ends() if script.startswith("rm -rf ") else containers.get(script)

    def exec_behave(config: ContainerConfig, words: tuple[str, ...]) -> Behaviour | None:
        return commands.get(words)

    clock = clock or SystemClock()
    engine = MemoryEngine(clock=clock, images={IMAGE: simulated_image(IMAGE)}, behave=behave)
    return lambda root: MemoryRuntime(
        root=root, clock=clock, engine=engine, exec_behave=exec_behave
    )
