"""A program in tmux, the same terminal for all programs."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import psutil

from benchmarks.terminal import TooSlow

POLL_SECONDS = 0.02
"""Seconds between two polls: the resolution of the times."""


class Pane:
    """One program; ``began`` is its start time."""

    def __init__(self, socket: str, pid: int, began: float) -> None:
        self._tmux = ("tmux", "-S", socket)
        self.pid = pid
        self.began = began

    def _run(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=False)
        return done.stdout

    def shown(self) -> str:
        return self._run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names."""
        for key in keys:
            self._run("send-keys", key)

    def type(self, text: str) -> None:
        self._run("send-keys", "-l", "--", text)

    def until(self, wanted: str, seconds: float = 120) -> float:
        """Return the time when ``wanted`` is on the screen. Raises `TooSlow`."""
        pattern = re.compile(wanted)
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            if pattern.search(self.shown()):
                return now
            time.sleep(POLL_SECONDS)
        raise TooSlow(f"{wanted!r} is not shown: {self.shown()}")

    def memory(self) -> float:
        """Return the RSS in MB of the program and its children."""
        process = psutil.Process(self.pid)
        every = [process, *process.children(recursive=True)]
        return sum(one.memory_info().rss for one in every) / 1e6


@contextlib.contextmanager
def pane(
    command: Sequence[str], environment: Mapping[str, str], cwd: Path, size: tuple[int, int]
) -> Generator[Pane]:
    """Run a program in a separate tmux server, which is ended with it."""
    with tempfile.TemporaryDirectory(prefix="podtui-bench-") as base:
        yield from _pane(f"{base}/tmux", command, environment, cwd, size)


def _pane(
    socket: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    cwd: Path,
    size: tuple[int, int],
) -> Generator[Pane]:
    tmux = ["tmux", "-S", socket, "-f", os.devnull]
    began = time.monotonic()
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(cwd),
         f"exec {shlex.join(command)}"],
        env={**environment, "TERM": "xterm-256color"}, check=True,
    )  # fmt: skip
    try:
        listed = subprocess.run(
            [*tmux, "display-message", "-p", "#{pane_pid}"], capture_output=True, check=True
        )
        shown = psutil.Process(int(listed.stdout))
        yield Pane(socket, shown.pid, began)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
    with contextlib.suppress(psutil.NoSuchProcess):
        shown.wait(30)
