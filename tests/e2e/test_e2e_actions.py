"""Actions on a real terminal: the editor and a shell use it, then the screen returns."""

from __future__ import annotations

import stat

import pytest
from tmux_harness import Machine, wait_until

pytestmark = [
    pytest.mark.parametrize("machine", ["memory"], indirect=True),
]

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: ticker
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: busybox:1.36
      command: ["sh", "-c", "n=0; while :; do n=$((n + 1)); echo tick $n; sleep 1; done"]
"""
EDITOR = """\
#!/bin/sh
echo "the editor has the terminal"
read -r answer < /dev/tty
sed -i "s/name: app/name: $answer/" "$1"
"""


def test_an_edit_a_delete_and_an_undo(machine: Machine) -> None:
    script = machine.root.parent / "editor.sh"
    script.write_text(EDITOR)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    machine.env["PODTUI_EDITOR"] = f"'{script}'"
    path = machine.write("ticker.yaml", POD)
    machine.screen(100, 30)
    terminal = machine.terminal
    terminal.wait_for(r"ticker-\S+ +1/1 +● Running")
    terminal.keys("e")
    terminal.wait_for("the editor has the terminal")
    # The screen does not draw on the terminal while the editor uses it.
    assert "Running" not in terminal.screen()
    terminal.type("teller")
    terminal.keys("Enter")
    terminal.wait_for(r"Plan for ticker\.yaml")
    terminal.wait_for(r"containers\[0\]")
    assert path.read_text() == POD
    terminal.keys("y")
    terminal.wait_for(r"ticker\.yaml applied")
    assert "name: teller" in path.read_text()
    # Wait for the new pod: while the old one is replaced, there is none to delete.
    terminal.wait_for(r"› teller")
    terminal.wait_for(r"ticker-\S+ +1/1 +● Running")
    terminal.wait_for("simulated: busybox:1.36 sh -c")
    terminal.keys("C-d")
    terminal.wait_for(r"\[ Cancel \]")
    terminal.keys("y")
    wait_until(lambda: not path.exists(), "the file is in the trash")
    terminal.wait_gone(r"ticker-\S+ +1/1")
    terminal.keys("u")
    wait_until(path.exists, "the file is back")
    terminal.wait_for(r"ticker-\S+ +1/1 +● Running")
