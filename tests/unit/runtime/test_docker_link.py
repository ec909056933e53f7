"""What an engine reports, read again while it is connected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.docker.locate import Endpoint
from podtui.runtime.docker.sdk import Calls

VERSION = {"Version": "27.0", "ApiVersion": "1.46", "Os": "linux", "Arch": "amd64"}


class FakeEngine:
    """Answers what an agent asks when it connects."""

    def __init__(self, socket: Path) -> None:
        self.url = f"unix://{socket}"
        self.transports: set[asyncio.Transport | None] = set()
        """The connections that images were inspected over."""
        self.info: dict[str, Any] = {"NCPU": 4, "MemTotal": 8 << 30, "Runtimes": {"runc": {}}}
        app = web.Application()
        app.router.add_get("/_ping", self._ping)
        app.router.add_get("/{api}/_ping", self._ping)
        app.router.add_get("/{api}/version", self._version)
        app.router.add_get("/{api}/info", self._info)
        app.router.add_get("/{api}/images/{name:.+}/json", self._image)
        app.router.add_get("/{api}/containers/json", self._containers)
        self.runner = web.AppRunner(app)

    async def _ping(self, _: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response(VERSION)

    async def _info(self, _: web.Request) -> web.Response:
        return web.json_response(self.info)

    async def _image(self, request: web.Request) -> web.Response:
        self.transports.add(request.transport)
        return web.json_response({"Id": "sha256:1"})

    async def _containers(self, _: web.Request) -> web.Response:
        return web.json_response([])


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[FakeEngine]:
    socket = tmp_path / "engine.sock"
    engine = FakeEngine(socket)
    await engine.runner.setup()
    await web.UnixSite(engine.runner, str(socket)).start()
    yield engine
    await engine.runner.cleanup()


async def test_a_reload_of_the_engine_is_seen_without_a_new_connection(engine: FakeEngine) -> None:
    runtime = DockerRuntime(engine.url, root="/x", clock=SystemClock())
    try:
        before = await runtime.connect()
        assert before.runtimes == ("runc",)
        assert await runtime.read_info() == before
        engine.info |= {"Runtimes": {"runc": {}, "kata": {}}, "LiveRestoreEnabled": True}
        # The memory that an engine reports may vary; the node's capacity must not.
        engine.info["MemTotal"] += 4096
        after = await runtime.read_info()
        assert after.runtimes == ("kata", "runc")
        assert any("live-restore" in words for words in after.lacking)
        assert (after.cpus, after.memory) == (before.cpus, before.memory)
        assert runtime.info == after
    finally:
        await runtime.close()


async def test_calls_of_a_client_share_a_connection(engine: FakeEngine) -> None:
    calls = Calls(Endpoint(url=engine.url, source="test"), "1.41")
    try:
        await calls.run(lambda client: [client.inspect_image(f"app:{n}") for n in range(5)])
    finally:
        await asyncio.to_thread(calls.close)
    assert len(engine.transports) == 1
