"""A client that loads its libraries after the first paint of the screen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from podtui.api.insight import AT_ONCE

if TYPE_CHECKING:
    from podtui.api.engine_calls import EngineCall
    from podtui.api.images import NodeImage, PrunedImages, PullStep
    from podtui.api.insight import InsightQuery, NodeInsight, PodInsight, ProbeRun
    from podtui.api.local import NodeMetrics, PodMetrics
    from podtui.api.plan import Plan
    from podtui.api.v1 import EphemeralContainer, Pod
    from podtui.api.what_if import WhatIf
    from podtui.client.protocol import (
        AttachQuery,
        Client,
        Copied,
        Delta,
        ExecQuery,
        LogQuery,
        PortForward,
        RemoteSession,
        T,
    )


class LateClient:
    """A client that creates the real one in a thread on first use: a `UnixClient` for
    ``socket_path``, or the result of ``make`` for ``target``.
    """

    def __init__(
        self,
        socket_path: Path | None = None,
        *,
        target: str = "",
        make: Callable[[], Client] | None = None,
    ) -> None:
        self.target = target or f"unix:{socket_path}"
        self._make = make or (lambda: _make(socket_path or Path()))
        self._client: Client | None = None
        self._making = asyncio.Lock()

    @property
    def namespace(self) -> str | None:
        return self._client.namespace if self._client is not None else None

    async def _made(self) -> Client:
        async with self._making:
            if self._client is None:
                self._client = await asyncio.to_thread(self._make)
            return self._client

    async def follow(self, kind: type[T], namespace: str = "") -> AsyncIterator[Delta]:
        deltas = (await self._made()).follow(kind, namespace)
        async with aclosing(cast("AsyncGenerator[Delta]", deltas)):
            async for delta in deltas:
                yield delta

    async def get(self, kind: type[T], namespace: str, name: str) -> T:
        return await (await self._made()).get(kind, namespace, name)

    async def logs(self, namespace: str, pod: str, query: LogQuery) -> AsyncIterator[list[bytes]]:
        lines = (await self._made()).logs(namespace, pod, query)
        async with aclosing(cast("AsyncGenerator[list[bytes]]", lines)):
            async for batch in lines:
                yield batch

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return await (await self._made()).pod_metrics()

    async def node_metrics(self) -> NodeMetrics | None:
        return await (await self._made()).node_metrics()

    async def nodes_metrics(self) -> tuple[NodeMetrics, ...]:
        return await (await self._made()).nodes_metrics()

    async def insight(
        self, namespace: str, pod: str, query: InsightQuery = AT_ONCE
    ) -> PodInsight | None:
        return await (await self._made()).insight(namespace, pod, query)

    async def node_insight(self, query: InsightQuery = AT_ONCE) -> NodeInsight | None:
        return await (await self._made()).node_insight(query)

    async def run_probe(self, namespace: str, pod: str, container: str, probe: str) -> ProbeRun:
        return await (await self._made()).run_probe(namespace, pod, container, probe)

    async def version(self) -> str:
        return await (await self._made()).version()

    async def retry(self, namespace: str, pod: str) -> None:
        await (await self._made()).retry(namespace, pod)

    async def restart(self, namespace: str, pod: str, container: str = "") -> None:
        await (await self._made()).restart(namespace, pod, container)

    async def debug(self, namespace: str, pod: str, container: EphemeralContainer) -> Pod:
        return await (await self._made()).debug(namespace, pod, container)

    async def delete_pod(self, pod: Pod) -> None:
        await (await self._made()).delete_pod(pod)

    async def plan(self, name: str, text: bytes | None) -> Plan:
        return await (await self._made()).plan(name, text)

    async def what_if(self, manifest: bytes) -> WhatIf:
        return await (await self._made()).what_if(manifest)

    async def images(self) -> tuple[NodeImage, ...]:
        return await (await self._made()).images()

    async def remove_image(self, image_id: str) -> None:
        await (await self._made()).remove_image(image_id)

    async def prune_images(self) -> PrunedImages:
        return await (await self._made()).prune_images()

    async def pull_image(self, image: str) -> AsyncIterator[PullStep]:
        steps = (await self._made()).pull_image(image)
        async with aclosing(cast("AsyncGenerator[PullStep]", steps)):
            async for step in steps:
                yield step

    @asynccontextmanager
    async def exec(
        self, namespace: str, pod: str, query: ExecQuery
    ) -> AsyncGenerator[RemoteSession]:
        async with (await self._made()).exec(namespace, pod, query) as session:
            yield session

    @asynccontextmanager
    async def attach(
        self, namespace: str, pod: str, query: AttachQuery
    ) -> AsyncGenerator[RemoteSession]:
        async with (await self._made()).attach(namespace, pod, query) as session:
            yield session

    async def port_forward(
        self, namespace: str, pod: str, port: int, *, local_port: int = 0
    ) -> PortForward:
        client = await self._made()
        return await client.port_forward(namespace, pod, port, local_port=local_port)

    async def copy_from(
        self, namespace: str, pod: str, container: str, path: str, destination: Path
    ) -> Copied:
        return await (await self._made()).copy_from(namespace, pod, container, path, destination)

    async def copy_to(
        self, namespace: str, pod: str, container: str, source: Path, path: str
    ) -> Copied:
        return await (await self._made()).copy_to(namespace, pod, container, source, path)

    async def engine_calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        return await (await self._made()).engine_calls(uid)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def _make(socket_path: Path) -> Client:
    from podtui.client.unix import UnixClient

    return UnixClient(socket_path)
