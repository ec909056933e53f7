"""Open and search a log of a million lines with podtui and with other programs.

Each run uses a separate tmux and a fresh process, alternately. podtui reads the lines from the API
of another process, as from an agent; pagers read a file with the same lines, and the commands print
them from their own source. Opened: from the start of the program until the last line is shown.
Found: from the last key of the search until a line near the start is shown.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import NOT_HERE, peer
from benchmarks.report import Absent, Row, row
from benchmarks.terminal import SCREEN, TooSlow, screen_environment
from benchmarks.tmux import Pane, pane
from benchmarks.world import WORD, WORD_AT, line_text
from benchmarks.worlds import WorldProcess, world

LINES = 1_000_000
SIZE = (120, 36)
LAST = rf"number={LINES - 1} "
FOUND = rf"number={WORD_AT} level.*{WORD}"


@dataclass(frozen=True, slots=True)
class Sample:
    """In seconds and MB; ``found`` is None if it was not found in time."""

    opened: float
    memory: float
    found: float | None


@dataclass(frozen=True, slots=True)
class Viewer:
    """``open`` shows the last line; ``find`` types the search and returns the time of its last
    key."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    find: Callable[[Pane], float]
    open: Callable[[Pane], None] = lambda shown: None


def _open_podtui(shown: Pane) -> None:
    shown.until(r"pod-0000")
    shown.press("3", "+", "R")
    shown.until(r"Range of the log")
    shown.press("1")
    shown.until(r"number=0 ")
    shown.press("G")


def _find_podtui(shown: Pane) -> float:
    shown.press("F")
    shown.type(WORD)
    begin = time.monotonic()
    shown.press("Enter")
    shown.until(r"1 match")
    shown.press("n")
    return begin


def _find_less(shown: Pane) -> float:
    shown.type(f"?{WORD}")
    begin = time.monotonic()
    shown.press("Enter")
    return begin


def _find_lnav(shown: Pane) -> float:
    shown.type(f"/{WORD}")
    begin = time.monotonic()
    shown.press("Enter")
    shown.until(r"1 hits")
    shown.press("N")
    return begin


def _find_toolong(shown: Pane) -> float:
    shown.press("/")
    shown.until(r"Case sensitive")
    shown.type(WORD)
    begin = time.monotonic()
    shown.press("Up")
    return begin


def _viewers(file: Path, served: WorldProcess) -> list[Viewer | Absent]:
    plain = dict(os.environ)
    wanted: list[tuple[str, str, list[str], Callable[[Pane], float]]] = [
        ("less (file)", "less", ["+G", str(file)], _find_less),
        ("lnav (file)", "lnav", ["-q", str(file)], _find_lnav),
        ("toolong (file)", "tl", [str(file)], _find_toolong),
    ]
    found: list[Viewer | Absent] = [
        Viewer("podtui (API)", SCREEN, screen_environment(served.root), _find_podtui, _open_podtui)
    ]
    for name, program, words, find in wanted:
        path = peer(program)
        if path is None:
            found.append(Absent(f"{name}: a log of {LINES:,} lines", NOT_HERE))
        else:
            found.append(Viewer(name, [path, *words], plain, find))
    return found


def _sample(viewer: Viewer, cwd: Path) -> Sample:
    with pane(viewer.command, viewer.environment, cwd, SIZE) as shown:
        viewer.open(shown)
        opened = shown.until(LAST) - shown.began
        memory = shown.memory()
        begin = viewer.find(shown)
        try:
            found = shown.until(FOUND, seconds=60) - begin
        except TooSlow:
            found = None
        return Sample(opened, max(memory, shown.memory()), found)


def _rows(name: str, samples: Sequence[Sample], floor: Sequence[Sample]) -> list[Row | Absent]:
    against = name != "podtui (API)"
    base = floor if against else None
    opened = [sample.opened for sample in samples]
    found = [sample.found for sample in samples if sample.found is not None]
    rows: list[Row | Absent] = [
        row(f"{name}: {LINES:,} lines opened", opened, "s",
            floor=[s.opened for s in base] if base else None, floor_name="podtui"),
        row(f"{name}: memory with them", [s.memory for s in samples], "MB",
            floor=[s.memory for s in base] if base else None, floor_name="podtui",
            bound=None if against else 250),
    ]  # fmt: skip
    if len(found) < len(samples):
        rows.append(Absent(f"{name}: line {WORD_AT:,} found from the end", "not within 60 s"))
    else:
        times = [s.found for s in base if s.found is not None] if base else None
        rows.append(row(f"{name}: line {WORD_AT:,} found from the end", found, "s", floor=times,
                        floor_name="podtui"))  # fmt: skip
    return rows


def measure(*, quick: bool) -> list[Row | Absent]:
    """Measure alternately, so that other load affects all programs."""
    runs = 1 if quick else 3
    if peer("tmux") is None:
        return [Absent("all of them", f"tmux is {NOT_HERE}")]
    with tempfile.TemporaryDirectory() as base, world(pods=1, past=LINES) as served:
        file = Path(base, "million.log")
        with file.open("wb") as log:
            log.writelines(line_text(number) + b"\n" for number in range(LINES))
        viewers = _viewers(file, served)
        samples: dict[str, list[Sample]] = {v.name: [] for v in viewers if isinstance(v, Viewer)}
        for _ in range(runs):
            for viewer in viewers:
                if isinstance(viewer, Viewer):
                    samples[viewer.name].append(_sample(viewer, Path(base)))
        printed = _printed(served, runs)
    rows: list[Row | Absent] = []
    ours = samples["podtui (API)"]
    for viewer in viewers:
        rows += (
            _rows(viewer.name, samples[viewer.name], ours)
            if isinstance(viewer, Viewer)
            else [viewer]
        )
    return rows + printed


def _printed(served: WorldProcess, runs: int) -> list[Row | Absent]:
    """Measure kubectl's whole output through the same API, as the lower bound."""
    path = peer("kubectl")
    name = f"kubectl logs (the same API): {LINES:,} lines printed"
    if path is None:
        return [Absent(name, NOT_HERE)]
    command = [path, "--kubeconfig", str(served.kubeconfig), "logs", "pod-0000-bench"]
    times: list[float] = []
    for _ in range(runs):
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, check=True, timeout=300)
        times.append(time.monotonic() - begin)
        if done.stdout.count(b"\n") != LINES:
            return [Absent(name, f"only {done.stdout.count(chr(10).encode()):,} lines came")]
    return [row(name, times, "s")]
