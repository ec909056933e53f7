"""The floor: the time that the engine takes for the calls needed for a pod.

These are the simplest calls, in sequence: create and start a sandbox on the bridge, create and
start one container in its network and IPC namespaces. Nothing is prepared or skipped. The times
come from the engine: a start is the time of its ``start`` event.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import docker
from docker.api import APIClient

IMAGE = "busybox:1.36"
LABEL = "podtui.benchmark"
COMMAND = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"]


def client() -> APIClient:
    """Return a separate low-level client; not to be shared between threads."""
    return docker.from_env(timeout=300).api


@dataclass
class Watcher:
    """Collects container events with the engine's times, in nanoseconds."""

    events: list[tuple[str, str, int]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, done: Callable[[list[tuple[str, str, int]]], bool], timeout: float) -> None:
        """Raises TimeoutError."""
        with self.changed:
            if not self.changed.wait_for(lambda: done(self.events), timeout):
                raise TimeoutError(f"after {timeout} s: {len(self.events)} events")


@contextlib.contextmanager
def watching() -> Iterator[Watcher]:
    """Collect the events of every container during the block: (action, container name, time)."""
    watcher = Watcher()
    stream = client().events(decode=True, filters={"type": "container"})

    def read() -> None:
        with contextlib.suppress(ValueError, OSError, AttributeError):
            for event in stream:
                name = event["Actor"]["Attributes"].get("name", "")
                with watcher.changed:
                    watcher.events.append((event["Action"], name, event["timeNano"]))
                    watcher.changed.notify_all()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    time.sleep(0.3)
    try:
        yield watcher
    finally:
        stream.close()
        thread.join(5)


def start_pod(engine: APIClient, name: str, pause: str) -> tuple[str, str]:
    """Make the bare calls for one pod; return the IDs of its sandbox and its container."""
    sandbox = engine.create_container(
        pause,
        name=f"bench_POD_{name}",
        labels={LABEL: "1"},
        host_config=engine.create_host_config(ipc_mode="shareable"),
    )["Id"]
    engine.start(sandbox)
    container = engine.create_container(
        IMAGE,
        command=COMMAND,
        name=f"bench_{name}",
        labels={LABEL: "1"},
        host_config=engine.create_host_config(
            network_mode=f"container:{sandbox}", ipc_mode=f"container:{sandbox}"
        ),
    )["Id"]
    engine.start(container)
    return sandbox, container


def remove_pod(engine: APIClient, sandbox: str, container: str) -> None:
    """Stop and remove both, the container first."""
    for identity in (container, sandbox):
        engine.stop(identity, timeout=5)
        engine.remove_container(identity, v=True, force=True)


@dataclass(frozen=True, slots=True)
class Bare:
    """Seconds from the first call until the last process runs, and from the first stop until the
    last container is removed."""

    start: float
    remove: float


def bare(count: int, workers: int, pause: str) -> Bare:
    """Start and remove ``count`` pods with bare calls, ``workers`` at a time."""
    local = threading.local()

    def engine() -> APIClient:
        if not hasattr(local, "client"):
            local.client = client()
        return local.client

    def up(index: int) -> tuple[str, str]:
        return start_pod(engine(), f"{index}_{time.monotonic_ns()}", pause)

    with ThreadPoolExecutor(workers) as pool, watching() as watcher:
        list(pool.map(lambda _: engine(), range(workers)))
        begin = time.time_ns()
        pods = list(pool.map(up, range(count)))
        watcher.wait(lambda events: _starts(events) >= 2 * count, 60)
        started = max(when for action, _, when in watcher.events if action == "start")
        stop_begin = time.time_ns()
        list(pool.map(lambda pod: remove_pod(engine(), *pod), pods))
        watcher.wait(lambda events: _count(events, "destroy") >= 2 * count, 60)
        gone = max(when for action, _, when in watcher.events if action == "destroy")
    return Bare((started - begin) / 1e9, (gone - stop_begin) / 1e9)


def _starts(events: list[tuple[str, str, int]]) -> int:
    return _count(events, "start")


def _count(events: list[tuple[str, str, int]], action: str) -> int:
    return sum(1 for seen, _, _ in events if seen == action)


def clear() -> None:
    """Remove the leftovers of an interrupted run."""
    engine = client()
    for found in engine.containers(all=True, filters={"label": LABEL}):
        engine.remove_container(found["Id"], force=True, v=True)
