"""The served resources: names, selectable fields and table columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from msgspec import structs

from podtui.api.insight import Timeline
from podtui.api.local import Manifest, NodeMetrics, PodMetrics
from podtui.api.names import GROUP_VERSION, METRICS_GROUP_VERSION
from podtui.manifest.strategies import (
    accounts,
    config,
    events,
    namespaces,
    nodes,
    pods,
    runtime_classes,
)
from podtui.server.protocol import KubeletEndpoints
from podtui.server.resources import table
from podtui.server.resources.kinds import (
    apps,
    autoscaling,
    batch,
    csi,
    discovery,
    networking,
    policy,
    quotas,
    rbac,
    replication_controllers,
    scheduling,
    services,
    volumes,
)
from podtui.server.resources.objects import (
    ApiObject,
    LiveObjects,
    NoObjects,
    ObjectSource,
    RecordedObjects,
)
from podtui.server.resources.resource import AnyResource, Resource
from podtui.store.protocol import Records

PODS = Resource(
    api_version="v1",
    plural="pods",
    singular="pod",
    kind="Pod",
    namespaced=True,
    columns=table.PODS,
    short_names=("po",),
    categories=("all",),
    fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ),
    subresources={
        "attach": ("create", "get"),
        "binding": ("create",),
        "ephemeralcontainers": ("get", "patch", "update"),
        "eviction": ("create",),
        "exec": ("create", "get"),
        "log": ("get",),
        "portforward": ("create", "get"),
        "proxy": ("create", "delete", "get", "patch", "update"),
        "resize": ("get", "patch", "update"),
        "status": ("get", "patch", "update"),
    },
    record="pods",
    strategy=pods.PODS,
    updates={
        "ephemeralcontainers": pods.EPHEMERAL_CONTAINERS,
        "resize": pods.RESIZE,
        "status": pods.STATUS,
    },
)
NODES = Resource(
    api_version="v1",
    plural="nodes",
    singular="node",
    kind="Node",
    namespaced=False,
    columns=table.NODES,
    short_names=("no",),
    fields=("spec.unschedulable",),
    subresources={"status": ("get", "patch", "update")},
    record="nodes",
    strategy=nodes.NODES,
    updates={"status": nodes.STATUS},
)
EVENTS = Resource(
    api_version="v1",
    plural="events",
    singular="event",
    kind="Event",
    namespaced=True,
    columns=table.EVENTS,
    short_names=("ev",),
    fields=(
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    record="events",
    strategy=events.CORE_EVENTS,
)
NEW_EVENTS = Resource(
    api_version=f"{events.GROUP}/v1",
    plural="events",
    singular="event",
    kind="Event",
    namespaced=True,
    columns=table.EVENTS,
    short_names=("ev",),
    fields=(
        "reason",
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reportingController",
        "type",
    ),
    record="events",
    strategy=events.NEW_EVENTS,
    to_wire=events.to_new,
    from_wire=events.from_new,
)
CONFIG_MAPS = Resource(
    api_version="v1",
    plural="configmaps",
    singular="configmap",
    kind="ConfigMap",
    namespaced=True,
    columns=table.CONFIG_MAPS,
    short_names=("cm",),
    record="configmaps",
    strategy=config.CONFIG_MAPS,
)
SECRETS = Resource(
    api_version="v1",
    plural="secrets",
    singular="secret",
    kind="Secret",
    namespaced=True,
    columns=table.SECRETS,
    fields=("type",),
    record="secrets",
    strategy=config.SECRETS,
)
SERVICE_ACCOUNTS = Resource(
    api_version="v1",
    plural="serviceaccounts",
    singular="serviceaccount",
    kind="ServiceAccount",
    namespaced=True,
    columns=table.SERVICE_ACCOUNTS,
    short_names=("sa",),
    subresources={"token": ("create",)},
    record="serviceaccounts",
    strategy=accounts.SERVICE_ACCOUNTS,
)
LEASES = Resource(
    api_version="coordination.k8s.io/v1",
    plural="leases",
    singular="lease",
    kind="Lease",
    namespaced=True,
    columns=table.LEASES,
    record="leases",
    strategy=accounts.LEASES,
)
RUNTIME_CLASSES = Resource(
    api_version="node.k8s.io/v1",
    plural="runtimeclasses",
    singular="runtimeclass",
    kind="RuntimeClass",
    namespaced=False,
    columns=table.RUNTIME_CLASSES,
    record="runtimeclasses",
    strategy=runtime_classes.RUNTIME_CLASSES,
)
NAMESPACES = Resource(
    api_version="v1",
    plural="namespaces",
    singular="namespace",
    kind="Namespace",
    namespaced=False,
    columns=table.NAMESPACES,
    short_names=("ns",),
    fields=("status.phase",),
    subresources={"finalize": ("update",), "status": ("get", "patch", "update")},
    record="namespaces",
    strategy=namespaces.NAMESPACES,
    updates={"finalize": namespaces.FINALIZE, "status": namespaces.STATUS},
)
MANIFESTS: Resource[Manifest] = Resource(
    api_version=GROUP_VERSION,
    plural="manifests",
    singular="manifest",
    kind="Manifest",
    namespaced=False,
    columns=table.MANIFESTS,
    short_names=("mf",),
    fields=("status.state",),
    record="manifests",
)
TIMELINES: Resource[Timeline] = Resource(
    api_version=GROUP_VERSION,
    plural="timelines",
    singular="timeline",
    kind="Timeline",
    namespaced=True,
    columns=table.TIMELINES,
    short_names=("tl",),
    record="timelines",
)
POD_METRICS: AnyResource = Resource(
    api_version=METRICS_GROUP_VERSION,
    plural="pods",
    singular="",
    kind="PodMetrics",
    namespaced=True,
    columns=table.POD_METRICS,
    watchable=False,
    live_struct=PodMetrics,
)
NODE_METRICS: AnyResource = Resource(
    api_version=METRICS_GROUP_VERSION,
    plural="nodes",
    singular="",
    kind="NodeMetrics",
    namespaced=False,
    columns=table.NODE_METRICS,
    watchable=False,
    live_struct=NodeMetrics,
)
REVIEWS: tuple[AnyResource, ...] = tuple(
    Resource(
        api_version=f"{group}/v1",
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        kind=kind,
        namespaced=kind.startswith("Local"),
        is_virtual=True,
    )
    for group, kind in (
        ("authentication.k8s.io", "SelfSubjectReview"),
        ("authentication.k8s.io", "TokenReview"),
        ("authorization.k8s.io", "LocalSubjectAccessReview"),
        ("authorization.k8s.io", "SelfSubjectAccessReview"),
        ("authorization.k8s.io", "SelfSubjectRulesReview"),
        ("authorization.k8s.io", "SubjectAccessReview"),
    )
)


def _absent(
    api_version: str,
    kind: str,
    plural: str,
    *short_names: str,
    namespaced: bool = True,
    categories: tuple[str, ...] = (),
) -> AnyResource:
    return Resource(
        api_version=api_version,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=namespaced,
        short_names=short_names,
        categories=categories,
        is_absent=True,
    )


ABSENT = (
    _absent(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd",
        "crds",
        namespaced=False,
        categories=("api-extensions",),
    ),
)
"""Kinds that clients of Kubernetes list without being asked: kubectl when it prunes and validates,
finds the workloads of a drained node, or reads a group from its cache."""
SERVED_HINT: Final = "'kubectl api-resources' lists what podtui serves"
ALL: tuple[AnyResource, ...] = (
    CONFIG_MAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    NEW_EVENTS,
    LEASES,
    RUNTIME_CLASSES,
    apps.CONTROLLER_REVISIONS,
    apps.DAEMON_SETS,
    apps.DEPLOYMENTS,
    apps.REPLICA_SETS,
    apps.STATEFUL_SETS,
    autoscaling.AUTOSCALERS_V1,
    autoscaling.AUTOSCALERS,
    batch.CRON_JOBS,
    batch.JOBS,
    services.ENDPOINTS,
    quotas.LIMIT_RANGES,
    csi.CSI_DRIVERS,
    csi.CSI_NODES,
    volumes.VOLUMES,
    csi.VOLUME_ATTACHMENTS,
    volumes.VOLUME_CLAIMS,
    replication_controllers.REPLICATION_CONTROLLERS,
    quotas.RESOURCE_QUOTAS,
    services.SERVICES,
    discovery.ENDPOINT_SLICES,
    networking.INGRESSES,
    networking.INGRESS_CLASSES,
    networking.IP_ADDRESSES,
    networking.NETWORK_POLICIES,
    networking.SERVICE_CIDRS,
    policy.POD_DISRUPTION_BUDGETS,
    rbac.CLUSTER_ROLES,
    rbac.CLUSTER_ROLE_BINDINGS,
    rbac.ROLES,
    rbac.ROLE_BINDINGS,
    scheduling.PRIORITY_CLASSES,
    volumes.STORAGE_CLASSES,
    MANIFESTS,
    TIMELINES,
    POD_METRICS,
    NODE_METRICS,
    *REVIEWS,
    *ABSENT,
)


def sources(records: Records, kubelet: KubeletEndpoints) -> list[tuple[AnyResource, ObjectSource]]:
    """Return every resource with the source of its objects."""

    async def pod_metrics() -> Sequence[PodMetrics]:
        listing = await records.list("pods")
        labels = {
            (meta.namespace, meta.name): meta.labels
            for meta in (pod.metadata for pod in listing.items)
        }
        return [
            _labelled(item, labels.get((item.metadata.namespace, item.metadata.name), {}))
            for item in await kubelet.pod_metrics()
        ]

    async def node_metrics() -> Sequence[NodeMetrics]:
        metrics = await kubelet.node_metrics()
        if metrics is None:
            return ()
        node = await records.get("nodes", "", metrics.metadata.name)
        return (_labelled(metrics, {} if node is None else node.metadata.labels),)

    recorded: list[tuple[AnyResource, ObjectSource]] = [
        (resource, RecordedObjects(records, resource.record))
        for resource in ALL
        if resource.record is not None
    ]
    nothing = NoObjects(records)
    return [
        *recorded,
        *((resource, nothing) for resource in ABSENT),
        (POD_METRICS, LiveObjects(pod_metrics)),
        (NODE_METRICS, LiveObjects(node_metrics)),
    ]


_Metrics = TypeVar("_Metrics", PodMetrics, NodeMetrics)


def _labelled(metrics: _Metrics, labels: Mapping[str, str]) -> _Metrics:
    """Add the labels of the measured object, by which clients select metrics."""
    metadata = structs.replace(metrics.metadata, labels=dict(labels))
    return structs.replace(metrics, metadata=metadata)


def reader(item: ApiObject) -> Callable[[str], str]:
    """Return a function that reads an object's fields as text, for a field selector."""

    def read(path: str) -> str:
        if path == "source":
            return read("source.component") or read("reportingComponent")
        if path == "reportingController":
            path = "reportingComponent"
        path = path.replace("regarding.", "involvedObject.")
        if path == "status.successful":
            return read("status.succeeded") or "0"
        value: object = item
        for name in path.split("."):
            value = getattr(value, name)
            if value is None:
                break
        if path in ("spec.hostNetwork", "spec.unschedulable"):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read
