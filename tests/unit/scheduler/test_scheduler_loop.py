"""The loop against an API in memory, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from scheduler_api import FakeApi
from scheduler_world import HOST, a_claim, a_class, a_node, a_pod, a_volume, with_claims
from virtual_time import VirtualClock

from podtui.api.claims import BIND_COMPLETED, SELECTED_NODE
from podtui.api.v1 import (
    Namespace,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from podtui.errors import ApiError
from podtui.scheduler.claims import NO_VOLUME
from podtui.scheduler.filters import CLAIM_IN_USE
from podtui.scheduler.scheduler import Scheduler

pytestmark = pytest.mark.virtual_time
NO_HELP = (
    "no new claims to deallocate, preemption:"
    " 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


@asynccontextmanager
async def scheduling(api: FakeApi) -> AsyncGenerator[None]:
    """Run a scheduler of the API for the block, once it has seen all objects."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(Scheduler(api, VirtualClock(), host="vm").run())
        await settle()
        yield
        task.cancel()


async def settle(seconds: float = 0.01) -> None:
    await asyncio.sleep(seconds)


def deleting(pod: Pod) -> Pod:
    meta = msgspec.structs.replace(pod.metadata, deletionTimestamp="2026-01-01T00:00:30Z")
    return msgspec.structs.replace(pod, metadata=meta)


def with_taint(node: Node, **taint: Any) -> Node:
    spec = msgspec.convert({"taints": [taint]}, type(node.spec))
    return msgspec.structs.replace(node, spec=spec)


async def test_a_pod_is_bound_and_an_event_says_so() -> None:
    api = FakeApi(a_node(), pods=(a_pod(),))
    async with scheduling(api):
        assert api.bindings == [("web", "n1")]
        (event,) = api.events
        assert (event.reason, event.type, event.action) == ("Scheduled", "Normal", "Binding")
        assert event.message == "Successfully assigned default/web to n1"
        assert event.involvedObject.uid == "uid-web"
        assert event.reportingComponent == "default-scheduler"
        assert event.reportingInstance == "default-scheduler-vm"


async def test_a_pod_that_does_not_fit() -> None:
    api = FakeApi(a_node(), pods=(a_pod(cpu="9"),))
    async with scheduling(api):
        text = f"0/1 nodes are available: 1 Insufficient cpu. {NO_HELP}"
        assert api.notes("FailedScheduling") == [text]
        (condition,) = api.pod("web").status.conditions
        assert (condition.type, condition.status) == ("PodScheduled", "False")
        assert (condition.reason, condition.message) == ("Unschedulable", text)
        assert condition.lastTransitionTime == "2026-01-01T00:00:00Z"
        await settle(200)
        assert api.bindings == []
        assert len(api.patches) == 1


async def test_pods_of_other_schedulers_are_left_alone() -> None:
    api = FakeApi(a_node(), pods=(a_pod(schedulerName="mine"),))
    async with scheduling(api):
        await settle(1000)
        assert (api.bindings, api.events) == ([], [])


async def test_a_deleted_pod_frees_resources_at_once() -> None:
    there = a_pod("there", cpu="2", node="n1")
    api = FakeApi(a_node(), pods=(there, a_pod(cpu="1")))
    async with scheduling(api):
        assert api.bindings == []
        api.remove(Pod, "there")
        await settle()
        assert api.bindings == [("web", "n1")]


async def test_a_terminated_pod_frees_resources() -> None:
    there = a_pod("there", cpu="2", node="n1")
    api = FakeApi(a_node(), pods=(there, a_pod(cpu="1")))
    async with scheduling(api):
        api.put(a_pod("there", cpu="2", node="n1", status={"phase": "Succeeded"}))
        await settle()
        assert api.bindings == [("web", "n1")]


async def test_a_node_is_added_cordoned_and_tainted() -> None:
    api = FakeApi(pods=(a_pod(),))
    async with scheduling(api):
        assert api.notes("FailedScheduling") == ["no nodes available to schedule pods"]
        api.put(a_node(spec={"unschedulable": True}))
        await settle(20)
        assert api.bindings == []
        api.put(with_taint(a_node(), key="only", effect="NoSchedule"))
        await settle()
        assert "1 node(s) had untolerated taint(s)" in api.notes("FailedScheduling")[-1]
        api.put(a_node())
        await settle()
        assert api.bindings == [("web", "n1")]


async def test_assumed_pods_count() -> None:
    api = FakeApi(a_node(), pods=tuple(a_pod(f"p{i}", cpu="1") for i in range(3)))
    api.silent = True
    async with scheduling(api):
        await settle(500)
        assert len(api.bindings) == 2


async def test_higher_priority_first() -> None:
    pods = tuple(a_pod(f"p{i}", cpu="1", priority=i) for i in range(4))
    api = FakeApi(a_node(), pods=pods)
    async with scheduling(api):
        assert api.bindings == [("p3", "n1"), ("p2", "n1")]


