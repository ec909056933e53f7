"""The real program on a real terminal: tmux draws, types and reads the screen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PODTUI = [sys.executable, "-m", "podtui"]


def wait_until(condition: Callable[[], object], what: str, timeout: float = 30.0) -> None:
    """Poll until ``condition`` holds; fails with ``what`` otherwise."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"not within {timeout:.0f} s: {what}")
        time.sleep(0.05)


class Terminal:
    """One tmux server of our own with one window of a fixed size."""

    def __init__(self, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(socket), "-f", "/dev/null"]

    def start(
        self, command: list[str], *, columns: int, rows: int, env: Mapping[str, str], cwd: Path
    ) -> None:
        exports = [f"{key}={value}" for key, value in env.items()]
        self._call(
            "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(cwd),
            "env", *exports, *command,
        )  # fmt: skip
        self._call("set-option", "-g", "remain-on-exit", "on")

    def _call(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], capture_output=True, text=True, timeout=20, check=False
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names (``Enter``, ``Escape``, ``C-c``, ``q``)."""
        self._call("send-keys", *keys)

    def type(self, text: str) -> None:
        self._call("send-keys", "-l", text)

    def screen(self) -> str:
        return self._call("capture-pane", "-p")

    def see(self, pattern: str, timeout: float = 30.0) -> str:
        """Wait until the screen matches ``pattern``; returns the screen."""
        deadline = time.monotonic() + timeout
        while True:
            shown = self.screen()
            if re.search(pattern, shown, re.MULTILINE):
                return shown
            if time.monotonic() > deadline:
                pytest.fail(f"not seen within {timeout:.0f} s: {pattern!r}\n{shown}")
            time.sleep(0.05)

    def see_no(self, pattern: str, timeout: float = 30.0) -> str:
        deadline = time.monotonic() + timeout
        while True:
            shown = self.screen()
            if not re.search(pattern, shown, re.MULTILINE):
                return shown
            if time.monotonic() > deadline:
                pytest.fail(f"still seen after {timeout:.0f} s: {pattern!r}\n{shown}")
            time.sleep(0.05)

    def kill(self) -> None:
        self._call("kill-server")


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

    def run(self, *arguments: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PODTUI, *arguments],
            env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def screen(self, columns: int, rows: int, *arguments: str) -> None:
        self.terminal.start(
            [*PODTUI, *arguments], columns=columns, rows=rows, env=self.env, cwd=ROOT
        )

    def write(self, name: str, text: str) -> Path:
        """Put a manifest there the safe way: written beside, then renamed."""
        hidden = self.folder / f".{name}.new"
        hidden.write_text(text)
        return hidden.rename(self.folder / name)
