"""``meta.k8s.io`` Tables: the columns shown by kubectl, per resource."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from podtui.api.insight import Timeline
from podtui.api.local import Manifest, NodeMetrics, PodMetrics, Severity
from podtui.api.pods import is_true
from podtui.api.printing import pod_line
from podtui.api.times import parse_time, short_duration, since
from podtui.api.v1 import (
    ConfigMap,
    Event,
    Lease,
    Namespace,
    Node,
    Pod,
    PodSpec,
    RuntimeClass,
    Secret,
)
from podtui.server.encoding.media_types import PARTIAL
from podtui.server.resources.objects import ApiObject

NONE = "<none>"
UNKNOWN = "<unknown>"
Cell = str | int
Row = Callable[[Any, datetime], list[Cell]]

_COMPLETED: Final = {
    "Succeeded": ("Succeeded", "The pod has completed successfully."),
    "Failed": ("Failed", "The pod failed."),
}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column; a ``wide`` one is only shown with ``-o wide``. As in Kubernetes, counts have the
    type of texts, and so have most times."""

    name: str
    description: str
    wide: bool = False
    type: Literal["string", "integer", "boolean", "date"] = "string"
    format: str = ""

    def definition(self) -> dict[str, object]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": int(self.wide),
        }


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a resource, and a function that returns the cells of a row."""

    columns: tuple[TableColumn, ...]
    row: Row

    def definitions(self) -> list[dict[str, object]]:
        return [column.definition() for column in self.columns]


def partial_metadata(item: ApiObject, version: str) -> dict[str, object]:
    """Return the metadata of an object as a ``PartialObjectMetadata``."""
    return {"kind": PARTIAL, "apiVersion": f"meta.k8s.io/{version}", "metadata": item.metadata}


def table(
    columns: Columns,
    objects: Iterable[tuple[ApiObject, msgspec.Raw]],
    *,
    now: datetime,
    version: str = "v1",
    metadata: Mapping[str, object],
    include: str = "Metadata",
    definitions: bool = True,
) -> bytes:
    """Encode a Table of objects and their JSON. ``include`` is the request's ``includeObject``."""
    rows: list[dict[str, object]] = []
    for item, encoded in objects:
        row: dict[str, object] = {"cells": columns.row(item, now)}
        if include == "Object":
            row["object"] = encoded
        elif include == "Metadata":
            row["object"] = partial_metadata(item, version)
        if isinstance(item, Pod) and item.status.phase in _COMPLETED:
            reason, message = _COMPLETED[item.status.phase]
            condition = {"type": "Completed", "status": "True"}
            row["conditions"] = [{**condition, "reason": reason, "message": message}]
        rows.append(row)
    return msgspec.json.encode(
        {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": metadata,
            "columnDefinitions": columns.definitions() if definitions else None,
            "rows": rows,
        }
    )


def empty_row(columns: Columns, version: str, metadata: Mapping[str, object]) -> bytes:
    """Encode the Table of a bookmark: one row without texts, whose object has the metadata."""
    api_version = f"meta.k8s.io/{version}"
    row = {
        "cells": [""] * len(columns.columns),
        "object": {"kind": PARTIAL, "apiVersion": api_version, "metadata": metadata},
    }
    return msgspec.json.encode(
        {
            "kind": "Table",
            "apiVersion": api_version,
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "columnDefinitions": None,
            "rows": [row],
        }
    )


def pod_row(pod: Pod, now: datetime) -> list[str]:
    """Return the cells: name, ready, status, restarts, age, ip, node, nominated node, gates."""
    line = pod_line(pod)
    restarts = str(line.restarts)
    if line.restarts and line.last_restart is not None:
        restarts += f" ({short_duration((now - line.last_restart).total_seconds())} ago)"
    return [
        pod.metadata.name,
        f"{line.ready}/{line.wanted}",
        line.word,
        restarts,
        since(pod.metadata.creationTimestamp, now),
        pod.status.podIP or (pod.status.podIPs[0].ip if pod.status.podIPs else NONE),
        pod.spec.nodeName or NONE,
        pod.status.nominatedNodeName or NONE,
        _gates(pod),
    ]


def _gates(pod: Pod) -> str:
    gates = pod.spec.readinessGates
    if not gates:
        return NONE
    return f"{sum(is_true(pod, gate.conditionType) for gate in gates)}/{len(gates)}"


def _name_and_age(item: ApiObject, now: datetime) -> list[Cell]:
    return [item.metadata.name, since(item.metadata.creationTimestamp, now)]


