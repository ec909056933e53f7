"""The resources of the records: the type of their objects, and how they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from podtui.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.batch import CronJob, Job
from podtui.api.discovery import EndpointSlice
from podtui.api.insight import Timeline
from podtui.api.local import Manifest
from podtui.api.networking import Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR
from podtui.api.objects import Object
from podtui.api.policy import PodDisruptionBudget
from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.api.scheduling import PriorityClass
from podtui.api.storage import CSIDriver, CSINode, StorageClass, VolumeAttachment
from podtui.api.v1 import (
    ConfigMap,
    Endpoints,
    Event,
    Lease,
    LimitRange,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    ResourceQuota,
    RuntimeClass,
    Secret,
    Service,
    ServiceAccount,
)

Resource = Literal[
    "pods",
    "nodes",
    "events",
    "namespaces",
    "configmaps",
    "secrets",
    "services",
    "serviceaccounts",
    "leases",
    "runtimeclasses",
    "controllerrevisions",
    "daemonsets",
    "deployments",
    "replicasets",
    "statefulsets",
    "horizontalpodautoscalers",
    "cronjobs",
    "jobs",
    "endpoints",
    "limitranges",
    "persistentvolumes",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "endpointslices",
    "ingresses",
    "ingressclasses",
    "ipaddresses",
    "networkpolicies",
    "servicecidrs",
    "poddisruptionbudgets",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
    "priorityclasses",
    "storageclasses",
    "csidrivers",
    "csinodes",
    "volumeattachments",
    "manifests",
    "timelines",
]
Key = tuple[Resource, str, str]
"""Resource, namespace, name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The rules for keeping the objects of a resource.

    ``history`` is the number of changes kept for watches. Written ``durable`` records survive a
    power failure; other written records survive the end of the process only. Changes of the last
    50 ms may be unwritten; watches have shown only those that are reports.
    """

    type: type[Object]
    history: int = 1024
    durable: bool = True


RESOURCES: Final[Mapping[Resource, Retention]] = {
    "pods": Retention(type=Pod, history=4096),
    # Low for nodes and leases, whose heartbeats are never replayed.
    "nodes": Retention(type=Node, history=256, durable=False),
    "events": Retention(type=Event, history=4096, durable=False),
    "namespaces": Retention(type=Namespace),
    "configmaps": Retention(type=ConfigMap),
    "secrets": Retention(type=Secret),
    "services": Retention(type=Service),
    "serviceaccounts": Retention(type=ServiceAccount),
    "leases": Retention(type=Lease, history=256, durable=False),
    "runtimeclasses": Retention(type=RuntimeClass),
    "controllerrevisions": Retention(type=ControllerRevision),
    "daemonsets": Retention(type=DaemonSet),
    "deployments": Retention(type=Deployment),
    "replicasets": Retention(type=ReplicaSet),
    "statefulsets": Retention(type=StatefulSet),
    "horizontalpodautoscalers": Retention(type=HorizontalPodAutoscaler),
    "cronjobs": Retention(type=CronJob),
    "jobs": Retention(type=Job),
    "endpoints": Retention(type=Endpoints),
    "limitranges": Retention(type=LimitRange),
    "persistentvolumes": Retention(type=PersistentVolume),
    "persistentvolumeclaims": Retention(type=PersistentVolumeClaim),
    "replicationcontrollers": Retention(type=ReplicationController),
    "resourcequotas": Retention(type=ResourceQuota),
    "endpointslices": Retention(type=EndpointSlice),
    "ingresses": Retention(type=Ingress),
    "ingressclasses": Retention(type=IngressClass),
    "ipaddresses": Retention(type=IPAddress),
    "networkpolicies": Retention(type=NetworkPolicy),
    "servicecidrs": Retention(type=ServiceCIDR),
    "poddisruptionbudgets": Retention(type=PodDisruptionBudget),
    "clusterroles": Retention(type=ClusterRole),
    "clusterrolebindings": Retention(type=ClusterRoleBinding),
    "roles": Retention(type=Role),
    "rolebindings": Retention(type=RoleBinding),
    "priorityclasses": Retention(type=PriorityClass),
    "storageclasses": Retention(type=StorageClass),
    "csidrivers": Retention(type=CSIDriver),
    "csinodes": Retention(type=CSINode),
    "volumeattachments": Retention(type=VolumeAttachment),
    # Read from the folder again at each start.
    "manifests": Retention(type=Manifest, durable=False),
    # Low, because each change contains the whole timeline.
    "timelines": Retention(type=Timeline, history=256, durable=False),
}
