"""Which other pods of a node hold a resource or a port, and the ports that fixes propose."""

from __future__ import annotations

import pytest
from kubelet_world import container, pod
from msgspec import structs

from podtui.api.v1 import ContainerPort, Pod, PodStatus, ResourceRequirements
from podtui.why.amounts import host_ports
from podtui.why.node_pods import NodePods, by_node


def on(*ports: int, name: str = "web") -> Pod:
    taken = tuple(ContainerPort(containerPort=80, hostPort=port) for port in ports)
    return pod(name, "", container(ports=taken))


@pytest.mark.parametrize(
    ("wanted", "taken", "other"),
    [
        (8080, (), 8081),
        (8080, (8081, 8082), 8083),
        (65534, (65535,), 65533),
        (65535, (), 65534),
        (80, tuple(range(81, 65536)), None),
    ],
)
def test_a_suggested_port_exists(wanted: int, taken: tuple[int, ...], other: int | None) -> None:
    asking = on(wanted)
    (port,) = host_ports(asking)
    assert NodePods([asking, on(*taken)]).next_port(port, asking) == other


def test_only_other_pods_of_the_node_that_have_not_ended_hold_a_port() -> None:
    asking, other = on(8080), on(8080, name="other")
    (port,) = host_ports(asking)
    assert NodePods([asking]).port_holder(port, asking) == ""
    assert NodePods([asking, other]).port_holder(port, asking) == "other"
    # The record of a pod changes with its status; it stays the same pod.
    assert NodePods([asking]).port_holder(port, structs.replace(asking)) == ""
    ended = structs.replace(other, status=PodStatus(phase="Failed"))
    assert NodePods([asking, ended]).port_holder(port, asking) == ""
    away = structs.replace(other, spec=structs.replace(other.spec, nodeName="n2"))
    nodes = by_node([asking, away])
    assert nodes[asking.spec.nodeName].port_holder(port, asking) == ""
    assert nodes["n2"].port_holder(port, asking) == "other"


def test_the_largest_holders_of_a_resource_come_first() -> None:
    def asks(name: str, cpu: str) -> Pod:
        return pod(name, "", container(resources=ResourceRequirements(requests={"cpu": cpu})))

    asking = asks("web", "9")
    pods = NodePods([asking, asks("a", "1"), asks("b", "3"), asks("c", "0"), asks("d", "2")])
    assert [name for name, _ in pods.holders("cpu", asking)] == ["b", "d", "a"]
    assert pods.holders("memory", asking) == []


def test_a_namesake_is_another_pod_with_the_same_name() -> None:
    asking = on()
    old = structs.replace(asking, metadata=structs.replace(asking.metadata, uid="old"))
    assert NodePods([asking]).namesake(asking) is None
    assert NodePods([asking, old, on(name="other")]).namesake(asking) is old