async def test_preemption_by_priority() -> None:
    low = a_pod("low", cpu="2", node="n1")
    api = FakeApi(a_node(), pods=(low, a_pod("high", cpu="1", priority=100)))
    async with scheduling(api):
        assert api.deleted == ["low"]
        assert api.notes("FailedScheduling") == ["0/1 nodes are available: 1 Insufficient cpu."]
        assert api.notes("Preempted") == ["Preempted by pod uid-high on node n1"]
        (condition,) = api.pod("low").status.conditions
        assert (condition.type, condition.reason) == ("DisruptionTarget", "PreemptionByScheduler")
        assert condition.message == (
            "default-scheduler: preempting to accommodate a higher priority pod"
        )
        assert api.pod("high").status.nominatedNodeName == "n1"
        # The freed resources are reserved for it, although another pod would fit earlier.
        api.put(a_pod("other", cpu="2"))
        await settle(100)
        assert api.bindings == []
        api.remove(Pod, "low")
        await settle()
        assert api.bindings == [("high", "n1")]
        assert api.deleted == ["low"]


async def test_static_pods_are_not_preempted() -> None:
    mirror = a_pod(
        "low",
        cpu="2",
        node="n1",
        metadata={"annotations": {"kubernetes.io/config.mirror": "hash"}},
    )
    api = FakeApi(a_node(), pods=(mirror, a_pod("high", cpu="1", priority=100)))
    async with scheduling(api):
        assert api.deleted == []
        (note,) = api.notes("FailedScheduling")
        assert note.endswith("1 No preemption victims found for incoming pod.")


async def test_scheduling_gates() -> None:
    api = FakeApi(a_node(), pods=(a_pod(schedulingGates=[{"name": "example.com/wait"}]),))
    async with scheduling(api):
        await settle(1000)
        assert (api.bindings, api.events) == ([], [])
        api.put(a_pod())
        await settle()
        assert api.bindings == [("web", "n1")]


async def test_the_number_of_concurrent_bindings_is_limited() -> None:
    api = FakeApi(a_node(cpu="100"), pods=tuple(a_pod(f"p{i}") for i in range(50)))
    api.slow = 1.0
    async with scheduling(api):
        assert 0 < api.binding <= 16
        await settle(10)
        assert len(api.bindings) == 50


async def test_a_failed_binding_is_retried() -> None:
    api = FakeApi(a_node(cpu="1"), pods=(a_pod(cpu="1"),))
    api.refuse = [ApiError(409, "Conflict", "try again")]
    async with scheduling(api):
        assert api.bindings == []
        text = 'running Bind plugin "DefaultBinder": try again'
        assert api.notes("FailedScheduling") == [text]
        (condition,) = api.pod("web").status.conditions
        assert (condition.reason, condition.message) == ("SchedulerError", text)
        await settle(3)
        assert api.bindings == [("web", "n1")]


async def test_a_binding_of_a_deleted_pod_frees_its_resources() -> None:
    api = FakeApi(a_node(cpu="1"), pods=(a_pod("gone", cpu="1"),))
    api.refuse = [ApiError(404, "NotFound", 'pods "gone" not found')]
    async with scheduling(api):
        api.remove(Pod, "gone")
        api.put(a_pod(cpu="1"))
        await settle()
        assert api.bindings == [("web", "n1")]


async def test_the_api_becomes_unavailable() -> None:
    api = FakeApi(a_node(cpu="1"), pods=(a_pod("there", cpu="1", node="n1"),))
    async with scheduling(api):
        api.put(a_pod(cpu="1"))
        api.disconnect()
        await settle(100)
        # While the API was unavailable, the pod ended and another one was created.
        del api.objects[Pod]["there"]
        api.objects[Pod]["late"] = a_pod("late")
        api.reconnect()
        await settle(20)
        assert sorted(api.bindings) == [("late", "n1"), ("web", "n1")]
        assert "Successfully assigned default/web to n1" in api.notes("Scheduled")


async def test_a_repeated_failure_is_one_event() -> None:
    api = FakeApi(a_node(), pods=(a_pod(cpu="9"),))
    async with scheduling(api):
        # The first attempt changes the status, so that the second one is about another version.
        await settle(1300)
        counts = [event.series.count for event in api.events if event.series is not None]
        assert len(api.events) - len(counts) >= 1
        assert all(count >= 2 for count in counts)
        assert len(api.events) + sum(count - 1 for count in counts) >= 4


async def test_a_namespace_selector_waits_for_the_namespaces() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": "x"}},
        "topologyKey": HOST,
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    there = a_pod("there", labels={"app": "db"}, node="n1", metadata={"namespace": "other"})
    api = FakeApi(a_node(), pods=(there, a_pod(affinity=apart)))
    api.put(Namespace(metadata=ObjectMeta(name="other", labels={"team": "x"})))
    async with scheduling(api):
        assert api.bindings == []


