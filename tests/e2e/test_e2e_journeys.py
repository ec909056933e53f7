"""From a pod in a crash loop to a ready one, with its log saved and a delete undone: only by
keys and only by mouse, on narrow, normal and wide terminals, on the real engine."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from tmux_harness import Machine, Terminal, wait_until

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
      imagePullPolicy: IfNotPresent
      command: COMMAND
"""
SCRIPT = "for n in 1 2 3; do echo did item $n; done; exec sleep 999"
BROKEN = f'["{SCRIPT}"]'
FIXED = f'["sh", "-c", "{SCRIPT}"]'
CAUSE = f"app cannot start: there is no program {SCRIPT} in the image busybox:1.36."
WHY = "The whole line was used as the program's name: each word must be an item of the list."
EVIDENCE = "executable file not found in $PATH"
READY = r"^│[ ▌]worker-n1 +1/1 +● Running"
LOOPS = r"^│[ ▌](worker-n1) +0/1 +✖ CrashLoopBackOff"


def manifest(name: str, command: str) -> str:
    return POD.replace("NAME", name).replace("COMMAND", command)


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One agent with three pods for all journeys; each journey has its own terminal."""
    if shutil.which("tmux") is None:
        pytest.fail("tmux is not installed: these tests drive the program in it")
    base = tmp_path_factory.mktemp("journeys")
    machine = Machine(base, Terminal(base / "tmux.sock"), "auto")
    for name in ("quiet", "ticker"):
        machine.write(f"{name}.yaml", manifest(name, '["sleep", "999"]'))
    try:
        yield machine
    finally:
        machine.terminal.kill()
        machine.run("down", "--yes")


@pytest.fixture
def journey(workshop: Machine, tmp_path: Path, size: tuple[int, int]) -> Iterator[Terminal]:
    """Open a terminal on the three pods, one of which was just broken."""
    terminal = workshop.terminal = Terminal(tmp_path / "tmux.sock")
    workshop.write("worker.yaml", manifest("worker", BROKEN))
    (tmp_path / "work").mkdir()
    workshop.screen(*size, cwd=tmp_path / "work")
    try:
        yield terminal
    finally:
        terminal.kill()
        # The sort order is saved: the next journey would reverse it.
        shutil.rmtree(workshop.root.parent / ".local" / "state" / "podtui", ignore_errors=True)


class UserActions(Protocol):
    """The user's action at each step."""

    def find(self) -> None:
        """Sort or filter failing pods to the top, and select the pod."""

    def explain(self) -> None:
        """Open why from the pods."""

    def apply_fix(self) -> None:
        """Apply the shown fix."""

    def back(self) -> None:
        """Go back to all the pods."""

    def save_log(self) -> None:
        """Write the selected pod's log to a file."""

    def delete(self) -> None:
        """Ask to delete the pod."""

    def confirm(self) -> None:
        """Confirm the dialog."""

    def undo(self) -> None:
        """Undo the delete."""

    def leave(self) -> None:
        """Close the screen."""


class Keys:
    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def find(self) -> None:
        self.terminal.keys("C-z")
        self.terminal.wait_for("1 Pods · 1 of 3 · ▲ unhealthy only")

    def explain(self) -> None:
        self.terminal.keys("X")

    def apply_fix(self) -> None:
        self.terminal.keys("f")
        self.terminal.wait_for("Apply and replace worker-n1")
        self.terminal.keys("y")

    def back(self) -> None:
        self.terminal.keys("q")
        self.terminal.wait_for("unhealthy only")
        self.terminal.keys("Escape")
        self.terminal.wait_for(r"1 Pods · 3\b")
        self.terminal.keys("g", "/")
        self.terminal.wait_for(r"^ / ")
        self.terminal.type("worker")
        self.terminal.keys("Enter")
        self.terminal.wait_for(r"1 Pods · 1 of 3 · /worker")

    def save_log(self) -> None:
        self.terminal.keys("l")
        self.terminal.wait_for("did item 3")
        self.terminal.keys("C-s")

    def delete(self) -> None:
        self.terminal.keys("1", "C-d")

    def confirm(self) -> None:
        self.terminal.keys("y")

    def undo(self) -> None:
        self.terminal.keys("u")

    def leave(self) -> None:
        self.terminal.keys("q")


