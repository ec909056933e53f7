"""Measure podtui and lazydocker on the same engine with the same pods, alternately, each in its own
tmux.

podtui is two processes: the agent, which runs the pods and keeps running without a screen, and the
screen. Both are reported separately and in sum; lazydocker is reported with its child processes.
The followed log grows by about 10,000 lines a second for five seconds and then gets one last line.
Its real rate and the time of the last line come from the engine's time stamps.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil

from benchmarks import agent as agents
from benchmarks import engine
from benchmarks.peers import NOT_HERE, peer
from benchmarks.report import Absent, Row, row
from benchmarks.terminal import SCREEN, TooSlow
from benchmarks.tmux import Pane, pane

PODS = 5
SIZE = (160, 50)
LINES = 50_000
READY, LAST = "waiting-to-begin", "the-last-of-them"
REST = 5.0
"""Seconds for which a screen is idle before it is measured."""
PATIENCE = 20.0
"""Seconds after which the last line counts as missing."""
FLOOD = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  terminationGracePeriodSeconds: 0
  containers:
    - name: app
      image: busybox:1.36
      imagePullPolicy: IfNotPresent
      command:
        - sh
        - -c
        - |
          echo "waiting-""to-begin"
          until [ -e /go ]; do sleep 0.1; done
          awk 'BEGIN {{
            for (round = 0; round < 50; round++) {{
              for (line = 0; line < 1000; line++)
                print "number=" round * 1000 + line " level=info msg=request status=200 done"
              fflush()
              system("usleep 95000")
            }}
            print "the-last-" "of-them"
          }}'
          sleep 3600
"""


@dataclass(frozen=True, slots=True)
class Tool:
    """``behind`` are additional processes to measure; ``follow`` opens the log of a pod on the
    screen."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    shows: str
    follow: Callable[[Pane, str], None]
    behind: Mapping[str, int]

    def open(self, cwd: Path) -> AbstractContextManager[Pane]:
        return pane(self.command, self.environment, cwd, SIZE)

    def parts(self, shown: Pane) -> dict[str, int]:
        """Return the first process of each part: the screen's, and those of ``behind``."""
        return {"screen": shown.pid, **self.behind}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of each part: ``cpu`` in percent of one core, ``memory`` in MB of RSS."""

    cpu: Mapping[str, float]
    memory: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Flood:
    """``rate`` in lines a second; ``late`` is the delay in seconds until the last line was
    shown, None if it was not shown in time."""

    rate: float
    late: float | None
    cost: Cost


def shares(
    before: Mapping[str, float], after: Mapping[str, float], seconds: float
) -> dict[str, float]:
    """Return the percentage of one core for each part, from its CPU seconds at both ends."""
    return {part: 100 * (after[part] - before[part]) / seconds for part in before}


def _tree(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _used(parts: Mapping[str, int]) -> dict[str, float]:
    """Return the CPU seconds of each part so far, including ended children."""
    return {part: sum(sum(p.cpu_times()[:4]) for p in _tree(pid)) for part, pid in parts.items()}


def _memory(parts: Mapping[str, int]) -> dict[str, float]:
    return {part: sum(p.memory_info().rss for p in _tree(pid)) / 1e6 for part, pid in parts.items()}


def _follow_podtui(shown: Pane, pod: str) -> None:
    shown.press("/")
    shown.type(pod)
    shown.until(r"1 Pods · 1 of", 30)
    shown.press("Enter")
    time.sleep(0.5)
    shown.press("3", "+")


def _follow_lazydocker(shown: Pane, pod: str) -> None:
    shown.press("3", "/")
    shown.type(f"k8s_app_{pod}")
    shown.press("Enter")


def _podtui(agent: agents.Agent) -> Tool:
    return Tool(
        "podtui", SCREEN, agent.environment, r"beside-0", _follow_podtui,
        {"agent": agent.process.pid},
    )  # fmt: skip


def _lazydocker(home: Path) -> Tool | Absent:
    """Use a separate home directory, so that no user settings are read or written."""
    path = peer("lazydocker")
    if path is None:
        return Absent("lazydocker", NOT_HERE)
    result = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    version = result.stdout.partition("Version:")[2].partition("\n")[0].strip()
    if result.returncode or not version:
        return Absent("lazydocker", f"does not run here: {result.stderr.strip()[:200]}")
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    tool = Tool(f"lazydocker {version}", [path], environment, r"k8s_app_beside-0",
                _follow_lazydocker, {})  # fmt: skip
    try:
        _start(tool, home)
    except TooSlow:
        return Absent(tool.name, "starts, but shows no container within 30 s here")
    return tool


def _start(tool: Tool, cwd: Path) -> float:
    with tool.open(cwd) as shown:
        return shown.until(tool.shows, 30) - shown.began


def _idle(tool: Tool, cwd: Path, seconds: float) -> Cost:
    with tool.open(cwd) as shown:
        shown.until(tool.shows, 30)
        time.sleep(REST)
        parts = tool.parts(shown)
        before, begin = _used(parts), time.monotonic()
        time.sleep(seconds)
        cpu = shares(before, _used(parts), time.monotonic() - begin)
        return Cost(cpu, _memory(parts))


def _flood(tool: Tool, cwd: Path, pod: str) -> Flood:
    """Return the costs from the first line until the last line is shown."""
    with tool.open(cwd) as shown:
        shown.until(tool.shows, 30)
        tool.follow(shown, pod)
        shown.until(READY, 30)
        time.sleep(REST)
        parts = tool.parts(shown)
        container = _container(pod)
        before, begin = _used(parts), time.monotonic()
        _go(container)
        try:
            shown.until(LAST, LINES / 10_000 + PATIENCE)
            seen = time.time()
        except TooSlow:
            seen = None
        cpu = shares(before, _used(parts), time.monotonic() - begin)
        first, last = _written(container)
        late = None if seen is None else max(0.0, seen - last)
        return Flood(LINES / (last - first), late, Cost(cpu, _memory(parts)))


def _container(pod: str) -> str:
    client: Any = engine.client()
    found = client.containers(filters={"name": f"^/?k8s_app_{pod}-"})
    return found[0]["Id"]


def _go(container: str) -> None:
    client: Any = engine.client()
    client.exec_start(client.exec_create(container, ["touch", "/go"])["Id"])


def _written(container: str) -> tuple[float, float]:
    """Return the times of the first and last line after `READY`, in epoch seconds. Raises
    RuntimeError."""
    lines = engine.client().logs(container, timestamps=True).splitlines()[1:]
    if len(lines) != LINES + 1 or not lines[-1].endswith(LAST.encode()):
        raise RuntimeError(f"the container has written {len(lines):,} lines")
    return epoch(lines[0]), epoch(lines[-1])


def epoch(line: bytes) -> float:
    """Parse Docker's time stamp, truncated to the precision of Python."""
    return datetime.fromisoformat(f"{line[:26].decode()}+00:00").timestamp()


