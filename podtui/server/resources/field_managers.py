"""``metadata.managedFields`` of objects that the agent's own parts write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from podtui.api.discovery import EndpointSlice
from podtui.api.fields import types
from podtui.api.networking import IngressClass
from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.api.scheduling import PriorityClass
from podtui.api.storage import StorageClass
from podtui.api.v1 import (
    ConfigMap,
    Endpoints,
    Event,
    Lease,
    ManagedFieldsEntry,
    Namespace,
    Node,
    Pod,
    Service,
)
from podtui.patching.server_side_apply import apply, update_managers
from podtui.server.encoding.decoding import Tree

API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
"""The component of a cluster that does what the agent's controllers do."""
_EMPTY: Final[tuple[object, ...]] = (None, "", {})
T = TypeVar(
    "T",
    ClusterRole,
    ClusterRoleBinding,
    ConfigMap,
    EndpointSlice,
    Endpoints,
    Event,
    IngressClass,
    Lease,
    Namespace,
    Node,
    Pod,
    PriorityClass,
    Role,
    RoleBinding,
    Service,
    StorageClass,
)


def managed(new: T, old: T | None, *, manager: str, now: str) -> T:
    """Return the object as ``manager`` created it or changed it from ``old``. The status has
    managers of its own."""
    kind = type(new).__name__
    live = None if old is None else _document(old)
    entries = update_managers(kind, live, _document(new), manager=manager, time=now)
    managers = msgspec.convert(entries, tuple[ManagedFieldsEntry, ...])
    return structs.replace(new, metadata=structs.replace(new.metadata, managedFields=managers))


def applied(item: T, fields: Mapping[str, object], *, manager: str, now: str) -> T:
    """Return the object after ``manager`` applied some fields, whoever managed them before."""
    kind = type(item).__name__
    head = {"apiVersion": types()[kind].version, "kind": kind}
    plain: Tree = msgspec.json.decode(msgspec.json.encode(fields))
    configuration = {**head, "metadata": {"name": item.metadata.name}, **plain}
    live = {**_document(item), **head}
    document = apply(kind, live, configuration, manager=manager, time=now, force=True)
    return msgspec.convert({**document, "apiVersion": "", "kind": ""}, type(item))


def _document(item: T) -> Tree:
    """Return the JSON form, without fields that are always written: no manager sets them."""
    tree: Tree = msgspec.json.decode(msgspec.json.encode(item))
    tree.pop("status", None)
    document = {name: value for name, value in tree.items() if value not in _EMPTY}
    return {**document, "kind": type(item).__name__}
