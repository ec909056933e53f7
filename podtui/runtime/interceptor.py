"""A runtime in front of another one, as the base of those that add to its calls."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeVar

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
    LogLines,
    LogOptions,
    NfsShare,
    OtherContainer,
    PodVolume,
    ProcessSession,
    PullProgress,
    RegistryAuth,
    Resources,
    Runtime,
    RuntimeEvent,
    RuntimeSnapshot,
    SandboxConfig,
    SandboxStats,
    SandboxStatus,
    Started,
)

T = TypeVar("T")


class RuntimeInterceptor:
    """Implements `podtui.runtime.protocol.Runtime` by passing every call on.

    A subclass overrides the calls that it adds to, or `_call` for all calls that return a result.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def _call(self, method: str, call: Awaitable[T]) -> T:
        """Make a call of the method with this name."""
        return await call

    async def connect(self) -> EngineInfo:
        return await self._call("connect", self._runtime.connect())

    async def close(self) -> None:
        await self._call("close", self._runtime.close())

    async def ping(self) -> None:
        await self._call("ping", self._runtime.ping())

    async def check(self) -> None:
        await self._call("check", self._runtime.check())

    async def read_info(self) -> EngineInfo:
        return await self._call("read_info", self._runtime.read_info())

    async def list(self, pod_uid: str | None = None) -> RuntimeSnapshot:
        return await self._call("list", self._runtime.list(pod_uid))

    async def list_other_containers(self) -> tuple[OtherContainer, ...]:
        return await self._call("list_other_containers", self._runtime.list_other_containers())

    async def list_foreign(self) -> tuple[ForeignSandbox, ...]:
        return await self._call("list_foreign", self._runtime.list_foreign())

    async def sandbox_status(self, sandbox_id: str) -> SandboxStatus:
        return await self._call("sandbox_status", self._runtime.sandbox_status(sandbox_id))

    async def container_status(self, container_id: str) -> ContainerStatus:
        return await self._call("container_status", self._runtime.container_status(container_id))

    async def run_sandbox(self, config: SandboxConfig) -> Started:
        return await self._call("run_sandbox", self._runtime.run_sandbox(config))

    async def stop_sandbox(self, sandbox_id: str) -> None:
        await self._call("stop_sandbox", self._runtime.stop_sandbox(sandbox_id))

    async def remove_sandbox(self, sandbox_id: str) -> None:
        await self._call("remove_sandbox", self._runtime.remove_sandbox(sandbox_id))

    async def remove_pod_data(self, pod_uid: str) -> None:
        await self._call("remove_pod_data", self._runtime.remove_pod_data(pod_uid))

    async def pod_data(self) -> tuple[str, ...]:
        return await self._call("pod_data", self._runtime.pod_data())

    async def write_volume(self, sandbox_id: str, volume: PodVolume) -> None:
        await self._call("write_volume", self._runtime.write_volume(sandbox_id, volume))

    async def read_volume(
        self, sandbox_id: str, volume: str, path: str, limit: int
    ) -> bytes | None:
        return await self._call(
            "read_volume", self._runtime.read_volume(sandbox_id, volume, path, limit)
        )

    async def fill_volume(self, sandbox_id: str, volume: str, image_id: str) -> None:
        await self._call("fill_volume", self._runtime.fill_volume(sandbox_id, volume, image_id))

    async def volume_size(self, sandbox_id: str, volume: str, limit: int) -> int:
        return await self._call("volume_size", self._runtime.volume_size(sandbox_id, volume, limit))

    async def host_path(
        self, path: str, *, create: Literal["", "Directory", "File"] = "", shared: bool = False
    ) -> HostPathKind:
        return await self._call(
            "host_path", self._runtime.host_path(path, create=create, shared=shared)
        )

    async def check_nfs(self, share: NfsShare) -> None:
        await self._call("check_nfs", self._runtime.check_nfs(share))

    async def remove_host_directory(self, path: str) -> None:
        await self._call("remove_host_directory", self._runtime.remove_host_directory(path))

    async def update_container(self, container_id: str, resources: Resources) -> None:
        await self._call(
            "update_container", self._runtime.update_container(container_id, resources)
        )

    async def create_container(self, sandbox_id: str, config: ContainerConfig) -> Started:
        return await self._call(
            "create_container", self._runtime.create_container(sandbox_id, config)
        )

    async def start_container(self, container_id: str) -> Started:
        return await self._call("start_container", self._runtime.start_container(container_id))

    async def stop_container(self, container_id: str, grace: float) -> None:
        await self._call("stop_container", self._runtime.stop_container(container_id, grace))

    async def remove_container(self, container_id: str) -> None:
        await self._call("remove_container", self._runtime.remove_container(container_id))

    async def termination_message(self, container_id: str, limit: int) -> bytes:
        return await self._call(
            "termination_message", self._runtime.termination_message(container_id, limit)
        )

    async def image_status(self, image: str) -> ImageRecord | None:
        return await self._call("image_status", self._runtime.image_status(image))

    async def pull_image(
        self,
        image: str,
        *,
        auth: RegistryAuth | None = None,
        on_progress: Callable[[PullProgress], None] | None = None,
    ) -> ImageRecord:
        return await self._call(
            "pull_image", self._runtime.pull_image(image, auth=auth, on_progress=on_progress)
        )

    async def list_images(self) -> tuple[ImageRecord, ...]:
        return await self._call("list_images", self._runtime.list_images())

    async def remove_image(self, image_id: str) -> None:
        await self._call("remove_image", self._runtime.remove_image(image_id))

    async def exec(
        self, container_id: str, command: Sequence[str], *, timeout: float, limit: int = 10240
    ) -> ExecResult:
        return await self._call(
            "exec", self._runtime.exec(container_id, command, timeout=timeout, limit=limit)
        )

    def exec_session(
        self, container_id: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> AbstractAsyncContextManager[ProcessSession]:
        return self._runtime.exec_session(container_id, command, stdin=stdin, tty=tty)

    def attach_session(
        self, container_id: str, *, stdin: bool = False
    ) -> AbstractAsyncContextManager[ProcessSession]:
        return self._runtime.attach_session(container_id, stdin=stdin)

    def dial(self, sandbox_id: str, port: int) -> AbstractAsyncContextManager[Duplex]:
        return self._runtime.dial(sandbox_id, port)

    async def pod_socket(self, sandbox_id: str, host: str) -> socket.socket:
        return await self._call("pod_socket", self._runtime.pod_socket(sandbox_id, host))

    async def set_pod_rules(self, sandbox_id: str, rules: str) -> None:
        await self._call("set_pod_rules", self._runtime.set_pod_rules(sandbox_id, rules))

    async def check_pod_table(self, sandbox_id: str, table: str) -> None:
        await self._call("check_pod_table", self._runtime.check_pod_table(sandbox_id, table))

    async def pod_listener(
        self, sandbox_id: str, protocol: Literal["TCP", "UDP"], address: str
    ) -> socket.socket:
        return await self._call(
            "pod_listener", self._runtime.pod_listener(sandbox_id, protocol, address)
        )

    async def forget_pod_flows(self, sandbox_id: str, ip: str, port: int) -> None:
        await self._call("forget_pod_flows", self._runtime.forget_pod_flows(sandbox_id, ip, port))

    def read_files(
        self, container_id: str, path: str
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._runtime.read_files(container_id, path)

    async def write_files(
        self, container_id: str, directory: str, content: AsyncIterator[bytes]
    ) -> None:
        await self._call("write_files", self._runtime.write_files(container_id, directory, content))

    def logs(self, container_id: str, options: LogOptions) -> AsyncIterator[LogLines]:
        return self._runtime.logs(container_id, options)

    async def stats(self, containers: Collection[str]) -> Mapping[str, ContainerStats]:
        return await self._call("stats", self._runtime.stats(containers))

    async def sandbox_stats(self, sandboxes: Collection[str]) -> Mapping[str, SandboxStats]:
        return await self._call("sandbox_stats", self._runtime.sandbox_stats(sandboxes))

    async def layer_sizes(self) -> Mapping[str, int]:
        return await self._call("layer_sizes", self._runtime.layer_sizes())

    def events(self) -> AsyncIterator[RuntimeEvent]:
        return self._runtime.events()
