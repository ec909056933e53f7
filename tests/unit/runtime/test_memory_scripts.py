"""The commands that the simulated engine understands."""

from __future__ import annotations

import pytest

from podtui.runtime.memory.scripts import Run, run_command


@pytest.mark.parametrize(
    ("command", "run"),
    [
        (("true",), Run((), 0, 0)),
        (("/bin/false",), Run((), 0, 1)),
        (("echo", "a", "b"), Run(("a b",), 0, 0)),
        (("sleep", "1.5"), Run((), 1.5, 0)),
        (("sh", "-c", "echo failing; exit 3"), Run(("failing",), 0, 3)),
        (("sh", "-c", "echo a && sleep 2\necho $N ${N}$M"), Run(("a", "7 7"), 2, 0)),
        (("sh", "-c", "false && echo never; echo then; exit"), Run(("then",), 0, 0)),
        (("sh", "-c", "false && exit 3"), Run((), 0, 1)),
        (("sh", "-c", "echo a;"), Run(("a",), 0, 0)),
    ],
)
def test_a_script_of_simple_commands_runs(command: tuple[str, ...], run: Run) -> None:
    assert run_command(command, {"N": "7"}) == run


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("nginx",),
        ("exit",),
        ("sleep", "infinity"),
        ("sh", "-c", "while true; do echo a; done"),
        ("sh", "-c", "echo a > /x"),
        ("sh", "-c", "sleep 3600 & wait"),
        ("sh", "-c", "echo $(date)"),
        ("sh", "-c", "exit a"),
        ("sh", "-c", "echo 'a; b'"),
        ("sh", "-c", "echo ${N:-8}"),
        ("sh", "-c", ""),
    ],
)
def test_other_commands_are_not_understood(command: tuple[str, ...]) -> None:
    assert run_command(command, {}) is None
