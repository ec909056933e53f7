"""A journal of recent engine calls that change something, as lines that users can repeat."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Final, TypeVar

import msgspec

from podtui.api.local import EngineCall
from podtui.api.times import rfc3339_micros
from podtui.clock import Clock
from podtui.runtime import command_lines as lines
from podtui.runtime.interceptor import RuntimeInterceptor
from podtui.runtime.protocol import (
    ContainerConfig,
    ExecResult,
    ImageRecord,
    PodVolume,
    ProcessSession,
    PullProgress,
    RegistryAuth,
    Resources,
    Runtime,
    RuntimeSnapshot,
    SandboxConfig,
    Started,
)

CALLS: Final = 2000
SHOWN_ERROR: Final = 300
GIVEN_UP: Final = "canceled before the engine responded"
T = TypeVar("T")


class Journal:
    """A ring buffer of calls. Equal consecutive calls of one pod are merged and counted."""

    def __init__(self, clock: Clock, limit: int = CALLS) -> None:
        self._clock = clock
        self._calls: deque[EngineCall] = deque(maxlen=limit)
        self._serial = 0

    def calls(self, uid: str = "") -> tuple[EngineCall, ...]:
        """Return all calls, or those of one pod, oldest first."""
        return tuple(call for call in self._calls if not uid or call.uid == uid)

    def add(self, call: EngineCall) -> None:
        self._serial += 1
        call = msgspec.structs.replace(call, serial=self._serial)
        for back, before in enumerate(reversed(self._calls), start=1):
            if before.uid == call.uid:
                if (before.line, before.error) == (call.line, call.error):
                    del self._calls[-back]
                    call = msgspec.structs.replace(call, count=before.count + 1)
                break
        self._calls.append(call)

    @contextmanager
    def record(self, verb: str, line: str, of: EngineCall | None = None) -> Generator[None]:
        """Record the call that the block makes when it succeeds or fails."""
        began, error = self._clock.monotonic(), ""
        try:
            yield
        except asyncio.CancelledError:
            error = GIVEN_UP
            raise
        except Exception as failure:
            error = str(failure)[:SHOWN_ERROR] or type(failure).__name__
            raise
        finally:
            self.add(
                EngineCall(
                    serial=0,
                    time=rfc3339_micros(self._clock.now()),
                    line=line,
                    verb=verb,
                    namespace=of.namespace if of else "",
                    pod=of.pod if of else "",
                    uid=of.uid if of else "",
                    container=of.container if of else "",
                    seconds=round(self._clock.monotonic() - began, 3),
                    error=error,
                )
            )


def journaled(runtime: Runtime, journal: Journal) -> Runtime:
    """Wrap a runtime so that every changing call is recorded."""
    return JournaledRuntime(runtime, journal)


def _owner(namespace: str, pod: str, uid: str, container: str = "") -> EngineCall:
    return EngineCall(
        serial=0, time="", line="", verb="", namespace=namespace, pod=pod, uid=uid,
        container=container,
    )  # fmt: skip


class JournaledRuntime(RuntimeInterceptor):
    """Calls without a method here change nothing, or only the rules and sockets of a pod's
    network, which are not shown: they change with every Service."""

    def __init__(self, runtime: Runtime, journal: Journal) -> None:
        super().__init__(runtime)
        self._journal = journal
        self._owners: dict[str, EngineCall] = {}
        """The owner of each sandbox and container, by the engine's id."""

    async def list(self, pod_uid: str | None = None) -> RuntimeSnapshot:
        before = frozenset(self._owners) if pod_uid is None else frozenset[str]()
        snapshot = await self._runtime.list(pod_uid)
        owners = self._owners
        for sandbox in snapshot.sandboxes:
            if sandbox.id not in owners:
                owners[sandbox.id] = _owner(sandbox.namespace, sandbox.name, sandbox.uid)
        for container in snapshot.containers:
            if container.id not in owners:
                owners[container.id] = _owner(
                    container.pod_namespace,
                    container.pod_name,
                    container.pod_uid,
                    container.name,
                )
        if before:
            # Keep the owners added during the call (not in before): the list may not have them.
            listed = {record.id for record in (*snapshot.sandboxes, *snapshot.containers)}
            for removed in before - listed:
                owners.pop(removed, None)
        return snapshot

    async def run_sandbox(self, config: SandboxConfig) -> Started:
        owner = _owner(config.namespace, config.name, config.uid)
        with self._journal.record("run sandbox", lines.run_sandbox(config), owner):
            started = await self._runtime.run_sandbox(config)
        self._owners[started.id] = owner
        return started

    async def stop_sandbox(self, sandbox_id: str) -> None:
        with self._record("stop sandbox", lines.stop(sandbox_id), sandbox_id):
            await self._runtime.stop_sandbox(sandbox_id)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        with self._record("remove sandbox", lines.remove(sandbox_id), sandbox_id):
            await self._runtime.remove_sandbox(sandbox_id)

    async def remove_pod_data(self, pod_uid: str) -> None:
        owner = next((owner for owner in self._owners.values() if owner.uid == pod_uid), None)
        owner = owner or _owner("", "", pod_uid)
        with self._journal.record("remove volumes", lines.remove_pod_data(pod_uid), owner):
            await self._runtime.remove_pod_data(pod_uid)

    async def remove_host_directory(self, path: str) -> None:
        with self._journal.record("remove directory", lines.remove_host_directory(path)):
            await self._runtime.remove_host_directory(path)

    async def write_volume(self, sandbox_id: str, volume: PodVolume) -> None:
        with self._record("write volume", lines.write_volume(sandbox_id, volume), sandbox_id):
            await self._runtime.write_volume(sandbox_id, volume)

    async def fill_volume(self, sandbox_id: str, volume: str, image_id: str) -> None:
        text = lines.fill_volume(sandbox_id, volume, image_id)
        with self._record("fill volume", text, sandbox_id):
            await self._runtime.fill_volume(sandbox_id, volume, image_id)

    async def update_container(self, container_id: str, resources: Resources) -> None:
        with self._record("resize", lines.update_container(container_id, resources), container_id):
            await self._runtime.update_container(container_id, resources)

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> Started:
        owner = _owner(config.pod_namespace, config.pod_name, config.pod_uid, config.name)
        with self._journal.record("create", lines.create_container(sandbox_id, config), owner):
            started = await self._runtime.create_container(sandbox_id, config)
        self._owners[started.id] = owner
        return started

    async def start_container(self, container_id: str) -> Started:
        with self._record("start", lines.start(container_id), container_id):
            started = await self._runtime.start_container(container_id)
        if container_id in self._owners:
            self._owners[started.id] = self._owners[container_id]
        return started

    async def stop_container(self, container_id: str, grace: float) -> None:
        with self._record("stop", lines.stop(container_id, grace), container_id):
            await self._runtime.stop_container(container_id, grace)

    async def remove_container(self, container_id: str) -> None:
        with self._record("remove", lines.remove(container_id), container_id):
            await self._runtime.remove_container(container_id)

    async def pull_image(
        self,
        image: str,
        *,
        auth: RegistryAuth | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageRecord:
        with self._journal.record("pull", lines.pull(image)):
            return await self._runtime.pull_image(image, auth=auth, on_progress=on_progress)

    async def remove_image(self, image_id: str) -> None:
        with self._journal.record("remove image", lines.remove_image(image_id)):
            await self._runtime.remove_image(image_id)

    async def exec(
        self, container_id: str, command: Sequence[str], *, timeout: float, limit: int = 10240
    ) -> ExecResult:
        text = lines.execute(container_id, command, stdin=False, tty=False)
        with self._record("exec", text, container_id):
            return await self._runtime.exec(container_id, command, timeout=timeout, limit=limit)

    @asynccontextmanager
    async def exec_session(
        self, container_id: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> AsyncGenerator[ProcessSession]:
        text = lines.execute(container_id, command, stdin=stdin, tty=tty)
        session = self._runtime.exec_session(container_id, command, stdin=stdin, tty=tty)
        async with self._opened("exec", text, container_id, session) as opened:
            yield opened

    @asynccontextmanager
    async def attach_session(
        self, container_id: str, *, stdin: bool = False
    ) -> AsyncGenerator[ProcessSession]:
        text = lines.attach(container_id, stdin=stdin)
        session = self._runtime.attach_session(container_id, stdin=stdin)
        async with self._opened("attach", text, container_id, session) as opened:
            yield opened

    @asynccontextmanager
    async def read_files(
        self, container_id: str, path: str
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        text = lines.copy_out(container_id, path)
        content = self._runtime.read_files(container_id, path)
        async with self._opened("copy out", text, container_id, content) as opened:
            yield opened

    async def write_files(
        self, container_id: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        with self._record("copy in", lines.copy_in(container_id, directory), container_id):
            await self._runtime.write_files(container_id, directory, content)

    def _record(self, verb: str, line: str, engine_id: str) -> AbstractContextManager[None]:
        return self._journal.record(verb, line, self._owners.get(engine_id))

    @asynccontextmanager
    async def _opened(
        self, verb: str, line: str, engine_id: str, block: AbstractAsyncContextManager[T]
    ) -> AsyncGenerator[T]:
        """Enter a context manager, and record the call when it opened or failed to open."""
        async with AsyncExitStack() as stack:
            with self._record(verb, line, engine_id):
                opened = await stack.enter_async_context(block)
            yield opened
