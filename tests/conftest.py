"""The engine's address, and virtual time by mark."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

import pytest
import quick_start
from virtual_time import VirtualClock, loop_factories


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine-url",
        default=os.environ.get("PODTUI_TEST_ENGINE", "unix:///var/run/docker.sock"),
        help="the Docker-compatible engine of the tests that need one (also: PODTUI_TEST_ENGINE)",
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
