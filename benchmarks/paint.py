"""The time from starting ``podtui`` to its first paint, and to the first pods."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import Row, row
from benchmarks.terminal import SCREEN, screen_environment, terminal
from benchmarks.worlds import world

PODS = 50
# The minimum that Textual can paint. The difference to podtui is podtui's own share.
LEAST = """\
from textual.app import App
from textual.widgets import Static

class Least(App):
    def compose(self):
        yield Static("Pods")

Least().run()
"""


def compiled(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return an environment with bytecode for all modules, as after an installation: this one
    may forbid writing it, which would slow down our modules but not Textual's."""
    kept = {key: value for key, value in environment.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


class Spent(NamedTuple):
    """In seconds."""

    clock: float
    processor: float


def _drawn(command: tuple[str, ...], environment: Mapping[str, str], wanted: bytes) -> Spent:
    with terminal(command, environment) as shown:
        at, _ = shown.until(re.compile(wanted))
        return Spent(at - shown.began, shown.processor())


def _imported(environment: Mapping[str, str]) -> Spent:
    """Measure a Python process that only imports textual's app."""
    begin, before = time.monotonic(), _children()
    subprocess.run([sys.executable, "-c", "import textual.app"], check=True, env=environment)
    return Spent(time.monotonic() - begin, _children() - before)


def _children() -> float:
    """Return the CPU seconds of the ended children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(*, quick: bool) -> list[Row]:
    """Measure all alternately in one run; the first run of each fills the caches and is ignored."""
    runs = 5 if quick else 15
    with world(pods=PODS) as served, tempfile.TemporaryDirectory() as base:
        environment = compiled(screen_environment(served.root), Path(base, "bytecode"))
        bare = compiled(os.environ, Path(base, "bytecode"))
        least = Path(base, "least.py")
        least.write_text(LEAST)
        figures: dict[str, Callable[[], Spent]] = {
            "import": lambda: _imported(bare),
            "least": lambda: _drawn((sys.executable, str(least)), bare, b"Pods"),
            "paint": lambda: _drawn(SCREEN, environment, b"Pods"),
            "pods": lambda: _drawn(SCREEN, environment, b"pod-00"),
        }
        spent: dict[str, list[Spent]] = {name: [] for name in figures}
        for turn in range(runs + 1):
            for name, figure in figures.items():
                found = figure()
                if turn:
                    spent[name].append(found)
    times = {name: [one.clock for one in every] for name, every in spent.items()}
    work = {name: [one.processor for one in every] for name, every in spent.items()}
    floor, floor_name = times["import"], "import textual"
    return [
        row("start to first paint", times["paint"], "s", bound=1.0),
        row("the same against importing textual", times["paint"], "s", floor=floor,
            floor_name=floor_name, bound=2.5),
        row("… in time of the processor", work["paint"], "s", floor=work["import"],
            floor_name=floor_name),
        row("a Textual app of one word, killed when it is painted", times["least"], "s",
            floor=floor, floor_name=floor_name),
        row(f"start to the rows of {PODS} pods", times["pods"], "s", floor=floor,
            floor_name=floor_name),
    ]  # fmt: skip
