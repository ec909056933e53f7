"""The client of an agent on this machine, through its socket."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec

from podtui.api.engine_calls import EngineCall, EngineCallList
from podtui.api.images import NodeImage, NodeImageList
from podtui.api.insight import PodInsight, ProbeRun
from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.names import GROUP_VERSION, METRICS_GROUP_VERSION
from podtui.api.plan import Plan
from podtui.api.v1 import EphemeralContainer, Pod
from podtui.api.what_if import WhatIf
from podtui.client.connection import Connection
from podtui.client.copying import Copying
from podtui.client.following import Following
from podtui.client.forward import Forward, listen
from podtui.client.kinds import kind_of
from podtui.client.lines import LineSplitter
from podtui.client.protocol import Delta, LogQuery, T
from podtui.client.remote import attach_session, exec_session
from podtui.client.talking import AttachQuery, Copied, ExecQuery, PortForward, RemoteSession
from podtui.clock import Clock, SystemClock
from podtui.errors import ApiError

MAX_LINE = 1024 * 1024
STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_METRICS = f"/apis/{METRICS_GROUP_VERSION}"
_Metrics = TypeVar("_Metrics", PodMetrics, NodeMetrics)


class UnixClient:
    """`podtui.client.protocol.Client` over the agent's unix socket. Belongs to one event loop."""

    def __init__(self, socket_path: Path | str, *, clock: Clock | None = None) -> None:
        self._target = f"unix:{socket_path}"
        self._clock = clock or SystemClock()
        # The pool must not bound how many streams a screen may hold open.
        connector = functools.partial(aiohttp.UnixConnector, str(socket_path), limit=0)
        self._connection = Connection("http://podtui", connector)

    @property
    def target(self) -> str:
        return self._target

    def follow(self, kind: type[T], namespace: str = "") -> AsyncGenerator[Delta]:
        return Following(self._connection, kind_of(kind), namespace, self._clock).run()

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        where = kind_of(kind)
        path = f"{where.collection(namespace)}/{quote(name, safe='')}"
        return where.decoder.decode(await self._connection.get(path))

    async def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncGenerator[list[bytes]]:
        """See `Client.logs`. A line longer than 1 MiB comes in pieces."""
        splitter = LineSplitter(MAX_LINE)
        async with self._connection.stream(
            "GET", f"/api/v1/namespaces/{namespace}/pods/{pod}/log", _log_params(query)
        ) as response:
            while chunk := await response.content.readany():
                if lines := splitter.feed(chunk):
                    yield lines
        if lines := splitter.finish():
            yield lines

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return await self._metrics("pods", PodMetrics)

    async def node_metrics(self) -> NodeMetrics | None:
        found = await self._metrics("nodes", NodeMetrics)
        return found[0] if found else None

    async def insight(self, namespace: str, pod: str) -> PodInsight:
        body = await self._connection.get(f"{_pod_path(namespace, pod)}/insight")
        return msgspec.json.decode(body, type=PodInsight)

    async def run_probe(self, namespace: str, pod: str, container: str, probe: str) -> ProbeRun:
        query = urlencode({"container": container, "probe": probe})
        body = await self._connection.post(f"{_pod_path(namespace, pod)}/probe?{query}")
        return msgspec.json.decode(body, type=ProbeRun)

    async def version(self) -> str:
        """The agent's version, as Kubernetes spells one: ``v1.36.0+podtui-0.1.0``."""
        document: dict[str, Any] = msgspec.json.decode(await self._connection.get("/version"))
        return str(document.get("gitVersion", ""))

    async def retry(self, namespace: str, pod: str) -> None:
        """Have a rejected pod admitted afresh. Raises `ApiError` 404 where there is none."""
        await self._connection.post(
            f"/apis/{GROUP_VERSION}/namespaces/{namespace}/pods/{pod}/retry"
        )

    async def restart(self, namespace: str, pod: str, container: str = "") -> None:
        """See `Client.restart`."""
        params = {"container": container} if container else None
        path = f"/apis/{GROUP_VERSION}/namespaces/{namespace}/pods/{pod}/restart"
        await self._connection.post(path, params)

    async def debug(self, namespace: str, pod: str, container: EphemeralContainer) -> Pod:
        """See `Client.debug`."""
        path = f"/api/v1/namespaces/{quote(namespace)}/pods/{quote(pod)}/ephemeralcontainers"
        body = msgspec.json.encode({"spec": {"ephemeralContainers": [container]}})
        answer = await self._connection.patch(path, body, STRATEGIC_MERGE)
        return msgspec.json.decode(answer, type=Pod)

    async def plan(self, name: str, text: bytes | None) -> Plan:
        """See `Client.plan`."""
        path = f"/apis/{GROUP_VERSION}/manifests/{quote(name, safe='')}/plan"
        params = {"remove": "true"} if text is None else None
        return msgspec.json.decode(
            await self._connection.post(path, params, body=text or b""), type=Plan
        )

    async def what_if(self, manifest: bytes) -> WhatIf:
        """See `Client.what_if`."""
        body = await self._connection.post(f"/apis/{GROUP_VERSION}/whatifs", body=manifest)
        return msgspec.json.decode(body, type=WhatIf)

    async def images(self) -> tuple[NodeImage, ...]:
        """See `Client.images`."""
        body = await self._connection.get(f"/apis/{GROUP_VERSION}/images")
        return msgspec.json.decode(body, type=NodeImageList).items

    # --- talking with pods

    def exec(
        self, namespace: str, pod: str, query: ExecQuery
    ) -> AbstractAsyncContextManager[RemoteSession]:
        return exec_session(self._connection, namespace, pod, query)

    def attach(
        self, namespace: str, pod: str, query: AttachQuery
    ) -> AbstractAsyncContextManager[RemoteSession]:
        return attach_session(self._connection, namespace, pod, query)

    async def port_forward(
        self, namespace: str, pod: str, port: int, *, local_port: int = 0
    ) -> PortForward:
        return Forward(self._connection, namespace, pod, port, listen(local_port))

    async def copy_from(
        self, namespace: str, pod: str, container: str, path: str, destination: Path
    ) -> Copied:
        copying = Copying(self._connection, namespace, pod, container)
        return await copying.out(path, destination)

    async def copy_to(
        self, namespace: str, pod: str, container: str, source: Path, path: str
    ) -> Copied:
        copying = Copying(self._connection, namespace, pod, container)
        return await copying.into(source, path)

    async def engine_calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        """See `Client.engine_calls`."""
        params = {"uid": uid} if uid else None
        body = await self._connection.get(f"/apis/{GROUP_VERSION}/enginecalls", params)
        return msgspec.json.decode(body, type=EngineCallList).items

    async def close(self) -> None:
        await self._connection.close()

    async def _metrics(self, plural: str, kind: type[_Metrics]) -> tuple[_Metrics, ...]:
        try:
            body = await self._connection.get(f"{_METRICS}/{plural}")
        except ApiError as error:
            if error.code in (404, 503):
                return ()
            raise
        document = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        return msgspec.json.decode(document["items"], type=tuple[kind, ...])


def _pod_path(namespace: str, pod: str) -> str:
    return f"/apis/{GROUP_VERSION}/namespaces/{quote(namespace)}/pods/{quote(pod)}"


def _log_params(query: LogQuery) -> dict[str, str]:
    wishes = {
        "container": query.container,
        "follow": "true" if query.follow else "",
        "previous": "true" if query.previous else "",
        "timestamps": "true" if query.timestamps else "",
        "tailLines": "" if query.tail is None else str(query.tail),
        "sinceSeconds": "" if query.since_seconds is None else str(query.since_seconds),
    }
    return {name: value for name, value in wishes.items() if value}
