"""Short builders of pods, nodes and cluster snapshots for tests of the scheduler."""

from __future__ import annotations

from typing import Any

import msgspec

from podtui.api.claims import BIND_COMPLETED
from podtui.api.storage import StorageClass
from podtui.api.v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod
from podtui.scheduler.claims import Claims, by_key
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


def a_volume(name: str = "pv", size: str = "1Gi", **spec: Any) -> PersistentVolume:
    """An available volume of the class ``c``."""
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "storageClassName": "c",
        "hostPath": {"path": "/data"},
        **spec,
    }
    status = {"phase": "Available"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, PersistentVolume)


def a_claim(name: str = "disk", size: str = "1Gi", **spec: Any) -> PersistentVolumeClaim:
    """A claim of the class ``c``; one that names its volume is bound."""
    annotations: dict[str, str] = spec.pop("annotations", {})
    status = {"phase": "Pending"}
    if spec.get("volumeName"):
        annotations = {BIND_COMPLETED: "yes", **annotations}
        status = {"phase": "Bound"}
    meta = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "annotations": annotations,
        **spec.pop("metadata", {}),
    }
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": size}},
        "storageClassName": "c",
        **spec,
    }
    document = {"metadata": meta, "spec": spec, "status": status}
    return msgspec.convert(document, PersistentVolumeClaim)


def a_class(
    name: str = "c",
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str = "WaitForFirstConsumer",
    **fields: Any,
) -> StorageClass:
    document = {"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode}
    return msgspec.convert({**document, **fields}, StorageClass)


def claims_of(*items: PersistentVolume | PersistentVolumeClaim | StorageClass) -> Claims:
    return Claims(
        by_key(item for item in items if isinstance(item, PersistentVolumeClaim)),
        {item.metadata.name: item for item in items if isinstance(item, StorageClass)},
        {item.metadata.name: item for item in items if isinstance(item, PersistentVolume)},
    )


def with_claims(*names: str) -> list[dict[str, Any]]:
    """Return the volumes of a pod with these claims."""
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


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
