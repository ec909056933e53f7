"""The calls of a device plugin. This module imports grpclib."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Final

from podtui.kubelet.plugins.rpc import PluginChannel, Reply, RpcError
from podtui.kubelet.resource_managers.device_api import (
    DEVICE_PLUGIN,
    AllocateRequest,
    AllocateResponse,
    ContainerAllocateRequest,
    ContainerPreferredAllocationRequest,
    Device,
    DevicePluginOptions,
    Empty,
    ListAndWatchResponse,
    PreferredAllocationRequest,
    PreferredAllocationResponse,
    PreStartContainerRequest,
)
from podtui.kubelet.resource_managers.device_manager import DeviceError
from podtui.wire.protobuf import Message

CONNECT_SECONDS: Final = 10.0
CALL_SECONDS: Final = 60.0
"""For calls in which the kubelet waits forever."""
PRE_START_SECONDS: Final = 30.0


class PluginConnection:
    """Implements `DevicePlugin` for a plugin on a socket."""

    def __init__(self, channel: PluginChannel, options: DevicePluginOptions) -> None:
        self._channel = channel
        self.options = options

    @classmethod
    async def open(cls, path: str) -> PluginConnection:
        """Connect to a plugin and read its options. Raises `DeviceError`."""
        channel = PluginChannel(path)
        method = f"/{DEVICE_PLUGIN}/GetDevicePluginOptions"
        try:
            options = await channel.call(method, Empty(), DevicePluginOptions, CONNECT_SECONDS)
        except BaseException as error:
            channel.close()
            if isinstance(error, RpcError):
                text = f"failed to get device plugin options: {error}"
                raise DeviceError(text) from error
            raise
        return cls(channel, options)

    async def devices(self) -> AsyncIterator[tuple[Device, ...]]:
        """Yield the list of devices after each change. Raises `DeviceError`."""
        method = f"/{DEVICE_PLUGIN}/ListAndWatch"
        try:
            async for response in self._channel.stream(method, Empty(), ListAndWatchResponse):
                yield response.devices
        except RpcError as error:
            raise DeviceError(str(error)) from error

    async def allocate(self, ids: Collection[str]) -> AllocateResponse:
        request = AllocateRequest((ContainerAllocateRequest(tuple(ids)),))
        return await self._call("Allocate", request, AllocateResponse, CALL_SECONDS)

    async def preferred(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> tuple[str, ...]:
        wanted = ContainerPreferredAllocationRequest(tuple(available), tuple(must_include), size)
        request = PreferredAllocationRequest((wanted,))
        name = "GetPreferredAllocation"
        reply = await self._call(name, request, PreferredAllocationResponse, CALL_SECONDS)
        return reply.container_responses[0].deviceIDs if reply.container_responses else ()

    async def pre_start(self, ids: Collection[str]) -> None:
        request = PreStartContainerRequest(tuple(ids))
        await self._call("PreStartContainer", request, Empty, PRE_START_SECONDS)

    async def _call(self, name: str, request: Message, reply: type[Reply], timeout: float) -> Reply:
        try:
            return await self._channel.call(f"/{DEVICE_PLUGIN}/{name}", request, reply, timeout)
        except RpcError as error:
            raise DeviceError(str(error)) from error

    def close(self) -> None:
        self._channel.close()
