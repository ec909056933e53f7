"""The connection to the engine: the reason why the node is not ready."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from kubelet_settings import default_config
from virtual_time import VirtualClock

from podtui.errors import AgentClash, EngineError, EngineUnavailable
from podtui.kubelet.node.link import EngineLink
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
