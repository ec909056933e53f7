"""Nodes, and their membership in a cluster."""

from __future__ import annotations

import pytest
from msgspec import structs
from served import node, pod
from why_objects import inventory

from podtui.api.names import (
    CERTIFICATE_EXPIRING,
    CLUSTER,
    CLUSTER_UNAVAILABLE,
    LEASE_NOT_RENEWED,
    NODE_REFUSED,
)
from podtui.api.v1 import Node, NodeCondition, PodIP, PodStatus
from podtui.why import Diagnosis, Kind
from podtui.why.nodes import CLUSTER_CAUSES
from podtui.why.objects import diagnose_object, unwell

SINCE = "2026-01-01T00:00:00Z"
OTHER = 'nodes "n1" is forbidden: node "n2" is not allowed to modify node "n1"'
UNREAD = 'pods is forbidden: User "system:node:n2" cannot list resource "pods" in API group ""'


def member(*conditions: NodeCondition) -> Node:
    item = node("n1")
    status = structs.replace(item.status, conditions=(*item.status.conditions, *conditions))
    meta = structs.replace(item.metadata, annotations={CLUSTER: "https://10.0.0.1:6443"})
    return structs.replace(item, metadata=meta, status=status)


def problem(name: str, reason: str, message: str = "why") -> NodeCondition:
    return NodeCondition(
        type=name, status="True", reason=reason, message=message, lastTransitionTime=SINCE
    )


def why(item: Node) -> Diagnosis:
    return diagnose_object(inventory(item), item)


@pytest.mark.parametrize(
    ("condition", "reason", "cause", "title"),
    [
        (CERTIFICATE_EXPIRING, "CertificateExpired", "CertificateExpired", "Why."),
        (CERTIFICATE_EXPIRING, "CertificateExpiresSoon", "CertificateExpiresSoon", "Why."),
        (CLUSTER_UNAVAILABLE, "NoCertificate", "NoCertificate", "Why."),
        (CLUSTER_UNAVAILABLE, "ClusterRefuses", "ClusterRefuses",
         "The API server of the cluster refuses this node: why."),
        (CLUSTER_UNAVAILABLE, "ClusterLost", "ClusterLost",
         "The API server of the cluster does not answer as expected: why."),
        (NODE_REFUSED, "Forbidden", "NodeRefused", "The cluster does not accept the node: why."),
        (NODE_REFUSED, "NotRegistered", "NodeNotRegistered", "Why."),
        (LEASE_NOT_RENEWED, "Forbidden", "LeaseNotRenewed", "Its lease cannot be renewed: why."),
    ],
)  # fmt: skip
def test_problems_with_the_cluster(condition: str, reason: str, cause: str, title: str) -> None:
    item = member(problem(condition, reason))
    diagnosis = why(item)
    assert (diagnosis.cause, diagnosis.title) == (cause, title)
    assert cause in CLUSTER_CAUSES
    assert diagnosis.kind is Kind.FAILURE
    assert diagnosis.advice
    (evidence,) = diagnosis.evidence
    assert (evidence.text, evidence.time) == (f"{condition}: why", SINCE)
    assert [found for found, _ in unwell(inventory(item))] == [item]


@pytest.mark.parametrize("text", [OTHER, UNREAD])
def test_credentials_of_another_node(text: str) -> None:
    diagnosis = why(member(problem(NODE_REFUSED, "Forbidden", text)))
    assert diagnosis.advice == (
        "The credentials are those of the node n2, and this node is named n1: start podtui with"
        " --node-name n2, or with the kubeconfig of n1."
    )


def test_credentials_of_the_node_itself_are_not_the_cause() -> None:
    text = UNREAD.replace("n2", "n1")
    diagnosis = why(member(problem(CLUSTER_UNAVAILABLE, "ClusterRefuses", text)))
    assert diagnosis.advice == "Check the credentials of the node n1."


def test_a_node_of_a_cluster_that_is_well() -> None:
    fine = NodeCondition(type=CLUSTER_UNAVAILABLE, status="False", message="it answers")
    item = member(fine)
    diagnosis = why(structs.replace(item, spec=structs.replace(item.spec, unschedulable=True)))
    assert (diagnosis.cause, diagnosis.kind) == ("NodeReady", Kind.NONE)
    assert diagnosis.sentences == (
        "It is cordoned: no other pods are scheduled here.",
        "It belongs to the cluster at https://10.0.0.1:6443.",
    )
    assert not list(unwell(inventory(item)))


def test_a_node_that_is_not_ready_is_explained_by_its_pods() -> None:
    item = node("n1")
    condition = NodeCondition(
        type="Ready", status="False", reason="KubeletNotReady", message="the engine is down"
    )
    item = structs.replace(item, status=structs.replace(item.status, conditions=(condition,)))
    diagnosis = why(item)
    assert (diagnosis.cause, diagnosis.title) == (
        "NodeNotReady", "It is not ready: the engine is down.",
    )  # fmt: skip
    assert not list(unwell(inventory(item)))


def test_a_node_under_pressure() -> None:
    pressed = NodeCondition(type="DiskPressure", status="True", message="disk is full")
    diagnosis = why(member(pressed))
    assert (diagnosis.cause, diagnosis.title) == (
        "NodePressure", "It is under pressure: disk is full.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cidrs", "ip", "host_network", "names_pod"),
    [
        (("10.240.1.0/24",), "10.240.1.7", False, False),
        (("10.240.1.0/24",), "172.17.0.2", False, True),
        (("10.240.1.0/24",), "192.168.0.1", True, False),
        (("10.240.1.0/24",), "fd00::2", False, False),
        (("10.240.1.0/24", "fd00::/64"), "fd01::2", False, True),
        ((), "172.17.0.2", False, False),
    ],
)
def test_a_pod_ip_outside_of_the_range_of_the_node(
    cidrs: tuple[str, ...], ip: str, host_network: bool, names_pod: bool
) -> None:
    item = member()
    item = structs.replace(item, spec=structs.replace(item.spec, podCIDRs=cidrs))
    status = PodStatus(podIPs=(PodIP(ip=ip),))
    web = pod("web")
    spec = structs.replace(web.spec, nodeName="n1", hostNetwork=host_network)
    web = structs.replace(web, spec=spec, status=status)
    diagnosis = diagnose_object(inventory(item, web), item)
    text = (
        f"The pod web has the IP {ip}, which is not within the range that the cluster assigns to"
        f" the node: {', '.join(cidrs)} (spec.podCIDR)."
    )
    assert (text in diagnosis.sentences) is names_pod
    assert bool(diagnosis.advice) is names_pod
    assert diagnosis.cause == "NodeReady"
