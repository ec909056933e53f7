"""Sessions with pods: exec, attach, port-forward and files (reference §16)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from podtui.api.pods import all_containers
from podtui.api.v1 import Pod
from podtui.errors import EngineConflict, EngineNotFound, LogError, SessionError
from podtui.kubelet.containers.instances import log_container, only_container, running_container
from podtui.kubelet.status.status_manager import StatusManager
from podtui.runtime.protocol import ContainerState, Duplex, Runtime, SandboxState, Session


class PodSessions:
    """Implements `podtui.server.protocol.PodSessions`."""

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
