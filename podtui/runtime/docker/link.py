"""The connection to an engine: find it, detect its features, and reconnect after a fallback."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from podtui.clock import Clock
from podtui.errors import EngineError, EngineUnavailable
from podtui.runtime.docker.abilities import (
    Abilities,
    Fallback,
    abilities,
    cgroup_version,
    engine_info,
    engine_name,
    is_local,
    is_rootless,
    network_problem,
)
from podtui.runtime.docker.answers import mapping
from podtui.runtime.docker.errors import Refused, engine_error, parsing, translate_errors
from podtui.runtime.docker.locate import Endpoint, find_engine
from podtui.runtime.docker.pause import (
    CHANGES,
    PAUSE_IMAGE,
    pause_tar,
)
from podtui.runtime.docker.sdk import API_VERSION, Calls, DockerClient
from podtui.runtime.docker.wire import Wire
from podtui.runtime.protocol import EngineInfo

T = TypeVar("T")
_SANDBOX_STARTS: Final = 4
_CONTAINER_STARTS: Final = 2
_STOPS: Final = 4
_REMOVALS: Final = 8
"""Calls of each kind that run at a time. More only slow each other down: the engine is the
bottleneck. Each kind has its own limit: otherwise, of many pods, no container would start before
all sandboxes, and no network would be removed before all containers have stopped."""
_OLDEST_API: Final = (1, 40)
_PING_SECONDS: Final = 5.0
_CONNECT_SECONDS: Final = 15.0
_INFO_SECONDS: Final = 30.0


@dataclass(slots=True)
class Link:
    """A connected engine. ``info`` loses a feature when a call shows that it is missing."""

    endpoint: Endpoint
    calls: Calls
    wire: Wire
    info: EngineInfo
    able: Abilities
    version: Mapping[str, Any]
    """The engine's ``/version``."""
    clock: Clock
    pause_id: str = ""
    """The id of the sandbox image: Podman stores it under a different name than requested."""

    @property
    def is_podman(self) -> bool:
        return self.info.name == "podman"

    @property
    def fills_volumes(self) -> bool:
        """Return whether a new volume gets the image's files at its mount point, with their modes,
        even if files are uploaded before the start."""
        return not self.is_podman

    def use_fallback(self, fallback: Fallback) -> None:
        """Record that the engine lacks a feature."""
        if getattr(self.able, fallback.ability):
            self.able = replace(self.able, **{fallback.ability: False})
            self.info = replace(
                self.info,
                supports_lower_oom_score=self.able.lower_oom_score,
                lacking=(*self.info.lacking, fallback.text),
            )

    async def close(self) -> None:
        await self.wire.close()
        await in_thread(self.calls.close)

    async def ensure_pause(self) -> None:
        """Load the sandbox image if it is missing. Raises `EngineError`."""
        try:
            self.pause_id = await self.calls.run(_pause_id)
        except Refused as error:
            if error.status != 404:
                raise engine_error(error) from error
            content = pause_tar(self.info.architecture)
            await self.calls.run(lambda client: _import(client, content))
            self.pause_id = await self.calls.run(_pause_id)


async def in_thread(call: Callable[[], T]) -> T:
    """Run a blocking call in a separate thread, because other code uses the default executor.

    On cancellation, return at once and let the call finish: waiting would block the event loop.
    """
    executor = ThreadPoolExecutor(1)
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, call)
    finally:
        executor.shutdown(wait=False)


def _pause_id(client: DockerClient) -> str:
    return str(client.inspect_image(PAUSE_IMAGE)["Id"])


def _import(client: DockerClient, content: bytes) -> None:
    # Podman ignores a tag that is passed separately from the name.
    answer = client.import_image_from_data(content, repository=PAUSE_IMAGE, changes=CHANGES)
    for line in answer.splitlines():
        if line.strip() and "error" in (reply := json.loads(line)):
            raise EngineError(f"can't load the sandbox image: {reply['error']}")


