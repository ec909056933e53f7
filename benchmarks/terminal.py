"""A program on its own terminal: key input, and its output."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import psutil

_CONTROL = re.compile(rb"\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>]")
READ = 1 << 18


class TooSlow(Exception):
    """Raised after a timeout; the text contains the end of the output."""


def plain(drawn: bytes) -> bytes:
    """Return the output without colours and positions; adjacent letters stay together."""
    return _CONTROL.sub(b"", drawn)


class Terminal:
    """``size`` is (columns, rows)."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        size: tuple[int, int],
        cwd: Path | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (size[1], size[0]))
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**environment, "TERM": "xterm-256color", "COLORTERM": "truecolor"},
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def send(self, keys: bytes) -> float:
        """Return the time of sending."""
        now = time.monotonic()
        os.write(self._master, keys)
        return now

    def read(self, seconds: float) -> bytes:
        """Return the next output; empty after a timeout, or if the program has ended."""
        if not select.select([self._master], [], [], seconds)[0]:
            return b""
        try:
            return os.read(self._master, READ)
        except OSError:
            return b""

    def drain(self, seconds: float) -> bytes:
        """Return all output of the next seconds."""
        found = bytearray()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            found += self.read(left)
        return bytes(found)

    def until(self, wanted: re.Pattern[bytes], seconds: float = 30) -> tuple[float, bytes]:
        """Read until ``wanted`` is in the new output; return its time and the output. Raises
        `TooSlow`."""
        found = b""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            found += self.read(left)
            if wanted.search(plain(found)):
                return time.monotonic(), found
        raise TooSlow(f"{wanted.pattern!r} is not drawn: {plain(found)[-600:]!r}")

    def memory(self) -> float:
        """Return the RSS in MB of the program and its children."""
        process = psutil.Process(self.process.pid)
        every = [process, *process.children(recursive=True)]
        return sum(one.memory_info().rss for one in every) / 1e6

    def processor(self) -> float:
        """Return the CPU seconds of all its threads; a busy machine adds little to them."""
        spent = 0
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            # A thread may end in the meantime.
            with contextlib.suppress(OSError):
                spent += int((thread / "schedstat").read_text().split()[0])
        return spent / 1e9

    def close(self) -> None:
        """Kill the program."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        os.close(self._master)


@contextlib.contextmanager
def terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    size: tuple[int, int] = (120, 36),
    cwd: Path | None = None,
) -> Generator[Terminal]:
    """Run a program that is killed at the end."""
    shown = Terminal(command, environment, size, cwd)
    try:
        yield shown
    finally:
        shown.close()


def screen_environment(root: Path) -> dict[str, str]:
    """Return the environment of a ``podtui`` that finds its agent in ``root`` and no user
    settings."""
    return {
        **os.environ,
        "PODTUI_ROOT_DIR": str(root),
        "PODTUI_STATIC_POD_PATH": str(root),
        "PODTUI_ENGINE": "memory",
        "XDG_CONFIG_HOME": str(root),
        "XDG_STATE_HOME": str(root),
    }


SCREEN = (sys.executable, "-m", "podtui")