async def test_a_deleted_pod_is_skipped() -> None:
    api = FakeApi(a_node(), pods=(deleting(a_pod()),))
    async with scheduling(api):
        assert api.bindings == []
        assert api.notes("FailedScheduling") == ["skip schedule deleting pod: default/web"]


def bound(claim: PersistentVolumeClaim, volume: str) -> PersistentVolumeClaim:
    """Return the claim as the controllers bind it."""
    meta = claim.metadata
    annotations = {**meta.annotations, BIND_COMPLETED: "yes"}
    return msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(meta, annotations=annotations),
        spec=msgspec.structs.replace(claim.spec, volumeName=volume),
    )


def claim_in(api: FakeApi, name: str = "disk") -> PersistentVolumeClaim:
    return api.objects[PersistentVolumeClaim][name]


async def test_a_pod_is_bound_after_its_volume_is_provisioned() -> None:
    user = a_pod(volumes=with_claims("disk"))
    api = FakeApi(a_node(), a_claim(), a_class(provisioner="example.com/p"), pods=(user,))
    async with scheduling(api):
        assert claim_in(api).metadata.annotations[SELECTED_NODE] == "n1"
        assert (api.bindings, api.events) == ([], [])
        await settle(300)
        assert (api.bindings, api.events) == ([], [])
        api.put(a_volume())
        api.put(bound(claim_in(api), "pv"))
        await settle()
        assert api.bindings == [("web", "n1")]


async def test_a_volume_is_reserved_and_two_pods_do_not_take_the_same() -> None:
    users = (a_pod("a", volumes=with_claims("disk")), a_pod("b", volumes=with_claims("other")))
    items = (a_claim(), a_claim("other"), a_class(), a_volume())
    api = FakeApi(a_node(), *items, pods=users)
    async with scheduling(api):
        ref = api.objects[PersistentVolume]["pv"].spec.claimRef
        assert ref is not None
        assert (ref.kind, ref.namespace, ref.name) == ("PersistentVolumeClaim", "default", "disk")
        text = f"0/1 nodes are available: 1 {NO_VOLUME}. {NO_HELP}"
        assert set(api.notes("FailedScheduling")) == {text}
        api.put(bound(claim_in(api), "pv"))
        await settle()
        assert api.bindings == [("a", "n1")]
        api.put(a_volume("second"))
        await settle(5)
        api.put(bound(claim_in(api, "other"), "second"))
        await settle()
        assert api.bindings == [("a", "n1"), ("b", "n1")]


async def test_a_pod_waits_for_a_claim_that_nothing_binds() -> None:
    api = FakeApi(a_node(), a_claim(), pods=(a_pod(volumes=with_claims("disk")),))
    async with scheduling(api):
        text = (
            "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
        )
        assert api.notes("FailedScheduling") == [text]
        await settle(1000)
        assert api.bindings == []
        api.put(a_volume())
        api.put(bound(claim_in(api), "pv"))
        await settle(20)
        assert api.bindings == [("web", "n1")]


async def test_provisioning_fails_or_takes_too_long() -> None:
    user = a_pod(volumes=with_claims("disk"))
    api = FakeApi(a_node(), a_claim(), a_class(provisioner="example.com/p"), pods=(user,))
    failed = 'running PreBind plugin "VolumeBinding": binding volumes: '
    async with scheduling(api):
        api.put(a_claim())  # The provisioner gives up: it removes the node.
        await settle()
        assert api.notes("FailedScheduling") == [f'{failed}provisioning failed for PVC "disk"']
        await settle(5)
        assert claim_in(api).metadata.annotations[SELECTED_NODE] == "n1"
        await settle(601)
        assert api.notes("FailedScheduling")[-1] == f"{failed}context deadline exceeded"
        await settle(5)
        api.put(a_volume())
        api.put(bound(claim_in(api), "pv"))
        await settle()
        assert api.bindings == [("web", "n1")]


async def test_a_pod_is_deleted_while_its_claim_is_bound() -> None:
    user = a_pod(volumes=with_claims("disk"))
    api = FakeApi(a_node(), a_claim(), a_class(), a_volume(), pods=(user,))
    async with scheduling(api):
        api.remove(Pod, "web")
        await settle()
        api.put(bound(claim_in(api), "pv"))
        await settle(20)
        assert (api.bindings, api.events) == ([], [])


async def test_a_freed_exclusive_claim() -> None:
    exclusive = a_claim(volumeName="pv", accessModes=["ReadWriteOncePod"])
    there = a_pod("there", node="n1", volumes=with_claims("disk"))
    user = a_pod(volumes=with_claims("disk"))
    api = FakeApi(a_node(), exclusive, a_volume(), pods=(there, user))
    async with scheduling(api):
        (text,) = api.notes("FailedScheduling")
        assert text.startswith(f"0/1 nodes are available: 1 {CLAIM_IN_USE}. ")
        await settle(60)
        assert api.bindings == []
        api.remove(Pod, "there")
        await settle(5)
        assert api.bindings == [("web", "n1")]