class Connection:
    """Owns the link. With ``url`` None, searches for an engine."""

    def __init__(self, url: str | None, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._link: Link | None = None
        self._lock = asyncio.Lock()
        self.sandbox_starts = asyncio.Semaphore(_SANDBOX_STARTS)
        self.container_starts = asyncio.Semaphore(_CONTAINER_STARTS)
        self.stops = asyncio.Semaphore(_STOPS)
        self.removals = asyncio.Semaphore(_REMOVALS)
        self._fallbacks: set[Fallback] = set()

    @property
    def link(self) -> Link:
        """Raises `EngineUnavailable` before `connect` and after `close`."""
        if self._link is None:
            raise EngineUnavailable("not connected to a container engine")
        return self._link

    def use_fallback(self, fallback: Fallback) -> None:
        """Record that the engine lacks a feature, also for later connections."""
        self._fallbacks.add(fallback)
        if self._link is not None:
            self._link.use_fallback(fallback)

    async def connect(self) -> EngineInfo:
        """Connect, or keep a link that still answers. Raises `EngineUnavailable`."""
        async with self._lock:
            old = self._link
            if old is not None and await _works(old):
                await old.ensure_pause()
                return old.info
            self._link = None
            if old is not None:
                await old.close()
            link = await self._make()
            try:
                await link.ensure_pause()
            except BaseException:
                await link.close()
                raise
            self._link = link
            return link.info

    async def close(self) -> None:
        async with self._lock:
            link, self._link = self._link, None
            if link is not None:
                await link.close()

    async def ping(self) -> None:
        """Raises `EngineUnavailable`."""
        await _ping(self.link.wire)

    async def check(self) -> None:
        """Raises `EngineUnavailable`."""
        await _check(self.link.wire)

    async def read_info(self) -> EngineInfo:
        """Read ``/info`` again. Docker reads its runtimes and live-restore again on SIGHUP, without
        a restart; Podman has no such reload."""
        link = self.link
        if link.is_podman:
            return link.info
        with translate_errors():
            info: dict[str, Any] = await link.wire.send("GET", "/info", total=_INFO_SECONDS)
        described, able = _understood(
            link.endpoint, link.version, info, api=link.info.api_version, controllers=None
        )
        link.info = replace(described, cpus=link.info.cpus, memory=link.info.memory)
        link.able = able
        for fallback in self._fallbacks:
            link.use_fallback(fallback)
        return link.info

    async def _make(self) -> Link:
        search = await in_thread(lambda: find_engine(self._url))
        if search.endpoint is None:
            raise EngineUnavailable(search.explain())
        endpoint = search.endpoint
        version, info, api = await _describe(endpoint)
        podman = engine_name(version) == "podman"
        controllers = await _controllers(endpoint, api, info) if podman else None
        described, able = _understood(endpoint, version, info, api=api, controllers=controllers)
        calls, wire = Calls(endpoint, api), Wire(endpoint, api)
        link = Link(endpoint, calls, wire, described, able, version, self._clock)
        for fallback in self._fallbacks:
            link.use_fallback(fallback)
        return link


def _understood(
    endpoint: Endpoint,
    version: Mapping[str, Any],
    info: Mapping[str, Any],
    *,
    api: str,
    controllers: Collection[str] | None,
) -> tuple[EngineInfo, Abilities]:
    able = abilities(
        info,
        podman=engine_name(version) == "podman",
        api=_numbers(api),
        version=_numbers(str(version.get("Version") or "")),
        controllers=controllers,
    )
    local = is_local(endpoint, info)
    described = engine_info(
        info,
        version,
        api_version=api,
        able=able,
        local=local,
        network_problem=network_problem(info, local=local),
    )
    return described, able


async def _describe(endpoint: Endpoint) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Return the engine's ``/version`` and ``/info``, and the API version to use."""
    wire = Wire(endpoint, ".".join(map(str, _OLDEST_API)))
    try:
        version: dict[str, Any] = await wire.send("GET", "/version", total=_CONNECT_SECONDS)
        info: dict[str, Any] = await wire.send("GET", "/info", total=_CONNECT_SECONDS)
    except Refused as error:
        raise EngineUnavailable(f"{endpoint.url}: {error}") from error
    finally:
        await wire.close()
    with parsing("/version"):
        system = version.get("Os") or info.get("OSType") or "linux"
        offered = _numbers(version["ApiVersion"])
    if system != "linux":
        raise EngineUnavailable(f"{endpoint.url}: the engine runs {system} containers")
    api = min(offered, _numbers(API_VERSION))
    if api < _OLDEST_API:
        raise EngineUnavailable(
            f"{endpoint.url}: the engine supports API {version['ApiVersion']}; 1.40 or newer is"
            " required"
        )
    return version, info, ".".join(map(str, api))


async def _controllers(
    endpoint: Endpoint, api: str, info: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """Return the cgroup controllers delegated to rootless Podman; None if it has all or does not
    report them. Queries only rootless Podman on cgroup v2, because the call is slow: it also
    looks up Podman's package version."""
    if not is_rootless(info) or cgroup_version(info) == 1:
        return None
    wire = Wire(endpoint, api)
    try:
        podman_info: dict[str, Any] = await wire.send("GET", "/libpod/info", total=_CONNECT_SECONDS)
    except Refused:
        return None
    finally:
        await wire.close()
    controllers = mapping(podman_info, "host").get("cgroupControllers")
    return None if controllers is None else tuple(controllers)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version such as ``5.1.0-rc1``."""
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("-")[0]))


async def _ping(wire: Wire) -> None:
    try:
        async with wire.open("GET", "/_ping", total=_PING_SECONDS):
            pass
    except Refused as error:
        raise EngineUnavailable(str(error)) from error


async def _check(wire: Wire) -> None:
    """Read ``/info``: an engine that waits for its own locks answers pings, but not this."""
    try:
        await wire.send("GET", "/info", total=_CONNECT_SECONDS)
    except Refused as error:
        raise EngineUnavailable(str(error)) from error


async def _works(link: Link) -> bool:
    try:
        await _check(link.wire)
    except EngineError:
        return False
    return True
