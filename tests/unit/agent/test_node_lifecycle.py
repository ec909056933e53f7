"""Taints derived from the conditions of a node."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs
from virtual_time import VirtualClock, settle, virtual

from podtui.agent.node_lifecycle import NodeLifecycle, condition_taints
from podtui.api.times import rfc3339_micros
from podtui.api.v1 import (
    Event,
    Lease,
    LeaseSpec,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Taint,
)
from podtui.store import Store, open_store

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
        running = group.create_task(NodeLifecycle(store, clock, "own").run())
        await store.create("nodes", node(("Ready", "True")))
        for cordoned in (True, False):
            await store.put("nodes", node(("Ready", "True"), cordoned=cordoned))
            await settle()
            found = await store.get("nodes", "", "n1")
            assert isinstance(found, Node)
            expected = ["node.kubernetes.io/unschedulable"] if cordoned else []
            assert keys(found.spec.taints) == expected
        running.cancel()


def ready_pod(name: str, node_name: str) -> Pod:
    ready = PodCondition(type="Ready", status="True")
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(containers=(), nodeName=node_name),
        status=PodStatus(phase="Running", conditions=(ready,)),
    )


def named(name: str) -> Node:
    item = node(("Ready", "True"))
    return structs.replace(item, metadata=ObjectMeta(name=name))


async def stored_node(store: Store, name: str) -> Node:
    item = await store.get("nodes", "", name)
    assert isinstance(item, Node)
    return item


async def messages(store: Store) -> list[str]:
    events = (await store.list("events")).items
    return [event.message for event in events if isinstance(event, Event)]


@virtual()
async def test_a_node_without_contact_is_unreachable_until_its_lease_is_renewed() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    for name in ("own", "lost"):
        await store.create("nodes", named(name))
        await store.put("pods", ready_pod(f"on-{name}", name))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(NodeLifecycle(store, clock, "own").run())
        await clock.sleep(49)
        assert (await stored_node(store, "lost")).status.conditions[0].status == "True"
        await clock.sleep(12)
        lost = await stored_node(store, "lost")
        assert lost.status.conditions[0].reason == "NodeStatusUnknown"
        assert {(taint.key, taint.effect) for taint in lost.spec.taints} == {
            ("node.kubernetes.io/unreachable", "NoSchedule"),
            ("node.kubernetes.io/unreachable", "NoExecute"),
        }
        assert (await stored_node(store, "own")).status.conditions[0].status == "True"
        pods = {pod.metadata.name: pod for pod in (await store.list("pods")).items}
        statuses = {
            name: pod.status.conditions[0].status
            for name, pod in pods.items()
            if isinstance(pod, Pod)
        }
        assert statuses == {"on-own": "True", "on-lost": "False"}
        assert sorted(await messages(store)) == [
            "Node is not ready",
            "Node lost event: Registered Node lost in Controller",
            "Node lost status is now: NodeNotReady",
            "Node own event: Registered Node own in Controller",
        ]
        # Its kubelet reports again.
        ready = NodeCondition(type="Ready", status="True", lastHeartbeatTime="now")
        await store.put("nodes", structs.replace(lost, status=NodeStatus(conditions=(ready,))))
        await clock.sleep(6)
        assert (await stored_node(store, "lost")).spec.taints == ()
        await store.delete("nodes", "", "lost")
        await clock.sleep(6)
        assert "Node lost event: Removing Node lost from Controller" in await messages(store)
        running.cancel()


@virtual()
async def test_a_lease_is_a_sign_of_life() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    for name in ("own", "other"):
        await store.create("nodes", named(name))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(NodeLifecycle(store, clock, "own").run())
        for _ in range(20):
            meta = ObjectMeta(name="other", namespace="kube-node-lease")
            spec = LeaseSpec(renewTime=rfc3339_micros(clock.now()))
            await store.put("leases", Lease(metadata=meta, spec=spec))
            await clock.sleep(10)
        assert (await stored_node(store, "other")).status.conditions[0].status == "True"
        running.cancel()


@virtual()
async def test_the_only_node_evicts_no_pods() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    await store.create("nodes", node(("Ready", "False")))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(NodeLifecycle(store, clock, "n1").run())
        await clock.sleep(20)
        taints = (await stored_node(store, "n1")).spec.taints
        assert [taint.effect for taint in taints] == ["NoSchedule"]
        running.cancel()
