"""The runtimes under test: the simulated one, and a Docker-compatible engine.

For a case that runs on both, `simulated` declares the behaviour of its scripts, and the simulated
runtime uses virtual time. A case that needs a real shell uses ``engine_bench``.

``pytest tests/contract -m 'not engine'`` needs no engine. With one, ``--engine-url`` (or
``PODTUI_TEST_ENGINE``) selects the engine, Docker or Podman. A missing engine fails.
`unavailable.UNAVAILABLE` declares the cases that an engine cannot pass, by its capabilities, with
the reasons; ``-rx`` prints them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from engine_proxy import EngineProxy
from runtime_bench import Bench, MakeRuntime
from simulated import memory
from unavailable import declare
from virtual_time import VirtualClock

from podtui.clock import SystemClock
from podtui.runtime.protocol import Runtime

RUNTIMES = [
    pytest.param("memory", marks=pytest.mark.virtual_time),
    pytest.param("engine", marks=pytest.mark.engine),
]


def _memory() -> MakeRuntime:
    return memory(clock=VirtualClock(datetime.now(UTC)))


def _docker(url: str, log_size: int | None = None) -> MakeRuntime:
    from podtui.runtime.docker import DockerRuntime, LogLimits

    limits = None if log_size is None else LogLimits(size=log_size, files=3)

    def make(root: str) -> Runtime:
        return DockerRuntime(url, root=root, clock=SystemClock(), log_limits=limits)

    return make


@asynccontextmanager
async def _opened(make: MakeRuntime) -> AsyncIterator[Bench]:
    bench = Bench(make)
    try:
        await bench.set_up()
        yield bench
    finally:
        await bench.tear_down()


@pytest.fixture(params=RUNTIMES)
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A connected runtime without objects."""
    make = (
        _memory() if request.param == "memory" else _docker(request.getfixturevalue("engine_url"))
    )
    async with _opened(make) as bench:
        declare(request, bench.info)
        yield bench


@pytest.fixture(params=RUNTIMES)
async def rotating_bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A connected runtime that keeps fewer than 12,000 short lines of each log."""
    make = (
        _memory()
        if request.param == "memory"
        else _docker(request.getfixturevalue("engine_url"), 16 * 1024)
    )
    async with _opened(make) as bench:
        declare(request, bench.info)
        yield bench


@pytest.fixture
async def engine_bench(request: pytest.FixtureRequest, engine_url: str) -> AsyncIterator[Bench]:
    """The same, only for the real engine."""
    async with _opened(_docker(engine_url)) as bench:
        declare(request, bench.info)
        yield bench


@pytest.fixture
async def remote_bench(request: pytest.FixtureRequest, engine_url: str) -> AsyncIterator[Bench]:
    """The real engine behind a TCP port, as if on another machine."""
    proxy = EngineProxy(engine_url.removeprefix("unix://"))
    await proxy.listen()
    try:
        async with _opened(_docker(proxy.url)) as bench:
            declare(request, bench.info)
            yield bench
    finally:
        await proxy.cut()


@pytest.fixture
def engine_url(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--engine-url"))
