"""The device plugins of this node: the registration socket, and what connected plugins report.

`device-plugins/kubelet.sock` belongs to the user of the agent; no other user, except root, can
register a plugin. At the start all other sockets in the directory are removed, which is how plugins
notice that they have to register again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.kubelet_metrics import DEVICE_REGISTRATIONS
from podtui.kubelet.plugins.plugin_registry import PluginHandler, PluginRegistry, list_sockets
from podtui.kubelet.resource_managers.device_api import VERSION, Empty, RegisterRequest
from podtui.kubelet.resource_managers.device_checkpoint import DEVICE_PLUGINS
from podtui.kubelet.resource_managers.device_manager import DeviceError, DeviceManager
from podtui.manifest.validation.resources import is_extended
from podtui.private_files import check_root
from podtui.text.go_format import quoted

if TYPE_CHECKING:
    from podtui.kubelet.plugins.plugin_calls import PluginConnection

_LOG = logging.getLogger(__name__)
SOCKET: Final = "kubelet.sock"
REGISTRY: Final = "plugins_registry"
DEVICE_PLUGIN_TYPE: Final = "DevicePlugin"
_LONGEST_PATH: Final = 107


class DevicePlugins:
    """Implements `PluginHandler`. ``directory`` is that of ``device-plugins`` and
    ``plugins_registry``; ``others`` are handlers of other types of plugins that register there."""

    def __init__(
        self,
        directory: Path,
        devices: DeviceManager,
        clock: Clock,
        others: Mapping[str, PluginHandler] = MappingProxyType({}),
    ) -> None:
        self._others = others
        self._directory = directory
        self._devices = devices
        self._clock = clock
        self._group: asyncio.TaskGroup | None = None
        self._followers: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Runs forever. Raises `PodtuiError` if the directories cannot be used."""
        try:
            listening = await asyncio.to_thread(self._prepare)
        except OSError as error:
            raise PodtuiError(f"device plugins cannot register: {error}") from error
        handlers = {DEVICE_PLUGIN_TYPE: self, **self._others}
        registry = PluginRegistry(self._directory / REGISTRY, handlers, self._clock)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                if listening is not None:
                    group.create_task(self._serve(listening))
                try:
                    await registry.run()
                finally:
                    # A group that ends starts no tasks.
                    self._group = None
        finally:
            self._followers.clear()
            if listening is not None:
                listening.close()
                with suppress(FileNotFoundError):
                    os.unlink(self._socket)

    @property
    def _socket(self) -> Path:
        return self._directory / DEVICE_PLUGINS / SOCKET

    def _prepare(self) -> socket.socket | None:
        """Create the directories, remove stale sockets, and listen. Blocks."""
        for directory in (self._directory / DEVICE_PLUGINS, self._directory / REGISTRY):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_root(directory)
        if _is_served(self._socket):
            raise PodtuiError(
                f"{self._socket} is that of a running kubelet; set another directory as pluginDir"
            )
        for path in list_sockets(self._socket.parent):
            path.unlink()
        if len(os.fsencode(self._socket)) > _LONGEST_PATH:
            _LOG.warning("%s: the path is too long for a socket: set pluginDir", self._socket)
            return None
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(self._socket))
            os.chmod(self._socket, 0o600)
            listening.setblocking(False)
            listening.listen()
        except BaseException:
            listening.close()
            raise
        return listening

    async def _serve(self, listening: socket.socket) -> None:
        """Serve registrations. Until the first plugin connects, gRPC is not imported."""
        await _readable(listening)
        from podtui.kubelet.plugins.registration import registration_server

        async with registration_server(listening, self._answer):
            await asyncio.Event().wait()

    async def _answer(self, request: RegisterRequest) -> Empty:
        DEVICE_REGISTRATIONS.labels(request.resource_name).inc()
        if request.version != VERSION:
            raise DeviceError(
                f"requested API version {quoted(request.version)} is not supported by kubelet. "
                f'Supported version is ["{VERSION}"]'
            )
        _check_name(request.resource_name)
        path = os.path.join(self._socket.parent, request.endpoint)
        await self._connect(request.resource_name, path)
        return Empty()

    # --- PluginHandler

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        try:
            if VERSION not in versions:
                raise DeviceError(
                    f"manager version, {VERSION}, is not among plugin supported versions "
                    f"[{' '.join(versions)}]"
                )
            try:
                _check_name(name)
            except DeviceError as error:
                text = f"invalid name of device plugin socket: {error}"
                raise DeviceError(text) from error
        except DeviceError as error:
            raise DeviceError(f"plugin validation failed with err: {error}") from error
        try:
            await self._connect(name, endpoint)
        except DeviceError as error:
            raise DeviceError(f"plugin registration failed with err: {error}") from error

    def deregister(self, name: str) -> None:
        follower = self._followers.pop(name, None)
        if follower is not None:
            follower.cancel()

    # --- connected plugins

    async def _connect(self, resource: str, path: str) -> None:
        from podtui.kubelet.plugins.plugin_calls import PluginConnection

        plugin = await PluginConnection.open(path)
        if self._group is None:
            plugin.close()
            raise DeviceError("the kubelet is being stopped")
        self._devices.connected(resource, plugin)
        self.deregister(resource)
        follower = self._group.create_task(self._follow(resource, plugin))
        self._followers[resource] = follower

    async def _follow(self, resource: str, plugin: PluginConnection) -> None:
        """Take over the devices that the plugin reports, until it ends."""
        _LOG.info("device plugin of %s connected", resource)
        try:
            async for devices in plugin.devices():
                self._devices.reported(resource, plugin, devices)
            _LOG.warning("device plugin of %s ended ListAndWatch", resource)
        except DeviceError as error:
            _LOG.warning("device plugin of %s ended ListAndWatch: %s", resource, error)
        finally:
            plugin.close()
            self._devices.disconnected(resource, plugin)


def _is_served(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _check_name(resource: str) -> None:
    if not is_extended(resource):
        raise DeviceError(f"the ResourceName {quoted(resource)} is invalid")


async def _readable(listening: socket.socket) -> None:
    """Wait for a connection to accept."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(listening, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(listening)
