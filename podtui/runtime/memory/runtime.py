"""The `Runtime` protocol on a `MemoryEngine`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Final, Literal

from msgspec.structs import replace

from podtui.api.quantity import parse_quantity
from podtui.clock import Clock
from podtui.errors import (
    EngineConflict,
    EngineError,
    EngineNotFound,
    EngineUnavailable,
    ExecTimeout,
)
from podtui.runtime.memory.cells import ContainerCell
from podtui.runtime.memory.engine import Behave, MemoryEngine
from podtui.runtime.memory.faults import Faults
from podtui.runtime.memory.files import PodVolumes, packed, pieces, unpack
from podtui.runtime.memory.images import IMAGE_FILES, progress_of, refuse_absent, simulated_image
from podtui.runtime.memory.process import Behaviour, Process, completed, rfc3339, simulated_command
from podtui.runtime.memory.sessions import (
    NOT_STARTED,
    AttachSession,
    ExecSession,
    SimulatedServer,
)
from podtui.runtime.memory.stats import container_stats, layer_size, sandbox_stats
from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerStats,
    ContainerStatus,
    Duplex,
    EngineInfo,
    ExecResult,
    ForeignSandbox,
    HostPathKind,
    ImageRecord,
    LogLine,
    LogLines,
    LogOptions,
    NfsShare,
    OtherContainer,
    PodVolume,
    ProcessSession,
    PullProgress,
    RegistryAuth,
    Resources,
    RuntimeEvent,
    RuntimeSnapshot,
    SandboxConfig,
    SandboxStats,
    SandboxStatus,
    Started,
)

ExecBehave = Callable[[ContainerConfig, tuple[str, ...]], Behaviour | None]
_FOREVER: Final = 1e9
_NO_NETWORK: Final = "simulated pods have no network"
_CLOSED: Final = "the connection to the simulated engine was closed"


class MemoryRuntime:
    """Simulated containers (``--engine memory``).

    ``start_delay`` is how many seconds a sandbox and a container each take to start; ``pull_delay``
    how long a pull takes. ``behave`` and ``exec_behave`` declare what containers and commands in
    them do. By default, and if they return None, both print what they would run; a container then
    runs until it is stopped, and a command exits with 0. Pass ``engine`` to share one machine
    between several runtimes; ``images`` and ``behave`` then belong to the engine.
    """

    def __init__(
        self,
        *,
        root: str = "memory",
        clock: Clock,
        images: Mapping[str, ImageRecord] | None = None,
        start_delay: float = 0.0,
        pull_delay: float = 0.0,
        behave: Behave | None = None,
        exec_behave: ExecBehave | None = None,
        engine: MemoryEngine | None = None,
    ) -> None:
        self.engine = engine or MemoryEngine(clock=clock, images=images, behave=behave)
        self._root = root
        self._clock = clock
        self._start_delay = start_delay
        self._pull_delay = pull_delay
        self._exec_behave = exec_behave
        self._closed = False

    @property
    def faults(self) -> Faults:
        """Injected faults, for tests."""
        return self.engine.faults

    # --- for tests

    def kill(self, container_id: str, exit_code: int = 137, *, oom: bool = False) -> None:
        """End a container from outside. Raises `EngineNotFound`."""
        self.engine.crash(container_id, exit_code, oom=oom)

    def stop_engine(self, *, containers_die: bool = False) -> None:
        """Stop the engine: every verb raises `EngineUnavailable`, event streams end."""
        self.engine.stop(containers_die=containers_die)

    def start_engine(self) -> None:
        """Make the engine available again."""
        self.engine.start()

    def write_log(self, container_id: str, text: str) -> None:
        """Write a line into a running container's log."""
        self.engine.write_log(container_id, text)

    # --- connection

    async def connect(self) -> EngineInfo:
        self._closed = False
        await self._enter("connect")
        return await self.read_info()

    async def close(self) -> None:
        self._closed = True
        self.engine.break_streams(_CLOSED, self._root)

    async def ping(self) -> None:
        await self._enter("ping")

    async def check(self) -> None:
        await self._enter("check")

    async def read_info(self) -> EngineInfo:
        await self._enter("read info")
        return self.engine.info

    async def list(self, pod_uid: str | None = None) -> RuntimeSnapshot:
        await self._enter("list")
        pods = self.engine.pods(self._root, pod_uid)
        return RuntimeSnapshot(
            sandboxes=tuple(c.record for pod in pods for c in reversed(pod.sandboxes.values())),
            containers=tuple(c.record for pod in pods for c in reversed(pod.containers.values())),
        )

    async def list_other_containers(self) -> tuple[OtherContainer, ...]:
        await self._enter("list_other_containers")
        ours = self._root
        return (
            *self.engine.other_containers,
            *(
                OtherContainer(name=cell.record.id, image_id=cell.image_id)
                for cell in self.engine.containers.values()
                if cell.root != ours
            ),
        )

    async def list_foreign(self) -> tuple[ForeignSandbox, ...]:
        await self._enter("list_foreign")
        return tuple(
            ForeignSandbox(root_dir=cell.root, record=cell.record)
            for cell in self.engine.foreign_sandboxes(self._root)
        )

    # --- sandboxes

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        await self._enter("sandbox_status")
        cell = self.engine.sandbox(self._root, sandbox_id)
        return SandboxStatus(
            record=cell.record,
            ips=(cell.ip,) if cell.ip and cell.ready else (),
            host_network=not cell.ip,
            pid=cell.pid,
            routable=False,
        )

    async def run_sandbox(self, config: SandboxConfig) -> Started:
        await self._enter("run_sandbox", self._start_delay)
        return Started(id=self.engine.run_sandbox(self._root, config).record.id)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        await self._enter("stop_sandbox")
        try:
            self.engine.stop_sandbox(self.engine.sandbox(self._root, sandbox_id))
        except EngineNotFound:
            return

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self._enter("remove_sandbox")
        try:
            self.engine.remove_sandbox(self.engine.sandbox(self._root, sandbox_id))
        except EngineNotFound:
            return

    async def remove_pod_data(self, pod_uid: str) -> None:
        await self._enter("remove_pod_data")
        self.engine.remove_pod_data(self._root, pod_uid)

    async def pod_data(self) -> tuple[str, ...]:
        await self._enter("pod_data")
        return self.engine.pod_data(self._root)

    # --- volumes and the host

    async def write_volume(self, sandbox_id: str, volume: PodVolume) -> None:
        await self._enter("write_volume")
        self._volumes(sandbox_id, volume.name).project(volume)

    async def read_volume(
        self, sandbox_id: str, volume: str, path: str, limit: int
    ) -> bytes | None:
        await self._enter("read_volume")
        content = self._volumes(sandbox_id, volume).read(volume, path)
        return None if content is None else content[:limit]

    async def volume_size(self, sandbox_id: str, volume: str, limit: int) -> int:
        await self._enter("volume_size")
        return self._volumes(sandbox_id, volume).size(volume)

    async def fill_volume(self, sandbox_id: str, volume: str, image_id: str) -> None:
        await self._enter("fill_volume")
        volumes = self._volumes(sandbox_id, volume)
        image = self.engine.images.find(image_id)
        if image is None:
            raise EngineNotFound(f"No such image: {image_id}")
        volumes.fill(volume, image.id, IMAGE_FILES)

    def _volumes(self, sandbox_id: str, volume: str) -> PodVolumes:
        """Return the volumes of a sandbox's pod. Raises `EngineNotFound` without ``volume``."""
        cell = self.engine.sandbox(self._root, sandbox_id)
        volumes = self.engine.pod(self._root, cell.record.uid).volumes
        if volumes.tree(volume) is None:
            raise EngineNotFound(f'the sandbox has no volume "{volume}"')
        return volumes

    async def check_nfs(self, share: NfsShare) -> None:
        await self._enter("check_nfs")
        if error := self.engine.nfs_errors.get(share.server):
            raise EngineError(error)

    async def remove_host_directory(self, path: str) -> None:
        await self._enter("remove_host_directory")
        self.engine.host.remove_directory(path)

    async def host_path(
        self, path: str, *, create: Literal["", "Directory", "File"] = "", shared: bool = False
    ) -> HostPathKind:
        await self._enter("host_path")
        kind = self.engine.host.kind(path)
        if kind is HostPathKind.MISSING and create:
            self.engine.host.make(path, create)
            kind = self.engine.host.kind(path)
        return kind

    # --- containers

    async def container_status(self, container_id: str) -> ContainerStatus:
        await self._enter("container_status")
        return self.engine.container(self._root, container_id).status()

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> Started:
        await self._enter("create_container")
        sandbox = self.engine.sandbox(self._root, sandbox_id)
        return Started(id=self.engine.create_container(self._root, sandbox, config).record.id)

    async def start_container(self, container_id: str) -> Started:
        await self._enter("start_container", self._start_delay)
        self.engine.start_container(self.engine.container(self._root, container_id))
        return Started(id=container_id)

    async def stop_container(self, container_id: str, grace: float) -> None:
        await self._enter("stop_container")
        try:
            cell = self.engine.container(self._root, container_id)
        except EngineNotFound:
            return
        if grace > 0 and cell.running:
            self.engine.terminate(cell)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    while cell.running:
                        await cell.signal.wait()
        self.engine.kill(cell)

    async def remove_container(self, container_id: str) -> None:
        await self._enter("remove_container")
        try:
            self.engine.remove_container(self.engine.container(self._root, container_id))
        except EngineNotFound:
            return

    async def update_container(self, container_id: str, resources: Resources) -> None:
        await self._enter("update_container")
        self.engine.update_container(self.engine.container(self._root, container_id), resources)

    async def termination_message(self, container_id: str, limit: int) -> bytes:
        await self._enter("termination_message")
        cell = self.engine.container(self._root, container_id)
        path = cell.config.termination_message_path
        content = cell.files.read(path) if path else None
        return (content or b"")[-limit:] if limit > 0 else b""

    # --- images

    async def image_status(self, image: str) -> ImageRecord | None:
        await self._enter("image_status")
        return self.engine.images.find(image)

    async def pull_image(
        self,
        image: str,
        *,
        auth: RegistryAuth | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageRecord:
        await self._enter("pull_image")
        refuse_absent(image)
        record = self.engine.images.find(image) or simulated_image(image, self.engine.image_user)
        steps = progress_of(record)
        for step in steps:
            await asyncio.sleep(self._pull_delay / len(steps))
            self._check()
            if on_progress is not None:
                on_progress(step)
        self.engine.images.add(record, image)
        return record

    async def list_images(self) -> tuple[ImageRecord, ...]:
        await self._enter("list_images")
        return self.engine.images.all()

    async def remove_image(self, image_id: str) -> None:
        await self._enter("remove_image")
        record = self.engine.images.find(image_id)
        if record is None:
            return
        if self.engine.image_in_use(record.id):
            raise EngineConflict(f"image {image_id} is in use by a container")
        self.engine.images.remove(record.id)

    # --- inspection

    async def exec(
        self, container_id: str, command: Sequence[str], *, timeout: float, limit: int = 10240
    ) -> ExecResult:
        await self._enter("exec")
        cell = self._running(container_id)
        tokens = tuple(command)
        behaviour = self._command(cell.config, tokens)
        if behaviour.start_error:
            text = behaviour.start_error.encode()
            return ExecResult(exit_code=NOT_STARTED, output=text[:limit], stderr=text[:limit])
        process = Process(behaviour, self._clock.now())
        started = self._clock.monotonic()
        try:
            async with asyncio.timeout(timeout):
                while True:
                    elapsed = self._clock.monotonic() - started
                    if cell.running:
                        process.advance(elapsed)
                    else:
                        process.kill(elapsed)
                    if process.exit is not None:
                        break
                    await _wait(cell, process.wakes_at - elapsed)
        except TimeoutError as error:
            text = f'command "{" ".join(tokens)}" timed out after {timeout:g}s'
            raise ExecTimeout(text) from error
        output = {"stdout": b"", "stderr": b""}
        for line in process.lines_from(0):
            output[line.stream] += line.content + b"\n"
        return ExecResult(
            exit_code=process.exit.code,
            output=(output["stdout"] + output["stderr"])[:limit],
            stderr=output["stderr"][:limit],
        )

    @asynccontextmanager
    async def exec_session(
        self, container_id: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> AsyncGenerator[ProcessSession]:
        await self._enter("exec_session")
        cell = self._running(container_id)
        behaviour = self._command(cell.config, tuple(command))
        session = ExecSession(cell, behaviour, self._clock, self._check, stdin=stdin, tty=tty)
        try:
            yield session
        finally:
            session.close()

    @asynccontextmanager
    async def attach_session(
        self, container_id: str, *, stdin: bool = False
    ) -> AsyncGenerator[ProcessSession]:
        await self._enter("attach_session")
        cell = self._running(container_id)
        log = self.logs(container_id, LogOptions(follow=True, tail=0))
        async with aclosing(log):
            yield AttachSession(log, tty=cell.config.tty)

    @asynccontextmanager
    async def dial(self, sandbox_id: str, port: int) -> AsyncGenerator[Duplex]:
        await self._enter("dial")
        cell = self.engine.sandbox(self._root, sandbox_id)
        if not cell.ready:
            raise EngineConflict(f"sandbox {sandbox_id} is not running")
        yield SimulatedServer(f"{cell.record.name}, port {port}")

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        await self._enter("pod_socket")
        raise EngineError(_NO_NETWORK)

    async def set_pod_rules(self, sandbox_id: str, rules: str) -> None:
        await self._enter("set_pod_rules")
        if sandbox_id and not self.engine.sandbox(self._root, sandbox_id).ready:
            raise EngineConflict(f"sandbox {sandbox_id} is not running")

    async def check_pod_table(self, sandbox_id: str, table: str) -> None:
        await self._enter("check_pod_table")

    async def pod_listener(
        self, sandbox_id: str, protocol: Literal["TCP", "UDP"], address: str
    ) -> socket.socket:
        await self._enter("pod_listener")
        raise EngineError(_NO_NETWORK)

    async def forget_pod_flows(self, sandbox_id: str, ip: str, port: int) -> None:
        await self._enter("forget_pod_flows")

    @asynccontextmanager
    async def read_files(
        self, container_id: str, path: str
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        await self._enter("read_files")
        yield pieces(packed(self.engine.container(self._root, container_id).files, path))

    async def write_files(
        self, container_id: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        await self._enter("write_files")
        cell = self.engine.container(self._root, container_id)
        await unpack(cell.files, directory, content)

    def _command(self, config: ContainerConfig, command: tuple[str, ...]) -> Behaviour:
        declared = self._exec_behave(config, command) if self._exec_behave else None
        return declared or simulated_command(command)

    def _running(self, container_id: str) -> ContainerCell:
        cell = self.engine.container(self._root, container_id)
        if not cell.running:
            raise EngineConflict(f"container {container_id} is not running")
        self.engine.catch_up(cell)
        return cell

    async def logs(self, container_id: str, options: LogOptions) -> AsyncGenerator[LogLines]:
        await self._enter("logs")
        cell = self.engine.container(self._root, container_id)
        self.engine.catch_up(cell)
        number = 0 if cell.process is None else cell.process.written
        if kept := _kept(cell, options):
            yield kept
        while options.follow and await self._wait_for_line(cell, options, number):
            process = cell.process
            if process is not None:
                lines = [line for line in process.lines_from(number) if _within(line, options)]
                number = process.written
                if lines:
                    yield lines

    async def _wait_for_line(self, cell: ContainerCell, options: LogOptions, number: int) -> bool:
        """Wait for a line after the ``number``-th; return False if there will be none."""
        while True:
            self._check()
            self.engine.catch_up(cell)
            if cell.process is not None and cell.process.written > number:
                return True
            if cell.over:
                return False
            wait = self.engine.next_output(cell)
            if options.until is not None:
                left = (options.until - self._clock.now()).total_seconds()
                if left < 0:
                    return False
                wait = min(wait, left + 1e-6)
            await _wait(cell, wait)

    async def stats(self, containers: Collection[str]) -> Mapping[str, ContainerStats]:
        await self._enter("stats")
        now, mono, wanted = self._clock.now(), self._clock.monotonic(), frozenset(containers)
        return {
            identity: container_stats(cell, now, mono - cell.started_mono)
            for pod in self.engine.pods(self._root, None)
            for identity, cell in pod.containers.items()
            if cell.running and identity in wanted
        }

    async def sandbox_stats(self, sandboxes: Collection[str]) -> Mapping[str, SandboxStats]:
        await self._enter("sandbox_stats")
        now, wanted = self._clock.now(), frozenset(sandboxes)
        return {
            identity: sandbox_stats(sandbox, now)
            for pod in self.engine.pods(self._root, None)
            for identity, sandbox in pod.sandboxes.items()
            if sandbox.ready and identity in wanted
        }

    async def layer_sizes(self) -> Mapping[str, int]:
        await self._enter("layer_sizes")
        mono = self._clock.monotonic()
        return {
            cell.record.id: layer_size(cell, mono - cell.started_mono)
            for pod in self.engine.pods(self._root, None)
            for cell in pod.containers.values()
            if cell.running
        }

    async def events(self) -> AsyncIterator[RuntimeEvent]:
        queue = self.engine.subscribe(self._root)
        try:
            await self._enter("events")
            while True:
                while queue.events:
                    yield queue.events.popleft()
                if queue.broken:
                    raise EngineUnavailable(queue.broken)
                await queue.signal.wait()
        finally:
            self.engine.unsubscribe(queue)

    # --- every verb

    async def _enter(self, verb: str, delay: float = 0.0) -> None:
        self._check()
        await self.faults.enter(verb)
        if delay > 0:
            await asyncio.sleep(delay)
            self.faults.check_available()
        self._check()

    def _check(self) -> None:
        if self._closed:
            raise EngineUnavailable(_CLOSED)
        self.faults.check_available()


def simulated_runtime(root: str, clock: Clock, options: Mapping[str, str]) -> MemoryRuntime:
    """Return a runtime with the options of the setting ``simulatedEngine``."""
    completion = options.get("completion") == "true"
    engine = MemoryEngine(clock=clock, behave=completed if completion else None)
    engine.image_user = options.get("user", "")
    if "cpu" in options:
        engine.info = dataclasses.replace(engine.info, cpus=int(options["cpu"]))
    if "memory" in options:
        memory = parse_quantity(options["memory"]).value()
        engine.info = dataclasses.replace(engine.info, memory=memory)
    return MemoryRuntime(root=root, clock=clock, engine=engine)


async def _wait(cell: ContainerCell, seconds: float) -> None:
    """Wait for a change of the container, at most for these seconds."""
    try:
        async with asyncio.timeout(min(seconds, _FOREVER)):
            await cell.signal.wait()
    except TimeoutError:
        return


def _kept(cell: ContainerCell, options: LogOptions) -> list[LogLine]:
    """Return the existing lines that the options select."""
    if cell.process is None:
        return []
    lines = [line for line in cell.process.lines_from(0) if _within(line, options)]
    if options.tail is None or options.tail > len(lines):
        return lines
    # A tail that has all the requested lines has no gap.
    return [replace(line, gap="") for line in lines[len(lines) - options.tail :]]


def _within(line: LogLine, options: LogOptions) -> bool:
    # RFC 3339 texts of one length and zone compare as their times do.
    if options.since is not None and line.timestamp < rfc3339(options.since):
        return False
    return options.until is None or line.timestamp <= rfc3339(options.until)
