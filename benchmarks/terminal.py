"""A program on a terminal of its own: keys in, what it draws out."""

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
    """Raised when what is waited for is not drawn in time; the text has the end of what was."""


def plain(drawn: bytes) -> bytes:
    """What was drawn without colours and places; letters that stand together stay together."""
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
        """Returns the time of it."""
        now = time.monotonic()
        os.write(self._master, keys)
        return now

    def read(self, seconds: float) -> bytes:
        """What is drawn next; empty where nothing is in so many seconds, or the program ended."""
        if not select.select([self._master], [], [], seconds)[0]:
            return b""
        try:
            return os.read(self._master, READ)
        except OSError:
            return b""

    def drain(self, seconds: float) -> bytes:
        """All that is drawn in the next seconds."""
        found = bytearray()
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            found += self.read(left)
        return bytes(found)

    def until(self, wanted: re.Pattern[bytes], seconds: float = 30) -> tuple[float, bytes]:
        """Read until ``wanted`` is found in what is drawn from now on; (time of it, all of it).
        Raises `TooSlow`."""
        found = b""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            found += self.read(left)
            if wanted.search(plain(found)):
                return time.monotonic(), found
        raise TooSlow(f"{wanted.pattern!r} is not drawn: {plain(found)[-600:]!r}")

    def memory(self) -> float:
        """RSS in MB of the program and what it started."""
        process = psutil.Process(self.process.pid)
        every = [process, *process.children(recursive=True)]
        return sum(one.memory_info().rss for one in every) / 1e6

    def processor(self) -> float:
        """Seconds that all its threads had a processor for; a busy machine adds little to them."""
        spent = 0
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            # A thread may end meanwhile.
            with contextlib.suppress(OSError):
                spent += int((thread / "schedstat").read_text().split()[0])
        return spent / 1e9

    def close(self) -> None:
        """Kill it."""
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
    """A program that is killed in the end."""
    shown = Terminal(command, environment, size, cwd)
    try:
        yield shown
    finally:
        shown.close()


def screen_environment(root: Path) -> dict[str, str]:
    """That of a ``podtui`` which finds its agent in ``root`` and nothing of the user's."""
    return {
        **os.environ,
        "PODTUI_ROOT_DIR": str(root),
        "PODTUI_STATIC_POD_PATH": str(root),
        "PODTUI_ENGINE": "memory",
        "XDG_CONFIG_HOME": str(root),
        "XDG_STATE_HOME": str(root),
    }


SCREEN = (sys.executable, "-m", "podtui")