def listed(texts: Iterable[str], most: int) -> str:
    """Join texts with commas; of more than ``most`` only the number is shown."""
    every = list(texts)
    left = len(every) - most
    return ",".join(every[:most]) + (f" + {left} more..." if left > 0 else "")


def container_names(spec: PodSpec) -> list[Cell]:
    """Return the cells of a pod template's containers: their names, and their images."""
    containers = spec.containers
    names = ",".join(container.name for container in containers)
    return [names, ",".join(container.image for container in containers)]


def _namespace(item: Namespace, now: datetime) -> list[Cell]:
    name, age = _name_and_age(item, now)
    return [name, item.status.phase, age]


def _config_map(item: ConfigMap, now: datetime) -> list[Cell]:
    name, age = _name_and_age(item, now)
    return [name, len(item.data) + len(item.binaryData), age]


def _secret(item: Secret, now: datetime) -> list[Cell]:
    name, age = _name_and_age(item, now)
    return [name, item.type, len(item.data), age]


def _lease(item: Lease, now: datetime) -> list[Cell]:
    name, age = _name_and_age(item, now)
    return [name, item.spec.holderIdentity, age]


def _runtime_class(item: RuntimeClass, now: datetime) -> list[Cell]:
    name, age = _name_and_age(item, now)
    return [name, item.handler, age]


def _node(node: Node, now: datetime) -> list[Cell]:
    ready = next((c.status for c in reversed(node.status.conditions) if c.type == "Ready"), None)
    status = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if node.spec.unschedulable:
        status += ",SchedulingDisabled"
    info = node.status.nodeInfo
    kernel = (info and info.kernelVersion) or UNKNOWN
    if info is not None and info.architecture:
        kernel += f" ({info.architecture})"
    return [
        node.metadata.name,
        status,
        ",".join(sorted(_roles(node.metadata.labels))) or NONE,
        since(node.metadata.creationTimestamp, now),
        info.kubeletVersion if info else "",
        _address(node, "InternalIP"),
        _address(node, "ExternalIP"),
        (info and info.osImage) or UNKNOWN,
        kernel,
        (info and info.containerRuntimeVersion) or UNKNOWN,
    ]


def _roles(labels: Mapping[str, str]) -> set[str]:
    prefix = "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
    return (roles | {labels.get("kubernetes.io/role", "")}) - {""}


def _address(node: Node, kind: str) -> str:
    return next((a.address for a in node.status.addresses if a.type == kind), NONE)


def _event(event: Event, now: datetime) -> list[Cell]:
    involved, source, series = event.involvedObject, event.source, event.series
    first = since(event.firstTimestamp or event.eventTime, now)
    last = since(event.lastTimestamp, now) if event.lastTimestamp else first
    count = event.count or 1
    if series is not None:
        last, count = since(series.lastObservedTime, now), series.count or 0
    component = source.component or event.reportingComponent
    host = source.host or event.reportingInstance
    kind = involved.kind.lower()
    return [
        last,
        event.type,
        event.reason,
        f"{kind}/{involved.name}" if involved.name else kind,
        involved.fieldPath,
        f"{component}, {host}" if host else component,
        event.message.strip(),
        first,
        count,
        event.metadata.name,
    ]


def _manifest(manifest: Manifest, now: datetime) -> list[Cell]:
    status = manifest.status
    severities = [diagnostic.severity for diagnostic in status.diagnostics]
    pod = f"{status.podNamespace}/{status.podName}" if status.podName else NONE
    return [
        manifest.metadata.name,
        status.state.value,
        pod,
        severities.count(Severity.ERROR),
        severities.count(Severity.WARNING),
        since(manifest.metadata.creationTimestamp, now),
        manifest.spec.path,
    ]


def _timeline(timeline: Timeline, now: datetime) -> list[Cell]:
    newest = timeline.starts[0] if timeline.starts else None
    began = parse_time(newest.began) if newest else None
    ready = parse_time(newest.ready) if newest else None
    took = f"{(ready - began).total_seconds():.2f}s" if began and ready else NONE
    return [timeline.metadata.name, took, since(newest.began if newest else None, now)]


def _pod_metrics(metrics: PodMetrics, now: datetime) -> list[Cell]:
    return [metrics.metadata.name, metrics.window, since(metrics.timestamp, now)]


