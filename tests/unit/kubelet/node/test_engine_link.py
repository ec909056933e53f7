"""The connection to the engine: the reason why the node is not ready."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from kubelet_settings import default_config
from virtual_time import VirtualClock

from podtui.errors import AgentClash, EngineError, EngineTimeout, EngineUnavailable
from podtui.kubelet.node.link import EngineLink
from podtui.runtime.memory.runtime import MemoryRuntime
from podtui.runtime.protocol import Runtime

pytestmark = pytest.mark.virtual_time


class FailingRuntime:
    """An engine whose first connection attempts fail with ``errors``, in this order."""

    def __init__(self, *errors: EngineError) -> None:
        self.errors = list(errors)

    async def connect(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        await asyncio.Event().wait()


async def reasons(*errors: EngineError, strict: bool = False) -> list[str]:
    """Return the reasons after each change of the connection's state."""
    config = default_config(strict=strict)
    link = EngineLink(cast(Runtime, FailingRuntime(*errors)), VirtualClock(), config)
    found: list[str] = []

    async def relist() -> None:
        """The first relist."""

    async with asyncio.TaskGroup() as group:
        task = group.create_task(link.run(relist, lambda: found.append(link.reason)))
        await asyncio.sleep(30)
        task.cancel()
    return found


async def test_a_clash_of_two_agents_has_its_own_reason() -> None:
    clash, gone = AgentClash("another agent has pod web"), EngineUnavailable("no engine")
    assert await reasons(clash, gone) == ["AgentClash", "KubeletNotReady"]
    assert await reasons(clash, strict=True) == ["KubeletNotReady"]


async def test_an_engine_that_answers_pings_only_is_lost_after_a_failed_call() -> None:
    clock = VirtualClock()
    runtime = MemoryRuntime(clock=clock)
    config = default_config()
    link = EngineLink(runtime, clock, config)

    async def relist() -> None:
        """The first relist."""

    async with asyncio.TaskGroup() as group:
        task = group.create_task(link.run(relist, lambda: None))
        await asyncio.sleep(1)
        for verb in ("check", "connect"):
            runtime.faults.hold(verb)
        # Pings alone do not notice it.
        await asyncio.sleep(3 * config.runtime_down_after)
        assert link.ready
        link.suspect(EngineTimeout("unix:///x: no answer in time"))
        await asyncio.sleep(config.runtime_down_after + 1)
        assert not link.ready
        await asyncio.sleep(config.runtime_down_after)
        assert link.problems() == (
            "container runtime is down",
            "container runtime not ready: the engine does not answer",
        )
        runtime.faults.clear()
        await asyncio.sleep(10)
        assert link.ready
        assert link.problems() == ()
        task.cancel()


async def test_a_failed_call_of_an_engine_that_works_changes_nothing() -> None:
    clock = VirtualClock()
    runtime = MemoryRuntime(clock=clock)
    link = EngineLink(runtime, clock, default_config())
    changes: list[bool] = []

    async def relist() -> None:
        """The first relist."""

    async with asyncio.TaskGroup() as group:
        task = group.create_task(link.run(relist, lambda: changes.append(link.ready)))
        await asyncio.sleep(1)
        link.suspect(EngineTimeout("unix:///x: no answer in time"))
        await asyncio.sleep(60)
        assert changes == [True]
        assert runtime.faults.calls["check"] == 1
        task.cancel()
