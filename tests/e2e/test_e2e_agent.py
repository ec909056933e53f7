"""An agent that is killed while the screen is open, and one that watches another folder, in
tmux."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest
from tmux_harness import Machine, wait_until

pytestmark = [
    pytest.mark.parametrize("machine", ["memory"], indirect=True),
]

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{name: app, image: "busybox:1.36", command: ["sleep", "3600"]}]
"""


def agent_pid(machine: Machine) -> int:
    found = json.loads((machine.root / "podtui.lock").read_text() or "{}")
    return int(found.get("pid", 0))


def start_agent(machine: Machine) -> None:
    """Start an agent by opening and closing a screen."""
    machine.screen(80, 24)
    machine.terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    machine.terminal.keys("q")
    machine.terminal.wait_for("podtui stop")
    machine.terminal.kill()


def test_a_killed_agent_of_this_screen_is_restarted(machine: Machine) -> None:
    machine.write("web.yaml", POD.replace("NAME", "web"))
    machine.screen(100, 30)
    machine.terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    killed = agent_pid(machine)
    os.kill(killed, signal.SIGKILL)
    machine.terminal.wait_for(r"STALE since \d\d:\d\d:\d\d")
    machine.terminal.wait_gone(r"STALE")
    assert agent_pid(machine) != killed


def test_a_key_restarts_a_killed_agent_as_it_was(machine: Machine) -> None:
    machine.write("web.yaml", POD.replace("NAME", "web"))
    start_agent(machine)
    machine.screen(100, 30)
    machine.terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    killed = agent_pid(machine)
    os.kill(killed, signal.SIGKILL)
    machine.terminal.wait_for(r"STALE since \d\d:\d\d:\d\d \(\d+s ago\).*\^t restarts the agent")
    first = machine.terminal.screen()
    machine.terminal.wait_for(r"STALE since .*\([3-9]s ago\)")
    row = re.compile(r"^│[ ▌]web-n1.*", re.MULTILINE)
    assert row.findall(first) == row.findall(machine.terminal.screen()), "ages do not change"
    machine.terminal.keys("C-t")
    machine.terminal.wait_gone(r"STALE")
    assert agent_pid(machine) != killed


def test_a_stopped_agent_stays_stopped(machine: Machine) -> None:
    machine.write("web.yaml", POD.replace("NAME", "web"))
    machine.screen(100, 30)
    machine.terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    machine.run("stop")
    machine.terminal.wait_for(r"STALE since .*\([5-9]s ago\)")
    assert agent_pid(machine) == 0


def test_the_agent_is_switched_to_another_folder(machine: Machine, tmp_path: Path) -> None:
    machine.write("web.yaml", POD.replace("NAME", "web"))
    start_agent(machine)
    other_folder = tmp_path / "wild"
    other_folder.mkdir()
    (other_folder / "cat.yaml").write_text(POD.replace("NAME", "cat"))
    terminal = machine.terminal
    machine.screen(120, 30, str(other_folder), cwd=tmp_path)
    terminal.wait_for(r"Switch the agent to another folder\?")
    shown = terminal.wait_for(r"watches ./wild instead of ./static_pods")
    assert "web-n1  terminates (up to 1 s)" in shown
    terminal.keys("Escape")
    terminal.wait_for(r"folder ./static_pods  ▲ not ./wild")
    terminal.wait_for(r"web-n1\s+1/1\s+● Running")
    terminal.keys("C-t")
    terminal.wait_for(r"Switch the agent to another folder\?")
    terminal.keys("y")
    terminal.wait_for(r"cat-n1\s+1/1\s+● Running")
    terminal.wait_gone(r"web-n1\s+1/1")
    terminal.wait_gone(r"▲ not")
    terminal.wait_for(r"folder ./wild")
    wait_until(lambda: agent_pid(machine), "the agent's record")
    assert json.loads((machine.root / "podtui.lock").read_text())["staticPodPath"] == str(
        other_folder
    )
    assert (machine.folder / "web.yaml").exists()
