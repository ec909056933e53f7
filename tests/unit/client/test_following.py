"""A follow continues with servers that behave unexpectedly."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from podtui.api.v1 import Pod
from podtui.client.protocol import Synced
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.server import serve_unix


async def test_a_watch_that_ends_immediately_is_retried_with_back_off(tmp_path: Path) -> None:
    class ClosingClock(SystemClock):
        def __init__(self) -> None:
            self.slept: list[float] = []

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)
            if len(self.slept) >= 8:
                await client.close()

    async def pods(request: web.Request) -> web.Response:
        if "watch" in request.query:
            return web.Response()
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})

    app, clock = web.Application(), ClosingClock()
    app.add_routes([web.get("/api/v1/pods", pods)])
    client = UnixClient(tmp_path / "s", clock=clock)
    async with serve_unix(app, tmp_path / "s"), asyncio.timeout(120):
        assert [type(delta) async for delta in client.follow(Pod)] == [Synced]
    assert clock.slept[:7] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
