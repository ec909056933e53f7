"""The cost of one change with N pods: runtime and store calls, and time as a ratio.

On the simulated engine, in one process: a folder of N manifests, all running, then single edits.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from benchmarks import agent as agents
from benchmarks.report import Row, row


def _cpu_of(agent: agents.Agent, act: Callable[[int], object], runs: int) -> list[float]:
    """Return the CPU seconds that the agent uses in 1.5 seconds after each change."""
    spent: list[float] = []
    for turn in range(runs):
        before = agent.cpu_seconds()
        act(turn)
        time.sleep(1.5)
        spent.append(agent.cpu_seconds() - before)
    return spent


def measure(*, quick: bool) -> list[Row]:
    """Return the CPU time above idle of one change, with 10 pods as the floor."""
    runs = 5 if quick else 11
    costs: dict[int, list[float]] = {}
    for count in (10, 100) if quick else (10, 100, 1000):
        with agents.running("memory") as agent:
            for index in range(count):
                agent.drop(f"scale-{index}")
            _wait_running(agent, count)
            time.sleep(3)
            idle = statistics.median(_cpu_of(agent, lambda _: None, runs))
            edits = _cpu_of(agent, lambda turn, a=agent: a.drop("scale-0", f"{turn + 2}"), runs)
            costs[count] = [max(0.0, spent - idle) * 1e3 for spent in edits]
    floor = costs[10]
    return [
        row(f"agent: CPU of one change with {count} pods", values, "ms",
            floor=floor, floor_name="with 10 pods", bound=1.2)
        for count, values in costs.items() if count != 10
    ]  # fmt: skip


def _wait_running(agent: agents.Agent, count: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if sum(pod["status"]["phase"] == "Running" for pod in agent.pods()) >= count:  # type: ignore[index]
            return
        time.sleep(1)
    raise TimeoutError(f"{count} pods are not all Running")
