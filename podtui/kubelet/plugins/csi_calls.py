"""The calls of a CSI driver. This module imports grpclib."""

from __future__ import annotations

from typing import Final

from podtui.kubelet.plugins.csi_api import (
    NODE,
    CsiError,
    ExpandRequest,
    NodeCapabilities,
    NodeInfo,
    Nothing,
    PublishRequest,
    StageRequest,
    StatsRequest,
    UnpublishRequest,
    UnstageRequest,
    VolumeStats,
)
from podtui.kubelet.plugins.rpc import PluginChannel, Reply, RpcError
from podtui.wire.protobuf import Message

CALL_SECONDS: Final = 120.0
INFO_SECONDS: Final = 15.0
"""A kubelet waits for 120 seconds. Here no other plugin is registered meanwhile."""


class CsiConnection:
    """Implements `CsiNodeService` for a driver on a socket. Each call opens a connection, as the
    kubelet does: the driver may have been restarted."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    async def info(self) -> NodeInfo:
        return await self._call("NodeGetInfo", Nothing(), NodeInfo, INFO_SECONDS)

    async def capabilities(self) -> frozenset[int]:
        reply = await self._call("NodeGetCapabilities", Nothing(), NodeCapabilities)
        return frozenset(each.rpc.type for each in reply.capabilities if each.rpc is not None)

    async def stage(self, request: StageRequest) -> None:
        await self._call("NodeStageVolume", request, Nothing)

    async def unstage(self, request: UnstageRequest) -> None:
        await self._call("NodeUnstageVolume", request, Nothing)

    async def publish(self, request: PublishRequest) -> None:
        await self._call("NodePublishVolume", request, Nothing)

    async def unpublish(self, request: UnpublishRequest) -> None:
        await self._call("NodeUnpublishVolume", request, Nothing)

    async def stats(self, request: StatsRequest) -> VolumeStats:
        return await self._call("NodeGetVolumeStats", request, VolumeStats)

    async def expand(self, request: ExpandRequest) -> None:
        await self._call("NodeExpandVolume", request, Nothing)

    async def _call(
        self, name: str, request: Message, reply: type[Reply], seconds: float = CALL_SECONDS
    ) -> Reply:
        channel = PluginChannel(self._endpoint)
        try:
            return await channel.call(f"/{NODE}/{name}", request, reply, seconds)
        except RpcError as error:
            raise CsiError(str(error), error.code) from error
        finally:
            channel.close()
