"""The kubelet's HTTP endpoints: logs, sessions, metrics, health (kubelet.md §16)."""

from __future__ import annotations

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Generator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final

from prometheus_client import generate_latest

from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.pod_resources import is_static
from podtui.api.pods import all_containers, container_names
from podtui.api.summary import Summary
from podtui.api.v1 import (
    Container,
    ContainerStatus,
    EphemeralContainer,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
)
from podtui.errors import EngineConflict, EngineNotFound, LogError, RestartRefused, SessionError
from podtui.kubelet.containers.killer import effective_grace
from podtui.kubelet.containers.restart import restarts_in_place, to_restart
from podtui.kubelet.kubelet_metrics import HEALTH_CHECK, HEALTH_CHECKS, SLIS
from podtui.kubelet.pleg.pleg import Engine
from podtui.kubelet.pods.sync import Syncer
from podtui.kubelet.pods.sync_loop import PodControl, SyncLoop
from podtui.kubelet.prober.state import Probes
from podtui.kubelet.resource_managers.resource_managers import ResourceManagers
from podtui.kubelet.stats.exposition import (
    cadvisor_metrics,
    kubelet_metrics,
    probe_metrics,
    resource_metrics,
)
from podtui.kubelet.stats.metrics import Metrics
from podtui.kubelet.status.status_manager import StatusManager
from podtui.kubelet.tasks import Parts
from podtui.kubelet.types import WorkerState
from podtui.runtime.protocol import (
    ContainerState,
    Duplex,
    LogLines,
    LogOptions,
    ProcessSession,
    Runtime,
    SandboxState,
)

_PULLING: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}
NOT_BEGUN: Final = "the kubelet has not read its pods yet"
"""For a moment after the agent starts; a kubelet says that the pod does not exist."""


