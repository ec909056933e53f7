"""A Docker runtime on the real engine, and the engine's view of its objects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import docker
import pytest
from engine_proxy import EngineProxy
from leftovers import leftovers
from runtime_bench import Bench

from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime


@pytest.fixture
def raw(engine_url: str) -> Iterator[Any]:
    """A client of the engine that bypasses the driver."""
    client = docker.APIClient(base_url=engine_url, version="auto", timeout=120)
    yield client
    client.close()


@pytest.fixture
async def docker_bench(engine_url: str, raw: Any) -> AsyncIterator[Bench]:
    """A connected driver without objects. Fails if objects are left over after the clean-up."""
    bench = Bench(lambda root: DockerRuntime(engine_url, root=root, clock=SystemClock()))
    try:
        await bench.set_up()
        yield bench
    finally:
        await bench.tear_down()
        assert leftovers(raw, bench.root) == []


@pytest.fixture
async def proxy(engine_url: str) -> AsyncIterator[EngineProxy]:
    """The same engine behind a TCP port that the test may cut."""
    proxy = EngineProxy(engine_url.removeprefix("unix://"))
    await proxy.listen()
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
        assert leftovers(raw, bench.root) == []


@pytest.fixture
def engine_url(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--engine-url"))
