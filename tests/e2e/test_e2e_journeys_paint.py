"""The output to the terminal: all frames have the same layout while pods come, change and go,
and small changes cause little output."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from pty_terminal import Frame, Model, PtyTerminal
from tmux_harness import PODTUI, Machine, Terminal

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: NAME
spec:
  terminationGracePeriodSeconds: 1
  containers:
    - name: app
      image: busybox:1.36
      command: ["sleep", "999"]
"""
CORNERS = "╭╮╰╯"
TITLES = "NAME|READY|STATUS|RESTARTS|CPU|MEM|IP|AGE"


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, Terminal(tmp_path / "tmux.sock"), "memory")
    for number in range(4):
        machine.write(f"pod{number}.yaml", POD.replace("NAME", f"pod{number}"))
    try:
        yield machine
    finally:
        machine.run("down", "--yes")


@pytest.fixture
def terminal(machine: Machine, size: tuple[int, int]) -> Iterator[PtyTerminal]:
    columns, rows = size
    terminal = PtyTerminal(PODTUI, columns=columns, rows=rows, env=machine.env, cwd=machine.folder)
    try:
        terminal.wait_for(r"pod3-n1 +1/1 +● Running")
        terminal.wait_for("3 Logs · pod0-n1 › app")
        # Longer than the agent takes to report the new node by an event, which changes a list.
        terminal.read(7)
        yield terminal
    finally:
        terminal.close()


def layout(frame: Frame) -> dict[str, object]:
    """Return the parts that must not move: corners of frames, pane titles, pod columns, both
    ends of the header, the keys and the status.
    """
    lines = frame.lines
    titles = next((line for line in lines if " NAME" in line), "")
    return {
        "corners": [(y, x) for y, line in enumerate(lines) for x, c in enumerate(line)
                    if c in CORNERS],
        "panes": [(y, m.start()) for y, line in enumerate(lines)
                  for m in re.finditer("1 Pods|2 Events", line)],
        "columns": [(m.group(), m.start()) for m in re.finditer(TITLES, titles)],
        "header": lines[0][:9],
        "keys": re.findall(r" : Command +m Menu +\? Help +q Quit *$", lines[-2]),
        "status": lines[-1],
    }  # fmt: skip


def frames_of(terminal: PtyTerminal, action: Callable[[], None]) -> list[Frame]:
    """Return the frames painted by an action, preceded by the frame before it."""
    first = len(terminal.frames) - 1
    action()
    assert len(terminal.frames) > first + 1, "nothing was painted"
    return terminal.frames[first:]


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_the_layout_is_stable_and_output_is_small(
    machine: Machine, terminal: PtyTerminal, size: tuple[int, int]
) -> None:
    whole = max(frame.size for frame in frames_of(terminal, lambda: press(terminal, "\x12")))
    # Long enough for another poll of the pods' usage, which does not change.
    frames = frames_of(terminal, lambda: terminal.read(4))
    check_output(frames, whole)

    frames = frames_of(terminal, lambda: change_pods(machine, terminal))
    assert len(frames) > 5
    assert (len(frames[0].lines[0]), len(frames[0].lines)) == size
    wanted = layout(frames[0])
    assert all(wanted.values()), wanted
    for frame in frames:
        assert layout(frame) == wanted, frame.text

    # In the node pane only figures of usage change with time.
    press(terminal, "4+")
    terminal.wait_for(r"4 Node")
    terminal.read(1)
    first = len(terminal.frames) - 1
    terminal.read(3)
    for change in check_output(terminal.frames[first:], whole):
        assert re.search(r"\d%|\dMi", change), change
    assert not terminal.model.strange


def check_output(frames: list[Frame], whole: int) -> list[str]:
    """Check that the output of each frame is in proportion to its changed lines, compared with the
    output of a whole screen. Return the changes."""
    changes: list[str] = []
    for before, after in pairwise(frames):
        changed = differences(before, after)
        assert changed, "a frame was painted for nothing"
        share = len(changed) / len(after.lines)
        assert after.size < 2.5 * share * whole, "\n".join(changed)
        changes += changed
    return changes


def change_pods(machine: Machine, terminal: PtyTerminal) -> None:
    """Add a pod, change one, remove one."""
    machine.write("pod4.yaml", POD.replace("NAME", "pod4"))
    terminal.wait_for(r"pod4-n1 +1/1 +● Running")
    machine.write("pod0.yaml", POD.replace("NAME", "pod0").replace("name: app", "name: two"))
    terminal.wait_for("3 Logs · pod0-n1 › two")
    terminal.wait_for(r"pod0-n1 +1/1 +● Running")
    (machine.folder / "pod2.yaml").unlink()
    terminal.until(lambda: not re.search(r"^│[ ▌]pod2-n1 ", terminal.screen, re.MULTILINE),
                   "pod2 is gone")  # fmt: skip


def differences(before: Frame, after: Frame) -> list[str]:
    """Return the changed lines."""
    pairs = zip(before.lines, after.lines, strict=True)
    return [f"- {old}\n+ {new}" for old, new in pairs if old != new]


def press(terminal: PtyTerminal, keys: str) -> None:
    for key in keys:
        terminal.keys(key)
        terminal.read(1)


def test_the_terminal_model_agrees_with_tmux(tmp_path: Path) -> None:
    """After the same output, the model and tmux show the same screen."""
    if shutil.which("tmux") is None:
        pytest.fail("tmux is not installed: these tests drive the program in it")
    text = "\x1b[?2026h\x1b[2J\x1b[3;4Hab\x1b[31mcd\x1b[0m 日本\x1b[1;78H123\x1b[?2026l"
    model = Model(80, 24)
    for character in text:
        model.feed(character)
    terminal = Terminal(tmp_path / "tmux.sock")
    script = tmp_path / "text"
    script.write_text(text)
    try:
        terminal.start(["sh", "-c", f"cat {script}; read x"], columns=80, rows=24, env={},
                       cwd=tmp_path)  # fmt: skip
        shown = terminal.wait_for("abcd")
    finally:
        terminal.kill()
    drawn = "\n".join(line.rstrip() for line in model.frames[-1].lines)
    assert drawn.rstrip() == shown.rstrip()
