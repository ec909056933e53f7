"""Diagnoses of nodes, and of the membership of the agent's node in a cluster."""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import Final

from podtui.api.cluster import CERTIFICATE_EXPIRED, NOT_REGISTERED, cluster_of, cluster_problems
from podtui.api.health import Health, unready, unready_words
from podtui.api.names import CERTIFICATE_EXPIRING, CLUSTER_UNAVAILABLE, NODE_REFUSED
from podtui.api.v1 import Node, NodeCondition, Pod
from podtui.why.inventory import Inventory
from podtui.why.pod_rules import engine_advice
from podtui.why.types import Diagnosis, Evidence, Kind

CLUSTER_CAUSES: Final = frozenset(
    {"CertificateExpired", "CertificateExpiresSoon", "NoCertificate", "ClusterRefuses",
     "ClusterLost", "NodeRefused", "NodeNotRegistered", "LeaseNotRenewed"}
)  # fmt: skip
"""The causes that are about the membership of a node in its cluster."""
_DOCS: Final = "https://kubernetes.io/docs/"
_NODE_DOCS: Final = _DOCS + "concepts/architecture/nodes/#condition"
_OTHER_NODE: Final = re.compile(
    r'User "system:node:(?P<user>[^"]+)"|node "(?P<node>[^"]+)" is not allowed to modify node'
)
_CERTIFICATE_ADVICE: Final = (
    "Pass the kubeconfig of a bootstrap token with --bootstrap-kubeconfig, or a new kubeconfig of"
    " the node with --node-kubeconfig."
)
_RANGE_ADVICE: Final = (
    "If the routes of the cluster follow these ranges, set the range of the engine's bridge, for"
    ' Docker with "bip" in daemon.json (docs/cluster-node.md).'
)
_UNSEEN: Final = (
    "Its pods run on. The cluster does not get their statuses, and counts the node as lost after"
    " some time."
)


def diagnose_node(inventory: Inventory, node: Node) -> Diagnosis:
    condition = unready(node)
    if condition is not None:
        return _not_ready(node, condition)
    problems = cluster_problems(node)
    if problems:
        return membership(node, problems[0])
    pressures = [c for c in node.status.conditions if c.type.endswith("Pressure")]
    pressed = [c for c in pressures if c.status == "True"]
    if pressed:
        return Diagnosis(
            cause="NodePressure",
            kind=Kind.FAILURE,
            health=Health.FAILING,
            state="under pressure",
            title=f"It is under pressure: {', '.join(c.message or c.type for c in pressed)}.",
            brief=", ".join(c.type for c in pressed),
            evidence=tuple(map(_evidence, pressed)),
            advice="Free the scarce resource; pods may be evicted until then.",
            docs=_DOCS + "concepts/scheduling-eviction/node-pressure-eviction/",
        )
    cordoned = ("It is cordoned: no other pods are scheduled here.",)
    outside = _outside_of_range(inventory, node)
    return Diagnosis(
        cause="NodeReady",
        kind=Kind.NONE,
        health=Health.RUNNING,
        state="ready",
        title="It is ready.",
        sentences=(
            *(cordoned if node.spec.unschedulable else ()),
            *((f"It belongs to the cluster at {url}.",) if (url := cluster_of(node)) else ()),
            *((outside,) if outside else ()),
        ),
        advice=_RANGE_ADVICE if outside else "",
    )


def _outside_of_range(inventory: Inventory, node: Node) -> str:
    """Return a sentence if the cluster assigns the node a range of pod IPs, and the engine assigns
    a pod an IP outside of it. The pods of other nodes may have the same IP then."""
    if not cluster_of(node):
        return ""
    ranges = [ip_network(cidr) for cidr in node.spec.podCIDRs or (node.spec.podCIDR,) if cidr]
    versions = {network.version for network in ranges}
    for pod in inventory.list(Pod):
        if pod.spec.hostNetwork or pod.spec.nodeName != node.metadata.name:
            continue
        for ip in (ip_address(entry.ip) for entry in pod.status.podIPs if entry.ip):
            if ip.version in versions and not any(ip in network for network in ranges):
                cidrs = ", ".join(map(str, ranges))
                return (
                    f"The pod {pod.metadata.name} has the IP {ip}, which is not within the range"
                    f" that the cluster assigns to the node: {cidrs} (spec.podCIDR)."
                )
    return ""


