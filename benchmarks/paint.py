"""From starting ``podtui`` to its first picture, and to the pods in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.report import Row, row
from benchmarks.terminal import SCREEN, screen_environment, terminal
from benchmarks.worlds import world

PODS = 50
# The least that Textual can paint. What remains between it and podtui is podtui's.
LEAST = """\
from textual.app import App
from textual.widgets import Static

class Least(App):
    def compose(self):
        yield Static("Pods")

Least().run()
"""


def compiled(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """An environment in which every module has its bytecode, as one that was installed has: this
    one may forbid to write it, which would make our modules slower and leave Textual's as it is."""
    kept = {key: value for key, value in environment.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder)}


def _drawn(command: tuple[str, ...], environment: Mapping[str, str], wanted: bytes) -> float:
    with terminal(command, environment) as shown:
        at, _ = shown.until(re.compile(wanted))
        return at - shown.began


def _imported(environment: Mapping[str, str]) -> float:
    """Seconds of a whole Python process that imports textual's app and nothing else."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", "import textual.app"], check=True, env=environment)
    return time.monotonic() - begin


def measure(*, quick: bool) -> list[Row]:
    """All by turns in one run; the first of each fills the caches and does not count."""
    runs = 5 if quick else 15
    with world(pods=PODS) as served, tempfile.TemporaryDirectory() as base:
        environment = compiled(screen_environment(served.root), Path(base, "bytecode"))
        bare = compiled(os.environ, Path(base, "bytecode"))
        least = Path(base, "least.py")
        least.write_text(LEAST)
        figures: dict[str, Callable[[], float]] = {
            "import": lambda: _imported(bare),
            "least": lambda: _drawn((sys.executable, str(least)), bare, b"Pods"),
            "paint": lambda: _drawn(SCREEN, environment, b"Pods"),
            "pods": lambda: _drawn(SCREEN, environment, b"pod-00"),
        }
        times: dict[str, list[float]] = {name: [] for name in figures}
        for turn in range(runs + 1):
            for name, figure in figures.items():
                seconds = figure()
                if turn:
                    times[name].append(seconds)
    floor, floor_name = times["import"], "import textual"
    return [
        row("start to first paint", times["paint"], "s", bound=1.0),
        row("the same against importing textual", times["paint"], "s", floor=floor,
            floor_name=floor_name, bound=1.5),
        row("a Textual app of one word, killed when it is painted", times["least"], "s",
            floor=floor, floor_name=floor_name),
        row(f"start to the rows of {PODS} pods", times["pods"], "s", floor=floor,
            floor_name=floor_name),
    ]  # fmt: skip
