"""The agent's CPU time for one change among N pods, as a ratio to 10 pods.

On the simulated engine. Agents with 10, 100 and 1,000 pods run side by side, and their changes are
measured in turn, so that other load affects all of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

from benchmarks import agent as agents
from benchmarks.report import Row, row

_WINDOW_SECONDS = 1.5
_SETTINGS = {"PODTUI_SYNC_FREQUENCY": "1h"}
"""The periodic passes of 1,000 pods take more CPU time than a change and would hide it."""


def measure(*, quick: bool) -> list[Row]:
    """Return the CPU time above idle of one change, with 10 pods as the floor."""
    counts = (10, 100) if quick else (10, 100, 1000)
    costs: dict[int, list[float]] = {count: [] for count in counts}
    with contextlib.ExitStack() as stack:
        running = {
            count: stack.enter_context(agents.running("memory", settings=_SETTINGS))
            for count in counts
        }
        for count, agent in running.items():
            for index in range(count):
                agent.drop(f"scale-{index}")
            _wait_running(agent, count)
        time.sleep(20)
        for turn in range(5 if quick else 21):
            for count, agent in running.items():
                idle = _cpu(agent, lambda: None)
                spent = _cpu(agent, lambda a=agent, v=f"{turn + 2}": a.drop("scale-0", v))
                costs[count].append(max(0.0, spent - idle) * 1e3)
    floor = costs[10]
    return [
        row(f"agent: CPU of one change with {count} pods", values, "ms",
            floor=floor, floor_name="with 10 pods", bound=1.2)
        for count, values in costs.items() if count != 10
    ]  # fmt: skip


def _cpu(agent: agents.Agent, act: Callable[[], object]) -> float:
    """Return the CPU seconds that the agent uses in a window that begins with ``act``."""
    before = agent.cpu_seconds()
    act()
    time.sleep(_WINDOW_SECONDS)
    return agent.cpu_seconds() - before


def _wait_running(agent: agents.Agent, count: int) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        if sum(pod["status"]["phase"] == "Running" for pod in agent.pods()) >= count:  # type: ignore[index]
            return
        time.sleep(1)
    raise TimeoutError(f"{count} pods are not all Running")
