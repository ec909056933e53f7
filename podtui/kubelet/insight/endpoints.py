"""The kubelet's interface for its HTTP endpoints: logs, metrics, health (reference §16)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.summary import Summary
from podtui.api.v1 import EphemeralContainer, Pod
from podtui.errors import EngineNotFound, LogError
from podtui.kubelet.containers.instances import log_container, only_container
from podtui.kubelet.insight.metrics import Metrics
from podtui.kubelet.pods.pod_sessions import PodSessions
from podtui.kubelet.status.status_manager import StatusManager
from podtui.runtime.protocol import LogLine, LogOptions, Runtime


class Endpoints:
    """Implements `podtui.server.protocol.KubeletEndpoints`."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        statuses: StatusManager,
        metrics: Metrics,
        health: Callable[[], tuple[bool, str]],
        retry: Callable[[str, str], Awaitable[None]],
        restart: Callable[[str, str, str], Awaitable[None]],
        set_ephemeral: Callable[[str, str, tuple[EphemeralContainer, ...]], Awaitable[Pod]],
    ) -> None:
        self._runtime = runtime
        self._statuses = statuses
        self._metrics = metrics
        self._health = health
        self._retry = retry
        self._restart = restart
        self._set_ephemeral = set_ephemeral
        self.sessions = PodSessions(runtime, statuses)

    async def container_logs(
        self, namespace: str, pod: str, container: str, *, previous: bool, options: LogOptions
    ) -> AsyncIterator[LogLine]:
        uid = self._statuses.find(namespace, pod)
        record = None if uid is None else self._statuses.record_of(uid)
        if record is None:
            raise LogError(404, f'pod "{pod}" does not exist')
        name = container or only_container(record)
        container_id = log_container(record, name, previous=previous)
        lines = self._runtime.logs(container_id, options)
        return _translated(lines, f'container "{name}" in pod "{pod}" is not available')

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return await self._metrics.pods()

    async def node_metrics(self) -> NodeMetrics | None:
        return await self._metrics.node()

    async def summary(self) -> Summary:
        """Return the figures for ``/stats/summary``. Raises `EngineUnavailable`."""
        return await self._metrics.summary()

    async def retry(self, namespace: str, pod: str) -> None:
        """Retry the admission of a rejected pod; others are not affected. Raises `LookupError` if
        there is no such pod."""
        await self._retry(namespace, pod)

    async def restart(self, namespace: str, pod: str, container: str) -> None:
        """Restart a pod or, with ``container``, one of its containers. Raises `LookupError` if
        there is no such pod or container, and `RestartRefused`."""
        await self._restart(namespace, pod, container)

    async def set_ephemeral_containers(
        self, namespace: str, pod: str, wanted: tuple[EphemeralContainer, ...]
    ) -> Pod:
        """Set the pod's ephemeral containers. Raises `LookupError` if there is no such pod, and
        `InvalidUpdate`."""
        return await self._set_ephemeral(namespace, pod, wanted)

    def healthy(self) -> tuple[bool, str]:
        return self._health()


async def _translated(lines: AsyncIterator[LogLine], missing: str) -> AsyncIterator[LogLine]:
    try:
        async for line in lines:
            yield line
    except EngineNotFound as error:
        raise LogError(400, missing) from error
