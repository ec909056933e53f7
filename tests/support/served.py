"""A server over real records and a fake kubelet, for tests of both ends of the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from podtui.api.local import ContainerMetrics, NodeMetrics, PodMetrics
from podtui.api.v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    EphemeralContainer,
    Event,
    EventSource,
    Node,
    NodeCondition,
    NodeStatus,
    NodeSystemInfo,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodSecurityContext,
    PodSpec,
    PodStatus,
)
from podtui.clock import SystemClock
from podtui.errors import InvalidUpdate, RestartRefused
from podtui.runtime.protocol import LogLine, LogLines, LogOptions
from podtui.server import build_app, serve_unix
from podtui.server.auth.access import ATTRIBUTES, USER, Access
from podtui.server.auth.attributes import parse_attributes
from podtui.server.auth.users import ADMIN
from podtui.server.protocol import LogError
from podtui.server.resources.cluster_role_aggregation import ClusterRoleAggregation
from podtui.server.resources.default_roles import DefaultRoles
from podtui.server.resources.namespace_care import NamespaceCare
from podtui.server.status import Handler
from podtui.store import Store, open_store

LONG_AGO = "2026-01-01T00:00:00Z"


def pod(name: str, namespace: str = "default", phase: str = "Running", **labels: str) -> Pod:
    running = ContainerState(running=ContainerStateRunning(startedAt=LONG_AGO))
    up = phase == "Running"
    return Pod(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=labels, uid=f"uid-{name}"),
        spec=PodSpec(
            containers=(
                Container(
                    name="c",
                    image="busybox:1",
                    imagePullPolicy="IfNotPresent",
                    terminationMessagePath="/dev/termination-log",
                    terminationMessagePolicy="File",
                ),
            ),
            nodeName="node",
            restartPolicy="Always",
            dnsPolicy="ClusterFirst",
            terminationGracePeriodSeconds=30,
            securityContext=PodSecurityContext(),
        ),
        status=PodStatus(
            phase=phase,
            podIP="10.0.0.7" if up else "",
            startTime=LONG_AGO,
            conditions=(PodCondition(type="Ready", status=str(up)),),
            containerStatuses=(
                ContainerStatus(
                    name="c",
                    image="busybox:1",
                    imageID="sha256:1",
                    ready=up,
                    restartCount=0,
                    state=running if up else ContainerState(),
                ),
            ),
        ),
    )


def node(name: str = "node") -> Node:
    return Node(
        metadata=ObjectMeta(name=name),
        status=NodeStatus(
            capacity={"cpu": "2", "memory": "1Gi", "pods": "110"},
            allocatable={"cpu": "2", "memory": "1Gi", "pods": "110"},
            conditions=(NodeCondition(type="Ready", status="True", reason="KubeletReady"),),
            nodeInfo=NodeSystemInfo(
                architecture="amd64",
                bootID="b",
                containerRuntimeVersion="docker://20.10.24",
                kernelVersion="6.1",
                kubeProxyVersion="",
                kubeletVersion="v1.36.0+podtui",
                machineID="m",
                operatingSystem="linux",
                osImage="Debian",
                systemUUID="s",
            ),
        ),
    )


def event(name: str, involved: str = "web", reason: str = "Started") -> Event:
    return Event(
        metadata=ObjectMeta(name=name, namespace="default"),
        involvedObject=ObjectReference(
            apiVersion="v1",
            kind="Pod",
            namespace="default",
            name=involved,
            uid=f"uid-{involved}",
            fieldPath="spec.containers{c}",
        ),
        reason=reason,
        message=f"Container {reason.lower()}",
        source=EventSource(component="kubelet", host="node"),
        type="Normal",
        count=1,
        firstTimestamp=LONG_AGO,
        lastTimestamp=LONG_AGO,
    )


async def put_records(store: Store) -> None:
    """Store three pods in two namespaces, their node, and an event."""
    for item in (pod("web", app="web"), pod("db", phase="Pending"), pod("far", "other")):
        await store.put("pods", item)
    await store.put("nodes", node())
    await store.put("events", event("web.1"))


def line(text: bytes, *, partial: bool = False) -> LogLine:
    return LogLine(
        timestamp=f"{LONG_AGO[:-1]}.000000001Z", stream="stdout", content=text, partial=partial
    )


@dataclass
class FakeKubelet:
    """Returns what the test put in. ``more`` feeds followed logs; None ends them."""

    lines: list[LogLine] = field(default_factory=list)
    more: asyncio.Queue[LogLine | None] = field(default_factory=asyncio.Queue)
    log_requests: list[tuple[str, str, str, bool, LogOptions]] = field(default_factory=list)
    retried: list[tuple[str, str]] = field(default_factory=list)
    restarted: list[tuple[str, str, str]] = field(default_factory=list)
    debugged: list[tuple[str, str, tuple[EphemeralContainer, ...]]] = field(default_factory=list)
    health: dict[str, str] = field(
        default_factory=lambda: {"ping": "", "log": "", "syncloop": "", "parts": ""}
    )
    node_name: str = "node"
    closed_logs: int = 0
    sessions: Any = None

    async def container_logs(
        self, namespace: str, pod: str, container: str, *, previous: bool, options: LogOptions
    ) -> AsyncIterator[LogLines]:
        self.log_requests.append((namespace, pod, container, previous, options))
        if container == "waiting":
            raise LogError(
                400,
                f'container "{container}" in pod "{pod}" is waiting to start: ContainerCreating',
            )
        if container == "missing":
            raise LogError(404, f'container "{container}" not found in pod "{pod}"')
        return self._read(options)

    async def _read(self, options: LogOptions) -> AsyncIterator[LogLines]:
        try:
            tail = len(self.lines) if options.tail is None else options.tail
            for start in range(len(self.lines) - tail, len(self.lines), 3):
                yield self.lines[start : start + 3]
            while options.follow and (item := await self.more.get()) is not None:
                yield [item]
        finally:
            self.closed_logs += 1

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        usage = {"cpu": "12m", "memory": "3Mi"}
        return (
            PodMetrics(
                metadata=ObjectMeta(name="web", namespace="default"),
                timestamp=LONG_AGO,
                window="10s",
                containers=(ContainerMetrics(name="c", usage=usage),),
            ),
        )

    async def node_metrics(self) -> NodeMetrics | None:
        return NodeMetrics(
            metadata=ObjectMeta(name="node"),
            timestamp=LONG_AGO,
            window="10s",
            usage={"cpu": "250m", "memory": "512Mi"},
        )

    async def retry(self, namespace: str, pod: str) -> None:
        if pod == "missing":
            raise LookupError(f'pod "{pod}" not found')
        self.retried.append((namespace, pod))

    async def restart(self, namespace: str, pod: str, container: str) -> None:
        if pod == "missing":
            raise LookupError(f'pods "{pod}" not found')
        if container == "once":
            raise RestartRefused('container "once" would not start again')
        self.restarted.append((namespace, pod, container))

    async def set_ephemeral_containers(
        self, namespace: str, pod: str, wanted: tuple[EphemeralContainer, ...]
    ) -> Pod:
        if pod == "refusing":
            raise InvalidUpdate([("FieldValueForbidden", "spec", "Forbidden: not here")])
        self.debugged.append((namespace, pod, wanted))
        return Pod(
            metadata=ObjectMeta(name=pod, namespace=namespace),
            spec=PodSpec(
                containers=(Container(name="c", image="busybox:1"),), ephemeralContainers=wanted
            ),
        )

    def health_checks(self) -> dict[str, str]:
        return self.health


class OpenAccess(Access):
    """Treat each client as admin, over any transport: for tests with their own access control."""

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        request[USER] = ADMIN
        request[ATTRIBUTES] = parse_attributes(request.method, request.path, request.query)
        return await handler(request)


@dataclass
class Served:
    store: Store
    kubelet: FakeKubelet
    app: web.Application
    runner: web.AppRunner
    socket: Path


@asynccontextmanager
async def serving(
    socket: Path, store: Store | None = None, sessions: object = None, **options: object
) -> AsyncGenerator[Served]:
    """Serve records (in memory by default) on a unix socket; ``sessions`` are those of the pods."""
    clock = SystemClock()
    records = store or open_store(None, clock=clock)
    await NamespaceCare(records, clock).prepare()
    await DefaultRoles(records, clock).prepare()
    await ClusterRoleAggregation(records, clock).aggregate()
    kubelet = FakeKubelet(sessions=sessions)
    options.setdefault("access", OpenAccess())
    app = build_app(records, kubelet, version="0.0.test", **options)
    try:
        async with serve_unix(app, socket) as runner:
            yield Served(records, kubelet, app, runner, socket)
    finally:
        if store is None:
            await records.close()
