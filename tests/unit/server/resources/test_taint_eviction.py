"""Pods that do not tolerate the NoExecute taints of their node are deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs
from served import pod
from virtual_time import VirtualClock, settle

from podtui.api.objects import Object
from podtui.api.v1 import Event, Node, NodeSpec, ObjectMeta, Pod, Taint, Toleration
from podtui.manifest.identity import identify
from podtui.server.resources.taint_eviction import TaintEviction, toleration_seconds
from podtui.store import Store, open_store
from podtui.store.resources import Resource

pytestmark = pytest.mark.virtual_time

TAINT = Taint(key="example.com/evict", value="yes", effect="NoExecute")
SECOND = Taint(key="example.com/other", effect="NoExecute")
SOFT = Taint(key="example.com/soft", effect="NoSchedule")
FOREVER = Toleration(key=TAINT.key, operator="Exists", effect="NoExecute")


def for_seconds(seconds: int, key: str = TAINT.key) -> Toleration:
    return Toleration(key=key, operator="Exists", effect="NoExecute", tolerationSeconds=seconds)


@pytest.mark.parametrize(
    ("tolerations", "taints", "seconds"),
    [
        ((), (TAINT,), 0),
        ((FOREVER,), (TAINT,), None),
        ((FOREVER,), (TAINT, SECOND), 0),
        ((Toleration(operator="Exists"),), (TAINT, SECOND), None),
        ((for_seconds(60),), (TAINT,), 60),
        ((for_seconds(60), for_seconds(10, SECOND.key)), (TAINT, SECOND), 10),
        ((for_seconds(60), FOREVER), (TAINT,), 60),
        ((FOREVER, for_seconds(60)), (TAINT,), None),
        ((for_seconds(-1),), (TAINT,), 0),
        ((Toleration(key=TAINT.key, value="no", effect="NoExecute"),), (TAINT,), 0),
    ],
)
def test_the_time_for_which_taints_are_tolerated(
    tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...], seconds: float | None
) -> None:
    assert toleration_seconds(tolerations, taints) == seconds


def node(*taints: Taint) -> Node:
    return Node(metadata=ObjectMeta(name="node"), spec=NodeSpec(taints=taints))


def tolerating(name: str, *tolerations: Toleration) -> Pod:
    made = pod(name)
    return structs.replace(made, spec=structs.replace(made.spec, tolerations=tolerations))


@asynccontextmanager
async def controlled(*pods: Pod) -> AsyncIterator[Store]:
    """Run the controller on a node without taints and these pods."""
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    await store.put("nodes", node())
    for item in pods:
        await store.put("pods", item)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(TaintEviction(store, clock).run())
        await settle()
        yield store
        running.cancel()


async def taint(store: Store, *taints: Taint) -> None:
    await store.put("nodes", node(*taints))
    await settle()


async def stored(store: Store, name: str) -> Pod:
    found = await store.get("pods", "default", name)
    assert isinstance(found, Pod)
    return found


async def is_evicted(store: Store, name: str) -> bool:
    found = await stored(store, name)
    return found.metadata.deletionTimestamp is not None


async def messages(store: Store) -> list[str]:
    listing = await store.list("events")
    events = [event for event in listing.items if isinstance(event, Event)]
    assert {event.reason for event in events} <= {"TaintManagerEviction"}
    return [event.message for event in sorted(events, key=lambda one: one.metadata.name)]


async def test_a_pod_that_does_not_tolerate_a_taint_is_deleted_with_a_condition() -> None:
    async with controlled(pod("web"), tolerating("stays", FOREVER)) as store:
        await taint(store, SOFT)
        assert not await is_evicted(store, "web")
        await taint(store, SOFT, TAINT)
        evicted = await stored(store, "web")
        assert evicted.metadata.deletionGracePeriodSeconds == 30
        condition = evicted.status.conditions[-1]
        assert (condition.type, condition.status, condition.reason, condition.message) == (
            "DisruptionTarget",
            "True",
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )
        assert not await is_evicted(store, "stays")
        [event] = (await store.list("events")).items
        assert isinstance(event, Event)
        assert (event.type, event.reason, event.message, event.source.component) == (
            "Normal",
            "TaintManagerEviction",
            "Marking for deletion Pod default/web",
            "taint-eviction-controller",
        )
        [entry] = event.metadata.managedFields
        assert entry.manager == "kube-controller-manager"
        await asyncio.sleep(60)
        assert len(await messages(store)) == 1


async def test_a_pod_stays_as_long_as_it_tolerates_the_taint() -> None:
    async with controlled(tolerating("web", for_seconds(60)), pod("now")) as store:
        await taint(store, TAINT)
        await asyncio.sleep(59)
        assert (await is_evicted(store, "web"), await is_evicted(store, "now")) == (False, True)
        await asyncio.sleep(2)
        assert await is_evicted(store, "web")


async def test_the_eviction_is_cancelled_with_the_taint() -> None:
    async with controlled(tolerating("web", for_seconds(60))) as store:
        await taint(store, TAINT)
        await asyncio.sleep(30)
        await taint(store)
        assert await messages(store) == ["Cancelling deletion of Pod default/web"]
        await asyncio.sleep(60)
        assert not await is_evicted(store, "web")


async def test_a_new_toleration_cancels_the_eviction() -> None:
    async with controlled(tolerating("web", for_seconds(60))) as store:
        await taint(store, TAINT)
        await store.put("pods", tolerating("web", FOREVER, for_seconds(60)))
        await asyncio.sleep(61)
        assert not await is_evicted(store, "web")
        assert await messages(store) == ["Cancelling deletion of Pod default/web"]


async def test_a_second_taint_that_is_not_tolerated_ends_the_wait() -> None:
    async with controlled(tolerating("web", for_seconds(60))) as store:
        await taint(store, TAINT)
        await taint(store, TAINT, SECOND)
        assert await is_evicted(store, "web")
        assert await messages(store) == [
            "Cancelling deletion of Pod default/web",
            "Marking for deletion Pod default/web",
        ]


async def test_a_pod_that_comes_to_a_tainted_node_is_deleted() -> None:
    async with controlled() as store:
        await taint(store, TAINT)
        await store.put("pods", pod("late"))
        await settle()
        assert await is_evicted(store, "late")


async def test_a_static_pod_is_not_deleted() -> None:
    async with controlled(identify(pod("web"), node_name="node", path="/m/web.yaml")) as store:
        await taint(store, TAINT, SECOND)
        assert not await is_evicted(store, "web-node")


async def test_an_eviction_that_fails_is_tried_again_by_the_next_run() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    await store.put("nodes", node(TAINT))
    await store.put("pods", pod("web"))
    put, broken = store.put, True

    async def put_or_fail(resource: Resource, item: Object) -> Object:
        if broken and resource == "events":
            raise TypeError("not foreseen")
        return await put(resource, item)

    store.put = put_or_fail  # type: ignore[method-assign]
    eviction = TaintEviction(store, clock)
    with pytest.raises(ExceptionGroup):
        await eviction.run()
    broken = False
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await eviction.run()
    assert await is_evicted(store, "web")
