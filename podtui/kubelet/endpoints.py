"""The kubelet's HTTP endpoints: logs, sessions, metrics, health (reference §16)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final

from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.pods import all_containers
from podtui.api.summary import Summary
from podtui.api.v1 import ContainerStatus, EphemeralContainer, Pod, PodStatus
from podtui.errors import EngineConflict, EngineNotFound, LogError, SessionError
from podtui.kubelet.insight.metrics import Metrics
from podtui.kubelet.status.status_manager import StatusManager
from podtui.runtime.protocol import (
    ContainerState,
    Duplex,
    LogLine,
    LogOptions,
    Runtime,
    SandboxState,
    Session,
)

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


class PodSessions:
    """Implements `podtui.server.protocol.SessionEndpoints`."""

    def __init__(self, runtime: Runtime, statuses: StatusManager) -> None:
        self._runtime = runtime
        self._statuses = statuses

    def find(self, namespace: str, pod: str) -> Pod:
        uid = self._statuses.find(namespace, pod)
        record = None if uid is None else self._statuses.record_of(uid)
        if record is None:
            raise SessionError(404, f'pod "{pod}" does not exist')
        return record

    async def container(self, pod: Pod, name: str) -> str:
        """Return the name of the requested container, or of the only one if ``name`` is empty.

        Raises `SessionError` if it is not running.
        """
        name = _named(pod, name)
        with _missing(name):
            status = await self._runtime.container_status(running_container(pod, name))
        if status.record.state is not ContainerState.RUNNING:
            raise _not_found(name)
        return name

    @asynccontextmanager
    async def exec(
        self, pod: Pod, container: str, command: Sequence[str], *, stdin: bool, tty: bool
    ) -> AsyncGenerator[Session]:
        identity = running_container(pod, container)
        async with AsyncExitStack() as stack:
            with _missing(container):
                opened = self._runtime.exec_session(identity, command, stdin=stdin, tty=tty)
                session = await stack.enter_async_context(opened)
            yield session

    @asynccontextmanager
    async def attach(self, pod: Pod, container: str, *, stdin: bool) -> AsyncGenerator[Session]:
        identity = running_container(pod, container)
        async with AsyncExitStack() as stack:
            with _missing(container):
                opened = self._runtime.attach_session(identity, stdin=stdin)
                session = await stack.enter_async_context(opened)
            yield session

    @asynccontextmanager
    async def dial(self, pod: Pod, port: int) -> AsyncGenerator[Duplex]:
        """Connect to a port of the newest ready sandbox, which may not be the pod's first one.

        Raises `SessionError` if no sandbox is ready.
        """
        snapshot = await self._runtime.list(pod.metadata.uid)
        ready = [one for one in snapshot.sandboxes if one.state is SandboxState.READY]
        if not ready:
            raise SessionError(500, f"pod {pod.metadata.name} has no sandbox that runs")
        newest = max(ready, key=lambda one: one.attempt)
        async with self._runtime.dial(newest.id, port) as stream:
            yield stream

    @asynccontextmanager
    async def read_files(
        self, pod: Pod, container: str, path: str
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        identity = _any_instance(pod, container)
        async with AsyncExitStack() as stack:
            with _no_path(path):
                opened = self._runtime.read_files(identity, path)
                content = await stack.enter_async_context(opened)
            yield content

    async def write_files(
        self, pod: Pod, container: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        with _no_path(directory):
            await self._runtime.write_files(_any_instance(pod, container), directory, content)


# --- instances of containers


def only_container(pod: Pod) -> str:
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
    """Return the engine's id of the instance whose log is requested. Raises `LogError`."""
    pod_name = pod.metadata.name
    if not any(one.name == name for _, one in all_containers(pod)):
        raise LogError(404, f'container "{name}" not found in pod "{pod_name}"')
    status = status_of(pod.status, name)
    if status is None:
        raise LogError(400, f'container "{name}" in pod "{pod_name}" is not available')
    state = status.state
    last = status.lastState.terminated
    last_id = "" if last is None else last.containerID
    if previous:
        if not last_id:
            text = f'previous terminated container "{name}" in pod "{pod_name}" not found'
            raise LogError(400, text)
        return bare_id(last_id)
    if state.running is not None:
        return bare_id(status.containerID)
    if state.terminated is not None and state.terminated.containerID:
        return bare_id(state.terminated.containerID)
    if last_id:
        return bare_id(last_id)
    if state.waiting is not None and state.waiting.reason:
        why = _PULLING.get(state.waiting.reason, state.waiting.reason)
        raise LogError(400, f'container "{name}" in pod "{pod_name}" is waiting to start: {why}')
    raise LogError(400, f'container "{name}" in pod "{pod_name}" is not available')


def status_of(status: PodStatus, name: str) -> ContainerStatus | None:
    every = (
        *status.initContainerStatuses,
        *status.containerStatuses,
        *status.ephemeralContainerStatuses,
    )
    return next((one for one in every if one.name == name), None)


def bare_id(container_id: str) -> str:
    return container_id.partition("://")[2] or container_id


def running_container(pod: Pod, name: str) -> str:
    """Return the engine's id of the instance that runs according to the pod's record.

    Raises `SessionError`.
    """
    if not any(one.name == name for _, one in all_containers(pod)):
        raise SessionError(400, f"container {name} is not valid for pod {pod.metadata.name}")
    status = status_of(pod.status, name)
    if status is None or status.state.running is None:
        raise SessionError(500, f'container not found ("{name}")')
    return bare_id(status.containerID)


def _named(pod: Pod, name: str) -> str:
    try:
        return name or only_container(pod)
    except LogError as error:
        raise SessionError(error.code, str(error)) from error


def _any_instance(pod: Pod, name: str) -> str:
    """Return the newest instance of a container that the engine still has, running or not."""
    name = _named(pod, name)
    if not any(one.name == name for _, one in all_containers(pod)):
        raise SessionError(400, f"container {name} is not valid for pod {pod.metadata.name}")
    try:
        return log_container(pod, name, previous=False)
    except LogError as error:
        raise SessionError(error.code, str(error)) from error


@contextmanager
def _missing(container: str) -> Generator[None]:
    """Translate engine errors: the pod's record may be slightly older than the engine's state."""
    try:
        yield
    except (EngineNotFound, EngineConflict) as error:
        raise _not_found(container) from error


def _not_found(container: str) -> SessionError:
    return SessionError(500, f'container not found ("{container}")')


@contextmanager
def _no_path(path: str) -> Generator[None]:
    try:
        yield
    except EngineNotFound as error:
        raise SessionError(404, f"{path}: no such file or directory") from error


async def _translated(lines: AsyncIterator[LogLine], missing: str) -> AsyncIterator[LogLine]:
    try:
        async for line in lines:
            yield line
    except EngineNotFound as error:
        raise LogError(400, missing) from error
