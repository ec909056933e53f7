"""The cost of an idle screen with pods of which only the usage changes.

Ages advance each second at first, and each minute once they exceed ten minutes: both cases are
measured.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import agent as agents
from benchmarks.report import Row, row
from benchmarks.terminal import SCREEN, Terminal, screen_environment, terminal
from benchmarks.worlds import world

PODS: Final = 50
REST: Final = 10.0
"""Seconds until a newly opened screen is idle."""
_SLEPT: Final = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)
AGES: Final = (("seconds old", 0.0), ("older than ten minutes", 660.0))


@dataclass(frozen=True, slots=True)
class Cost:
    """``cpu`` in percent of one core, ``memory`` in MB of RSS; ``wakes`` is how often its
    threads went to sleep in a second, ``drawn`` the bytes that it printed in one."""

    cpu: float
    memory: float
    wakes: float
    drawn: float


def _wakes(pid: int) -> int:
    """Return how often its threads went to sleep so far, which equals the number of wake-ups."""
    every = Path(f"/proc/{pid}/task").glob("*/status")
    return sum(int(_SLEPT.findall(one.read_text())[0]) for one in every)


def _cost(shown: Terminal, seconds: float) -> Cost:
    """Its output is read continuously."""
    watched = shown.process.pid
    stop = threading.Event()
    drawn = 0

    def read() -> None:
        nonlocal drawn
        while not stop.is_set():
            drawn += len(shown.read(0.2))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        before, begin = _wakes(watched), time.monotonic()
        cpu, memory = agents.cpu_and_memory(watched, seconds)
        took = time.monotonic() - begin
        return Cost(cpu, memory, (_wakes(watched) - before) / took, drawn / took)
    finally:
        stop.set()
        reader.join()


def _measured(age: float, seconds: float) -> Cost:
    with (
        world(pods=PODS, age=age) as found,
        terminal(SCREEN, screen_environment(found.root)) as shown,
    ):
        shown.drain(REST)
        cost = _cost(shown, seconds)
        if shown.process.poll() is not None:
            raise RuntimeError("the screen has ended")
        return cost


def measure(*, quick: bool) -> list[Row]:
    """Measure with pods that exist only as records; the screen is the real program."""
    rows: list[Row] = []
    for words, age in AGES:
        costs = [_measured(age, 10) for _ in range(1 if quick else 3)]
        what = f"screen idle, {PODS} pods {words}"
        rows += [
            row(f"{what}: CPU", [cost.cpu for cost in costs], "% of a core", bound=1.5),
            row(f"{what}: wake-ups", [cost.wakes for cost in costs], "a second"),
            row(f"{what}: printed", [cost.drawn for cost in costs], "bytes/s"),
            row(f"{what}: RSS", [cost.memory for cost in costs], "MB", bound=120),
        ]
    return rows
