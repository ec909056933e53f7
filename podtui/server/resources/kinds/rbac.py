"""The kinds of the group rbac.authorization.k8s.io."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.api.times import since
from podtui.manifest.strategies import rbac
from podtui.server.encoding.decoding import Tree
from podtui.server.resources.resource import Resource
from podtui.server.resources.table import AGE, NAME, Cell, Columns, TableColumn

_VERSION: Final = "rbac.authorization.k8s.io/v1"


def _to_wire(item: Role | ClusterRole) -> Tree:
    """The API always writes the rules of a role."""
    kind = type(item).__name__
    return {"kind": kind, "apiVersion": _VERSION, "rules": None, **msgspec.to_builtins(item)}


def _role(item: Role | ClusterRole, now: datetime) -> list[Cell]:
    return [item.metadata.name, item.metadata.creationTimestamp or ""]


def _binding(item: RoleBinding | ClusterRoleBinding, now: datetime) -> list[Cell]:
    names: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in item.subjects:
        is_account = subject.kind == "ServiceAccount"
        name = f"{subject.namespace}/{subject.name}" if is_account else subject.name
        names[subject.kind].append(name)
    return [
        item.metadata.name,
        f"{item.roleRef.kind}/{item.roleRef.name}",
        since(item.metadata.creationTimestamp, now),
        *map(", ".join, names.values()),
    ]


_ROLE_COLUMNS: Final = Columns(
    (NAME, TableColumn("Created At", "Time at which the object was created.", type="date")), _role
)
_BINDING_COLUMNS: Final = Columns(
    (
        NAME,
        TableColumn("Role", "Role whose rules the subjects get."),
        AGE,
        TableColumn("Users", "Users that get the rules.", wide=True),
        TableColumn("Groups", "Groups that get the rules.", wide=True),
        TableColumn("ServiceAccounts", "Service accounts that get the rules.", wide=True),
    ),
    _binding,
)
CLUSTER_ROLES = Resource(
    api_version=_VERSION,
    plural="clusterroles",
    singular="clusterrole",
    kind="ClusterRole",
    namespaced=False,
    columns=_ROLE_COLUMNS,
    record="clusterroles",
    to_wire=_to_wire,
    strategy=rbac.CLUSTER_ROLES,
)
CLUSTER_ROLE_BINDINGS = Resource(
    api_version=_VERSION,
    plural="clusterrolebindings",
    singular="clusterrolebinding",
    kind="ClusterRoleBinding",
    namespaced=False,
    columns=_BINDING_COLUMNS,
    record="clusterrolebindings",
    strategy=rbac.CLUSTER_ROLE_BINDINGS,
)
ROLES = Resource(
    api_version=_VERSION,
    plural="roles",
    singular="role",
    kind="Role",
    namespaced=True,
    columns=_ROLE_COLUMNS,
    record="roles",
    to_wire=_to_wire,
    strategy=rbac.ROLES,
)
ROLE_BINDINGS = Resource(
    api_version=_VERSION,
    plural="rolebindings",
    singular="rolebinding",
    kind="RoleBinding",
    namespaced=True,
    columns=_BINDING_COLUMNS,
    record="rolebindings",
    strategy=rbac.ROLE_BINDINGS,
)