class Endpoints:
    """Implements `podtui.server.protocol.KubeletEndpoints`."""

    def __init__(
        self,
        *,
        engine: Engine,
        statuses: StatusManager,
        metrics: Metrics,
        probes: Probes,
        managers: ResourceManagers,
        node_name: str,
        pods: PodControl,
        syncer: Syncer,
        loop: SyncLoop,
        parts: Parts,
    ) -> None:
        self._statuses = statuses
        self._engine = engine
        self._metrics = metrics
        self._probes = probes
        self._managers = managers
        self.node_name = node_name
        self._pods = pods
        self._syncer = syncer
        self._loop = loop
        self._parts = parts
        self.sessions = PodSessions(engine.runtime, statuses, lambda: loop.has_begun)

    async def container_logs(
        self, namespace: str, pod: str, container: str, *, previous: bool, options: LogOptions
    ) -> AsyncIterator[LogLines]:
        uid = self._statuses.find(namespace, pod)
        record = None if uid is None else self._statuses.record_of(uid)
        if record is None and not self._loop.has_begun:
            raise LogError(503, NOT_BEGUN)
        if record is None:
            raise LogError(404, f'pod "{pod}" does not exist')
        name = container or only_container(record)
        container_id = log_container(record, name, previous=previous)
        engine = "" if self._engine.link.info is None else f"{self._engine.link.info.name}://"
        gone = f"unable to retrieve container logs for {engine}{container_id}"
        observed = self._engine.cache.get(record.metadata.uid)
        if observed is None or all(instance.id != container_id for instance in observed.containers):
            # For example, the containers of a deleted pod whose record has a finalizer.
            raise LogError(400, gone)
        try:
            # A container that was just removed gets an error instead of the status 200.
            await self._engine.runtime.container_status(container_id)
        except EngineNotFound as error:
            raise LogError(400, gone) from error
        return _until_removed(self._engine.runtime.logs(container_id, options), gone)

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        return await self._metrics.pods()

    async def node_metrics(self) -> NodeMetrics | None:
        return await self._metrics.node()

    async def summary(self) -> Summary:
        """Return the figures for ``/stats/summary``. Raises `EngineUnavailable`."""
        return await self._metrics.summary()

    def pods(self) -> tuple[Pod, ...]:
        """Return the pods of this node, with their current statuses."""
        records = (self._statuses.record_of(pod.metadata.uid) for pod in self._pods.manager)
        return tuple(record for record in records if record is not None)

    def running_pods(self) -> tuple[Pod, ...]:
        """Return the pods with running containers, as the runtime knows them."""
        pods: list[Pod] = []
        for observed in self._engine.cache:
            running = [c for c in observed.containers if c.state is ContainerState.RUNNING]
            if running:
                meta = ObjectMeta(
                    name=observed.name, namespace=observed.namespace, uid=observed.uid
                )
                containers = tuple(Container(name=c.name, image=c.image) for c in running)
                pods.append(Pod(metadata=meta, spec=PodSpec(containers=containers)))
        return tuple(pods)

    def prometheus(self) -> bytes:
        """Return ``/metrics``."""
        active = [
            pod
            for pod in self._pods.manager
            if self._pods.workers.state(pod.metadata.uid) is WorkerState.SYNC
        ]
        return kubelet_metrics(
            node_name=self.node_name,
            desired=tuple(self._pods.manager),
            active=active,
            working=self._pods.workers.working(),
            observed=self._engine.cache,
            cpus=self._managers.cpu_map(str),
            cgroup_version=0
            if self._engine.link.info is None
            else self._engine.link.info.cgroup_version,
            volumes=[
                volume
                for observed in self._engine.cache
                for volume in self._metrics.volumes_of(observed.uid)
            ],
        )

    def probe_prometheus(self) -> bytes:
        """Return ``/metrics/probes``."""
        return probe_metrics(self._probes.totals())

    async def resource_prometheus(self) -> bytes:
        """Return ``/metrics/resource``."""
        return resource_metrics(await self._metrics.measured())

    async def cadvisor_prometheus(self) -> bytes:
        """Return ``/metrics/cadvisor``."""
        measured = await self._metrics.measured()
        info = self._engine.link.info
        cores, memory = (0, 0) if info is None else (info.cpus, info.memory)
        return cadvisor_metrics(measured, cores=cores, memory=memory)

    def health_checks(self) -> Mapping[str, str]:
        """Return the problem of each check, empty if it passes; counts the checks."""
        _, stalled = self._loop.health()
        problems = {"ping": "", "log": "", "syncloop": stalled, "parts": self._parts.problem()}
        for name, problem in problems.items():
            HEALTH_CHECK.labels(name, "healthz").set(not problem)
            HEALTH_CHECKS.labels(name, "healthz", "error" if problem else "success").inc()
        return problems

    def sli_prometheus(self) -> bytes:
        """Return ``/metrics/slis``."""
        return generate_latest(SLIS)

    # --- requests of users

    async def retry(self, namespace: str, pod: str) -> None:
        """Admit a rejected static pod again (departure 6); leave any other pod alone.

        Raises `RestartRefused` for an API pod.
        """
        desired = self._find(namespace, pod)
        self._require_static(desired)
        if self._pods.admissions.forget_rejection(desired.metadata.uid):
            await self._loop.add(desired)

    async def restart(self, namespace: str, pod: str, container: str = "") -> None:
        """Restart a pod, or one of its containers, with its current manifest.

        Containers that always restart are stopped with their grace period. A pod that has other
        containers or is ending starts over as a whole. A rejected pod is admitted again. Raises
        `LookupError` for an unknown pod or container, and `RestartRefused` for a container that
        would not run again, and for an API pod that would have to start over.
        """
        desired = self._find(namespace, pod)
        uid = desired.metadata.uid
        if (
            self._pods.admissions.is_rejected(uid)
            or self._pods.workers.ending(uid)
            or (not container and not restarts_in_place(desired))
        ):
            self._require_static(desired)
        if self._pods.admissions.forget_rejection(uid):
            await self._loop.add(desired)
        elif not container and (self._pods.workers.ending(uid) or not restarts_in_place(desired)):
            self._statuses.mark_deleted(uid, effective_grace(desired))
            self._pods.workers.start_over(desired)
        else:
            if self._pods.workers.ending(uid):
                raise RestartRefused(f'pod "{pod}" has ended or is ending: restart the pod')
            self._syncer.restart(uid, to_restart(desired, self._engine.cache.get(uid), container))
            self._pods.workers.wake(uid)

    async def set_ephemeral_containers(
        self, namespace: str, pod: str, wanted: tuple[EphemeralContainer, ...]
    ) -> Pod:
        """Set the ephemeral containers of a pod and return its new record.

        Raises `InvalidUpdate` if the change is not allowed.
        """
        desired = self._find(namespace, pod)
        changed = self._pods.ephemerals.change(desired, wanted)
        uid = desired.metadata.uid
        self._pods.manager.set(changed)
        self._statuses.set(changed, self._statuses.get(uid) or changed.status)
        if not self._pods.admissions.is_rejected(uid):
            self._pods.workers.update(changed)
        record = self._statuses.record_of(uid)
        return changed if record is None else record

    def _require_static(self, pod: Pod) -> None:
        if not is_static(pod):
            text = f'pod "{pod.metadata.name}" cannot start over: delete it, and create it again'
            raise RestartRefused(text)

    def _find(self, namespace: str, name: str) -> Pod:
        pod = self._pods.manager.by_name(namespace, name)
        if pod is None:
            raise LookupError(f'pods "{name}" not found')
        return pod


