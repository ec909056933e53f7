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
    Secret,
    ServiceAccount,
)

Object = (
    Pod
    | Node
    | Event
    | Namespace
    | ConfigMap
    | Secret
    | ServiceAccount
    | Lease
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
    "serviceaccounts",
    "leases",
    "manifests",
    "timelines",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """How the objects of a resource are kept.

    ``history`` is the number of changes kept for watches. ``durable`` records survive a power
    failure; the last changes of others may be lost to one, but not to a crash of the process.
    """

    type: type[Object]
    history: int = 1024
    durable: bool = True


RESOURCES: Final[Mapping[Resource, Kept]] = {
    "pods": Kept(type=Pod, history=4096),
    # Low for nodes and leases, whose heartbeats are never replayed.
    "nodes": Kept(type=Node, history=256, durable=False),
    "events": Kept(type=Event, history=4096, durable=False),
    "namespaces": Kept(type=Namespace),
    "configmaps": Kept(type=ConfigMap),
    "secrets": Kept(type=Secret),
    "serviceaccounts": Kept(type=ServiceAccount),
    "leases": Kept(type=Lease, history=256, durable=False),
    "manifests": Kept(type=Manifest),
    # Low, because each change contains the whole timeline.
    "timelines": Kept(type=Timeline, history=256, durable=False),
}
