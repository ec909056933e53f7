from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tmux_harness import Machine, Terminal


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
