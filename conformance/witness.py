"""Observe an agent's API while it runs: the current pods and every occurrence of an event."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from conformance.golden import Json, Occurrence
from conformance.timeline import status_line
from podtui.api.names import GROUP_VERSION
from podtui.client.connection import HttpConnection
from podtui.client.decoding import LineSplitter
from podtui.errors import AgentUnavailable

PODS: Final = "/api/v1/pods"
EVENTS: Final = "/api/v1/events"
MANIFESTS: Final = f"/apis/{GROUP_VERSION}/manifests"
MAX_LINE: Final = 16 * 1024 * 1024


@dataclass(slots=True)
class Seen:
    """The observations of one pod name. ``events`` has one entry per occurrence, ``records`` the
    last state of each event by name, ``statuses`` a line per status; ``changes`` counts the changes
    of ``pod``."""

    pod: Json | None = None
    changes: int = 0
    last: Json | None = None
    events: list[Occurrence] = field(default_factory=list[Occurrence])
    records: dict[str, Json] = field(default_factory=dict[str, Json])
    statuses: list[str] = field(default_factory=list[str])


class Witness:
    """Watches pods, events and manifests; processes each line of a watch separately."""

    def __init__(self, socket: Path) -> None:
        self._connection = HttpConnection(
            "http://podtui", lambda: aiohttp.UnixConnector(str(socket), limit=0)
        )
        self._changed = asyncio.Condition()
        self._counts: dict[str, int] = {}
        self.pods: dict[str, Seen] = {}
        self.manifests: dict[str, Json] = {}

    async def run(self) -> None:
        """Watch forever. Raises `AgentUnavailable` if the agent ends."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(PODS, self._pod))
            group.create_task(self._follow(EVENTS, self._event))
            group.create_task(self._follow(MANIFESTS, self._manifest))

    async def close(self) -> None:
        await self._connection.close()

    async def _follow(self, path: str, take: Callable[[str, Json], None]) -> None:
        splitter = LineSplitter(MAX_LINE)
        params = {"watch": "true", "resourceVersion": "0"}
        async with self._connection.stream("GET", path, params) as response:
            while chunk := await response.content.readany():
                for line in splitter.feed(chunk):
                    change = json.loads(line)
                    take(change["type"], change["object"])
                async with self._changed:
                    self._changed.notify_all()
        raise AgentUnavailable(f"the watch of {path} has ended")

    def seen(self, name: str) -> Seen:
        return self.pods.setdefault(name, Seen())

    def _pod(self, kind: str, pod: Json) -> None:
        seen = self.seen(pod["metadata"]["name"])
        seen.pod = None if kind == "DELETED" else pod
        seen.last = pod
        seen.changes += 1
        if kind != "DELETED":
            seen.statuses.append(status_line(pod["status"], pod["metadata"]["uid"]))

    def _event(self, kind: str, event: Json) -> None:
        about = event["involvedObject"]
        name = event["metadata"]["name"]
        if about["kind"] != "Pod" or kind == "DELETED":
            return
        happened = event.get("count", 1) - self._counts.get(name, 0)
        self._counts[name] = event.get("count", 1)
        one = Occurrence(
            time.monotonic(),
            event["type"],
            event["reason"],
            about.get("fieldPath", ""),
            event["message"],
        )
        seen = self.seen(about["name"])
        seen.events += [one] * happened
        seen.records[name] = event

    def _manifest(self, kind: str, manifest: Json) -> None:
        name = manifest["metadata"]["name"]
        if kind == "DELETED":
            self.manifests.pop(name, None)
        else:
            self.manifests[name] = manifest

    async def until(self, condition: Callable[[], bool], timeout: float) -> bool:
        """Wait until ``condition`` is true; check it at every change. False on timeout."""
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            return False
        return True

    async def get(self, path: str) -> bytes:
        """Return the body at ``path``. Raises `ApiError`, `AgentUnavailable`."""
        return await self._connection.get(path)
