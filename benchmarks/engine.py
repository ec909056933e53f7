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
_PREFIX = "bench_"
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
        name=f"{_PREFIX}POD_{name}",
        labels={LABEL: "1"},
        host_config=engine.create_host_config(ipc_mode="shareable"),
    )["Id"]
    engine.start(sandbox)
    container = engine.create_container(
        IMAGE,
        command=COMMAND,
        name=f"{_PREFIX}{name}",
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


class _Clients(threading.local):
    """One client for each thread."""

    def __init__(self) -> None:
        self.client = client()


def bare(count: int, workers: int, pause: str) -> Bare:
    """Start and remove ``count`` pods with bare calls, ``workers`` at a time."""
    with ThreadPoolExecutor(workers) as pool, watching() as watcher:
        clients = _open_clients(pool, workers)

        def up(index: int) -> tuple[str, str]:
            return start_pod(clients.client, f"{index}_{time.monotonic_ns()}", pause)

        begin = time.time_ns()
        pods = list(pool.map(up, range(count)))
        _wait(watcher, "start", 2 * count)
        started = max(_times(watcher, "start"))
        stop_begin = time.time_ns()
        list(pool.map(lambda pod: remove_pod(clients.client, *pod), pods))
        _wait(watcher, "destroy", 2 * count)
        gone = max(_times(watcher, "destroy"))
    return Bare((started - begin) / 1e9, (gone - stop_begin) / 1e9)


def bare_rollout(count: int, workers: int, pause: str) -> float:
    """Return the seconds to replace ``count`` pods with bare calls, ``workers`` at a time: each
    worker starts a new pod, and then removes an old one."""
    with ThreadPoolExecutor(workers) as pool, watching() as watcher:
        clients = _open_clients(pool, workers)

        def up(index: int) -> tuple[str, str]:
            return start_pod(clients.client, f"{index}_{time.monotonic_ns()}", pause)

        def replace(index: int) -> tuple[str, str]:
            new = up(count + index)
            remove_pod(clients.client, *old[index])
            return new

        old = list(pool.map(up, range(count)))
        _wait(watcher, "start", 2 * count)
        begin = time.time_ns()
        new = list(pool.map(replace, range(count)))
        _wait(watcher, "destroy", 2 * count)
        last = max(_times(watcher, "start", "destroy"))
        list(pool.map(lambda pod: remove_pod(clients.client, *pod), new))
    return (last - begin) / 1e9


def _open_clients(pool: ThreadPoolExecutor, workers: int) -> _Clients:
    clients = _Clients()
    list(pool.map(lambda _: clients.client, range(workers)))
    return clients


def _times(watcher: Watcher, *actions: str) -> list[int]:
    """Return the times of actions on containers of bare calls."""
    return [
        when
        for action, name, when in watcher.events
        if action in actions and name.startswith(_PREFIX)
    ]


def _wait(watcher: Watcher, action: str, count: int) -> None:
    watcher.wait(lambda _: len(_times(watcher, action)) >= count, 60)


def clear() -> None:
    """Remove the leftovers of an interrupted run."""
    engine = client()
    for found in engine.containers(all=True, filters={"label": LABEL}):
        engine.remove_container(found["Id"], force=True, v=True)
