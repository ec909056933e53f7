"""`DockerRuntime`: the `Runtime` protocol, assembled from its parts."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Literal

from podtui.api import names
from podtui.api.names import root_key
from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable
from podtui.runtime.docker.answers import label_filter, labelled
from podtui.runtime.docker.archives import read_files, write_files
from podtui.runtime.docker.containers import Containers
from podtui.runtime.docker.dialing import Dialing
from podtui.runtime.docker.errors import parsing, translate_errors
from podtui.runtime.docker.events import read_events
from podtui.runtime.docker.helper_container import HelperContainers
from podtui.runtime.docker.host_files import HostFiles
from podtui.runtime.docker.identity import (
    foreign_sandboxes,
    other_containers,
    snapshot,
)
from podtui.runtime.docker.image_users import ImageAccounts
from podtui.runtime.docker.images import Images
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.logs import Logs
from podtui.runtime.docker.payload import LogLimits
from podtui.runtime.docker.removal import Ownership
from podtui.runtime.docker.sandboxes import Sandboxes
from podtui.runtime.docker.sessions import Execs, Sessions
from podtui.runtime.docker.stats import Stats
from podtui.runtime.docker.volumes import Volumes
from podtui.runtime.protocol import (
    ContainerConfig,
    ContainerState,
    ContainerStats,
    ContainerStatus,
    Duplex,
    EngineInfo,
    ExecResult,
    ForeignSandbox,
    HostPathKind,
    ImageRecord,
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

_LOG = logging.getLogger(__name__)


class DockerRuntime:
    """Pods on a Docker-compatible engine; see `podtui.runtime.protocol.Runtime` for the calls.

    ``url`` is ``unix://PATH`` or ``tcp://HOST:PORT``; None searches the usual locations. ``root``
    is the path of the root directory: containers of other roots are neither listed nor changed.
    ``log_limits`` limits the log size of each container.
    """

    def __init__(
        self, url: str | None, *, root: str, clock: Clock, log_limits: LogLimits | None = None
    ) -> None:
        self._root = root_key(root)
        self.log_limits = log_limits or LogLimits()
        self._connection = Connection(url, clock)
        self._ownership = Ownership(self._connection, self._root)
        self._sandboxes = Sandboxes(self._connection, self._root, root, self._ownership)
        self._helpers = HelperContainers(self._connection, self._root)
        self._host_files = HostFiles(self._connection, self._helpers)
        self._execs = Execs(self._connection, self._ownership, clock)
        self._stats = Stats(self._connection, self._root, clock)
        self._volumes = Volumes(self._connection, self._sandboxes, self._helpers, self._execs)
        self._containers = Containers(
            self._connection,
            self._sandboxes,
            self._ownership,
            self._host_files,
            ImageAccounts(self._connection, self._helpers),
            root=self._root,
            root_dir=root,
            logs=self.log_limits,
        )
        self._images = Images(self._connection)
        self._logs = Logs(self._connection, self._ownership, self._host_files)
        self._sessions = Sessions(self._connection, self._ownership, clock)
        self._dialing = Dialing(self._connection, self._sandboxes, self._sessions, self._running_in)

    @property
    def info(self) -> EngineInfo:
        """The current engine information. It may have lost features since `connect`. Raises
        `EngineUnavailable` if not connected."""
        return self._connection.link.info

    # --- connection

    async def connect(self) -> EngineInfo:
        info = await self._connection.connect()
        try:
            await self._helpers.clear()
        except EngineUnavailable:
            raise
        except EngineError as error:
            _LOG.warning("cannot remove leftovers of an earlier agent: %s", error)
        return info

    async def close(self) -> None:
        await self._dialing.close()
        await self._connection.close()

    async def ping(self) -> None:
        await self._connection.ping()

    async def check(self) -> None:
        await self._connection.check()

    async def read_info(self) -> EngineInfo:
        return await self._connection.read_info()

    async def list(self, pod_uid: str | None = None) -> RuntimeSnapshot:
        wanted = {names.ROOT_LABEL: self._root}
        if pod_uid is not None:
            wanted[names.POD_UID] = pod_uid
        labels = label_filter(wanted)
        with translate_errors():
            entries = await self._connection.link.calls.run(
                lambda client: client.containers(all=True, filters={"label": labels})
            )
        return snapshot(labelled(entries, wanted))

    async def list_other_containers(self) -> tuple[OtherContainer, ...]:
        with translate_errors():
            entries = await self._connection.link.calls.run(
                lambda client: client.containers(all=True, filters={})
            )
        with parsing("the list of containers"):
            return other_containers(entries, self._root)

    async def list_foreign(self) -> tuple[ForeignSandbox, ...]:
        with translate_errors():
            entries = await self._connection.link.calls.run(
                lambda client: client.containers(all=True, filters={"label": names.ROOT_LABEL})
            )
        return foreign_sandboxes(entries, self._root)

    # --- sandboxes

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        status = await self._sandboxes.status(sandbox_id)
        self._dialing.note(status)
        return status

    async def run_sandbox(self, config: SandboxConfig) -> Started:
        return await self._sandboxes.run(config)

    async def stop_sandbox(self, sandbox_id: str) -> None:
        await self._sandboxes.stop(sandbox_id)

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self._sandboxes.remove(sandbox_id)

    async def remove_pod_data(self, pod_uid: str) -> None:
        await self._sandboxes.remove_pod_data(pod_uid)

    async def pod_data(self) -> tuple[str, ...]:
        return await self._sandboxes.pod_data()

    # --- volumes and the host

    async def write_volume(self, sandbox_id: str, volume: PodVolume) -> None:
        await self._volumes.write(sandbox_id, volume)

    async def read_volume(
        self, sandbox_id: str, volume: str, path: str, limit: int
    ) -> bytes | None:
        return await self._volumes.read(sandbox_id, volume, path, limit)

    async def fill_volume(self, sandbox_id: str, volume: str, image_id: str) -> None:
        await self._volumes.fill(sandbox_id, volume, image_id)

    async def host_path(
        self, path: str, *, create: Literal["", "Directory", "File"] = "", shared: bool = False
    ) -> HostPathKind:
        return await self._host_files.kind(path, create, shared=shared)

    async def check_nfs(self, share: NfsShare) -> None:
        await self._host_files.check_nfs(share)

    async def remove_host_directory(self, path: str) -> None:
        await self._host_files.remove_directory(path)

    # --- containers

    async def container_status(self, container_id: str) -> ContainerStatus:
        return await self._containers.status(container_id)

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> Started:
        return await self._containers.create(sandbox_id, config)

    async def start_container(self, container_id: str) -> Started:
        return await self._containers.start(container_id)

    async def stop_container(self, container_id: str, grace: float) -> None:
        await self._containers.stop(container_id, grace)

    async def remove_container(self, container_id: str) -> None:
        await self._containers.remove(container_id)

    async def update_container(self, container_id: str, resources: Resources) -> None:
        await self._containers.update(container_id, resources)

    async def termination_message(self, container_id: str, limit: int) -> bytes:
        return await self._containers.termination_message(container_id, limit)

    # --- images

    async def image_status(self, image: str) -> ImageRecord | None:
        return await self._images.status(image)

    async def pull_image(
        self,
        image: str,
        *,
        auth: RegistryAuth | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageRecord:
        return await self._images.pull(image, auth, on_progress)

    async def list_images(self) -> tuple[ImageRecord, ...]:
        return await self._images.list()

    async def remove_image(self, image_id: str) -> None:
        await self._images.remove(image_id)

    # --- exec, files, logs and stats

    async def exec(
        self, container_id: str, command: Sequence[str], *, timeout: float, limit: int = 10240
    ) -> ExecResult:
        return await self._execs.run(container_id, command, timeout=timeout, limit=limit)

    def exec_session(
        self, container_id: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> AbstractAsyncContextManager[ProcessSession]:
        return self._sessions.exec(container_id, command, stdin=stdin, tty=tty)

    def attach_session(
        self, container_id: str, *, stdin: bool = False
    ) -> AbstractAsyncContextManager[ProcessSession]:
        return self._sessions.attach(container_id, stdin=stdin)

    def dial(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[Duplex]:
        return self._dialing.dial(sandbox_id, port)

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        return await self._dialing.pod_socket(sandbox_id, host)

    async def set_pod_rules(self, sandbox_id: str, rules: str) -> None:
        await self._dialing.set_rules(sandbox_id, rules)

    async def check_pod_table(self, sandbox_id: str, table: str) -> None:
        await self._dialing.check_table(sandbox_id, table)

    async def pod_listener(
        self, sandbox_id: str, protocol: Literal["TCP", "UDP"], address: str
    ) -> socket.socket:
        return await self._dialing.listener(sandbox_id, protocol, address)

    async def forget_pod_flows(self, sandbox_id: str, ip: str, port: int) -> None:
        await self._dialing.forget_flows(sandbox_id, ip, port)

    async def _running_in(self, sandbox_id: str, pod_uid: str) -> Sequence[str]:
        return [
            container.id
            for container in (await self.list(pod_uid)).containers
            if container.sandbox_id == sandbox_id and container.state is ContainerState.RUNNING
        ]

    @asynccontextmanager
    async def read_files(
        self, container_id: str, path: str
    ) -> AsyncGenerator[AsyncIterator[bytes]]:
        link = self._connection.link
        await self._ownership.check(container_id)
        async with read_files(link, container_id, path) as content:
            yield content

    async def write_files(
        self, container_id: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        link = self._connection.link
        await self._ownership.check(container_id)
        await write_files(link, container_id, directory, content)

    def logs(self, container_id: str, options: LogOptions) -> AsyncIterator[LogLines]:
        return self._logs.read(container_id, options)

    async def stats(self, containers: Collection[str]) -> Mapping[str, ContainerStats]:
        return await self._stats.containers(containers)

    async def sandbox_stats(self, sandboxes: Collection[str]) -> Mapping[str, SandboxStats]:
        return await self._stats.sandboxes(sandboxes)

    async def volume_size(self, sandbox_id: str, volume: str, limit: int) -> int:
        return await self._volumes.size(sandbox_id, volume, limit)

    async def layer_sizes(self) -> Mapping[str, int]:
        return await self._stats.layers()

    def events(self) -> AsyncIterator[RuntimeEvent]:
        return read_events(self._connection, self._root)
