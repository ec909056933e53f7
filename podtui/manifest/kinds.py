"""The kinds of objects that the folder may hold beside Pods: those whose objects the API stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from podtui.manifest.strategies import (
    accounts,
    apps,
    autoscaling,
    batch,
    config,
    csi,
    discovery,
    namespaces,
    networking,
    nodes,
    policy,
    quotas,
    rbac,
    replication_controllers,
    runtime_classes,
    scheduling,
    services,
    volumes,
)
from podtui.manifest.strategies.strategy import Strategy


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, and the rules of its writes, which the API server follows as well."""

    api_version: str
    strategy: Strategy[Any]
    namespaced: bool = True

    @property
    def struct(self) -> type[Any]:
        return self.strategy.struct

    @property
    def name(self) -> str:
        return self.struct.__name__


_APPS: Final = "apps/v1"
_BATCH: Final = "batch/v1"
_NETWORKING: Final = "networking.k8s.io/v1"
_RBAC: Final = "rbac.authorization.k8s.io/v1"
KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("v1", namespaces.NAMESPACES, namespaced=False),
        Kind("v1", config.CONFIG_MAPS),
        Kind("v1", services.ENDPOINTS),
        Kind("v1", quotas.LIMIT_RANGES),
        Kind("v1", nodes.NODES, namespaced=False),
        Kind("v1", volumes.VOLUMES, namespaced=False),
        Kind("v1", volumes.VOLUME_CLAIMS),
        Kind("v1", replication_controllers.REPLICATION_CONTROLLERS),
        Kind("v1", quotas.RESOURCE_QUOTAS),
        Kind("v1", config.SECRETS),
        Kind("v1", services.SERVICES),
        Kind("v1", accounts.SERVICE_ACCOUNTS),
        Kind(_APPS, apps.CONTROLLER_REVISIONS),
        Kind(_APPS, apps.DAEMON_SETS),
        Kind(_APPS, apps.DEPLOYMENTS),
        Kind(_APPS, apps.REPLICA_SETS),
        Kind(_APPS, apps.STATEFUL_SETS),
        Kind("autoscaling/v2", autoscaling.AUTOSCALERS),
        Kind(_BATCH, batch.CRON_JOBS),
        Kind(_BATCH, batch.JOBS),
        Kind("coordination.k8s.io/v1", accounts.LEASES),
        Kind("discovery.k8s.io/v1", discovery.ENDPOINT_SLICES),
        Kind(_NETWORKING, networking.INGRESSES),
        Kind(_NETWORKING, networking.INGRESS_CLASSES, namespaced=False),
        Kind(_NETWORKING, networking.IP_ADDRESSES, namespaced=False),
        Kind(_NETWORKING, networking.NETWORK_POLICIES),
        Kind(_NETWORKING, networking.SERVICE_CIDRS, namespaced=False),
        Kind("node.k8s.io/v1", runtime_classes.RUNTIME_CLASSES, namespaced=False),
        Kind("policy/v1", policy.POD_DISRUPTION_BUDGETS),
        Kind(_RBAC, rbac.CLUSTER_ROLES, namespaced=False),
        Kind(_RBAC, rbac.CLUSTER_ROLE_BINDINGS, namespaced=False),
        Kind(_RBAC, rbac.ROLES),
        Kind(_RBAC, rbac.ROLE_BINDINGS),
        Kind("scheduling.k8s.io/v1", scheduling.PRIORITY_CLASSES, namespaced=False),
        Kind("storage.k8s.io/v1", csi.CSI_DRIVERS, namespaced=False),
        Kind("storage.k8s.io/v1", csi.CSI_NODES, namespaced=False),
        Kind("storage.k8s.io/v1", volumes.STORAGE_CLASSES, namespaced=False),
        Kind("storage.k8s.io/v1", csi.VOLUME_ATTACHMENTS, namespaced=False),
    )
}
"""By name; no two groups have a kind of the same name."""
TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        "Deployment ReplicaSet StatefulSet DaemonSet Job ReplicationController".split(),
        ("spec", "template"),
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""The path of the pod template in each kind that makes pods."""
FORMER_VERSIONS: Final[dict[str, frozenset[str]]] = {
    "Deployment": frozenset({"extensions/v1beta1", "apps/v1beta1", "apps/v1beta2"}),
    "ReplicaSet": frozenset({"extensions/v1beta1", "apps/v1beta2"}),
    "DaemonSet": frozenset({"extensions/v1beta1", "apps/v1beta2"}),
    "StatefulSet": frozenset({"apps/v1beta1", "apps/v1beta2"}),
    "ControllerRevision": frozenset({"apps/v1beta1", "apps/v1beta2"}),
    "CronJob": frozenset({"batch/v1beta1", "batch/v2alpha1"}),
    "PodDisruptionBudget": frozenset({"policy/v1beta1"}),
    "Ingress": frozenset({"extensions/v1beta1", "networking.k8s.io/v1beta1"}),
    "IngressClass": frozenset({"networking.k8s.io/v1beta1"}),
    "NetworkPolicy": frozenset({"extensions/v1beta1"}),
    **dict.fromkeys(
        ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        frozenset({"rbac.authorization.k8s.io/v1beta1", "rbac.authorization.k8s.io/v1alpha1"}),
    ),
    "HorizontalPodAutoscaler": frozenset(
        {"autoscaling/v1", "autoscaling/v2beta1", "autoscaling/v2beta2"}
    ),
    "PriorityClass": frozenset({"scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1"}),
    **dict.fromkeys(
        ("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"),
        frozenset({"storage.k8s.io/v1beta1"}),
    ),
    "EndpointSlice": frozenset({"discovery.k8s.io/v1beta1"}),
    "RuntimeClass": frozenset({"node.k8s.io/v1beta1", "node.k8s.io/v1alpha1"}),
    "Lease": frozenset({"coordination.k8s.io/v1beta1"}),
}
"""The earlier versions of each kind; podtui serves today's only."""


def kind_of(api_version: object, name: object) -> Kind | None:
    """Return the kind of an object; None if the API does not store such objects."""
    kind = KINDS.get(name) if isinstance(name, str) else None
    return kind if kind is not None and kind.api_version == api_version else None


def current_version(api_version: object, name: object) -> str:
    """Return today's version of a kind in an earlier version; empty for other objects."""
    if isinstance(name, str) and api_version in FORMER_VERSIONS.get(name, ()):
        return KINDS[name].api_version
    return ""