class Mouse:
    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def find(self) -> None:
        self.terminal.click(r"READY +(STATUS)")
        shown = self.terminal.wait_for(r"STATUS[↑↓]")
        rows = re.findall(r"^│[ ▌](\w+)-n1 +\d/\d", shown, re.MULTILINE)
        assert rows[0] == "worker", shown
        self.terminal.click(LOOPS)

    def explain(self) -> None:
        # The explanation, not the same words in the row of the pod.
        self.terminal.click(r"^[│╰]─? (app cannot start)")

    def apply_fix(self) -> None:
        self.terminal.click("f Apply the fix")
        self.terminal.click("(Apply and replace worker-n1)")

    def back(self) -> None:
        self.terminal.click("esc Back")
        self.terminal.click(READY.replace("worker-n1", "(worker-n1)"))

    def save_log(self) -> None:
        if not re.search("did item 3", self.terminal.screen()):
            self.terminal.click("3 Logs")
        self.terminal.click("did item 3", right=True)
        self._choose(r"│ [❯ ] \^s +(Save) ")

    def _choose(self, entry: str) -> None:
        """Click on an entry of the menu, scrolling if necessary."""
        self.terminal.wait_for("click or enter runs it")
        for _ in range(20):
            if re.search(entry, self.terminal.screen(), re.MULTILINE):
                break
            self.terminal.wheel("click or enter runs it", 1)
            time.sleep(0.2)
        self.terminal.click(entry)

    def delete(self) -> None:
        self.terminal.click(READY.replace("worker-n1", "(worker-n1)"), right=True)
        self._choose(r"│ [❯ ] \^d +(Delete) ")

    def confirm(self) -> None:
        self.terminal.click(r"y +(Delete worker-n1)")

    def undo(self) -> None:
        self.terminal.click("a (click here)")

    def leave(self) -> None:
        self.terminal.click("q Quit")


def words(shown: str) -> str:
    """Return the screen's text without frames, bars and line ends, to find wrapped text."""
    return " ".join(re.sub(r"[│╭╮╰╯─▌▏┃▁-█]", " ", shown).split())


def wait_for_texts(terminal: Terminal, *whole: str) -> str:
    """Wait until all these texts are on the screen, untruncated."""
    deadline = time.monotonic() + 30
    while missing := [each for each in whole if each not in words(terminal.screen())]:
        if time.monotonic() > deadline:
            pytest.fail(f"not shown: {missing}\n{terminal.screen()}")
        time.sleep(0.05)
    return checked(terminal)


def checked(terminal: Terminal) -> str:
    """Return the screen after checking its layout and that the key line is complete."""
    shown = terminal.wait_for(r"( \? Help( +q Quit)?\s*$)|(Traceback)")
    assert "Traceback" not in shown, shown
    return shown


@pytest.mark.parametrize("hands", [Keys, Mouse], ids=["keys", "mouse"])
@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)], ids=lambda s: f"{s[0]}x{s[1]}")
def test_find_explain_fix_save_delete_undo(
    workshop: Machine,
    journey: Terminal,
    size: tuple[int, int],
    hands: type[Keys] | type[Mouse],
    tmp_path: Path,
) -> None:
    terminal, path = journey, workshop.folder / "worker.yaml"
    hand: UserActions = hands(terminal)
    shown = terminal.wait_for(LOOPS)
    assert (max(map(len, shown.splitlines())), len(shown.splitlines())) == size
    for name in ("quiet", "ticker"):
        terminal.wait_for(rf"^│[ ▌]{name}-n1 +1/1 +● Running")
    hand.find()
    wait_for_texts(terminal, f"{CAUSE} X")

    hand.explain()
    shown = wait_for_texts(
        terminal, CAUSE, WHY, EVIDENCE, "worker.yaml:11 spec.containers[0].command",
        "Fix Run the line with a shell: sh -c", f"- command: {BROKEN}",
        f"+ command: {FIXED}", "f Apply the fix", "esc Back",
    )  # fmt: skip
    assert "…" not in shown, shown
    assert path.read_text() == manifest("worker", BROKEN)

    hand.apply_fix()
    wait_until(lambda: path.read_text() == manifest("worker", FIXED), "the fix is written")
    wait_for_texts(terminal, "● applied and verified: ", "(Run the line with a shell: sh -c)")
    hand.back()
    terminal.wait_for(READY)
    checked(terminal)

    hand.save_log()
    shown = wait_for_texts(terminal, "Saved 3 lines")
    (saved,) = (tmp_path / "work").iterdir()
    assert "".join(saved.name.split()) in "".join(words(shown).split()), shown
    lines = [line.split(" ", 1) for line in saved.read_text().splitlines()]
    assert [text for _, text in lines] == ["did item 1", "did item 2", "did item 3"]
    assert all(re.match(r"\d{4}-\d\d-\d\dT", stamp) for stamp, _ in lines)

    hand.delete()
    wait_for_texts(terminal, "Delete worker-n1?", "worker.yaml → .trash/", "worker-n1 is removed",
         "n [ Cancel ] y Delete worker-n1")  # fmt: skip
    assert path.exists()
    hand.confirm()
    wait_until(lambda: not path.exists(), "the manifest is in the trash")
    wait_for_texts(terminal, "worker.yaml moved to the trash")
    terminal.wait_gone(r"^│[ ▌]worker-n1 +\d/\d")
    hand.undo()
    wait_until(path.exists, "the manifest is back")
    terminal.wait_for(READY)
    assert path.read_text() == manifest("worker", FIXED)
    checked(terminal)
    hand.leave()
    terminal.wait_for("keeps running the pods of")
    assert "Traceback" not in terminal.screen()
