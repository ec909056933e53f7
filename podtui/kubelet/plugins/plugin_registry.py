"""The plugin watcher: registers the plugins whose sockets are in ``plugins_registry``.

The directory is listed every two seconds. A socket that is new, or was replaced, is asked for its
plugin; one that is gone ends the registration (`pluginmanager` of the kubelet, v1.36).
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.backoff import Backoff

_LOG = logging.getLogger(__name__)
LIST_PERIOD: Final = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 120.0
_Identity = tuple[int, int]


class PluginHandler(Protocol):
    """Takes plugins of one type into use."""

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Raises `PodtuiError` for a plugin that cannot be used."""
        ...

    def deregister(self, name: str) -> None: ...


class _Registered(NamedTuple):
    identity: _Identity
    type: str
    name: str


class PluginRegistry:
    """``handlers`` by plugin type, such as ``DevicePlugin``."""

    def __init__(
        self, directory: Path, handlers: Mapping[str, PluginHandler], clock: Clock
    ) -> None:
        self._directory = directory
        self._handlers = handlers
        self._clock = clock
        self._registered: dict[Path, _Registered] = {}
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)

    async def run(self) -> None:
        """Runs forever. Raises OSError if the directory cannot be read."""
        while True:
            await self.update()
            await self._clock.sleep(LIST_PERIOD)

    async def update(self) -> None:
        sockets = list_sockets(self._directory)
        for path, plugin in list(self._registered.items()):
            if sockets.get(path) != plugin.identity:
                del self._registered[path]
                self._handlers[plugin.type].deregister(plugin.name)
        self._backoff.discard(lambda key: key not in {*sockets.items()})
        for path, identity in sockets.items():
            key, now = (path, identity), self._clock.monotonic()
            if path in self._registered or self._backoff.remaining(key, now) > 0:
                continue
            try:
                self._registered[path] = await self._register(path, identity)
            except PodtuiError as error:
                _LOG.warning("plugin %s is not registered: %s", path, error)
                self._backoff.next(key, now)

    async def _register(self, path: Path, identity: _Identity) -> _Registered:
        from podtui.kubelet.plugins.registration import PluginSocket

        plugin = PluginSocket(str(path))
        try:
            info = await plugin.info()
            handler = self._handlers.get(info.type)
            problem = ""
            if handler is None:
                problem = f"no handler registered for plugin type: {info.type} at socket {path}"
            else:
                try:
                    endpoint = info.endpoint or str(path)
                    await handler.register(info.name, endpoint, info.supported_versions)
                except PodtuiError as error:
                    problem = str(error)
            if problem:
                problem = f"RegisterPlugin error -- {problem}"
            try:
                await plugin.notify(problem)
            except PodtuiError as error:
                if handler is not None and not problem:
                    handler.deregister(info.name)
                problem = problem or (
                    f"RegisterPlugin error -- failed to send registration status at socket {path},"
                    f" err: {error}"
                )
            if problem:
                raise PodtuiError(problem)
            return _Registered(identity, info.type, info.name)
        finally:
            plugin.close()


def list_sockets(directory: Path) -> dict[Path, _Identity]:
    """Return the sockets whose names do not begin with a dot, each with its inode and the time of
    its creation."""
    sockets: dict[Path, _Identity] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            try:
                info = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISSOCK(info.st_mode) and not entry.name.startswith("."):
                sockets[Path(entry.path)] = (info.st_ino, info.st_ctime_ns)
    return sockets
