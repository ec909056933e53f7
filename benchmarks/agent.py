"""An agent to measure, started as users do: ``podtui agent`` on a folder."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
spec:
  terminationGracePeriodSeconds: 5
  containers:
    - name: app
      image: busybox:1.36
      imagePullPolicy: IfNotPresent
      command: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]
      env:
        - name: VERSION
          value: "{version}"
"""


@dataclass(frozen=True, slots=True)
class Agent:
    """A running agent; ``folder`` is its manifest folder."""

    folder: Path
    root: Path
    process: subprocess.Popen[bytes]
    environment: dict[str, str]

    def drop(self, name: str, version: str = "1") -> int:
        """Move a manifest into the folder; return the time in nanoseconds."""
        return self.put(name, MANIFEST.format(name=name, version=version))

    def put(self, name: str, manifest: str) -> int:
        """Do the same with a given manifest."""
        hidden = self.folder / f".{name}"
        hidden.write_text(manifest)
        now = time.time_ns()
        hidden.rename(self.folder / f"{name}.yaml")
        return now

    def remove(self, name: str) -> int:
        now = time.time_ns()
        (self.folder / f"{name}.yaml").unlink()
        return now

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "podtui", *arguments],
            env=self.environment, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    def pods(self) -> list[dict[str, object]]:
        done = self.command("status", "-o", "json")
        items = json.loads(done.stdout)["items"] if done.returncode == 0 else []
        return [item for item in items if item["kind"] == "Pod"]

    def settle(self, count: int) -> None:
        """Wait until the records show that number of running pods. Raises TimeoutError."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            running = [pod for pod in self.pods() if pod["status"]["phase"] == "Running"]  # type: ignore[index]
            if len(running) >= count:
                return
            time.sleep(0.2)
        raise TimeoutError(f"{count} pods are not all Running")

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.process.pid)

    def cpu_and_memory(self, seconds: float) -> tuple[float, float]:
        return cpu_and_memory(self.process.pid, seconds)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used, in nanosecond resolution if the kernel
    supports it."""
    tasks = Path(f"/proc/{pid}/task")
    try:
        return (
            sum(int(t.joinpath("schedstat").read_text().split()[0]) for t in tasks.iterdir()) / 1e9
        )
    except FileNotFoundError:
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system


def cpu_and_memory(pid: int, seconds: float) -> tuple[float, float]:
    """Return (percent of one core over ``seconds``, RSS in MB at their end)."""
    before, begin = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    spent = cpu_seconds(pid) - before
    memory = psutil.Process(pid).memory_info().rss / 1e6
    return 100 * spent / (time.monotonic() - begin), memory


@contextlib.contextmanager
def running(
    engine: str = "auto", max_pods: int = 1200, settings: Mapping[str, str] | None = None
) -> Iterator[Agent]:
    """Start a new agent with an empty folder; remove its containers at the end.

    ``settings`` are additional environment variables.
    """
    with tempfile.TemporaryDirectory() as base:
        folder, root = Path(base, "static_pods"), Path(base, "root")
        folder.mkdir()
        environment = {
            **os.environ,
            "PODTUI_ROOT_DIR": str(root),
            "PODTUI_STATIC_POD_PATH": str(folder),
            "PODTUI_NODE_NAME": "bench",
            "PODTUI_ENGINE": engine,
            "PODTUI_MAX_PODS": str(max_pods),
            "XDG_CONFIG_HOME": base,
            "XDG_STATE_HOME": base,
            **(settings or {}),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "podtui", "agent"],
            env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        agent = Agent(folder, root, process, environment)
        try:
            deadline = time.monotonic() + 60
            while agent.command("status").returncode != 0:
                if time.monotonic() > deadline:
                    raise TimeoutError("the agent does not answer")
                time.sleep(0.1)
            yield agent
        finally:
            agent.command("down", "--yes")
            process.wait(60)
