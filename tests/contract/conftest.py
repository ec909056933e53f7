"""The runtimes that must keep the contract: the simulated one, and a Docker-compatible engine.

A case that runs on both has its scripts declared in `contract.simulated`. A case that needs a real
shell takes ``engine_bench``.

``pytest tests/contract -m 'not engine'`` needs no engine. With one, ``--engine-url`` (or
``PODTUI_TEST_ENGINE``) says which: Podman's socket is as good as Docker's. A missing engine fails.
What an engine cannot do is declared in `UNAVAILABLE`, with the reason, by its own capabilities;
``-rx`` prints it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from contract.bench import Bench, MakeRuntime
from contract.simulated import memory

from podtui.clock import SystemClock
from podtui.runtime.protocol import EngineInfo, Runtime


@dataclass(frozen=True)
class Unavailable:
    """A case that some engines cannot do, by what they say of themselves.

    It runs all the same, and must fail: a case that passes is no longer to be declared. One that is
    ``racy`` may pass."""

    case: str
    lacks: Callable[[EngineInfo], bool]
    reason: str
    racy: bool = False


def _no_limits(info: EngineInfo) -> bool:
    return not info.supports_memory_limit


NO_CGROUPS = "a rootless engine has no cgroups on cgroup v1: it limits nothing"
UNAVAILABLE = (
    Unavailable("test_memory_that_runs_out", _no_limits, NO_CGROUPS),
    Unavailable("test_statuses_tell_what_a_container_is_held_to", _no_limits, NO_CGROUPS),
    Unavailable("test_a_running_container_is_held_to_other_values", _no_limits, NO_CGROUPS),
    Unavailable(
        "test_a_running_container_is_held_to_other_values",
        lambda info: not info.supports_resize,
        "Podman has no call to change limits before 5.1",
    ),
    Unavailable(
        "test_memory_that_runs_out",
        lambda info: not info.reports_oom,
        "Podman's monitor (conmon) does not report OOM kills on cgroup v1",
    ),
    Unavailable(
        "test_counters_of_what_runs",
        lambda info: not info.counts_usage,
        "a rootless engine has no cgroups on cgroup v1: it counts nothing",
    ),
    Unavailable(
        "test_input_that_ends_leaves_a_container_its_own",
        lambda info: not info.keeps_stdin,
        "Podman's monitor (conmon) closes stdin when a client detaches",
    ),
    Unavailable(
        "test_a_log_tells_where_older_lines_were_rotated_away",
        lambda info: info.name == "podman",
        "Podman truncates a log and keeps no rotated files to tell it from",
    ),
    Unavailable(
        "test_what_is_written_to_nobody_loses_no_output",
        lambda info: info.name == "podman",
        "Podman drops the last output of a command that ends with unread input",
        racy=True,
    ),
)


def _declare(request: pytest.FixtureRequest, info: EngineInfo) -> None:
    """Mark the test as failing where the engine has declared that it cannot do it."""
    case = request.node.originalname
    found = [one for one in UNAVAILABLE if one.case == case and one.lacks(info)]
    for one in found[:1]:
        reason = f"unavailable on {_describe(info)}: {one.reason}"
        request.node.add_marker(pytest.mark.xfail(reason=reason, strict=not one.racy))


def _describe(info: EngineInfo) -> str:
    words = [info.name, info.version, *(["rootless"] if info.rootless else [])]
    return f"{' '.join(words)}, cgroup v{info.cgroup_version}"


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


@pytest.fixture(params=["memory", pytest.param("engine", marks=pytest.mark.engine)])
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A connected runtime with nothing in it."""
    make = memory() if request.param == "memory" else _docker(request.getfixturevalue("engine_url"))
    async with _opened(make) as bench:
        _declare(request, bench.info)
        yield bench


@pytest.fixture(params=["memory", pytest.param("engine", marks=pytest.mark.engine)])
async def rotating_bench(request: pytest.FixtureRequest) -> AsyncIterator[Bench]:
    """A connected runtime that keeps less than 12,000 short lines of a log."""
    make = (
        memory()
        if request.param == "memory"
        else _docker(request.getfixturevalue("engine_url"), 16 * 1024)
    )
    async with _opened(make) as bench:
        _declare(request, bench.info)
        yield bench


@pytest.fixture
async def engine_bench(request: pytest.FixtureRequest, engine_url: str) -> AsyncIterator[Bench]:
    """The same, of the real engine alone."""
    async with _opened(_docker(engine_url)) as bench:
        _declare(request, bench.info)
        yield bench
