"""The scheduler over the API of an agent, with real records behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

import msgspec
import pytest
from scheduler_world import a_node, a_pod
from served import Served, serving

from podtui.api.v1 import Event, Node, Pod
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import ApiError
from podtui.scheduler.api import SchedulerClient
from podtui.scheduler.scheduler import Scheduler
from podtui.server.resources.priorities import publish_system_classes

pytestmark = pytest.mark.virtual_time


@pytest.fixture
async def served(tmp_path: Path) -> AsyncGenerator[Served]:
    async with serving(tmp_path / "s.sock") as it:
        yield it


@pytest.fixture
async def client(served: Served) -> AsyncGenerator[UnixClient]:
    client = UnixClient(served.socket)
    yield client
    await client.close()


async def until(holds: Callable[[Pod], bool], client: UnixClient, name: str = "web") -> Pod:
    """Return the pod as soon as it is as wanted."""
    async with asyncio.timeout(120), aclosing(client.follow(Pod)) as deltas:
        async for delta in deltas:
            for pod in getattr(delta, "items", ()):
                if pod.metadata.name == name and holds(pod):
                    return pod
    raise AssertionError("the watch ended")


async def events(served: Served, reason: str, count: int = 1) -> list[Event]:
    async with asyncio.timeout(120):
        while True:
            found = [
                one
                for one in (await served.store.list("events")).items
                if isinstance(one, Event) and one.reason == reason
            ]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


def unscheduled(pod: Pod) -> bool:
    return any(c.type == "PodScheduled" and c.status == "False" for c in pod.status.conditions)


def nodeless(pod: Pod) -> Pod:
    """The pod as a client sends it."""
    meta = msgspec.structs.replace(pod.metadata, uid="")
    return msgspec.structs.replace(pod, metadata=meta, status=type(pod.status)())


async def test_a_pod_is_created_bound_and_removed(served: Served, client: UnixClient) -> None:
    await served.store.put("nodes", a_node("n1", cpu="1"))
    async with asyncio.TaskGroup() as group:
        scheduler = Scheduler(SchedulerClient(client, client), SystemClock(), host="vm")
        task = group.create_task(scheduler.run())
        await client.create(Pod, nodeless(a_pod("web", cpu="600m")))
        bound = await until(lambda pod: bool(pod.spec.nodeName), client)
        assert bound.spec.nodeName == "n1"
        (event,) = await events(served, "Scheduled")
        assert event.message == "Successfully assigned default/web to n1"
        assert (event.reportingComponent, event.source.component) == ("default-scheduler", "")

        await client.create(Pod, nodeless(a_pod("late", cpu="600m")))
        late = await until(unscheduled, client, "late")
        (condition,) = late.status.conditions
        assert condition.reason == "Unschedulable"
        assert condition.message.startswith("0/1 nodes are available: 1 Insufficient cpu. ")
        (event,) = await events(served, "FailedScheduling")
        assert event.message == condition.message

        await served.store.delete("pods", "default", "web")
        late = await until(lambda pod: bool(pod.spec.nodeName), client, "late")
        (condition,) = (c for c in late.status.conditions if c.type == "PodScheduled")
        assert condition.status == "True"
        task.cancel()


async def test_preemption_over_the_api(served: Served, client: UnixClient) -> None:
    await publish_system_classes(served.store, SystemClock())
    await served.store.put("nodes", a_node("n1", cpu="1"))
    async with asyncio.TaskGroup() as group:
        scheduler = Scheduler(SchedulerClient(client, client), SystemClock(), host="vm")
        task = group.create_task(scheduler.run())
        await client.create(Pod, nodeless(a_pod("low", cpu="600m")))
        await until(lambda pod: bool(pod.spec.nodeName), client, "low")
        important = a_pod("high", cpu="600m", priorityClassName="system-cluster-critical")
        spec = msgspec.structs.replace(important.spec, priority=None)
        await client.create(Pod, nodeless(msgspec.structs.replace(important, spec=spec)))
        low = await until(lambda pod: pod.metadata.deletionTimestamp is not None, client, "low")
        (condition,) = (c for c in low.status.conditions if c.type == "DisruptionTarget")
        assert condition.reason == "PreemptionByScheduler"
        high = await until(lambda pod: bool(pod.status.nominatedNodeName), client, "high")
        assert high.status.nominatedNodeName == "n1"
        (event,) = await events(served, "Preempted")
        assert event.message == f"Preempted by pod {high.metadata.uid} on node n1"
        # Its kubelet has ended it.
        await served.store.delete("pods", "default", "low")
        high = await until(lambda pod: bool(pod.spec.nodeName), client, "high")
        assert high.status.nominatedNodeName == ""
        task.cancel()


async def test_writes_have_a_uid_precondition(served: Served, client: UnixClient) -> None:
    api = SchedulerClient(client, client)
    await client.create(Pod, nodeless(a_pod()))
    with pytest.raises(ApiError) as refused:
        await api.delete_pod("default", "web", "another")
    assert refused.value.code == 409
    with pytest.raises(ApiError) as refused:
        await api.patch_pod_status("default", "web", "another", {"phase": "Failed"})
    assert refused.value.code == 422
    with pytest.raises(ApiError) as refused:
        await api.patch_event("default", "none", {})
    assert refused.value.code == 404


async def test_a_repeated_event_is_counted(served: Served, client: UnixClient) -> None:
    api = SchedulerClient(client, client)
    await served.store.put("nodes", a_node())
    await client.create(Pod, nodeless(a_pod("web", cpu="9")))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(Scheduler(api, SystemClock(), host="vm").run())
        (event,) = await events(served, "FailedScheduling")
        task.cancel()
    when = "2026-01-01T00:00:00.000001Z"
    series = {"count": 2, "lastObservedTime": when}
    await api.patch_event("default", event.metadata.name, {"series": series})
    stored = await client.get(Event, "default", event.metadata.name)
    assert stored.series is not None
    assert (stored.series.count, stored.series.lastObservedTime) == (2, when)


async def test_nodes_are_watched(served: Served, client: UnixClient) -> None:
    async with asyncio.TaskGroup() as group:
        scheduler = Scheduler(SchedulerClient(client, client), SystemClock(), host="vm")
        task = group.create_task(scheduler.run())
        await client.create(Pod, nodeless(a_pod()))
        await until(unscheduled, client)
        await client.create(Node, a_node("n1", spec={"unschedulable": True}))
        await events(served, "FailedScheduling", 2)
        await client.patch(Node, "", "n1", {"spec": {"unschedulable": None}})
        assert (await until(lambda pod: bool(pod.spec.nodeName), client)).spec.nodeName == "n1"
        task.cancel()