class PodSessions:
    """Implements `podtui.server.protocol.SessionEndpoints`."""

    def __init__(
        self,
        runtime: Runtime,
        statuses: StatusManager,
        has_begun: Callable[[], bool] = lambda: True,
    ) -> None:
        self._runtime = runtime
        self._statuses = statuses
        self._has_begun = has_begun

    def find(self, namespace: str, pod: str) -> Pod:
        uid = self._statuses.find(namespace, pod)
        record = None if uid is None else self._statuses.record_of(uid)
        if record is None and not self._has_begun():
            raise SessionError(503, NOT_BEGUN)
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
    ) -> AsyncGenerator[ProcessSession]:
        identity = running_container(pod, container)
        async with AsyncExitStack() as stack:
            with _missing(container):
                opened = self._runtime.exec_session(identity, command, stdin=stdin, tty=tty)
                session = await stack.enter_async_context(opened)
            yield session

    @asynccontextmanager
    async def attach(
        self, pod: Pod, container: str, *, stdin: bool
    ) -> AsyncGenerator[ProcessSession]:
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
        ready = [sandbox for sandbox in snapshot.sandboxes if sandbox.state is SandboxState.READY]
        if not ready:
            raise SessionError(400, f"pod {pod.metadata.name} has no running sandbox")
        newest = max(ready, key=lambda sandbox: sandbox.attempt)
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
    if len(pod.spec.containers) == 1:
        return pod.spec.containers[0].name
    choice = f"choose one of: [{' '.join(container_names(pod))}]"
    raise LogError(400, f"a container name must be specified for pod {pod.metadata.name}, {choice}")


def log_container(pod: Pod, name: str, *, previous: bool) -> str:
    """Return the engine's id of the instance whose log is requested. Raises `LogError`."""
    pod_name = pod.metadata.name
    if not any(container.name == name for _, container in all_containers(pod)):
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
    return next((container for container in every if container.name == name), None)


def bare_id(container_id: str) -> str:
    return container_id.partition("://")[2] or container_id


def running_container(pod: Pod, name: str) -> str:
    """Return the engine's id of the instance that runs according to the pod's record.

    Raises `SessionError`.
    """
    if not any(container.name == name for _, container in all_containers(pod)):
        raise SessionError(400, f"container {name} is not valid for pod {pod.metadata.name}")
    status = status_of(pod.status, name)
    if status is None or status.state.running is None:
        raise SessionError(400, f'container not found ("{name}")')
    return bare_id(status.containerID)


def _named(pod: Pod, name: str) -> str:
    try:
        return name or only_container(pod)
    except LogError as error:
        raise SessionError(error.code, str(error)) from error


def _any_instance(pod: Pod, name: str) -> str:
    """Return the newest instance of a container that the engine still has, running or not."""
    name = _named(pod, name)
    if not any(container.name == name for _, container in all_containers(pod)):
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
    return SessionError(400, f'container not found ("{container}")')


@contextmanager
def _no_path(path: str) -> Generator[None]:
    try:
        yield
    except EngineNotFound as error:
        raise SessionError(404, f"{path}: no such file or directory") from error


async def _until_removed(batches: AsyncIterator[LogLines], gone: str) -> AsyncIterator[LogLines]:
    """End a log when its container is removed. Raises `LogError` if no line was read before."""
    empty = True
    try:
        async for lines in batches:
            empty = False
            yield lines
    except EngineNotFound as error:
        if empty:
            raise LogError(400, gone) from error
