"""A pseudo-terminal around the real program: every frame that it paints, and its output.

Like current terminals, it reports support for synchronised output (mode 2026). The program then
brackets each frame; output outside of the brackets must not draw anything.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.cells import cell_len

SEQUENCE = re.compile(
    r"\x1b\[(?P<mark>[?>=<]?)(?P<numbers>[0-9;:]*)(?P<between>[ $]?)(?P<final>[@-~])"
    r"|\x1b\](?P<command>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    r"|\x1bP[^\x1b]*\x1b\\"
    r"|\x1b(?P<short>[=>78cM])"
)
BEGIN, END = "2026h", "2026l"
MODE_QUERY = "2026$p"
ANSWER = b"\x1b[?2026;2$y"


@dataclass(frozen=True, slots=True)
class Frame:
    """The screen after one update, and how many bytes the update took."""

    lines: tuple[str, ...]
    size: int

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


@dataclass
class Model:
    """The terminal features that the program uses; ``strange`` lists others that it used."""

    columns: int
    rows: int
    strange: set[str] = field(default_factory=set[str])
    frames: list[Frame] = field(default_factory=list[Frame])
    queried: bool = False

    def __post_init__(self) -> None:
        self._cells = [[" "] * self.columns for _ in range(self.rows)]
        self._x = self._y = 0
        self._rest = ""
        self._inside = False
        self._size = 0

    def feed(self, text: str) -> None:
        """Process output; an incomplete sequence waits for the rest."""
        text = self._rest + text
        self._rest = ""
        place = 0
        while place < len(text):
            if text[place] != "\x1b":
                end = text.find("\x1b", place)
                end = len(text) if end < 0 else end
                self._draw(text[place:end])
                place = end
                continue
            match = SEQUENCE.match(text, place)
            if match is None:
                self._rest = text[place:]
                return
            self._size += match.end() - match.start()
            self._obey(match)
            place = match.end()

    def _obey(self, match: re.Match[str]) -> None:
        final = match["final"]
        if final is None:
            return
        numbers, mark = match["numbers"], match["mark"]
        if mark == "?":
            name = numbers + match["between"] + final
            self.queried |= name == MODE_QUERY
            if name == BEGIN:
                self._inside, self._size = True, 0
            elif name == END:
                self._inside = False
                self.frames.append(Frame(self.lines, self._size))
        elif final == "H":
            row, _, column = numbers.partition(";")
            self._y, self._x = int(row or 1) - 1, int(column or 1) - 1
        elif final == "J":
            self._cells = [[" "] * self.columns for _ in range(self.rows)]
        elif final not in "mtuqnch" and not mark:
            self.strange.add(match.group())

    def _draw(self, text: str) -> None:
        # Brackets begin after the terminal's answer; on a busy machine the program paints earlier.
        if text and not self._inside and self.frames:
            self.strange.add(text[:40])
        self._size += len(text.encode())
        for character in text:
            if character == "\n":
                self._y, self._x = self._y + 1, 0
            elif character == "\r":
                self._x = 0
            elif (width := cell_len(character)) and self._y < self.rows:
                for n in range(width):
                    if self._x + n < self.columns:
                        self._cells[self._y][self._x + n] = "" if n else character
                self._x += width

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple("".join(row) for row in self._cells)


class PtyTerminal:
    """A program on a pseudo terminal of a fixed size."""

    def __init__(
        self, command: Sequence[str], *, columns: int, rows: int, env: Mapping[str, str], cwd: Path
    ) -> None:
        self.model = Model(columns, rows)
        self.written = 0
        """The number of bytes received."""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            command, env=dict(env), cwd=cwd, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    @property
    def frames(self) -> list[Frame]:
        return self.model.frames

    @property
    def screen(self) -> str:
        return "\n".join(self.model.lines)

    def read(self, seconds: float) -> None:
        """Read the output of the next seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if not select.select([self._master], [], [], left)[0]:
                return
            try:
                data = os.read(self._master, 1 << 16)
            except OSError:
                pytest.fail(f"the program ended:\n{self.screen}")
            self.written += len(data)
            queried = self.model.queried
            self.model.feed(self._decoder.decode(data))
            if self.model.queried and not queried:
                os.write(self._master, ANSWER)

    def wait_for(self, pattern: str, timeout: float = 120.0) -> str:
        """Read until the screen matches; return the screen."""
        self.until(lambda: re.search(pattern, self.screen, re.MULTILINE), repr(pattern), timeout)
        return self.screen

    def until(self, condition: Callable[[], object], what: str, timeout: float = 120.0) -> None:
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"not within {timeout:.0f} s: {what}\n{self.screen}")
            self.read(0.05)

    def keys(self, text: str) -> None:
        os.write(self._master, text.encode())

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(120)
        os.close(self._master)
