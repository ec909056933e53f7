"""A device plugin on a unix socket, which can also misbehave."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server

from podtui.kubelet.plugins.registration import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from podtui.kubelet.plugins.rpc import Codec, PluginChannel
from podtui.kubelet.resource_managers.device_api import (
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    Device,
    DeviceMount,
    DevicePluginOptions,
    DeviceSpec,
    Empty,
    ListAndWatchResponse,
    NumaNodeId,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
    RegisterRequest,
    TopologyInfo,
)
from podtui.wire.protobuf import Message

RESOURCE = "example.com/dev"


def device(id: str, health: str = "Healthy", *nodes: int) -> Device:
    topology = TopologyInfo(tuple(map(NumaNodeId, nodes))) if nodes else None
    return Device(id, health, topology)


@dataclass
class DevicePluginServer:
    """``answer`` makes the response for device ids; ``delay`` is the time that Allocate takes.
    ``failure`` is the error of Allocate and PreStartContainer. ``kind`` and ``versions`` are what
    GetInfo returns."""

    devices: tuple[Device, ...] = ()
    resource: str = RESOURCE
    options: DevicePluginOptions = field(default_factory=DevicePluginOptions)
    answer: Callable[[tuple[str, ...]], Message] = lambda ids: AllocateResponse(
        (ContainerAllocateResponse(envs={"DEVICES": ",".join(ids)}),)
    )
    delay: float = 0.0
    failure: str = ""
    crashes: bool = False
    """End ListAndWatch with an error."""
    kind: str = "DevicePlugin"
    versions: tuple[str, ...] = ("v1beta1",)
    calls: list[tuple[str, Any]] = field(default_factory=list)
    statuses: list[RegistrationStatus] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.changed = asyncio.Event()
        self.ended = False

    def report(self, *devices: Device) -> None:
        self.devices = devices
        self.changed.set()

    async def register(self, kubelet_socket: Path, socket: Path, version: str = "v1beta1") -> None:
        """Raises `podtui.kubelet.plugins.rpc.RpcError`."""
        channel = PluginChannel(str(kubelet_socket))
        request = RegisterRequest(version, socket.name, self.resource, self.options)
        try:
            await channel.call("/v1beta1.Registration/Register", request, Empty, 20)
        finally:
            channel.close()

    @asynccontextmanager
    async def serving(self, socket: Path) -> AsyncGenerator[None]:
        self.ended = False
        server = Server([self], codec=Codec())
        await server.start(path=str(socket))
        try:
            yield
        finally:
            self.ended = True
            self.changed.set()
            await asyncio.sleep(0.1)
            server.close()
            with suppress(FileNotFoundError):
                os.unlink(socket)

    def __mapping__(self) -> dict[str, Handler]:
        def unary(
            name: str, request: type, reply: type, call: Callable[[Any], Any]
        ) -> tuple[str, Handler]:
            async def handle(stream: Any) -> None:
                message = await stream.recv_message()
                self.calls.append((name.rpartition("/")[2], message))
                await stream.send_message(await call(message))

            return name, Handler(handle, Cardinality.UNARY_UNARY, request, reply)

        async def options(_: Empty) -> DevicePluginOptions:
            return self.options

        async def allocate(request: AllocateRequest) -> Message:
            await asyncio.sleep(self.delay)
            if self.failure:
                raise GRPCError(Status.UNKNOWN, self.failure)
            return self.answer(request.container_requests[0].devices_ids)

        async def preferred(request: PreferredAllocationRequest) -> Message:
            (wanted,) = request.container_requests
            last = sorted(wanted.available_deviceIDs)[-wanted.allocation_size :]
            return PreferredAllocationResponse((ContainerPreferredAllocationResponse(tuple(last)),))

        async def pre_start(_: PreStartContainerRequest) -> Message:
            if self.failure:
                raise GRPCError(Status.UNKNOWN, self.failure)
            return Empty()

        async def info(_: InfoRequest) -> PluginInfo:
            return PluginInfo(self.kind, self.resource, "", self.versions)

        async def notify(status: RegistrationStatus) -> RegistrationStatusResponse:
            self.statuses.append(status)
            return RegistrationStatusResponse()

        async def watch(stream: Any) -> None:
            await stream.recv_message()
            while not self.ended:
                self.changed.clear()
                await stream.send_message(ListAndWatchResponse(self.devices))
                await self.changed.wait()
            if self.crashes:
                raise GRPCError(Status.UNAVAILABLE, "crashed")

        plugin, registration = "/v1beta1.DevicePlugin", "/pluginregistration.Registration"
        return dict(
            (
                unary(f"{plugin}/GetDevicePluginOptions", Empty, DevicePluginOptions, options),
                unary(f"{plugin}/Allocate", AllocateRequest, AllocateResponse, allocate),
                unary(
                    f"{plugin}/GetPreferredAllocation",
                    PreferredAllocationRequest,
                    PreferredAllocationResponse,
                    preferred,
                ),
                unary(f"{plugin}/PreStartContainer", PreStartContainerRequest, Empty, pre_start),
                unary(f"{registration}/GetInfo", InfoRequest, PluginInfo, info),
                unary(
                    f"{registration}/NotifyRegistrationStatus",
                    RegistrationStatus,
                    RegistrationStatusResponse,
                    notify,
                ),
                (
                    f"{plugin}/ListAndWatch",
                    Handler(watch, Cardinality.UNARY_STREAM, Empty, ListAndWatchResponse),
                ),
            )
        )


async def serve_forever(directory: Path, host_path: str) -> None:
    """Register a plugin of one device, which is /dev/null and a mount of ``host_path``."""

    def answer(ids: tuple[str, ...]) -> AllocateResponse:
        response = ContainerAllocateResponse(
            envs={"DEVICES": ",".join(ids)},
            mounts=(DeviceMount("/from-plugin", host_path, True),),
            devices=(DeviceSpec("/dev/from-plugin", "/dev/null", "rw"),),
        )
        return AllocateResponse((response,))

    plugin = DevicePluginServer((device("a"),), answer=answer)
    async with plugin.serving(directory / "p.sock"):
        await plugin.register(directory / "kubelet.sock", directory / "p.sock")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve_forever(Path(sys.argv[1]), sys.argv[2]))
