"""The managers of fields that the kubelet writes."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec import structs
from served import node, pod
from virtual_time import VirtualClock, virtual

from podtui.agent.home import home_ports
from podtui.agent.kubelet_fields import as_created, with_status
from podtui.api.names import CONFIG_MIRROR
from podtui.api.v1 import (
    Event,
    Lease,
    ManagedFieldsEntry,
    ObjectMeta,
    ObjectReference,
    Pod,
    PodCondition,
    PodIP,
    PodStatus,
)
from podtui.clock import SystemClock
from podtui.store import open_store

CREATOR = ManagedFieldsEntry(
    manager="kubectl-run",
    operation="Update",
    apiVersion="v1",
    fieldsType="FieldsV1",
    fieldsV1={"f:spec": {}},
    time="0",
)


def created() -> Pod:
    item = pod("web", app="a")
    meta = structs.replace(item.metadata, managedFields=(CREATOR,))
    status = PodStatus(
        phase="Pending",
        qosClass="BestEffort",
        conditions=(PodCondition(type="PodScheduled", status="True"),),
    )
    return structs.replace(item, metadata=meta, status=status)


def running(item: Pod, ip: str = "10.0.0.7", phase: str = "Running") -> Pod:
    status = structs.replace(
        item.status,
        phase=phase,
        podIP=ip,
        podIPs=(PodIP(ip=ip),),
        conditions=(*item.status.conditions[:1], PodCondition(type="Ready", status="True")),
        containerStatuses=pod("web").status.containerStatuses,
    )
    return structs.replace(item, status=status)


def test_the_status_of_an_api_pod_is_the_kubelets() -> None:
    before = created()
    after = with_status(running(before), before, "1")
    creator, entry = after.metadata.managedFields
    assert creator == CREATOR
    assert (entry.manager, entry.operation, entry.subresource) == ("kubelet", "Update", "status")
    assert (entry.apiVersion, entry.fieldsType, entry.time) == ("v1", "FieldsV1", "1")
    condition = {"f:status": {}, "f:type": {}, "f:lastProbeTime": {}, "f:lastTransitionTime": {}}
    assert entry.fieldsV1 == {
        "f:status": {
            "f:conditions": {'k:{"type":"Ready"}': {".": {}, **condition}},
            "f:containerStatuses": {},
            "f:phase": {},
            "f:podIP": {},
            "f:podIPs": {'k:{"ip":"10.0.0.7"}': {".": {}, "f:ip": {}}},
        }
    }


def test_an_entry_follows_the_fields_of_the_status() -> None:
    first = with_status(running(created()), created(), "1")
    same = with_status(running(first, phase="Failed"), first, "2")
    [_, before], [_, after] = first.metadata.managedFields, same.metadata.managedFields
    assert after == structs.replace(before, time="2")
    assert after.fieldsV1 is before.fieldsV1
    moved = with_status(running(same, ip="10.0.0.8"), same, "3")
    fields: Any = moved.metadata.managedFields[1].fieldsV1
    assert list(fields["f:status"]["f:podIPs"]) == ['k:{"ip":"10.0.0.8"}']
    unchanged = with_status(moved, moved, "4")
    assert unchanged is moved


def test_a_mirror_pod_and_a_node_are_the_kubelets() -> None:
    meta = structs.replace(pod("web").metadata, annotations={CONFIG_MIRROR: "1"})
    mirror = as_created(structs.replace(running(created()), metadata=meta), "1")
    whole, status = mirror.metadata.managedFields
    assert {one.manager for one in (whole, status)} == {"kubelet"}
    assert set(whole.fieldsV1) == {"f:metadata", "f:spec"}
    fields: Any = status.fieldsV1
    conditions = fields["f:status"]["f:conditions"]
    assert {'k:{"type":"PodScheduled"}', 'k:{"type":"Ready"}'} == set(conditions)
    machine = as_created(node(), "1")
    assert [one.subresource for one in machine.metadata.managedFields] == ["status"]
    fields = machine.metadata.managedFields[0].fieldsV1
    assert "f:allocatable" in fields["f:status"]


async def test_the_kubelet_writes_its_managers() -> None:
    clock = SystemClock()
    store = open_store(None, clock=clock)
    ports = home_ports(store, clock, "node")
    stored = await store.create("pods", created())
    written = await ports.pods.update(stored, running)
    assert [one.manager for one in written.metadata.managedFields] == ["kubectl-run", "kubelet"]
    version = written.metadata.resourceVersion
    again = await ports.pods.update(written, lambda found: found)
    assert again.metadata.resourceVersion == version
    machine = await ports.node.create(node())
    assert machine.metadata.managedFields[-1].manager == "kubelet"


@virtual()
async def test_events_and_the_lease_have_the_kubelet_as_their_manager() -> None:
    clock = VirtualClock()
    store = open_store(None, clock=clock)
    ports = home_ports(store, clock, "node")
    event = Event(
        apiVersion="v1",
        kind="Event",
        metadata=ObjectMeta(name="a.1", namespace="default"),
        involvedObject=ObjectReference(kind="Pod", name="a", namespace="default"),
        reason="Started",
        message="Started container",
        type="Normal",
        count=1,
    )
    await ports.events.put(event)
    stored = await store.get("events", "default", "a.1")
    assert isinstance(stored, Event)
    [entry] = stored.metadata.managedFields
    assert (entry.manager, entry.operation, entry.apiVersion) == ("kubelet", "Update", "v1")
    # As in a cluster: not the object's identity, and no field that is null.
    assert set(entry.fieldsV1) == {"f:count", "f:involvedObject", "f:message", "f:reason", "f:type"}
    await ports.node.renew_lease(40)
    await asyncio.sleep(10)
    await store.update("leases", "kube-node-lease", "node", of_client)
    await ports.node.renew_lease(40)
    lease = await store.get("leases", "kube-node-lease", "node")
    assert isinstance(lease, Lease)
    [other, entry] = lease.metadata.managedFields
    assert (entry.manager, entry.apiVersion) == ("kubelet", "coordination.k8s.io/v1")
    renewed = lease.spec.renewTime or ""
    assert entry.time == renewed[:19] + "Z"
    assert {"f:holderIdentity", "f:renewTime"} <= set(entry.fieldsV1["f:spec"])
    assert other.manager == CREATOR.manager, "a client's fields stay its own"


def of_client(lease: Lease) -> Lease:
    meta = lease.metadata
    entry = structs.replace(
        CREATOR,
        apiVersion="coordination.k8s.io/v1",
        fieldsV1={"f:metadata": {"f:labels": {".": {}, "f:a": {}}}},
    )
    meta = structs.replace(meta, labels={"a": "b"}, managedFields=(*meta.managedFields, entry))
    return structs.replace(lease, metadata=meta)
