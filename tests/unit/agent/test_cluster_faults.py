"""Faults of the connection between a node and the API server of its cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubelet_world import api_pod, pod
from member_world import MemberWorld, member_world

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[MemberWorld]:
    async with member_world(tmp_path) as it:
        yield it


async def test_a_pod_runs(world: MemberWorld) -> None:
    await world.create(api_pod("web"))
    world.add(pod("static-n1"))

    async def running() -> bool:
        web, static = await world.seen(), await world.seen("static-n1")
        return bool(web and static and web.status.phase == static.status.phase == "Running")

    assert await world.eventually(running) < 60
    print(world.clock.monotonic(), len(world.server.calls), world.server.calls)
    await asyncio.sleep(60)
    print(len(world.server.calls))
