"""The real program on a real terminal: tmux draws, types and reads the screen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from repository import ROOT
from rich.cells import cell_len

PODTUI = [sys.executable, "-m", "podtui"]


def wait_until(condition: Callable[[], object], what: str, timeout: float = 120.0) -> None:
    """Poll until ``condition`` is true; fail with ``what`` otherwise."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout:.0f} s: {what}")
        time.sleep(0.05)


def place_of(shown: str, pattern: str) -> tuple[int, int]:
    """Return column and row, from 1, of the middle of the first matching group, else of the
    whole match.
    """
    for row, line in enumerate(shown.splitlines(), start=1):
        match = re.search(pattern, line)
        if match is not None:
            start, end = match.span(1 if match.re.groups else 0)
            return cell_len(line[:start]) + (cell_len(line[start:end]) + 1) // 2, row
    pytest.fail(f"no line of the screen matches {pattern!r}:\n{shown}")


ENDED: Final = "Pane is dead ("


class Terminal:
    """A separate tmux server with one window of a fixed size."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]

    def start(
        self, command: list[str], *, columns: int, rows: int, env: Mapping[str, str], cwd: Path
    ) -> None:
        exports = [f"{key}={value}" for key, value in env.items()]
        self.call(
            "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(cwd),
            # A pytest plugin exports a terminal size, which the program would use.
            "env", "-u", "COLUMNS", "-u", "LINES", *exports, *command,
        )  # fmt: skip
        self.call("set-option", "-g", "remain-on-exit", "on")

    def call(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names (``Enter``, ``Escape``, ``C-c``, ``q``)."""
        self.call("send-keys", *keys)

    def type(self, text: str) -> None:
        self.call("send-keys", "-l", text)

    def screen(self) -> str:
        found = self.call("capture-pane", "-p", ";", "display-message", "-p", "#{pane_dead}")
        shown, _, dead = found.rstrip("\n").rpartition("\n")
        if ENDED in shown:
            # tmux scrolls by one line to report the end: the first line is in its history.
            return self.call("capture-pane", "-p", "-S", "-1")
        # tmux may report the end before the program's last output, which overwrites it.
        return f"{shown}\n{ENDED}" if dead == "1" else shown

    def wait_for(self, pattern: str, timeout: float = 120.0) -> str:
        """Wait until the screen matches ``pattern``; return the screen."""
        deadline = time.monotonic() + timeout
        while True:
            shown = self.screen()
            if re.search(pattern, shown, re.MULTILINE):
                return shown
            if time.monotonic() > deadline:
                pytest.fail(f"not seen within {timeout:.0f} s: {pattern!r}\n{shown}")
            time.sleep(0.05)

    def wait_gone(self, pattern: str, timeout: float = 120.0) -> str:
        deadline = time.monotonic() + timeout
        while True:
            shown = self.screen()
            if not re.search(pattern, shown, re.MULTILINE):
                return shown
            if time.monotonic() > deadline:
                pytest.fail(f"still seen after {timeout:.0f} s: {pattern!r}\n{shown}")
            time.sleep(0.05)

    # --- the mouse

    def click(self, pattern: str, *, right: bool = False, timeout: float = 120.0) -> str:
        """Wait until the screen matches ``pattern`` and is stable, and click in the middle of
        its first group or of the whole match; return the screen that was clicked on.
        """
        shown = self.wait_for(pattern, timeout)
        x, y = place_of(shown, pattern)
        while (x, y) != (place := self._place_soon(pattern, timeout)):
            x, y = place
        button = 2 if right else 0
        self.type(f"\x1b[<{button};{x};{y}M\x1b[<{button};{x};{y}m")
        return shown

    def _place_soon(self, pattern: str, timeout: float) -> tuple[int, int]:
        time.sleep(0.15)
        return place_of(self.wait_for(pattern, timeout), pattern)

    def wheel(self, pattern: str, lines: int) -> None:
        """Turn the wheel over ``pattern`` on the screen: down, or up if the number is negative."""
        x, y = place_of(self.wait_for(pattern), pattern)
        self.type(f"\x1b[<{65 if lines > 0 else 64};{x};{y}M" * abs(lines))

    def kill(self) -> None:
        """End the server, and wait for its end: a session started before it would end with it."""
        server = self.call("display-message", "-p", "#{pid}").strip()
        self.call("kill-server")
        if server:
            wait_until(lambda: not Path("/proc", server).exists(), "the end of tmux", 20)


class Machine:
    """A root directory, a folder of manifests and the commands on them."""

    def __init__(self, base: Path, terminal: Terminal, engine: str) -> None:
        self.root = base / "root"
        self.folder = base / "static_pods"
        self.folder.mkdir()
        self.terminal = terminal
        self.engine = engine
        self.env = {
            "PODTUI_ROOT_DIR": str(self.root),
            "PODTUI_STATIC_POD_PATH": str(self.folder),
            "PODTUI_NODE_NAME": "n1",
            "PODTUI_ENGINE": engine,
            "PODTUI_CONFIG": "",
            "XDG_CONFIG_HOME": str(base / "config"),
            "PATH": os.environ["PATH"],
            "HOME": str(base),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
        }

    def run(self, *arguments: str, timeout: float = 180.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PODTUI, *arguments],
            env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def screen(self, columns: int, rows: int, *arguments: str, cwd: Path = ROOT) -> None:
        self.terminal.start(
            [*PODTUI, *arguments], columns=columns, rows=rows, env=self.env, cwd=cwd
        )

    def write(self, name: str, text: str) -> Path:
        """Write a manifest beside its path and rename it."""
        hidden = self.folder / f".{name}.new"
        hidden.write_text(text)
        return hidden.rename(self.folder / name)
