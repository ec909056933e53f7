"""Completion in the real shells, and the manual page in the real ``man``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_harness import PODTUI, ROOT, Machine, Terminal, wait_until

from podtui.client.blocking import get_json
from podtui.errors import AgentUnavailable, ApiError

BIN = str(Path(sys.executable).parent)
SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source <(podtui completion bash)"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -U compinit && compinit -u -D; source <(podtui completion zsh)",
    ),
    "fish": (["fish", "--no-config", "-i"], "podtui completion fish | source"),
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A simulated agent with the pod ``web``."""
    base = tmp_path_factory.mktemp("shells")
    machine = Machine(base, Terminal(base / "tmux.sock"), "memory")
    machine.env["PATH"] = f"{BIN}{os.pathsep}{machine.env['PATH']}"
    machine.write("web.yaml", (ROOT / "static_pods/web.yaml").read_text())
    process = subprocess.Popen(
        [*PODTUI, "agent"], env=machine.env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def has_pod() -> bool:
        try:
            return bool(get_json(machine.root / "podtui.sock", "/api/v1/pods")["items"])
        except (AgentUnavailable, ApiError):
            return False

    try:
        wait_until(has_pod, "the agent has its pod")
        yield machine
    finally:
        process.kill()
        process.wait(120)


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_in_a_real_shell(agent: Machine, tmp_path: Path, shell: str) -> None:
    command, set_up = SHELLS[shell]
    if shutil.which(command[0]) is None:
        pytest.fail(f"{shell} is not installed: this test completes a line in it")
    (tmp_path / "manifests").mkdir()
    terminal = Terminal(tmp_path / "tmux.sock")
    env = {**agent.env, "HOME": str(tmp_path), "PS1": "$ "}
    terminal.start(command, columns=100, rows=30, env=env, cwd=tmp_path)
    try:
        terminal.type(f"{set_up}; echo rea''dy")
        terminal.keys("Enter")
        terminal.wait_for("^ready")
        for typed, completed in (
            ("podtui stat", r"podtui status "),
            ("podtui mani", r"podtui manifests/"),
            ("podtui exec we", r"podtui exec web-n1 "),
            ("podtui exec web -c serv", r"podtui exec web -c server "),
            ("podtui cp we", r"podtui cp web-n1:"),
            ("podtui exec web-n1 --conta", r"podtui exec web-n1 --container "),
        ):
            terminal.keys("C-u")
            terminal.type(typed)
            terminal.keys("Tab")
            # The typed x shows whether the shell appended a space.
            terminal.wait_for(completed.rstrip())
            terminal.type("x")
            terminal.wait_for(f"{completed}x")
    finally:
        terminal.kill()


def test_man_renders_the_manual_page(agent: Machine) -> None:
    if shutil.which("man") is None:
        pytest.fail("man is not installed: this test reads the manual page with it")
    page = agent.run("man")
    shown = subprocess.run(
        ["man", "--warnings", "-l", "-"], input=page.stdout, capture_output=True, text=True,
        timeout=120, check=True, env={**agent.env, "MANWIDTH": "80"},
    )  # fmt: skip
    assert shown.stderr == ""
    assert "podtui port-forward" in shown.stdout
    assert "--root-dir DIR" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
