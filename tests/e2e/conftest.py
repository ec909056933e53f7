from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_harness import Machine, Terminal
from unavailable import declare

from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime
from podtui.runtime.protocol import EngineInfo


@pytest.fixture
def machine(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Machine]:
    """A fresh machine on the engine that the test's ``engine`` parameter names (default: auto)."""
    if shutil.which("tmux") is None:
        pytest.fail("tmux is not installed: these tests drive the program in it")
    terminal = Terminal(tmp_path / "tmux.sock")
    machine = Machine(tmp_path, terminal, getattr(request, "param", "auto"))
    try:
        yield machine
    finally:
        terminal.kill()
        machine.run("down", "--yes")


@pytest.fixture(scope="session")
def engine_url(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("--engine-url"))


@pytest.fixture(scope="session")
def engine_info(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> EngineInfo:
    async def connect() -> EngineInfo:
        root = str(tmp_path_factory.mktemp("info"))
        runtime = DockerRuntime(engine_url, root=root, clock=SystemClock())
        try:
            return await runtime.connect()
        finally:
            await runtime.close()

    return asyncio.run(connect())


@pytest.fixture
def declared(request: pytest.FixtureRequest, engine_info: EngineInfo) -> None:
    """Expect the test to fail if it is declared as unavailable on the engine."""
    declare(request, engine_info)
