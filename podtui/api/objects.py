"""The objects that the API serves from its records, and that clients read and follow."""

from __future__ import annotations

from typing import TypeVar

from podtui.api.apps import ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet
from podtui.api.autoscaling import HorizontalPodAutoscaler
from podtui.api.batch import CronJob, Job
from podtui.api.discovery import EndpointSlice
from podtui.api.insight import Timeline
from podtui.api.local import Manifest
from podtui.api.networking import Ingress, IngressClass, IPAddress, NetworkPolicy, ServiceCIDR
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

Object = (
    Pod
    | Node
    | Event
    | Namespace
    | ConfigMap
    | Secret
    | Service
    | ServiceAccount
    | Lease
    | RuntimeClass
    | ControllerRevision
    | DaemonSet
    | Deployment
    | ReplicaSet
    | StatefulSet
    | HorizontalPodAutoscaler
    | CronJob
    | Job
    | Endpoints
    | LimitRange
    | PersistentVolume
    | PersistentVolumeClaim
    | ReplicationController
    | ResourceQuota
    | EndpointSlice
    | Ingress
    | IngressClass
    | IPAddress
    | NetworkPolicy
    | ServiceCIDR
    | PodDisruptionBudget
    | ClusterRole
    | ClusterRoleBinding
    | Role
    | RoleBinding
    | PriorityClass
    | StorageClass
    | CSIDriver
    | CSINode
    | VolumeAttachment
    | Manifest
    | Timeline
)
T = TypeVar("T", bound=Object)
