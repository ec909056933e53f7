"""Taints derived from the conditions of a node."""

from __future__ import annotations

import asyncio

import pytest
from virtual_time import VirtualClock, settle, virtual

from podtui.agent.node_lifecycle import NodeLifecycle, condition_taints
from podtui.api.v1 import Node, NodeCondition, NodeSpec, NodeStatus, ObjectMeta, Taint
from podtui.store import open_store

NOW = "2026-01-02T03:04:05Z"
OTHERS = Taint(key="example.com/dedicated", value="a", effect="NoSchedule")


def node(
    *conditions: tuple[str, str], taints: tuple[Taint, ...] = (), cordoned: bool = False
) -> Node:
    found = tuple(NodeCondition(type=kind, status=status) for kind, status in conditions)
    return Node(
        metadata=ObjectMeta(name="n1"),
        spec=NodeSpec(taints=taints, unschedulable=cordoned or None),
        status=NodeStatus(conditions=found),
    )


def keys(found: tuple[Taint, ...]) -> list[str]:
    return [one.key for one in found]


@pytest.mark.parametrize(
    ("kind", "status", "key"),
    [
        ("Ready", "False", "not-ready"),
        ("Ready", "Unknown", "unreachable"),
        ("MemoryPressure", "True", "memory-pressure"),
        ("DiskPressure", "True", "disk-pressure"),
        ("PIDPressure", "True", "pid-pressure"),
    ],
)
def test_each_condition_has_its_taint(kind: str, status: str, key: str) -> None:
    (taint,) = condition_taints(node((kind, status)), NOW)
    assert taint == Taint(key=f"node.kubernetes.io/{key}", effect="NoSchedule", timeAdded=NOW)


def test_a_healthy_node_has_no_condition_taints() -> None:
    healthy = node(("Ready", "True"), ("MemoryPressure", "False"), taints=(OTHERS,))
    assert condition_taints(healthy, NOW) == (OTHERS,)


def test_a_taint_is_removed_with_its_condition_and_keeps_its_time() -> None:
    before = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule", timeAdded="earlier")
    still = condition_taints(node(("Ready", "False"), taints=(before, OTHERS)), NOW)
    assert still == (before, OTHERS)
    assert condition_taints(node(("Ready", "True"), taints=still), NOW) == (OTHERS,)


def test_a_taint_set_by_a_client_with_another_effect_is_kept() -> None:
    evicting = Taint(key="node.kubernetes.io/unschedulable", effect="NoExecute")
    assert condition_taints(node(taints=(evicting,)), NOW) == (evicting,)


@virtual()
async def test_a_cordoned_node_is_tainted_until_it_is_uncordoned() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(NodeLifecycle(store, clock).run())
        await store.create("nodes", node(("Ready", "True")))
        for cordoned in (True, False):
            await store.put("nodes", node(("Ready", "True"), cordoned=cordoned))
            await settle()
            found = await store.get("nodes", "", "n1")
            assert isinstance(found, Node)
            expected = ["node.kubernetes.io/unschedulable"] if cordoned else []
            assert keys(found.spec.taints) == expected
        running.cancel()
