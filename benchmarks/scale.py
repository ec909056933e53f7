"""The agent's CPU time for one change among N pods, as a ratio to 10 pods.

On the simulated engine. Agents with 10, 100 and 1,000 pods run side by side, so that other load
affects all of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection

from benchmarks import agent as agents
from benchmarks.report import Row, row

TURNS = 3
CHANGES = 30
_PERIOD_SECONDS = 2.0
"""The changes of a turn take a minute together, so that everything periodic happens equally often
with and without them."""
SETTINGS = {"PODTUI_SYNC_FREQUENCY": "1h"}
"""The periodic passes of 1,000 pods take more CPU time than a change and would hide it."""


def measure(*, quick: bool) -> list[Row]:
    """Return the CPU time above idle of one change, with 10 pods as the floor."""
    counts = (10, 100) if quick else (10, 100, 1000)
    costs: dict[int, list[float]] = {count: [] for count in counts}
    with contextlib.ExitStack() as stack:
        running = {
            count: stack.enter_context(agents.running("memory", settings=SETTINGS))
            for count in counts
        }
        for count, agent in running.items():
            for index in range(count):
                agent.drop(f"scale-{index}")
            wait_running(agent, count)
        time.sleep(20)
        for turn in range(1 if quick else TURNS):
            idle = cpu_seconds(running.values(), lambda _, __: None)
            version = f"{turn + 2}"
            changed = cpu_seconds(
                running.values(),
                lambda agent, change, v=version: agent.drop("scale-0", f"{v}-{change}"),
            )
            for count, before, spent in zip(counts, idle, changed, strict=True):
                costs[count].append((spent - before) / CHANGES * 1e3)
    floor = costs[10]
    return [
        row(f"agent: CPU of one change with {count} pods", values, "ms",
            floor=floor, floor_name="with 10 pods", bound=1.2)
        for count, values in costs.items() if count != 10
    ]  # fmt: skip


def cpu_seconds(
    running: Collection[agents.Agent], act: Callable[[agents.Agent, int], object]
) -> list[float]:
    """Return the CPU seconds that each agent uses while it is acted on ``CHANGES`` times."""
    before = [agent.cpu_seconds() for agent in running]
    for change in range(CHANGES):
        for agent in running:
            act(agent, change)
            # One agent at a time: their work does not compete for a core.
            time.sleep(_PERIOD_SECONDS / len(running))
    return [agent.cpu_seconds() - spent for agent, spent in zip(running, before, strict=True)]


def wait_running(agent: agents.Agent, count: int) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if sum(pod["status"]["phase"] == "Running" for pod in agent.pods()) >= count:  # type: ignore[index]
            return
        time.sleep(1)
    raise TimeoutError(f"{count} pods are not all Running")
