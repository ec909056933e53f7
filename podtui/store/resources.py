"""The resources of the records: the type of their objects, and how they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from podtui.api.insight import Timeline
from podtui.api.local import Manifest
from podtui.api.v1 import (
    ConfigMap,
    Event,
    Lease,
    Namespace,
    Node,
    Pod,
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
    | Manifest
    | Timeline
)
T = TypeVar("T", bound=Object)
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
    50 ms may be unwritten.
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
    "manifests": Retention(type=Manifest),
    # Low, because each change contains the whole timeline.
    "timelines": Retention(type=Timeline, history=256, durable=False),
}
