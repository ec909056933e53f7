"""A CSI driver on a unix socket, which can also misbehave. As a process, it publishes directories
by bind mounts; in a test, it creates files in their place."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from podtui.kubelet.plugins import csi_api as csi
from podtui.kubelet.plugins.registration import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from podtui.kubelet.plugins.rpc import Codec
from podtui.wire.protobuf import Message

DRIVER = "csi.example.com"


@dataclass
class CsiDriverServer:
    """``failures`` are the codes and texts with which calls fail, by the name of the call;
    ``delays`` the seconds that they take. ``data`` has a directory for each volume, which is
    mounted if ``mounts`` is set."""

    data: Path
    name: str = DRIVER
    node_id: str = "node-7"
    capabilities: tuple[int, ...] = ()
    topology: dict[str, str] = field(default_factory=dict)
    limit: int = 0
    versions: tuple[str, ...] = ("1.0.0",)
    mounts: bool = False
    creates: bool = True
    """Create something when a volume is published."""
    usage: tuple[csi.Usage, ...] = (
        csi.Usage(60, 100, 40, csi.Unit.BYTES),
        csi.Usage(6, 10, 4, csi.Unit.INODES),
    )
    """The usage of each volume; if it mounts directories, the usage of their file system."""
    failures: dict[str, tuple[Status, str]] = field(default_factory=dict)
    delays: dict[str, float] = field(default_factory=dict)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    statuses: list[RegistrationStatus] = field(default_factory=list)

    def made(self, *names: str) -> list[Any]:
        """Return the requests of some calls."""
        return [request for name, request in self.calls if name in names]

    def names(self) -> list[str]:
        """Return the names of the calls that change something."""
        return [name for name, _ in self.calls if "Get" not in name]

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncGenerator[None]:
        server = Server([self], codec=Codec())
        await server.start(path=str(socket))
        try:
            yield
        finally:
            server.close()
            with suppress(FileNotFoundError):
                os.unlink(socket)

    def __mapping__(self) -> dict[str, Handler]:
        def unary(
            method: str,
            request: type,
            reply: type,
            answer: Callable[[Any], Message] | Callable[[Any], Awaitable[Message]],
        ) -> tuple[str, Handler]:
            name = method.rpartition("/")[2]

            async def handle(stream: Any) -> None:
                message = await stream.recv_message()
                self.calls.append((name, message))
                await asyncio.sleep(self.delays.get(name, 0.0))
                if name in self.failures:
                    raise GRPCError(*self.failures[name])
                await stream.send_message(answer(message))

            return method, Handler(handle, Cardinality.UNARY_UNARY, request, reply)

        def registered(status: RegistrationStatus) -> RegistrationStatusResponse:
            self.statuses.append(status)
            return RegistrationStatusResponse()

        node, registration = f"/{csi.NODE}", "/pluginregistration.Registration"
        nothing = csi.Nothing
        return dict(
            (
                unary(
                    f"{registration}/GetInfo",
                    InfoRequest,
                    PluginInfo,
                    lambda _: PluginInfo("CSIPlugin", self.name, "", self.versions),
                ),
                unary(
                    f"{registration}/NotifyRegistrationStatus",
                    RegistrationStatus,
                    RegistrationStatusResponse,
                    registered,
                ),
                unary(f"{node}/NodeGetInfo", nothing, csi.NodeInfo, self._info),
                unary(
                    f"{node}/NodeGetCapabilities", nothing, csi.NodeCapabilities, self._capabilities
                ),
                unary(f"{node}/NodeStageVolume", csi.StageRequest, nothing, self._stage),
                unary(f"{node}/NodeUnstageVolume", csi.UnstageRequest, nothing, self._unstage),
                unary(f"{node}/NodePublishVolume", csi.PublishRequest, nothing, self._publish),
                unary(
                    f"{node}/NodeUnpublishVolume", csi.UnpublishRequest, nothing, self._unpublish
                ),
                unary(f"{node}/NodeGetVolumeStats", csi.StatsRequest, csi.VolumeStats, self._stats),
                unary(f"{node}/NodeExpandVolume", csi.ExpandRequest, nothing, self._expand),
            )
        )

    def _info(self, _: csi.Nothing) -> csi.NodeInfo:
        topology = csi.Topology(self.topology) if self.topology else None
        return csi.NodeInfo(self.node_id, self.limit, topology)

    def _capabilities(self, _: csi.Nothing) -> csi.NodeCapabilities:
        return csi.NodeCapabilities(
            tuple(csi.NodeCapability(csi.RpcCapability(each)) for each in self.capabilities)
        )

    def _stage(self, request: csi.StageRequest) -> csi.Nothing:
        assert Path(request.staging_target_path).is_dir()
        return csi.Nothing()

    def _unstage(self, request: csi.UnstageRequest) -> csi.Nothing:
        return csi.Nothing()

    def _publish(self, request: csi.PublishRequest) -> csi.Nothing:
        if not self.creates:
            return csi.Nothing()
        target, source = Path(request.target_path), self.data / request.volume_id
        if request.volume_capability is not None and request.volume_capability.block is not None:
            self._publish_device(target, source)
            return csi.Nothing()
        target.mkdir(exist_ok=True)
        source.mkdir(exist_ok=True)
        if self.mounts and not _is_mounted(target):
            (source / "attributes").write_text(str(sorted(request.volume_context.items())))
            subprocess.run(["mount", "--bind", source, target], check=True)
            if request.readonly:
                subprocess.run(["mount", "-o", "remount,bind,ro", target], check=True)
        return csi.Nothing()

    def _publish_device(self, target: Path, source: Path) -> None:
        """Publish the file ``source`` as a loop device."""
        target.touch()
        if self.mounts and not _is_mounted(target):
            command = ["losetup", "--find", "--show", source]
            device = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            subprocess.run(["mount", "--bind", device.strip(), target], check=True)

    def _unpublish(self, request: csi.UnpublishRequest) -> csi.Nothing:
        target = Path(request.target_path)
        if self.mounts and _is_mounted(target):
            if target.is_block_device():
                subprocess.run(["losetup", "--detach", target], check=True)
            subprocess.run(["umount", target], check=True)
        if target.is_dir():
            target.rmdir()
        target.unlink(missing_ok=True)
        return csi.Nothing()

    def _stats(self, request: csi.StatsRequest) -> csi.VolumeStats:
        if not self.mounts:
            return csi.VolumeStats(self.usage)
        info = os.statvfs(request.volume_path)
        free, total = info.f_bavail * info.f_frsize, info.f_blocks * info.f_frsize
        return csi.VolumeStats((csi.Usage(free, total, total - free, csi.Unit.BYTES),))

    def _expand(self, request: csi.ExpandRequest) -> csi.Nothing:
        if self.mounts:
            size = 0 if request.capacity_range is None else request.capacity_range.required_bytes
            (Path(request.volume_path) / "size").write_text(str(size))
        return csi.Nothing()


def _is_mounted(path: Path) -> bool:
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return str(path) in {line.split()[4] for line in mounts}


async def serve_forever(socket: Path, data: Path) -> None:
    """Serve a driver that publishes the directories below ``data`` by bind mounts, and files as
    loop devices."""
    capabilities = (
        csi.Capability.STAGE_UNSTAGE_VOLUME,
        csi.Capability.GET_VOLUME_STATS,
        csi.Capability.EXPAND_VOLUME,
    )
    driver = CsiDriverServer(data, capabilities=capabilities, mounts=True)
    with suppress(FileNotFoundError):
        os.unlink(socket)
    async with driver.serving(socket):
        await asyncio.Event().wait()


if __name__ == "__main__":
    assert shutil.which("mount")
    asyncio.run(serve_forever(Path(sys.argv[1]), Path(sys.argv[2])))
