"""The engine's address, and virtual time by mark."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator, Mapping

import hypothesis_profiles
import pytest
from virtual_time import VirtualClock, new_loop


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine-url",
        default=os.environ.get("PODTUI_TEST_ENGINE", "unix:///var/run/docker.sock"),
        help="the Docker-compatible engine of the tests that need one (also: PODTUI_TEST_ENGINE)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(hypothesis_profiles, "podtui-quick-start")
    config.pluginmanager.register(Loops(), "podtui-loops")
    config.addinivalue_line(
        "markers", "virtual_time: run on a loop whose time jumps to the next timer"
    )


class Loops:
    """Makes the loop that the running test is marked for.

    pytest-asyncio asks for factories during collection, when the marks of a parameter of a fixture
    are not known yet. So the one factory decides when the test runs.
    """

    running: pytest.Item

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.running = item

    def pytest_asyncio_loop_factories(
        self,
    ) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
        return {"loop": self.make}

    def make(self) -> asyncio.AbstractEventLoop:
        return new_loop(self.running.get_closest_marker("virtual_time") is not None)


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """The clock of a ``virtual_time`` test."""
    return VirtualClock()


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Every object that the test makes stays in the youngest generation until it collects that."""
    gc.disable()
    yield
    gc.enable()
