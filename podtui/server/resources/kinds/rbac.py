"""The kinds of the group rbac.authorization.k8s.io."""

from __future__ import annotations

from podtui.server.resources.resource import Resource
from podtui.server.resources.strategies import rbac

CLUSTER_ROLES = Resource(
    api_version="rbac.authorization.k8s.io/v1",
    plural="clusterroles",
    singular="clusterrole",
    kind="ClusterRole",
    namespaced=False,
    record="clusterroles",
    strategy=rbac.CLUSTER_ROLES,
)
CLUSTER_ROLE_BINDINGS = Resource(
    api_version="rbac.authorization.k8s.io/v1",
    plural="clusterrolebindings",
    singular="clusterrolebinding",
    kind="ClusterRoleBinding",
    namespaced=False,
    record="clusterrolebindings",
    strategy=rbac.CLUSTER_ROLE_BINDINGS,
)
ROLES = Resource(
    api_version="rbac.authorization.k8s.io/v1",
    plural="roles",
    singular="role",
    kind="Role",
    namespaced=True,
    record="roles",
    strategy=rbac.ROLES,
)
ROLE_BINDINGS = Resource(
    api_version="rbac.authorization.k8s.io/v1",
    plural="rolebindings",
    singular="rolebinding",
    kind="RoleBinding",
    namespaced=True,
    record="rolebindings",
    strategy=rbac.ROLE_BINDINGS,
)
