"""``python -m benchmarks.world ROOT …``: the agent's API over pods that exist only as records.

The real server serves real records in a separate process: pods change, their usage is measured,
logs grow, but nothing runs. Screens and kubectl read it like an agent.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from aiohttp import web

from benchmarks.scripted import NODE, SINCE, pod, started
from podtui.agent.lock import AgentLock, AgentRecord
from podtui.api.local import ContainerMetrics, NodeMetrics, PodMetrics
from podtui.api.times import rfc3339
from podtui.api.v1 import ObjectMeta, Pod
from podtui.clock import SystemClock
from podtui.errors import EngineError
from podtui.pki.access_point import choose_access_point, write_kubeconfig
from podtui.pki.certificates import server_names
from podtui.pki.pki import Pki
from podtui.runtime.protocol import LogLine, LogLines, LogOptions
from podtui.server import build_app, serve_unix
from podtui.server.auth.access import Access
from podtui.server.transport.tls import ServerCertificate, TlsServer
from podtui.store import Store, open_store

STEP = 0.05
"""Seconds between two rounds of changes and lines."""
BATCH = 500
"""Old lines that arrive together, as in a chunk of 64 KiB from an engine."""
TEXT = "number=%d level=info msg=request path=/index.html status=200 done"
WORD = "needle-in-the-haystack"
"""Occurs only in line `WORD_AT` of a log."""
WORD_AT = 1000


def line_text(number: int) -> bytes:
    text = TEXT % number + (f" {WORD}" if number == WORD_AT else "")
    return text.encode()


@dataclass(slots=True)
class World:
    """``changes`` pods a second get a new restart count; each log has ``past`` lines and then
    grows by ``lines`` a second. Pods began at ``since``, each with an event of that time."""

    names: list[str]
    changes: int
    lines: int
    past: int
    since: str = SINCE
    changed: int = 0
    measured: int = 0
    sent: int = 0
    node_name: str = NODE.metadata.name
    sessions: Any = None
    _stamped: list[LogLine] = field(default_factory=list[LogLine])

    def _line(self, number: int, stamp: str) -> LogLine:
        return LogLine(timestamp=stamp, stream="stdout", content=line_text(number))

    def write_past(self) -> None:
        second = SINCE[:-1]
        self._stamped = [self._line(n, f"{second}.{n:09d}Z") for n in range(self.past)]

    async def container_logs(
        self, namespace: str, pod: str, container: str, *, previous: bool, options: LogOptions
    ) -> AsyncIterator[LogLines]:
        return self._log(options)

    async def _log(self, options: LogOptions) -> AsyncIterator[LogLines]:
        tail = self.past if options.tail is None else min(options.tail, self.past)
        for start in range(self.past - tail, self.past, BATCH):
            await asyncio.sleep(0)
            yield self._stamped[start : start + BATCH]
        if not options.follow:
            return
        if not self.lines:
            await asyncio.Event().wait()
        loop = asyncio.get_running_loop()
        begin, sent = loop.time(), 0
        while True:
            await asyncio.sleep(STEP)
            due = round((loop.time() - begin) * self.lines)
            stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
            if due > sent:
                yield [self._line(self.past + n, stamp) for n in range(sent, due)]
            self.sent += due - sent
            sent = due

    async def change(self, store: Store) -> None:
        """Change the restart counts of a share of the pods."""
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for turn in itertools.count(1):
            due = round((loop.time() - begin) * self.changes)
            while self.changed < due:
                await store.put("pods", self.pod(self.changed % len(self.names), turn))
                self.changed += 1
            await asyncio.sleep(STEP)

    def pod(self, index: int, restarts: int = 0) -> Pod:
        return pod(index, restarts, self.since)

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        """Return new values each time."""
        self.measured += 1
        turn = self.changed + self.measured
        return tuple(
            PodMetrics(
                metadata=ObjectMeta(name=name, namespace="default"),
                timestamp=SINCE,
                window="10s",
                containers=(
                    ContainerMetrics(
                        name="app", usage={"cpu": f"{(turn + n) % 900}m", "memory": f"{n}Ki"}
                    ),
                ),
            )
            for n, name in enumerate(self.names)
        )

    async def node_metrics(self) -> NodeMetrics | None:
        usage = {"cpu": f"{self.changed % 4000}m", "memory": "8Gi"}
        return NodeMetrics(
            metadata=ObjectMeta(name="bench"), timestamp=SINCE, window="10s", usage=usage
        )

    async def retry(self, namespace: str, pod: str) -> None:
        raise LookupError(pod)

    async def restart(self, namespace: str, pod: str, container: str) -> None:
        raise LookupError(pod)

    async def set_ephemeral_containers(self, namespace: str, pod: str, wanted: Any) -> Any:
        raise EngineError("nothing runs here")

    def health_checks(self) -> dict[str, str]:
        return {"ping": ""}

    async def counts(self, request: web.Request) -> web.Response:
        return web.json_response({"changed": self.changed, "sent": self.sent})


async def serve(root: Path, world: World) -> None:
    """Serve until SIGTERM. Holds the lock of ``root``, like an agent."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    world.write_past()
    clock = SystemClock()
    store = open_store(None, clock=clock)
    lock = AgentLock(root / "podtui.lock")
    lock.acquire(
        AgentRecord(
            pid=os.getpid(), version="bench", nodeName="bench", staticPodPath=str(root),
            engine="memory", started=SINCE,
        )
    )  # fmt: skip
    await store.put("nodes", NODE)
    for index in range(len(world.names)):
        await store.put("pods", world.pod(index))
        await store.put("events", started(index, world.since))
    routes = [web.get("/bench", world.counts)]
    pki = Pki(root / "pki", clock.now())
    point = choose_access_point(root, "127.0.0.1", 0)
    names = server_names((point.address,))
    access = Access(pki.token, names=names)
    app = build_app(store, world, version="bench", extra_routes=routes, access=access)
    async with serve_unix(app, root / "podtui.sock") as runner, asyncio.TaskGroup() as group:
        # kubectl cannot connect to a unix socket.
        certificate = ServerCertificate(pki, names, clock=clock)
        server = TlsServer(runner, certificate, point, clock=clock)
        tasks: list[asyncio.Task[None]] = [group.create_task(server.run())]
        if world.changes:
            tasks.append(group.create_task(world.change(store)))
        await server.listening.wait()
        write_kubeconfig(root / "kubeconfig", point, pki.authority, pki.token)
        await stop.wait()
        for task in tasks:
            task.cancel()
    await store.close()
    lock.release()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.world", description=__doc__)
    parser.add_argument("root", type=Path)
    parser.add_argument(
        "settings", type=json.loads, help='{"pods", "changes", "lines", "past", "age"}'
    )
    arguments = parser.parse_args()
    settings: dict[str, int] = arguments.settings
    names = [pod(index).metadata.name for index in range(settings["pods"])]
    since = rfc3339(datetime.now(UTC) - timedelta(seconds=settings["age"]))
    world = World(names, settings["changes"], settings["lines"], settings["past"], since)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(arguments.root, world))
    return 0


if __name__ == "__main__":
    sys.exit(main())
