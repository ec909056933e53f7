"""The kinds of the group rbac.authorization.k8s.io."""

from __future__ import annotations

from typing import Final

from podtui.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podtui.server.resources.strategies.strategy import Strategy

CLUSTER_ROLES: Final = Strategy(struct=ClusterRole)
CLUSTER_ROLE_BINDINGS: Final = Strategy(struct=ClusterRoleBinding)
ROLES: Final = Strategy(struct=Role)
ROLE_BINDINGS: Final = Strategy(struct=RoleBinding)
