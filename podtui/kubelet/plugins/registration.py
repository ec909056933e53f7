"""The messages of plugin registration v1, and both sides of it. This module imports grpclib."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Final

from podtui.kubelet.plugins.rpc import PluginChannel, RpcService, rpc_server
from podtui.kubelet.resource_managers.device_api import REGISTRATION, Empty, RegisterRequest
from podtui.wire.protobuf import Message

INFO_SECONDS: Final = 1.0
NOTIFY_SECONDS: Final = 5.0
_SERVICE: Final = "/pluginregistration.Registration"


class InfoRequest(Message, frozen=True):
    """No fields."""


class PluginInfo(Message, frozen=True):
    type: Annotated[str, 1] = ""
    name: Annotated[str, 2] = ""
    endpoint: Annotated[str, 3] = ""
    supported_versions: Annotated[tuple[str, ...], 4] = ()


class RegistrationStatus(Message, frozen=True):
    plugin_registered: Annotated[bool, 1] = False
    error: Annotated[str, 2] = ""


class RegistrationStatusResponse(Message, frozen=True):
    """No fields."""


class PluginSocket:
    """A socket in ``plugins_registry``."""

    def __init__(self, path: str) -> None:
        self._channel = PluginChannel(path)

    async def info(self) -> PluginInfo:
        """Raises `podtui.kubelet.plugins.rpc.RpcError`."""
        return await self._channel.call(
            f"{_SERVICE}/GetInfo", InfoRequest(), PluginInfo, INFO_SECONDS
        )

    async def notify(self, problem: str) -> None:
        """Report the result of the registration; an empty problem means success. Raises
        `podtui.kubelet.plugins.rpc.RpcError`."""
        status = RegistrationStatus(not problem, problem)
        method = f"{_SERVICE}/NotifyRegistrationStatus"
        await self._channel.call(method, status, RegistrationStatusResponse, NOTIFY_SECONDS)

    def close(self) -> None:
        self._channel.close()


@asynccontextmanager
async def registration_server(
    listening: socket.socket, register: Callable[[RegisterRequest], Awaitable[Empty]]
) -> AsyncGenerator[None]:
    """Serve registrations of device plugins on a listening socket."""
    method = f"/{REGISTRATION}/Register"
    server = rpc_server(RpcService(method, RegisterRequest, Empty, register))
    await server.start(sock=listening)
    try:
        yield
    finally:
        # Not waited for: since Python 3.12 that would wait for the plugins to close connections.
        server.close()
