"""An agent that is only a script: pods that change and a log that does not stop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

from podtui.api.insight import AT_ONCE, InsightQuery, NodeInsight, PodInsight, ProbeRun
from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    Event,
    Node,
    NodeStatus,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from podtui.client.protocol import Changed, Delta, LogQuery, Synced, T

SINCE = "2026-01-01T00:00:00Z"


def pod(index: int, restarts: int = 0) -> Pod:
    """A running pod; its restart count is what changes."""
    name = f"pod-{index:04d}-bench"
    return Pod(
        apiVersion="v1",
        kind="Pod",
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"{index:032x}",
            creationTimestamp=SINCE,
            resourceVersion=str(restarts),
        ),
        spec=PodSpec(containers=(Container(name="app", image="busybox:1.36"),)),
        status=PodStatus(
            phase="Running",
            podIP=f"10.0.{index // 250}.{index % 250 + 1}",
            startTime=SINCE,
            conditions=(PodCondition(type="Ready", status="True"),),
            containerStatuses=(
                ContainerStatus(
                    name="app",
                    image="busybox:1.36",
                    imageID="sha256:0",
                    ready=True,
                    started=True,
                    restartCount=restarts,
                    state=ContainerState(running=ContainerStateRunning(startedAt=SINCE)),
                ),
            ),
        ),
    )


NODE = Node(
    apiVersion="v1",
    kind="Node",
    metadata=ObjectMeta(name="bench", uid="node", creationTimestamp=SINCE),
    status=NodeStatus(
        capacity={"cpu": "8", "memory": "32Gi", "pods": "1200"},
        allocatable={"cpu": "8", "memory": "31Gi", "pods": "1200"},
    ),
)


class ScriptedClient:
    """A `podtui.client.protocol.Client`; ``changes`` pods change each second, in ten steps."""

    def __init__(self, *, pods: int, changes: int = 0, lines: int = 0) -> None:
        self._pods = [pod(index) for index in range(pods)]
        self._changes = changes
        self._lines = lines
        self.sent_lines = 0

    @property
    def target(self) -> str:
        return "script"

    async def follow(self, kind: type[T], namespace: str = "") -> AsyncIterator[Delta]:
        if kind is Pod:
            yield Synced(tuple(self._pods))
            async for delta in self._changing():
                yield delta
        elif kind is Node:
            yield Synced((NODE,))
        elif kind is Event:
            yield Synced(tuple(self._events()))
        else:
            yield Synced(())
        await asyncio.Event().wait()

    async def _changing(self) -> AsyncIterator[Delta]:
        if not self._changes:
            return
        turn = itertools.count(1)
        while True:
            await asyncio.sleep(0.1)
            step = next(turn)
            share = max(1, self._changes // 10)
            start = (step * share) % len(self._pods)
            touched = [(start + offset) % len(self._pods) for offset in range(share)]
            for index in touched:
                self._pods[index] = pod(index, restarts=step)
            yield Changed(tuple([self._pods[index] for index in touched]))

    def _events(self) -> list[Event]:
        return [
            Event(
                metadata=ObjectMeta(
                    name=f"{p.metadata.name}.{n}", namespace="default", uid=f"e{n}"
                ),
                involvedObject=ObjectReference(
                    kind="Pod", namespace="default", name=p.metadata.name, uid=p.metadata.uid
                ),
                type="Normal",
                reason="Started",
                message="Container started",
                count=1,
                firstTimestamp=SINCE,
                lastTimestamp=SINCE,
            )
            for n, p in enumerate(self._pods[:500])
        ]

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        raise LookupError(name)

    async def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[list[bytes]]:
        step = 0.02
        batch = max(1, round(self._lines * step))
        line = b"2026-11-21T07:08:09.123456789Z level=info msg=request path=/index.html status=200 "
        if self._lines:
            loop = asyncio.get_running_loop()
            begin = loop.time()
            while True:
                due = round((loop.time() - begin) * self._lines) - self.sent_lines
                if due >= batch:
                    first = self.sent_lines
                    self.sent_lines += due
                    yield [line + b"%d" % n for n in range(first, first + due)]
                await asyncio.sleep(step)
        await asyncio.Event().wait()

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return ()

    async def node_metrics(self) -> NodeMetrics | None:
        return None

    async def insight(
        self, namespace: str, pod: str, query: InsightQuery = AT_ONCE
    ) -> PodInsight | None:
        return PodInsight(time=0.0, version="1") if query.seen != "1" else None

    async def node_insight(self, query: InsightQuery = AT_ONCE) -> NodeInsight | None:
        return NodeInsight(time=0.0, version="1") if query.seen != "1" else None

    async def run_probe(self, namespace: str, pod: str, container: str, probe: str) -> ProbeRun:
        return ProbeRun(time=SINCE, verdict="success", seconds=0.0)

    async def version(self) -> str:
        return "bench"

    async def retry(self, namespace: str, pod: str) -> None:
        raise LookupError(pod)

    async def close(self) -> None:
        return None
