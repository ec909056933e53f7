"""Resources and conditions of a node."""

from __future__ import annotations

import pytest
from msgspec import structs, to_builtins
from pod_builders import GI, MI, at, engine

from podtui.api.thresholds import threshold_amount
from podtui.api.v1 import NodeStatus
from podtui.kubelet.node.node_status import (
    Machine,
    NodeHealth,
    condition_events,
    node_labels,
    node_resources,
    node_status,
    resource_texts,
    same_but_heartbeat,
    with_extended,
)
from podtui.kubelet.types import NodeResources
from podtui.runtime.protocol import ImageRecord

DISK = 264212084 * 1024


def resources(**fields) -> NodeResources:
    known = {
        "system_reserved": {},
        "kube_reserved": {},
        "eviction_hard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "max_pods": 110,
        "disk_capacity": DISK,
    }
    return node_resources(fields.pop("engine", engine()), **{**known, **fields})


def status(*, now=0.0, previous=None, health=None, **fields) -> NodeStatus:
    known = {"name": "refnode", "engine": engine(), "resources": resources()}
    return node_status(
        **{**known, **fields}, now=at(now), previous=previous, health=health or NodeHealth()
    )


def test_golden_node():
    found = resources(hugepages={"1Gi": 0, "2Mi": 0})
    assert resource_texts(found.capacity) == {
        "cpu": "2",
        "ephemeral-storage": "264212084Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "24684084Ki",
        "pods": "110",
    }
    assert resource_texts(found.allocatable) == {
        "cpu": "2",
        "ephemeral-storage": "267847642337",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "memory": "24632884Ki",
        "pods": "110",
    }


def test_the_port_of_the_kubelets_endpoints():
    assert to_builtins(status(endpoint_port=6443).daemonEndpoints) == {
        "kubeletEndpoint": {"Port": 6443}
    }
    assert to_builtins(status().daemonEndpoints) == {"kubeletEndpoint": {"Port": 0}}


def test_the_runtimes_of_the_engine_are_runtime_handlers():
    found = status(engine=engine(runtimes=("kata", "runc"), user_namespaces=True))
    assert [handler.name for handler in found.runtimeHandlers] == ["", "kata", "runc"]
    assert to_builtins(found.runtimeHandlers[1].features) == {
        "recursiveReadOnlyMounts": False,
        "userNamespaces": True,
    }
    assert status(engine=None).runtimeHandlers == ()


def test_reservations():
    found = resources(
        engine=engine(memory=4 * GI),
        system_reserved={"cpu": "500m", "memory": "1Gi"},
        kube_reserved={"cpu": "250m", "ephemeral-storage": "1Gi", "memory": "512Mi"},
        eviction_hard={"memory.available": "10%"},
        disk_capacity=10 * GI,
        hugepages={"2Mi": 256 * MI},
    )
    assert found.capacity["memory"] == 4 * GI
    assert found.allocatable == {
        "cpu": 1250,
        "memory": 4 * GI - GI - 512 * MI - 256 * MI - threshold_amount("10%", 4 * GI),
        "ephemeral-storage": 9 * GI,
        "pods": 110,
        "hugepages-2Mi": 256 * MI,
    }


def test_no_amount_is_negative():
    found = resources(system_reserved={"cpu": "64", "memory": "900Gi"})
    assert (found.allocatable["cpu"], found.allocatable["memory"]) == (0, 0)


def test_golden_conditions():
    found = [(one.type, one.status, one.reason, one.message) for one in status().conditions]
    assert found == [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ]


def test_pressures():
    pressed = NodeHealth(pressures={"MemoryPressure", "DiskPressure", "PIDPressure"})
    found = [(one.status, one.reason, one.message) for one in status(health=pressed).conditions]
    assert found[:3] == [
        ("True", "KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ("True", "KubeletHasDiskPressure", "kubelet has disk pressure"),
        ("True", "KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
    ]


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (["container runtime is down"], "container runtime is down"),
        (["a", "b", "a"], "[a, b]"),
    ],
)
def test_case_25_not_ready(errors, message):
    ready = status(health=NodeHealth(errors=errors)).conditions[-1]
    assert (ready.type, ready.status, ready.reason, ready.message) == (
        "Ready",
        "False",
        "KubeletNotReady",
        message,
    )


