"""One run of a program: its own seconds since the start, its log, how it ended."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Literal

from podtui.runtime.memory.behaviour import KILLED, Actor, Endless, Exit, Pause, Say
from podtui.runtime.protocol import LogLine

KEPT_LINES: Final = 10_000
OLDER_LINES: Final = "Older lines are gone: the simulated engine keeps the last"
# An endless program that nobody looked at for longer than this goes on from here: what it would
# have said before is taken as rolled out of its log.
MAX_LAG: Final = 3600.0
# A program that says this much without a pause is stopped from spinning.
MAX_STEPS: Final = 20_000


def rfc3339(moment: datetime) -> str:
    """With nanoseconds, as an engine writes it."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}000Z"


class Process:
    """A program being run. ``elapsed`` is always seconds since ``started_at``."""

    def __init__(self, actor: Actor, started_at: datetime, *, keep: int = KEPT_LINES) -> None:
        self._actor = actor
        self._started_at = started_at
        self._programs = [actor.main()]
        self._cuttable = False
        self._keep = keep
        self._lines: deque[LogLine] = deque(maxlen=keep)
        self.next_at = 0.0
        """When it goes on."""
        self.endless = False
        self.written = 0
        """How many lines it has ever written; the newest are kept."""
        self.exit: Exit | None = None
        self.exited_after = 0.0

    @property
    def due(self) -> float | None:
        """When somebody must advance it at the latest; None when it can wait for a reader."""
        if self.exit is not None:
            return None
        ends_at = self._actor.ends_at
        if self.endless:
            return ends_at
        soonest = self.next_at if ends_at is None else min(self.next_at, ends_at)
        return None if math.isinf(soonest) else soonest

    @property
    def wakes_at(self) -> float:
        """When it does or says something next; infinite when never."""
        if self.exit is not None:
            return math.inf
        ends_at = self._actor.ends_at
        return self.next_at if ends_at is None else min(self.next_at, ends_at)

    def step(self, elapsed: float) -> None:
        """Go on until its next pause, if that is due by ``elapsed``."""
        if self.exit is not None or self.wakes_at > elapsed:
            return
        ends_at = self._actor.ends_at
        if ends_at is not None and ends_at <= self.next_at:
            self._end(self._actor.end, ends_at)
            return
        if self.endless and elapsed - self.next_at > MAX_LAG:
            self.next_at = elapsed - MAX_LAG
        self._go_on()

    def _go_on(self) -> None:
        for _ in range(MAX_STEPS):
            try:
                step = next(self._programs[-1])
            except StopIteration as stop:
                ended: Exit | None = stop.value
                if ended is not None:
                    self._end(ended, self.next_at)
                    return
                self._programs.pop()
                continue
            match step:
                case Say(text, stream):
                    self._write(text, stream, self.next_at)
                case Endless():
                    self.endless = True
                case Pause(seconds, interruptible):
                    self.next_at += max(seconds, 0.0)
                    self._cuttable = interruptible
                    return
        self.next_at += 1.0

    def terminate(self, elapsed: float) -> None:
        """Deliver the stop signal."""
        if self.exit is not None:
            return
        reaction = self._actor.terminate()
        if reaction is None:
            return
        if isinstance(reaction, Exit):
            self._end(reaction, elapsed)
            return
        self.endless = False
        self._programs.append(reaction)
        if self._cuttable:
            self.next_at = elapsed

    def kill(self, elapsed: float, code: int = KILLED, *, oom: bool = False) -> None:
        """End it at once."""
        if self.exit is None:
            self._end(Exit(code, oom), elapsed)

    def say(self, text: str, stream: Literal["stdout", "stderr"], elapsed: float) -> None:
        """Put a line into its log from outside."""
        self._write(text, stream, elapsed)

    def lines_from(self, number: int) -> Iterator[LogLine]:
        """Kept lines from the ``number``-th ever written on."""
        skipped = max(0, len(self._lines) - (self.written - number))
        gap = f"{OLDER_LINES} {self._keep:,}" if self.first_kept > number else ""
        for index in range(skipped, len(self._lines)):
            line = self._lines[index]
            yield replace(line, gap=gap) if gap else line
            gap = ""

    @property
    def first_kept(self) -> int:
        return self.written - len(self._lines)

    def _write(self, text: str, stream: Literal["stdout", "stderr"], at: float) -> None:
        moment = self._started_at + timedelta(seconds=at)
        stamp = rfc3339(moment)
        self._lines.append(LogLine(timestamp=stamp, stream=stream, content=text.encode()))
        self.written += 1

    def _end(self, how: Exit, elapsed: float) -> None:
        self.exit = how
        self.exited_after = elapsed
        for program in self._programs:
            program.close()
        self._programs.clear()