def cost_rows(tool: str, what: str, cost: Mapping[str, float], unit: str,
              floor: Mapping[str, float] | None = None) -> list[Row | Absent]:  # fmt: skip
    """Return one row for each part if there are several, and one for the sum."""
    rows: list[Row | Absent] = []
    if len(cost) > 1:
        rows += [row(f"{tool}, the {part}: {what}", [cost[part]], unit) for part in cost]
    name = f"{tool}, {' and '.join(cost)}" if len(cost) > 1 else tool
    base = [sum(floor.values())] if floor is not None else None
    return [*rows, row(f"{name}: {what}", [sum(cost.values())], unit, floor=base,
                       floor_name="podtui, both")]  # fmt: skip


def _flood_rows(tool: str, found: Flood, base: Flood | None) -> list[Row | Absent]:
    last = f"{tool}: a fast log's last line written → on the screen"
    rows: list[Row | Absent] = [
        row(f"{tool}: lines that came meanwhile", [found.rate], "lines/s"),
        Absent(last, f"not within {PATIENCE:.0f} s")
        if found.late is None
        else row(last, [found.late], "s", floor=[base.late] if base and base.late else None,
                 floor_name="podtui"),
    ]  # fmt: skip
    cpu, memory = "CPU while a fast log is followed", f"memory after its {LINES:,} lines"
    cost, floor = found.cost, base.cost if base else None
    return [
        *rows,
        *cost_rows(tool, cpu, cost.cpu, "% of a core", floor.cpu if floor else None),
        *cost_rows(tool, memory, cost.memory, "MB", floor.memory if floor else None),
    ]


def measure(*, quick: bool) -> list[Row | Absent]:
    """Measure alternately; podtui first."""
    if peer("tmux") is None:
        return [Absent("both", f"tmux is {NOT_HERE}")]
    seconds = 5.0 if quick else 15.0
    with tempfile.TemporaryDirectory() as base, agents.running() as agent:
        for index in range(PODS):
            agent.drop(f"beside-{index}")
        agent.settle(PODS)
        home = Path(base)
        ours, other = _podtui(agent), _lazydocker(home)
        tools = [ours, other] if isinstance(other, Tool) else [ours]
        starts: dict[str, list[float]] = {tool.name: [] for tool in tools}
        for _ in range(2 if quick else 5):
            for tool in tools:
                starts[tool.name].append(_start(tool, home))
        idle = {tool.name: _idle(tool, home, seconds) for tool in tools}
        floods: dict[str, Flood] = {}
        for index, tool in enumerate(tools):
            pod = f"flood-{index}"
            agent.put(pod, FLOOD.format(name=pod))
            agent.settle(PODS + 1 + index)
            floods[tool.name] = _flood(tool, home, pod)
    rows: list[Row | Absent] = []
    for tool in tools:
        rows += _rows(tool, ours if tool is not ours else None, starts, idle, floods, seconds)
    return rows if isinstance(other, Tool) else [*rows, other]


def _rows(
    tool: Tool,
    floor: Tool | None,
    starts: Mapping[str, Sequence[float]],
    idle: Mapping[str, Cost],
    floods: Mapping[str, Flood],
    seconds: float,
) -> list[Row | Absent]:
    name = tool.name
    base = idle[floor.name] if floor else None
    return [
        row(f"{name}: start → a container's name on the screen", starts[name], "s",
            floor=starts[floor.name] if floor else None, floor_name="podtui"),
        *cost_rows(name, f"CPU, nothing happens for {seconds:.0f} s", idle[name].cpu, "% of a core",
                   base.cpu if base else None),
        *cost_rows(name, "memory then", idle[name].memory, "MB", base.memory if base else None),
        *_flood_rows(name, floods[name], floods[floor.name] if floor else None),
    ]  # fmt: skip
