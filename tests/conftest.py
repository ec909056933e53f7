"""For every test: ``tests/`` on the import path (for ``virtual_time``) and virtual time by mark."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)

import quick_start  # noqa: E402 - needs the path above
from virtual_time import VirtualClock, loop_factories  # noqa: E402 - needs the path above


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine-url",
        default=os.environ.get("PODTUI_TEST_ENGINE", "unix:///var/run/docker.sock"),
        help="the Docker-compatible engine of tests marked engine (also: PODTUI_TEST_ENGINE)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(quick_start, "podtui-quick-start")
    config.addinivalue_line(
        "markers", "virtual_time: run on a loop whose time jumps to the next timer"
    )


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return loop_factories(item.get_closest_marker("virtual_time") is not None)


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """The clock of a ``virtual_time`` test."""
    return VirtualClock()


@pytest.fixture
def engine_url(request: pytest.FixtureRequest) -> str:
    """The engine that tests marked ``engine`` drive.

    Fails in any other test: it would pass where an engine happens to run, and only there.
    """
    if request.node.get_closest_marker("engine") is None:
        pytest.fail("asks for the engine and is not marked engine")
    return str(request.config.getoption("--engine-url"))
