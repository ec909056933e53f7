"""The runtimes that must keep the contract: the simulated one, and a Docker-compatible engine.

``pytest tests/contract -m 'not engine'`` needs no engine. With one, ``--engine-url`` (or
``PODTUI_TEST_ENGINE``) says which: Podman's socket is as good as Docker's. A missing engine fails.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from contract.bench import IMAGE, Bench, MakeRuntime

from podtui.clock import SystemClock
from podtui.runtime.memory import MemoryEngine, MemoryRuntime
from podtui.runtime.memory.images import invent
from podtui.runtime.protocol import Runtime


def _memory() -> MakeRuntime:
    clock = SystemClock()
    engine = MemoryEngine(clock=clock, images={IMAGE: invent(IMAGE)})
    return lambda root: MemoryRuntime(root=root, clock=clock, engine=engine)


def _docker(url: str) -> MakeRuntime:
    from podtui.runtime.docker import DockerRuntime

    def make(root: str) -> Runtime:
        return DockerRuntime(url, root=root, clock=SystemClock())

    return make


@asynccontextmanager
async def _opened(make: MakeRuntime) -> AsyncIterator[Bench]:
    bench = Bench(make)
    try:
        await bench.set_up()
        yield bench
    finally:
        await bench.tear_down()


@pytest.fixture(params=["memory", pytest.param("engine", marks=pytest.mark.engine)])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A connected runtime with nothing in it."""
    memory = request.param == "memory"
    make = _memory() if memory else _docker(request.getfixturevalue("engine_url"))
    async with _opened(make) as bench:
        yield bench


@pytest.fixture
async def engine_bench(engine_url: str) -> AsyncIterator[Bench]:
    """The same, of the real engine alone."""
    async with _opened(_docker(engine_url)) as bench:
        yield bench
