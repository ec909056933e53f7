"""The duration of commands that scripts call in loops, relative to the start of Python."""

from __future__ import annotations

import subprocess
import sys
import time

from benchmarks import agent as agents
from benchmarks.report import Row, row


def _times(command: list[str], runs: int, environment: dict[str, str] | None = None) -> list[float]:
    seconds: list[float] = []
    for _ in range(runs + 1):
        begin = time.monotonic()
        subprocess.run(command, capture_output=True, check=False, env=environment)
        seconds.append(time.monotonic() - begin)
    return seconds[1:]


def measure(*, quick: bool) -> list[Row]:
    """Return the medians in milliseconds above a bare ``python -c pass``."""
    runs = 5 if quick else 15
    with agents.running("memory") as agent:
        bare = sorted(_times([sys.executable, "-c", "pass"], runs))[runs // 2]
        help_ = _times([sys.executable, "-m", "podtui", "--help"], runs)
        status = _times([sys.executable, "-m", "podtui", "status"], runs, agent.environment)
    return [
        row("podtui --help, above bare Python", [1e3 * (t - bare) for t in help_], "ms", bound=150),
        row(
            "podtui status, above bare Python", [1e3 * (t - bare) for t in status], "ms", bound=300
        ),
    ]
