"""The first steps of a new user, on the real engine (docs/architecture.md): add a manifest,
watch the pod run, edit, break, fix and remove it."""

from __future__ import annotations

import json
import re

import pytest
from tmux_harness import Machine

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: hello
spec:
  terminationGracePeriodSeconds: 3
  containers:
    - name: app
      image: busybox:1.36
      imagePullPolicy: IfNotPresent
      command: ["sh", "-c", "trap 'exit 0' TERM; echo greeting-WORD; sleep 3600 & wait $!"]
"""


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60)])
def test_add_edit_break_fix_remove(machine: Machine, columns: int, rows: int) -> None:
    terminal = machine.terminal
    machine.screen(columns, rows)
    terminal.wait_for(r"(?i)put a pod manifest")

    machine.write("hello.yaml", MANIFEST.replace("WORD", "one"))
    terminal.wait_for(r"hello-n1\s+.*1/1.*Running")
    terminal.keys("3")
    terminal.wait_for("greeting-one")

    machine.write("hello.yaml", MANIFEST.replace("WORD", "two"))
    terminal.wait_for("greeting-two")

    machine.write("hello.yaml", MANIFEST.replace("WORD", "two").replace("image:", "imago:"))
    terminal.wait_for(r"hello\.yaml:9:7")
    assert re.search(r"hello-n1\s+.*1/1.*Running", terminal.screen()), "the last good one runs"

    machine.write("hello.yaml", MANIFEST.replace("WORD", "two"))
    terminal.wait_gone(r"hello\.yaml:9:7")
    assert "hello-n1" in terminal.screen()

    (machine.folder / "hello.yaml").unlink()
    terminal.wait_for(r"(?i)put a pod manifest")
    terminal.keys("1", "q")
    terminal.wait_for(r"keeps running the pods of")

    status = machine.run("status", "-o", "json")
    assert status.returncode == 0
    document = json.loads(status.stdout)
    assert [item["kind"] for item in document["items"]] == ["Node"]
    assert machine.run("stop").returncode == 0
    assert machine.run("status").returncode == 3
