"""A Docker runtime on the real engine, and the engine's own word on what it did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import docker
import pytest
from contract.bench import Bench
from runtime.engine_proxy import EngineProxy

from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.docker.identity import root_key


@pytest.fixture
def raw(engine_url: str) -> Iterator[Any]:
    """The engine, asked past the driver."""
    client = docker.APIClient(base_url=engine_url, version="auto", timeout=60)
    yield client
    client.close()


def left_over(raw: Any, root: str) -> list[str]:
    """Names of what carries the root's label."""
    label = {"label": f"podtui.dev/root={root_key(root)}"}
    containers = raw.containers(all=True, filters=label)
    volumes = raw.volumes(filters=label)["Volumes"] or []
    return [c["Names"][0] for c in containers] + [v["Name"] for v in volumes]


@pytest.fixture
async def docker_bench(engine_url: str, raw: Any) -> AsyncIterator[Bench]:
    """A connected driver with nothing in it. Fails when the test's leavings can't be cleared."""
    bench = Bench(lambda root: DockerRuntime(engine_url, root=root, clock=SystemClock()))
    try:
        await bench.set_up()
        yield bench
    finally:
        await bench.tear_down()
        assert left_over(raw, bench.root) == []


@pytest.fixture
async def proxy(engine_url: str) -> AsyncIterator[EngineProxy]:
    """The same engine behind a TCP port that the test may cut."""
    proxy = EngineProxy(engine_url.removeprefix("unix://"))
    await proxy.mend()
    yield proxy
    await proxy.cut()


@pytest.fixture
async def remote_bench(proxy: EngineProxy, raw: Any) -> AsyncIterator[Bench]:
    """A driver that believes the engine to be on another machine."""
    bench = Bench(lambda root: DockerRuntime(proxy.url, root=root, clock=SystemClock()))
    try:
        await bench.set_up()
        yield bench
    finally:
        await bench.tear_down()
        assert left_over(raw, bench.root) == []
