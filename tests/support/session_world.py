"""A pod ``web`` that runs (really or simulated) behind the API, for session tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import structs
from runtime_bench import IMAGE, Bench, MakeRuntime
from served import Served, pod, serving

from podtui.api.v1 import Container, ContainerState, ContainerStatus, Pod
from podtui.clock import SystemClock
from podtui.kubelet.endpoints import PodSessions
from podtui.runtime.protocol import Runtime


def docker(url: str) -> MakeRuntime:
    from podtui.runtime.docker import DockerRuntime

    def make(root: str) -> Runtime:
        return DockerRuntime(url, root=root, clock=SystemClock())

    return make


class Statuses:
    """The records that a status manager would write."""

    def __init__(self) -> None:
        self.pods: dict[tuple[str, str], Pod] = {}

    def find(self, namespace: str, name: str) -> str | None:
        found = self.pods.get((namespace, name))
        return None if found is None else found.metadata.uid

    def record_of(self, uid: str) -> Pod | None:
        return next((one for one in self.pods.values() if one.metadata.uid == uid), None)


@dataclass
class SessionWorld:
    served: Served
    bench: Bench
    statuses: Statuses
    sandbox: str

    async def put(self, name: str = "web", **scripts: str) -> Mapping[str, str]:
        """Run a container for each script and write a record of their pod; return ids by
        container.
        """
        ids = {
            container: await self.bench.start(self.sandbox, script, name=container)
            for container, script in scripts.items()
        }
        states = {container: f"docker://{identity}" for container, identity in ids.items()}
        await self.record(name, states)
        return ids

    async def record(
        self, name: str, ids: Mapping[str, str], state: ContainerState | None = None
    ) -> None:
        base = pod(name)
        running = state or base.status.containerStatuses[0].state
        record = structs.replace(
            base,
            metadata=structs.replace(base.metadata, uid=self.bench.uid),
            spec=structs.replace(
                base.spec, containers=tuple(Container(name=one, image=IMAGE) for one in ids)
            ),
            status=structs.replace(
                base.status,
                containerStatuses=tuple(
                    ContainerStatus(
                        name=one,
                        image=IMAGE,
                        imageID="sha256:1",
                        ready=True,
                        restartCount=0,
                        containerID=identity,
                        state=running,
                    )
                    for one, identity in ids.items()
                ),
            ),
        )
        self.statuses.pods["default", name] = record
        await self.served.store.put("pods", record)


@asynccontextmanager
async def session_world(
    make: MakeRuntime, socket: Path, **options: Any
) -> AsyncIterator[SessionWorld]:
    """``options`` are those of `served.serving`."""
    bench = Bench(make)
    try:
        await bench.set_up()
        statuses = Statuses()
        sessions = PodSessions(bench.runtime, statuses)  # type: ignore[arg-type]
        async with serving(socket, sessions=sessions, **options) as served:
            yield SessionWorld(served, bench, statuses, await bench.sandbox())
    finally:
        await bench.tear_down()
