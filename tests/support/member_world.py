"""A kubelet whose API is that of a `FaultyServer`, on a simulated engine in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faulty_server import FaultyServer, cluster_client, faulty_server
from kubelet_world import World
from msgspec import structs
from virtual_time import VirtualClock

from podtui.agent.cluster_ports import ClusterApi, cluster_ports
from podtui.api.v1 import Node, Pod
from podtui.client.cluster import ClusterClient
from podtui.kubelet.kubelet import Kubelet
from podtui.kubelet.tasks import Parts
from podtui.store import Store


class WallClock(VirtualClock):
    """``ahead`` is the difference to the clock of the API server, in seconds."""

    def __init__(self, ahead: float = 0.0) -> None:
        super().__init__(datetime.now(UTC))
        self.ahead = ahead

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.ahead)


class MemberWorld(World):
    """``store`` is the copy of the node; ``server`` is the cluster."""

    def __init__(self, server: FaultyServer, client: ClusterClient, clock: WallClock) -> None:
        self.server = server
        self.client = client
        self.wall = clock
        super().__init__(clock=clock)

    @property
    def cluster(self) -> Store:
        """The records of the API server."""
        assert self.server.served is not None
        return self.server.served.store

    def new_kubelet(self) -> Kubelet:
        self.api = ClusterApi(self.client, self.store, self.clock, "n1")
        member = cluster_ports(self.api)
        self.jobs, self.documents = member.jobs, member.ports.documents
        return Kubelet(
            runtime=self.runtime,
            ports=member.ports,
            records=self.store,
            folders=self._folders(),
            clock=self.clock,
            config=self.config,
            jitter=lambda: self._jitter,
        )

    async def create(self, *pods: Pod) -> None:
        for pod in pods:
            # An API server computes the class.
            status = structs.replace(pod.status, qosClass="BestEffort")
            await self.cluster.create("pods", structs.replace(pod, status=status))

    async def change(self, change: Callable[[Pod], Pod], name: str = "web") -> None:
        await self.cluster.update("pods", "default", name, change)

    async def seen(self, name: str = "web") -> Pod | None:
        """Return a pod of the cluster."""
        item = await self.cluster.get("pods", "default", name)
        assert item is None or isinstance(item, Pod)
        return item

    async def seen_node(self) -> Node:
        item = await self.cluster.get("nodes", "", "n1")
        assert isinstance(item, Node)
        return item

    async def eventually(self, condition: Callable[[], object], limit: float = 60.0) -> float:
        """Wait until an async function returns something true; return the virtual seconds."""
        began = self.clock.monotonic()
        while not await condition():  # type: ignore[misc]
            assert self.clock.monotonic() - began < limit, "the condition was not met in time"
            await asyncio.sleep(0.1)
        return self.clock.monotonic() - began


@contextlib.asynccontextmanager
async def member_world(folder: Path, ahead: float = 0.0) -> AsyncGenerator[MemberWorld]:
    """Run a kubelet that has registered its node, with a clock that is ``ahead``."""
    async with faulty_server(folder) as server:
        clock = WallClock(ahead)
        client = cluster_client(server, folder, clock)
        world = MemberWorld(server, client, clock)
        parts = Parts(world.clock)
        async with world.running(), asyncio.TaskGroup() as group:
            jobs = [
                group.create_task(parts.keep_running(name, job), name=name)
                for name, job in world.jobs.items()
            ]

            async def registered() -> bool:
                return await world.cluster.get("nodes", "", "n1") is not None

            await world.eventually(registered)
            yield world
            for job in jobs:
                job.cancel()
        await client.close()
