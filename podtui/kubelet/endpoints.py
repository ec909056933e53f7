"""The kubelet as its HTTP endpoints see it: logs, figures, health (reference §16)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.pods import all_containers
from podtui.api.v1 import ContainerStatus, EphemeralContainer, Pod, PodStatus
from podtui.errors import EngineNotFound, LogError
from podtui.kubelet.metrics import Metrics
from podtui.kubelet.status_manager import StatusManager
from podtui.runtime.protocol import LogLine, LogOptions, Runtime

_PULLING: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


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

    async def container_logs(
        self, namespace: str, pod: str, container: str, *, previous: bool, options: LogOptions
    ) -> AsyncIterator[LogLine]:
        uid = self._statuses.find(namespace, pod)
        record = None if uid is None else self._statuses.record_of(uid)
        if record is None:
            raise LogError(404, f'pod "{pod}" does not exist')
        name = container or _only_container(record)
        container_id = log_container(record, name, previous=previous)
        lines = self._runtime.logs(container_id, options)
        return _translated(lines, f'container "{name}" in pod "{pod}" is not available')

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return await self._metrics.pods()

    async def node_metrics(self) -> NodeMetrics | None:
        return await self._metrics.node()

    async def retry(self, namespace: str, pod: str) -> None:
        """Raises `LookupError` where there is no such pod."""
        await self._retry(namespace, pod)

    async def restart(self, namespace: str, pod: str, container: str) -> None:
        """Raises `LookupError` where there is no such pod or container, `RestartRefused`."""
        await self._restart(namespace, pod, container)

    async def set_ephemeral_containers(
        self, namespace: str, pod: str, wanted: tuple[EphemeralContainer, ...]
    ) -> Pod:
        """Raises `LookupError` where there is no such pod, `InvalidUpdate`."""
        return await self._set_ephemeral(namespace, pod, wanted)

    def healthy(self) -> tuple[bool, str]:
        return self._health()


def _only_container(pod: Pod) -> str:
    names = [one.name for one in pod.spec.containers]
    if len(names) == 1 and not pod.spec.initContainers:
        return names[0]
    if len(names) == 1:
        init = " ".join(one.name for one in pod.spec.initContainers)
        choice = f"choose one of: [{names[0]}] or one of the init containers: [{init}]"
    else:
        choice = f"choose one of: [{' '.join(names)}]"
        if pod.spec.initContainers:
            init = " ".join(one.name for one in pod.spec.initContainers)
            choice += f" or one of the init containers: [{init}]"
    raise LogError(400, f"a container name must be specified for pod {pod.metadata.name}, {choice}")


def log_container(pod: Pod, name: str, *, previous: bool) -> str:
    """The engine's id of the instance whose log is meant. Raises `LogError`."""
    pod_name = pod.metadata.name
    if not any(one.name == name for _, one in all_containers(pod)):
        raise LogError(404, f'container "{name}" not found in pod "{pod_name}"')
    status = _status(pod.status, name)
    if status is None:
        raise LogError(400, f'container "{name}" in pod "{pod_name}" is not available')
    state = status.state
    last = status.lastState.terminated
    last_id = "" if last is None else last.containerID
    if previous:
        if not last_id:
            text = f'previous terminated container "{name}" in pod "{pod_name}" not found'
            raise LogError(400, text)
        return _bare(last_id)
    if state.running is not None:
        return _bare(status.containerID)
    if state.terminated is not None and state.terminated.containerID:
        return _bare(state.terminated.containerID)
    if last_id:
        return _bare(last_id)
    if state.waiting is not None and state.waiting.reason:
        why = _PULLING.get(state.waiting.reason, state.waiting.reason)
        raise LogError(400, f'container "{name}" in pod "{pod_name}" is waiting to start: {why}')
    raise LogError(400, f'container "{name}" in pod "{pod_name}" is not available')


def _status(status: PodStatus, name: str) -> ContainerStatus | None:
    every = (
        *status.initContainerStatuses,
        *status.containerStatuses,
        *status.ephemeralContainerStatuses,
    )
    return next((one for one in every if one.name == name), None)


def _bare(container_id: str) -> str:
    return container_id.partition("://")[2] or container_id


async def _translated(lines: AsyncIterator[LogLine], missing: str) -> AsyncIterator[LogLine]:
    try:
        async for line in lines:
            yield line
    except EngineNotFound as error:
        raise LogError(400, missing) from error
