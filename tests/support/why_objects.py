"""Objects for the diagnoses of workloads and other objects."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.batch import CronJob, Job
from podtui.api.discovery import EndpointSlice
from podtui.api.lenient import lenient_convert
from podtui.api.local import Manifest
from podtui.api.networking import Ingress, IngressClass, NetworkPolicy
from podtui.api.policy import PodDisruptionBudget
from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.api.storage import StorageClass
from podtui.api.times import epoch
from podtui.api.v1 import (
    ConfigMap,
    Endpoints,
    Event,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    ResourceQuota,
    Secret,
    Service,
    ServiceAccount,
)
from podtui.why import Facts, diagnose
from podtui.why.inventory import Inventory

NOW_TEXT: Final = "2026-11-20T12:00:00Z"
NOW: Final = epoch(NOW_TEXT) or 0.0
_STRUCTS: Final[dict[str, type[Any]]] = {
    struct.__name__: struct
    for struct in (
        DaemonSet, Deployment, ReplicaSet, StatefulSet, HorizontalPodAutoscaler, CronJob, Job,
        EndpointSlice, ClusterRole, ClusterRoleBinding, Role, RoleBinding, StorageClass, Endpoints,
        Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController,
        ResourceQuota, Service, ServiceAccount, ConfigMap, Ingress, IngressClass, Manifest,
        Namespace, NetworkPolicy, PodDisruptionBudget, Secret,
    )
}  # fmt: skip
_GROUPS: Final = {"ReplicaSet": "apps/v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1",
                  "DaemonSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1"}  # fmt: skip
_CLUSTERED: Final = {"Node", "PersistentVolume", "StorageClass", "ClusterRole",
                     "ClusterRoleBinding", "IngressClass", "Manifest", "Namespace"}  # fmt: skip


def make(kind: str, name: str, *, owner: Any = None, labels: Any = None, **fields: Any) -> Any:
    """Return an object. ``meta`` adds to its metadata, ``owner`` is its controller."""
    meta: dict[str, Any] = {"name": name, "uid": f"uid-{kind}-{name}", "labels": labels or {}}
    if kind not in _CLUSTERED:
        meta["namespace"] = "default"
    if owner is not None:
        of = type(owner).__name__
        meta["ownerReferences"] = [
            {"apiVersion": _GROUPS.get(of, "v1"), "kind": of, "name": owner.metadata.name,
             "uid": owner.metadata.uid, "controller": True}
        ]  # fmt: skip
    meta |= fields.pop("meta", {})
    return lenient_convert({"metadata": meta, **fields}, _STRUCTS[kind])


def template(labels: Any = None, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "busybox:1"}]
    return {"metadata": {"labels": labels or {}}, "spec": {"containers": containers, **spec}}


def ready_pod(name: str, owner: Any = None, **more: Any) -> Any:
    state = {"running": {"startedAt": "2026-11-20T11:00:00Z"}}
    return _pod(name, owner, "Running", state, ready=True, **more)


def crashing_pod(name: str, owner: Any = None, **more: Any) -> Any:
    return _pod(
        name, owner, "Running",
        {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
        last={"terminated": {"exitCode": 3, "reason": "Error",
                             "finishedAt": "2026-11-20T11:59:50Z"}},
        **more,
    )  # fmt: skip


def failed_pod(name: str, owner: Any = None, **more: Any) -> Any:
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-20T11:59:58Z"}
    return _pod(name, owner, "Failed", {"terminated": ended}, **more)


def starting_pod(name: str, owner: Any = None, **more: Any) -> Any:
    return _pod(name, owner, "Pending", {"waiting": {"reason": "ContainerCreating"}}, **more)


def unschedulable_pod(name: str, message: str, owner: Any = None, **spec: Any) -> Any:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                 "message": message}  # fmt: skip
    return make("Pod", name, owner=owner, spec={**template()["spec"], **spec},
                status={"phase": "Pending", "conditions": [condition]})  # fmt: skip


def _pod(
    name: str,
    owner: Any,
    phase: str,
    state: dict[str, Any],
    *,
    last: dict[str, Any] | None = None,
    ready: bool = False,
    since: str = "2026-11-20T11:00:00Z",
    spec: dict[str, Any] | None = None,
    **more: Any,
) -> Any:
    status = {"name": "c", "image": "busybox:1", "imageID": "", "restartCount": 0, "ready": ready,
              "state": state, "lastState": last or {}}  # fmt: skip
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
    return make(
        "Pod", name, owner=owner, spec={"nodeName": "n1", **template()["spec"], **(spec or {})},
        status={"phase": phase, "conditions": [condition], "containerStatuses": [status]}, **more,
    )  # fmt: skip


def failing_deployment() -> tuple[list[Any], list[Any]]:
    """Return the pods, one ready and one crashing, and a Deployment, a Service and a claim."""
    labels = {"app": "web"}
    counts = {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}
    deployment = make("Deployment", "web", spec={"replicas": 2, "template": template(labels)},
                      status=counts)  # fmt: skip
    replica_set = make("ReplicaSet", "web-1", owner=deployment,
                       spec={"replicas": 2, "template": template()},
                       status={"replicas": 2, "availableReplicas": 1})  # fmt: skip
    uses = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    pods = [
        ready_pod("web-1-a", replica_set, labels=labels, spec=uses),
        crashing_pod("web-1-b", replica_set, labels=labels),
    ]
    return pods, [
        deployment, replica_set,
        make("Service", "web", spec={"selector": labels, "ports": [{"port": 80}]}),
        make("PersistentVolumeClaim", "data", spec={"volumeName": "v1"},
             status={"phase": "Bound", "capacity": {"storage": "1Gi"}}),
        make("PersistentVolume", "v1", status={"phase": "Bound"}, spec={
            "claimRef": {"namespace": "default", "name": "data"}, "hostPath": {"path": "/srv/v1"}}),
    ]  # fmt: skip


def event(about: Any, reason: str, message: str, *, at: str = NOW_TEXT, kind: str = "Warning"
          ) -> Any:  # fmt: skip
    meta = about.metadata
    involved = {"kind": type(about).__name__, "namespace": meta.namespace, "name": meta.name,
                "uid": meta.uid}  # fmt: skip
    return make("Event", f"{meta.name}.{reason}", involvedObject=involved, reason=reason,
                message=message, type=kind, lastTimestamp=at)  # fmt: skip


def inventory(*items: Any, unread: tuple[type[Any], ...] = (), in_cluster: bool = False
              ) -> Inventory:  # fmt: skip
    """Return an inventory of these objects; kinds in ``unread`` cannot be listed."""
    by_kind: defaultdict[type[Any], list[Any]] = defaultdict(list)
    for item in items:
        by_kind[type(item)].append(item)
    return Inventory(
        read=lambda kind: None if kind in unread else by_kind[kind],
        now=NOW,
        diagnose_pod=lambda pod: diagnose(Facts(pod=pod, now=NOW)),
        in_cluster=in_cluster,
    )
