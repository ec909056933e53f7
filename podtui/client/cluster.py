"""The client of a cluster's API server, as defined by a kubeconfig context."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, NoReturn

from podtui.api.insight import (
    AT_ONCE,
    ConnectionCheck,
    InsightQuery,
    NodeInsight,
    PodInsight,
    ProbeRun,
)
from podtui.api.local import EngineCall, NodeImage, Plan, PrunedImages, PullStep, WhatIf
from podtui.client.api_client import ApiClient
from podtui.client.cluster_connection import ClusterConnection
from podtui.client.connection import Request
from podtui.client.copying import Copying
from podtui.client.credentials import Credentials
from podtui.clock import Clock, SystemClock
from podtui.errors import ApiError
from podtui.kubeconfig.types import Target

PAGE: Final = 500
"""kubectl's ``--chunk-size``."""
WATCH_SECONDS: Final = 420
"""Within the range of client-go's reflectors, five to ten minutes."""


class ClusterClient(ApiClient):
    """A `podtui.client.protocol.Client` for a cluster. Features that only an agent has raise
    `ApiError` 404. Belongs to one event loop.

    ``namespace`` limits the objects, empty for all namespaces. None means all if the user may list
    the pods of all namespaces, else the context's namespace. ``agent`` is the name of the program
    that the API sees. ``limit`` is that of `ClusterConnection`.
    """

    page = PAGE
    watch_seconds = WATCH_SECONDS

    def __init__(
        self,
        target: Target,
        *,
        namespace: str | None = None,
        interactive: bool = False,
        agent: str = "podtui",
        clock: Clock | None = None,
        limit: Callable[[Request], Awaitable[None]] | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self.credentials = Credentials(target, clock, interactive=interactive)
        connection = ClusterConnection(
            target.cluster, self.credentials, clock, agent=agent, limit=limit
        )
        super().__init__(target.cluster.server, connection, clock)
        self._context_namespace = target.namespace
        self._namespace = namespace
        self._scoping = asyncio.Lock()

    async def _scope(self) -> str:
        async with self._scoping:
            if self._namespace is None:
                self._namespace = await self._widest()
            return self._namespace

    async def _widest(self) -> str:
        try:
            await self._connection.get("/api/v1/pods", {"limit": "1"})
        except ApiError as error:
            if error.code != 403:
                raise
            return self._context_namespace
        return ""

    @property
    def namespace(self) -> str | None:
        """The current namespace, empty for all; None while it is not yet known."""
        return self._namespace

    def _copying(self, namespace: str, pod: str, container: str) -> Copying:
        return Copying(self._connection, namespace, pod, container, endpoint=False)

    # --- features that clusters lack

    async def insight(
        self, namespace: str, pod: str, query: InsightQuery = AT_ONCE
    ) -> PodInsight | None:
        _absent("pod insights")

    async def node_insight(self, query: InsightQuery = AT_ONCE) -> NodeInsight | None:
        _absent("node history")

    async def run_probe(self, namespace: str, pod: str, container: str, probe: str) -> ProbeRun:
        _absent("manual probe runs")

    async def check_connection(
        self, namespace: str, pod: str, host: str, port: int = 0
    ) -> ConnectionCheck:
        _absent("connections from inside a pod")

    async def retry(self, namespace: str, pod: str) -> None:
        _absent("retries of admission")

    async def restart(self, namespace: str, pod: str, container: str = "") -> None:
        _absent("restarts; delete the pod, and its owner recreates it")

    async def plan(self, name: str, text: bytes | None) -> Plan:
        _absent("manifest files")

    async def what_if(self, manifest: bytes) -> WhatIf:
        _absent("what-if checks")

    async def images(self) -> tuple[NodeImage, ...]:
        _absent("image list")

    async def remove_image(self, image_id: str) -> None:
        _absent("image removal")

    async def prune_images(self, ids: Sequence[str]) -> PrunedImages:
        _absent("image removal")

    def pull_image(self, image: str) -> AsyncIterator[PullStep]:
        _absent("image pulls")

    async def engine_calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        _absent("journal of engine calls")


def _absent(what: str) -> NoReturn:
    raise ApiError(404, "NotFound", f"a cluster does not support {what}")
