"""Pods of nodes that do not exist."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs
from virtual_time import VirtualClock, settle, virtual

from podtui.agent.pod_collector import PodCollector, ended_beyond, without_kubelet
from podtui.api.names import STATIC_POD_PATH
from podtui.api.v1 import (
    Lease,
    LeaseSpec,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
)
from podtui.store import Store, open_store
from podtui.store.protocol import WatchType


def node(name: str, *, ours: bool = True) -> Node:
    annotations = {STATIC_POD_PATH: "/pods"} if ours else {}
    return Node(metadata=ObjectMeta(name=name, annotations=annotations))


def pod(name: str, node_name: str, phase: str = "Running", **meta: object) -> Pod:
    metadata = ObjectMeta(name=name, namespace="default", uid=name, **meta)  # type: ignore[arg-type]
    return Pod(
        metadata=metadata,
        spec=PodSpec(nodeName=node_name, containers=()),
        status=PodStatus(phase=phase),
    )


async def names(store: Store, resource: str) -> list[str]:
    return [item.metadata.name for item in (await store.list(resource)).items]  # type: ignore[arg-type]


@virtual()
async def test_the_node_of_an_earlier_name_is_removed_with_its_pods(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = open_store(None, clock=VirtualClock())
    meta = ObjectMeta(name="old", namespace="kube-node-lease")
    await store.put("leases", Lease(metadata=meta, spec=LeaseSpec()))
    for item in (node("old"), node("new"), node("simulated", ours=False)):
        await store.put("nodes", item)
    since = (await store.list("pods")).resource_version
    for name, where in (("a", "old"), ("b", "new"), ("c", "simulated"), ("d", "")):
        await store.put("pods", pod(name, where))
    await PodCollector(store, VirtualClock(), "new").remove_former()
    assert await names(store, "nodes") == ["new", "simulated"]
    assert await names(store, "leases") == []
    assert await names(store, "pods") == ["b", "c", "d"]
    assert "this node was old and is new now: old and its 1 pod are deleted" in caplog.text
    changes = store.watch("pods", since=since)
    seen = [await anext(changes) for _ in range(6)]
    last = [one.object for one in seen if one.type is WatchType.DELETED]
    assert isinstance(last[0], Pod)
    assert last[0].status.phase == "Failed"
    (condition,) = last[0].status.conditions
    assert (condition.type, condition.status) == ("DisruptionTarget", "True")
    assert condition.reason == "DeletionByPodGC"


@virtual()
async def test_the_next_start_ends_the_pods_that_an_interrupted_start_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = open_store(None, clock=VirtualClock())
    await store.put("nodes", node("old"))
    for name in ("a", "b"):
        await store.put("pods", pod(name, "old"))
    absent = PodCollector(store, VirtualClock(), "new")
    update, broken = store.update, True

    async def update_or_fail(resource: str, namespace: str, name: str, *rest: object) -> object:
        if broken and name == "b":
            raise TypeError("not foreseen")
        return await update(resource, namespace, name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "update", update_or_fail)
    with pytest.raises(TypeError):
        await absent.remove_former()
    broken = False
    await absent.remove_former()
    assert await names(store, "pods") == []
    assert await names(store, "nodes") == []


@virtual()
async def test_nothing_is_removed_while_the_name_stays() -> None:
    store = open_store(None, clock=VirtualClock())
    await store.put("nodes", node("n1"))
    await store.put("pods", pod("a", "n1"))
    await store.put("pods", pod("b", "nowhere"))
    before = (await store.list("pods")).resource_version
    await PodCollector(store, VirtualClock(), "n1").remove_former()
    assert (await store.list("pods")).resource_version == before


@virtual()
async def test_pods_of_an_absent_node_end_after_a_quarantine() -> None:
    store = open_store(None, clock=VirtualClock())
    for name in ("n1", "other"):
        await store.put("nodes", node(name, ours=False))
    absent = PodCollector(store, VirtualClock(), "n1")
    async with asyncio.TaskGroup() as group:
        running = group.create_task(absent.run())
        await store.put("pods", pod("held", "nowhere", finalizers=("example.com/wait",)))
        for name, where in (("a", "nowhere"), ("b", "n1"), ("c", "other"), ("d", "")):
            await store.put("pods", pod(name, where))
        await asyncio.sleep(39)
        assert await names(store, "pods") == ["a", "b", "c", "d", "held"]
        await asyncio.sleep(2)
        assert await names(store, "pods") == ["b", "c", "d", "held"]
        # A node that appears in the meantime keeps its pods.
        await store.delete("nodes", "", "other")
        await asyncio.sleep(30)
        await store.put("nodes", node("other", ours=False))
        await asyncio.sleep(30)
        await store.delete("nodes", "", "other")
        await asyncio.sleep(39)
        assert await names(store, "pods") == ["b", "c", "d", "held"]
        # The own node registers itself again.
        await store.delete("nodes", "", "n1")
        await asyncio.sleep(2)
        assert await names(store, "pods") == ["b", "d", "held"]
        await asyncio.sleep(100)
        assert await names(store, "pods") == ["b", "d", "held"]
        running.cancel()


@virtual()
async def test_a_deleted_pod_of_an_absent_node_ends() -> None:
    store = open_store(None, clock=VirtualClock())
    for name in ("n1", "other"):
        await store.put("nodes", node(name, ours=False))
    absent = PodCollector(store, VirtualClock(), "n1")

    def deleted(item: Pod) -> Pod:
        meta = structs.replace(
            item.metadata, deletionTimestamp="2026-01-01T00:00:30Z", deletionGracePeriodSeconds=30
        )
        return structs.replace(item, metadata=meta)

    async with asyncio.TaskGroup() as group:
        running = group.create_task(absent.run())
        for name, where in (("a", "nowhere"), ("b", "n1"), ("c", "other"), ("d", "nowhere")):
            await store.put("pods", pod(name, where))
        await settle()
        for name in ("a", "b", "c"):
            await store.update("pods", "default", name, deleted)
        await settle()
        assert await names(store, "pods") == ["b", "c", "d"]
        await store.delete("nodes", "", "other")
        await settle()
        assert await names(store, "pods") == ["b", "d"]
        # The own node registers itself again.
        await store.delete("nodes", "", "n1")
        await settle()
        assert await names(store, "pods") == ["b", "d"]
        running.cancel()


@virtual()
async def test_a_pod_with_finalizers_stays_until_they_are_removed() -> None:
    store = open_store(None, clock=VirtualClock())
    await store.put("nodes", node("old"))
    await store.put("pods", pod("a", "old", finalizers=("example.com/wait",)))
    await PodCollector(store, VirtualClock(), "new").remove_former()
    item = await store.get("pods", "default", "a")
    assert isinstance(item, Pod)
    assert item.metadata.deletionTimestamp is not None
    assert item.metadata.deletionGracePeriodSeconds == 0
    assert item.status.phase == "Failed"


@virtual()
async def test_a_pod_that_has_ended_keeps_its_phase() -> None:
    store = open_store(None, clock=VirtualClock())
    await store.put("nodes", node("old"))
    await store.put("pods", pod("a", "old", "Succeeded", finalizers=("example.com/wait",)))
    await PodCollector(store, VirtualClock(), "new").remove_former()
    item = await store.get("pods", "default", "a")
    assert isinstance(item, Pod)
    assert item.status.phase == "Succeeded"


def test_evicted_pods_and_then_the_oldest_are_collected() -> None:
    pods = [
        pod("c", "n1", "Failed", creationTimestamp="3"),
        pod("a", "n1", "Succeeded", creationTimestamp="1"),
        pod("running", "n1", creationTimestamp="0"),
        pod("b", "n1", "Failed", creationTimestamp="2"),
    ]
    evicted = pod("e", "n1", "Failed", creationTimestamp="4")
    evicted = structs.replace(evicted, status=PodStatus(phase="Failed", reason="Evicted"))
    ended = [item.metadata.name for item in ended_beyond([*pods, evicted], 2)]
    assert ended == ["e", "a"]
    assert ended_beyond(pods, 3) == []


def test_deleted_pods_that_no_kubelet_ends() -> None:
    deleted = {"deletionTimestamp": "now"}
    taint = Taint(key="node.kubernetes.io/out-of-service", effect="NoExecute")
    ready = NodeStatus(conditions=(NodeCondition(type="Ready", status="True"),))
    tainted = structs.replace(node("lost"), spec=NodeSpec(taints=(taint,)))
    nodes = {"lost": tainted, "n1": node("n1"), "back": structs.replace(tainted, status=ready)}
    pods = [
        pod("bound", "n1", **deleted),
        pod("unbound", "", **deleted),
        pod("waits", ""),
        pod("out", "lost", **deleted),
        pod("stays", "lost"),
        pod("in", "back", **deleted),
    ]
    assert [item.metadata.name for item in without_kubelet(pods, nodes)] == ["unbound", "out"]


@virtual()
async def test_a_deleted_pod_of_a_node_out_of_service_is_gone() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    taint = Taint(key="node.kubernetes.io/out-of-service", effect="NoExecute")
    await store.put("nodes", structs.replace(node("lost"), spec=NodeSpec(taints=(taint,))))
    await store.put("pods", pod("a", "lost", deletionTimestamp="now"))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(PodCollector(store, clock, "n1").run())
        await clock.sleep(21)
        assert await names(store, "pods") == []
        running.cancel()
