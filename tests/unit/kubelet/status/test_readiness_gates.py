"""Readiness gates, which no component sets for a static pod (kubelet.md §7.3)."""

from __future__ import annotations

import pytest
from kubelet_world import World, pod

from podtui.api.v1 import PodReadinessGate

pytestmark = pytest.mark.virtual_time


async def test_case_105_a_static_pod_with_a_gate_is_never_ready() -> None:
    world = World()
    async with world.running():
        gate = PodReadinessGate(conditionType="example.com/open")
        world.add(pod(readinessGates=(gate,)))
        await world.until(world.runs("uid-web-n1"))
        await world.sleep(3600)
        status = await world.status()
        assert status.phase == "Running"
        conditions = {condition.type: condition for condition in status.conditions}
        assert conditions["ContainersReady"].status == "True"
        assert (
            conditions["Ready"].status,
            conditions["Ready"].reason,
            conditions["Ready"].message,
        ) == (
            "False",
            "ReadinessGatesNotReady",
            'corresponding condition of pod readiness gate "example.com/open" does not exist.',
        )
