"""The kinds of the group rbac.authorization.k8s.io. Who may write which rules is checked by
`podtui.server.resources.escalation`."""

from __future__ import annotations

from typing import Final

from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.manifest.defaults import Tree
from podtui.manifest.strategies.strategy import Strategy
from podtui.manifest.validation.errors import Errors
from podtui.manifest.validation.rbac import (
    GROUP,
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_role,
    validate_role_binding,
    validate_role_ref_update,
)


def _binding_defaults(tree: Tree) -> None:
    role: Tree = tree["roleRef"]
    role["apiGroup"] = role.get("apiGroup") or GROUP
    subjects: list[Tree] = tree.get("subjects", [])
    for subject in subjects:
        if not subject.get("apiGroup") and subject["kind"] in ("User", "Group"):
            subject["apiGroup"] = GROUP


def _role_update_errors(new: Role, old: Role) -> Errors:
    return validate_role(new)


def _cluster_role_update_errors(new: ClusterRole, old: ClusterRole) -> Errors:
    return validate_cluster_role(new)


def _binding_update_errors(new: RoleBinding, old: RoleBinding) -> Errors:
    yield from validate_role_binding(new)
    yield from validate_role_ref_update(new.roleRef, old.roleRef)


def _cluster_binding_update_errors(new: ClusterRoleBinding, old: ClusterRoleBinding) -> Errors:
    yield from validate_cluster_role_binding(new)
    yield from validate_role_ref_update(new.roleRef, old.roleRef)


CLUSTER_ROLES: Final = Strategy(
    struct=ClusterRole,
    validate_create=validate_cluster_role,
    validate_update=_cluster_role_update_errors,
    create_on_update=True,
)
CLUSTER_ROLE_BINDINGS: Final = Strategy(
    struct=ClusterRoleBinding,
    defaults=_binding_defaults,
    validate_create=validate_cluster_role_binding,
    validate_update=_cluster_binding_update_errors,
    create_on_update=True,
)
ROLES: Final = Strategy(
    struct=Role,
    validate_create=validate_role,
    validate_update=_role_update_errors,
    create_on_update=True,
)
ROLE_BINDINGS: Final = Strategy(
    struct=RoleBinding,
    defaults=_binding_defaults,
    validate_create=validate_role_binding,
    validate_update=_binding_update_errors,
    create_on_update=True,
)