def test_times_of_conditions():
    first = status(now=0)
    beat = status(now=10, previous=first)
    lost = status(now=20, previous=beat, health=NodeHealth(errors=["x"]))
    times = [(one.lastHeartbeatTime, one.lastTransitionTime) for one in beat.conditions]
    assert set(times) == {("2026-01-02T03:04:15Z", "2026-01-02T03:04:05Z")}
    assert lost.conditions[-1].lastTransitionTime == "2026-01-02T03:04:25Z"
    assert lost.conditions[0].lastTransitionTime == "2026-01-02T03:04:05Z"
    assert same_but_heartbeat(first, beat)
    assert not same_but_heartbeat(beat, lost)


def test_info_and_addresses():
    machine = Machine(
        machine_id="m", system_uuid="u", boot_id="b", addresses=("192.0.2.2", "2001:db8::2")
    )
    found = status(machine=machine)
    assert [(one.type, one.address) for one in found.addresses] == [
        ("InternalIP", "192.0.2.2"),
        ("InternalIP", "2001:db8::2"),
        ("Hostname", "refnode"),
    ]
    info = found.nodeInfo
    assert info is not None
    assert structs.asdict(info) == {
        "architecture": "amd64",
        "bootID": "b",
        "containerRuntimeVersion": "docker://20.10.24",
        "kernelVersion": "6.1.0",
        "kubeProxyVersion": "",
        "kubeletVersion": "v1.36.2",
        "machineID": "m",
        "operatingSystem": "linux",
        "osImage": "Debian GNU/Linux 12 (bookworm)",
        "swap": None,
        "systemUUID": "u",
    }


def test_facts_of_a_lost_engine_are_kept():
    first = status()
    assert status(engine=None, previous=first).nodeInfo == first.nodeInfo
    assert status(engine=None).nodeInfo is None


def test_images_largest_first_at_most_fifty():
    images = [
        ImageRecord(id=f"i{number}", tags=(f"t{number}",), size=number) for number in range(60)
    ]
    images.append(ImageRecord(id="dangling", size=10**9))
    images.append(
        ImageRecord(
            id="many", tags=tuple(f"n{number}" for number in range(9)), digests=("d@1",), size=999
        )
    )
    found = status(images=images).images
    assert len(found) == 50
    assert found[0].names == ("d@1", "n0", "n1", "n2", "n3")
    assert [one.sizeBytes for one in found[:3]] == [999, 59, 58]


def test_labels():
    assert node_labels("refnode", engine(architecture="aarch64")) == {
        "beta.kubernetes.io/arch": "arm64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/hostname": "refnode",
        "kubernetes.io/os": "linux",
    }


def test_events_of_conditions():
    first = status()
    assert condition_events("n", None, first) == (
        ("NodeHasSufficientMemory", "Node n status is now: NodeHasSufficientMemory"),
        ("NodeHasNoDiskPressure", "Node n status is now: NodeHasNoDiskPressure"),
        ("NodeHasSufficientPID", "Node n status is now: NodeHasSufficientPID"),
    )
    assert condition_events("n", first, status(now=9, previous=first)) == ()
    lost = status(health=NodeHealth(errors=["x"], pressures={"DiskPressure"}))
    assert [reason for reason, _ in condition_events("n", first, lost)] == [
        "NodeHasDiskPressure",
        "NodeNotReady",
    ]
    assert [reason for reason, _ in condition_events("n", lost, first)] == [
        "NodeHasNoDiskPressure",
        "NodeReady",
    ]
    crowded = status(health=NodeHealth(errors=[], pressures={"PIDPressure"}))
    assert condition_events("n", first, crowded) == (
        ("NodeHasInsufficientPID", "Node n status is now: NodeHasInsufficientPID"),
    )


@pytest.mark.parametrize("reset", [False, True])
def test_extended_resources_of_plugins_and_of_clients(reset: bool) -> None:
    before = NodeStatus(
        capacity={"cpu": "64", "example.com/client": "5k", "example.com/gpu": "7"},
        allocatable={"cpu": "64", "example.com/client": "4", "example.com/gpu": "7"},
    )
    devices = NodeResources(
        capacity={"example.com/gpu": 2048}, allocatable={"example.com/gpu": 2047}
    )
    node_resources = with_extended(resources(), devices, before, reset=reset)
    client = "0" if reset else "5k"
    assert resource_texts(node_resources.capacity)["example.com/client"] == client
    assert resource_texts(node_resources.allocatable)["example.com/client"] == client
    assert resource_texts(node_resources.capacity)["example.com/gpu"] == "2048"
    assert resource_texts(node_resources.allocatable)["example.com/gpu"] == "2047"
    assert node_resources.capacity["cpu"] == resources().capacity["cpu"]
    assert with_extended(resources(), NodeResources(), None, reset=reset) == resources()