def _node_metrics(metrics: NodeMetrics, now: datetime) -> list[Cell]:
    usage = metrics.usage
    cells: list[Cell] = [metrics.metadata.name, usage.get("cpu", ""), usage.get("memory", "")]
    return [*cells, metrics.window]


NAME = TableColumn("Name", "Name of the object, unique in its namespace.", format="name")
AGE = TableColumn("Age", "Time since the object was created.")
PODS = Columns(
    (
        NAME,
        TableColumn("Ready", "Number of ready containers, of all containers."),
        TableColumn("Status", "Phase of the pod, or what keeps its containers from running."),
        TableColumn(
            "Restarts", "Number of restarts of all containers, and the time since the last."
        ),
        AGE,
        TableColumn("IP", "IP address of the pod.", wide=True),
        TableColumn("Node", "Node to which the pod is bound.", wide=True),
        TableColumn("Nominated Node", "Node on which pods were preempted for this pod.", wide=True),
        TableColumn("Readiness Gates", "Number of true readiness gates, of all gates.", wide=True),
    ),
    lambda pod, now: [*pod_row(pod, now)],
)
NODES = Columns(
    (
        NAME,
        TableColumn(
            "Status", "Whether the node is ready, and whether pods may be scheduled to it."
        ),
        TableColumn("Roles", "Roles of the node, from its labels."),
        AGE,
        TableColumn("Version", "Version of the kubelet."),
        TableColumn("Internal-IP", "First internal IP address of the node.", wide=True),
        TableColumn("External-IP", "First external IP address of the node.", wide=True),
        TableColumn("OS-Image", "Operating system, from /etc/os-release.", wide=True),
        TableColumn("Kernel-Version", "Version and architecture of the kernel.", wide=True),
        TableColumn("Container-Runtime", "Name and version of the container runtime.", wide=True),
    ),
    _node,
)
EVENTS = Columns(
    (
        TableColumn("Last Seen", "Time since the event occurred last."),
        TableColumn("Type", "Normal or Warning."),
        TableColumn("Reason", "Reason of the event, in one word for programs."),
        TableColumn("Object", "Object that the event is about."),
        TableColumn("Subobject", "Field of the object, such as one container.", wide=True),
        TableColumn("Source", "Component that reported the event, and its host.", wide=True),
        TableColumn("Message", "Description of the event for people."),
        TableColumn("First Seen", "Time since the event occurred first.", wide=True),
        TableColumn("Count", "Number of times that the event occurred.", wide=True),
        TableColumn("Name", NAME.description, wide=True, format="name"),
    ),
    _event,
)
CONTAINERS = (
    TableColumn("Containers", "Names of the containers in the pod template.", wide=True),
    TableColumn("Images", "Images of the containers in the pod template.", wide=True),
)
NAMES = Columns((NAME, AGE), _name_and_age)
NAMESPACES = Columns((NAME, TableColumn("Status", "Phase of the namespace."), AGE), _namespace)
CONFIG_MAPS = Columns((NAME, TableColumn("Data", "Number of keys."), AGE), _config_map)
SECRETS = Columns(
    (
        NAME,
        TableColumn("Type", "Type of the secret, which names the keys that it must have."),
        TableColumn("Data", "Number of keys."),
        AGE,
    ),
    _secret,
)
SERVICE_ACCOUNTS = NAMES
LEASES = Columns((NAME, TableColumn("Holder", "Identity of the lease's holder."), AGE), _lease)
RUNTIME_CLASSES = Columns(
    (NAME, TableColumn("Handler", "Runtime of the engine that runs the pods."), AGE),
    _runtime_class,
)
MANIFESTS = Columns(
    (
        NAME,
        TableColumn("State", "Result of reading the file."),
        TableColumn("Pod", "Pod that the file defines."),
        TableColumn("Errors", "Number of errors in the file.", type="integer"),
        TableColumn("Warnings", "Number of warnings about the file.", type="integer"),
        AGE,
        TableColumn("Path", "Path of the file.", wide=True),
    ),
    _manifest,
)
TIMELINES = Columns(
    (NAME, TableColumn("Ready In", "Time from the pod's last start until it was ready."), AGE),
    _timeline,
)
POD_METRICS = Columns(
    (NAME, TableColumn("Window", "Time over which the usage was measured."), AGE),
    _pod_metrics,
)
NODE_METRICS = Columns(
    (
        NAME,
        TableColumn("CPU", "Average CPU usage."),
        TableColumn("Memory", "Memory in use."),
        TableColumn("Window", "Time over which the usage was measured."),
    ),
    _node_metrics,
)
