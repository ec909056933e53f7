"""The cost of one change when there are N pods: runtime and store calls, and time as a ratio.

On the simulated engine, in one process: a folder of N manifests, all running, then single edits.
"""

from __future__ import annotations

import statistics
import time

from benchmarks import agent as agents
from benchmarks.report import Row, row


def _edit_cpu(agent: agents.Agent, name: str, runs: int) -> list[float]:
    """CPU seconds of the agent from an edit until the new version is on record as Running."""
    import psutil

    process = psutil.Process(agent.process.pid)
    spent: list[float] = []
    for turn in range(runs):
        before = process.cpu_times()
        agent.drop(name, version=f"{turn + 2}")
        time.sleep(1.5)
        after = process.cpu_times()
        spent.append(after.user + after.system - before.user - before.system)
    return spent


def _idle_cpu(agent: agents.Agent, runs: int) -> float:
    import psutil

    process = psutil.Process(agent.process.pid)
    spent: list[float] = []
    for _ in range(runs):
        before = process.cpu_times()
        time.sleep(1.5)
        after = process.cpu_times()
        spent.append(after.user + after.system - before.user - before.system)
    return statistics.median(spent)


def measure(*, quick: bool) -> list[Row]:
    """CPU above idle of one change, with 10 pods as the floor."""
    runs = 5 if quick else 11
    costs: dict[int, list[float]] = {}
    for count in (10, 100) if quick else (10, 100, 1000):
        with agents.running("memory") as agent:
            for index in range(count):
                agent.drop(f"scale-{index}")
            _wait_running(agent, count)
            time.sleep(3)
            idle = _idle_cpu(agent, runs)
            costs[count] = [max(0.0, s - idle) * 1e3 for s in _edit_cpu(agent, "scale-0", runs)]
    floor = costs[10]
    return [
        row(f"agent: CPU of one change with {count} pods", values, "ms",
            floor=floor, floor_name="with 10 pods", bound=1.5)
        for count, values in costs.items() if count != 10
    ]  # fmt: skip


def _wait_running(agent: agents.Agent, count: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if sum(pod["status"]["phase"] == "Running" for pod in agent.pods()) >= count:  # type: ignore[index]
            return
        time.sleep(1)
    raise TimeoutError(f"{count} pods are not all Running")
