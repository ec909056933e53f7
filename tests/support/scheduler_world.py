"""Short builders of pods, nodes and cluster snapshots for tests of the scheduler."""

from __future__ import annotations

from typing import Any

import msgspec

from podtui.api.v1 import Node, Pod
from podtui.scheduler.filters import Pending
from podtui.scheduler.infos import NodeInfo, PodInfo, Snapshot, node_facts, pod_info

HOST = "kubernetes.io/hostname"


def a_node(name: str = "n1", *, cpu: str = "2", memory: str = "4Gi", **more: Any) -> Node:
    labels = {HOST: name, **more.pop("labels", {})}
    allocatable = {"cpu": cpu, "memory": memory, "pods": "110", **more.pop("allocatable", {})}
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": labels, "uid": f"node-{name}"},
            "spec": more.pop("spec", {}),
            "status": {"allocatable": allocatable, **more.pop("status", {})},
        },
        Node,
    )


def a_pod(
    name: str = "web",
    *,
    cpu: str = "",
    node: str = "",
    priority: int = 0,
    labels: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    ports: tuple[int, ...] = (),
    **spec: Any,
) -> Pod:
    """A pod of the default scheduler with one container that requests ``cpu``."""
    container: dict[str, Any] = {"name": "main", "image": "busybox:1.36"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    if ports:
        container["ports"] = [{"containerPort": 80, "hostPort": port} for port in ports]
    return msgspec.convert(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": f"uid-{name}",
                "labels": labels or {},
                **(metadata or {}),
            },
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [container],
                "nodeName": node,
                "priority": priority,
                **spec,
            },
            "status": {"phase": "Pending", **(status or {})},
        },
        Pod,
    )


def snapshot(
    *nodes: Node, pods: tuple[Pod, ...] = (), nominated: tuple[Pod, ...] = (), **namespaces: Any
) -> Snapshot:
    """Return the nodes with their pods."""
    infos = {node.metadata.name: NodeInfo(node_facts(node)) for node in nodes}
    for pod in pods:
        infos[pod.spec.nodeName].add(pod_info(pod))
    kept: dict[str, list[PodInfo]] = {}
    for pod in nominated:
        kept.setdefault(pod.status.nominatedNodeName, []).append(pod_info(pod))
    return Snapshot(nodes=infos, nominated=kept, namespaces=namespaces)


def pending(name: str = "web", **more: Any) -> Pending:
    return Pending(a_pod(name, **more))