def _not_ready(node: Node, condition: NodeCondition) -> Diagnosis:
    text = unready_words(condition)
    return Diagnosis(
        cause="NodeNotReady",
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="not ready",
        title=f"It is not ready: {text.rstrip('.')}.",
        brief=text,
        evidence=(_evidence(condition), *map(_evidence, cluster_problems(node))),
        advice=engine_advice(text, condition.reason),
        docs=_NODE_DOCS,
    )


def membership(node: Node, problem: NodeCondition) -> Diagnosis:
    """Return the diagnosis of a problem between a node and its cluster."""
    text = problem.message.rstrip(".")
    cause, title, sentence, advice = _explained(node, problem, text)
    return Diagnosis(
        cause=cause,
        kind=Kind.FAILURE,
        health=Health.FAILING,
        state="cluster lost" if cause == "ClusterLost" else "not well in its cluster",
        title=title,
        brief=text,
        sentences=(sentence,),
        evidence=tuple(map(_evidence, cluster_problems(node))),
        advice=_other_node(node.metadata.name, text) or advice,
        docs=_NODE_DOCS,
    )


def _explained(node: Node, problem: NodeCondition, text: str) -> tuple[str, str, str, str]:
    """Return cause, title, a sentence and advice."""
    name, statement = node.metadata.name, f"{text[:1].upper()}{text[1:]}."
    if problem.type == CERTIFICATE_EXPIRING:
        if problem.reason == CERTIFICATE_EXPIRED:
            return "CertificateExpired", statement, _UNSEEN, _CERTIFICATE_ADVICE
        return "CertificateExpiresSoon", statement, "Until then, it is valid.", _CERTIFICATE_ADVICE
    if problem.reason == NOT_REGISTERED:
        advice = "Create the node in the cluster, or set registerNode to true."
        return "NodeNotRegistered", statement, _UNSEEN, advice
    if problem.type == NODE_REFUSED:
        title = f"The cluster does not accept the node: {text}."
        advice = "Change what the message names, in the cluster or in the settings of podtui."
        return "NodeRefused", title, _UNSEEN, advice
    if problem.type != CLUSTER_UNAVAILABLE:
        title = f"Its lease cannot be renewed: {text}."
        advice = "The node must be allowed to get and update its lease in kube-node-lease."
        return "LeaseNotRenewed", title, _UNSEEN, advice
    if problem.reason == "NoCertificate":
        advice = "Approve its request: kubectl get csr, then kubectl certificate approve NAME."
        return "NoCertificate", statement, "Pods of the folder run meanwhile.", advice
    if problem.reason == "ClusterRefuses":
        title = f"The API server of the cluster refuses this node: {text}."
        return "ClusterRefuses", title, _UNSEEN, f"Check the credentials of the node {name}."
    title = f"The API server of the cluster does not answer as expected: {text}."
    advice = f"Check the API server at {cluster_of(node)}, and the network to it."
    return "ClusterLost", title, _UNSEEN, advice


def _other_node(name: str, text: str) -> str:
    """Return advice if the credentials in a refusal are those of a node with another name."""
    match = _OTHER_NODE.search(text)
    other = (match["user"] or match["node"]) if match is not None else name
    if other == name:
        return ""
    return (
        f"The credentials are those of the node {other}, and this node is named {name}: start"
        f" podtui with --node-name {other}, or with the kubeconfig of {name}."
    )


def _evidence(condition: NodeCondition) -> Evidence:
    text = f"{condition.type}: {condition.message or condition.reason}"
    return Evidence("node", text, condition.lastTransitionTime or "", warning=True)
