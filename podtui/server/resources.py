"""The served resources: names, selectable fields and table columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podtui.api.local import NodeMetrics
from podtui.api.names import GROUP, GROUP_VERSION, METRICS_GROUP_VERSION
from podtui.server import table
from podtui.server.objects import (
    ApiObject,
    LiveObjects,
    NamespacesOfPods,
    ObjectSource,
    RecordedObjects,
)
from podtui.server.protocol import KubeletEndpoints
from podtui.store.protocol import Records

METRICS_GROUP = METRICS_GROUP_VERSION.partition("/")[0]
_IDENTITY = ("metadata.name", "metadata.namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of the API. ``fields`` can be used in field selectors."""

    api_version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    columns: table.Columns
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    subresources: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The verbs by subresource."""
    watchable: bool = True

    @property
    def group(self) -> str:
        return self.api_version.rpartition("/")[0]

    @property
    def root(self) -> str:
        """The path of the group version."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("get", "list", "watch") if self.watchable else ("get", "list")

    @property
    def selectable(self) -> frozenset[str]:
        return frozenset((*_IDENTITY, *self.fields))


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
        "ephemeralcontainers": ("get", "patch", "update"),
        "exec": ("create", "get"),
        "log": ("get",),
        "portforward": ("create", "get"),
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
)
MANIFESTS = Resource(
    api_version=GROUP_VERSION,
    plural="manifests",
    singular="manifest",
    kind="Manifest",
    namespaced=False,
    columns=table.MANIFESTS,
    short_names=("mf",),
    fields=("status.state",),
)
TIMELINES = Resource(
    api_version=GROUP_VERSION,
    plural="timelines",
    singular="timeline",
    kind="Timeline",
    namespaced=True,
    columns=table.TIMELINES,
    short_names=("tl",),
)
POD_METRICS = Resource(
    api_version=METRICS_GROUP_VERSION,
    plural="pods",
    singular="",
    kind="PodMetrics",
    namespaced=True,
    columns=table.POD_METRICS,
    watchable=False,
)
NODE_METRICS = Resource(
    api_version=METRICS_GROUP_VERSION,
    plural="nodes",
    singular="",
    kind="NodeMetrics",
    namespaced=False,
    columns=table.NODE_METRICS,
    watchable=False,
)
ALL = (NODES, PODS, EVENTS, NAMESPACES, MANIFESTS, TIMELINES, POD_METRICS, NODE_METRICS)
GROUPS = ("", GROUP, METRICS_GROUP)


def sources(records: Records, kubelet: KubeletEndpoints) -> list[tuple[Resource, ObjectSource]]:
    """Return every resource with the source of its objects."""

    async def node_metrics() -> Sequence[NodeMetrics]:
        metrics = await kubelet.node_metrics()
        return () if metrics is None else (metrics,)

    return [
        (PODS, RecordedObjects(records, "pods")),
        (NODES, RecordedObjects(records, "nodes")),
        (EVENTS, RecordedObjects(records, "events")),
        (MANIFESTS, RecordedObjects(records, "manifests")),
        (TIMELINES, RecordedObjects(records, "timelines")),
        (NAMESPACES, NamespacesOfPods(records)),
        (POD_METRICS, LiveObjects(kubelet.pod_metrics)),
        (NODE_METRICS, LiveObjects(node_metrics)),
    ]


def reader(item: ApiObject) -> Callable[[str], str]:
    """Return a function that reads an object's fields as text, for a field selector."""

    def read(path: str) -> str:
        if path == "source":
            return read("source.component") or read("reportingComponent")
        value: Any = item
        for name in path.split("."):
            value = getattr(value, name)
            if value is None:
                break
        if path in ("spec.hostNetwork", "spec.unschedulable"):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return read
