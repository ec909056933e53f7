"""Follow a log that grows by 10,000 lines a second: lost lines, and cost.

All programs read the same API. podtui follows on a terminal and then saves its lines; kubectl
writes to a pipe. The lines are numbered, so each missing line is found.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from benchmarks.peers import NOT_HERE, peer
from benchmarks.report import Absent, Row, row
from benchmarks.terminal import SCREEN, screen_environment, terminal
from benchmarks.worlds import WorldProcess, world

LINES = 10_000
_NUMBER = re.compile(rb"number=([0-9]+) ")
K9S = (
    Absent("k9s: lines kept", "5,000 at most; a larger buffer is set back (from its source,"
           " internal/config/logger.go)"),
    Absent("k9s: lines lost", "those that come while its channel of 50 is full; only its log"
           " file reports them (from its source, internal/dao/pod.go)"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Followed:
    """``cpu`` in percent of one core, ``memory`` in MB; ``lost`` as counted by `gaps`."""

    kept: int
    lost: int
    cpu: float
    memory: float
    seconds: float


def gaps(numbers: Sequence[int]) -> int:
    """Return the number of lines, from number 0 to the last, that are missing or out of order."""
    if not numbers:
        return 0
    missing = numbers[-1] + 1 - len(set(numbers))
    return missing + sum(a >= b for a, b in pairwise(numbers))


def _numbers(text: bytes) -> list[int]:
    return [int(number) for number in _NUMBER.findall(text)]


def _cost(pid: int, seconds: float, wait: Callable[[float], object]) -> tuple[float, float]:
    """Return (percent of one core, RSS in MB) of a process during ``wait``."""
    process = psutil.Process(pid)
    before = process.cpu_times()
    wait(seconds)
    after = process.cpu_times()
    spent = after.user + after.system - before.user - before.system
    return 100 * spent / seconds, process.memory_info().rss / 1e6


def _podtui(served: WorldProcess, seconds: float) -> Followed:
    """Follow zoomed, from the first line on; ^s saves the lines into the working directory."""
    with tempfile.TemporaryDirectory() as base:
        environment: Mapping[str, str] = screen_environment(served.root)
        with terminal(SCREEN, environment, (120, 36), cwd=Path(base)) as shown:
            shown.until(re.compile(rb"pod-0000"))
            for key in (b"3", b"+"):
                shown.send(key)
                shown.drain(0.5)
            shown.until(_NUMBER)
            cpu, memory = _cost(shown.process.pid, seconds, shown.drain)
            shown.send(b"S")
            numbers = _numbers(_saved(Path(base), shown.drain))
    return Followed(len(numbers), gaps(numbers), cpu, memory, seconds)


def _saved(folder: Path, drain: Callable[[float], object]) -> bytes:
    """Return the saved file once it has stopped growing. Raises TimeoutError."""
    size, deadline = -1, time.monotonic() + 30
    while time.monotonic() < deadline:
        drain(0.5)
        files = [path for path in folder.iterdir() if path.is_file()]
        if files and files[0].stat().st_size == size:
            return files[0].read_bytes()
        size = files[0].stat().st_size if files else -1
    raise TimeoutError("nothing was saved")


def _kubectl(path: str, served: WorldProcess, seconds: float) -> Followed:
    process = subprocess.Popen(
        [path, "--kubeconfig", str(served.kubeconfig), "logs", "-f", "pod-0000-bench"],
        stdout=subprocess.PIPE, env=os.environ,
    )  # fmt: skip
    assert process.stdout is not None
    pieces: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(process.stdout, pieces))
    reader.start()
    try:
        time.sleep(1)
        cpu, memory = _cost(process.pid, seconds, time.sleep)
    finally:
        process.terminate()
        process.wait(10)
        reader.join(10)
    numbers = _numbers(b"".join(pieces))
    return Followed(len(numbers), gaps(numbers), cpu, memory, seconds)


def _read_all(pipe: Any, pieces: list[bytes]) -> None:
    while piece := pipe.read1(1 << 16):
        pieces.append(piece)


def _rows(name: str, found: Followed, *, bound: bool) -> list[Row | Absent]:
    return [
        row(f"{name}: lines kept after {found.seconds:.0f} s", [found.kept], "lines"),
        row(f"{name}: lines lost", [found.lost], "lines", bound=0 if bound else None),
        row(f"{name}: CPU", [found.cpu], "% of a core"),
        row(f"{name}: memory", [found.memory], "MB"),
    ]


def measure(*, quick: bool) -> list[Row | Absent]:
    seconds = 5.0 if quick else 30.0
    rows: list[Row | Absent] = []
    with world(pods=1, lines=LINES) as served:
        rows += _rows("podtui, on the screen", _podtui(served, seconds), bound=True)
        path = peer("kubectl")
        if path is None:
            rows.append(Absent("kubectl logs -f", NOT_HERE))
        else:
            rows += _rows("kubectl logs -f, to a pipe", _kubectl(path, served, seconds),
                          bound=False)  # fmt: skip
    return [*rows, *K9S]
