"""What users may do without a binding of their own, and how others are refused."""

from __future__ import annotations

import pytest

from podtui.server.auth.attributes import parse_attributes
from podtui.server.auth.default_policy import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from podtui.server.auth.rbac import Policy
from podtui.server.auth.users import (
    ADMIN,
    ANONYMOUS,
    User,
    node_of,
    refused,
    service_account,
    service_account_of,
)

ACCOUNT = service_account("team", "robot", "u1", {})
DEFAULT = Policy(CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)


@pytest.mark.parametrize(
    ("request_line", "admin", "account", "anonymous"),
    [
        ("GET /healthz", True, True, True),
        ("GET /livez", True, True, True),
        ("GET /readyz", True, True, True),
        ("HEAD /healthz", True, False, False),
        ("GET /version", True, True, True),
        ("HEAD /version", True, False, False),
        ("HEAD /api", True, False, False),
        ("POST /version", True, False, False),
        ("GET /healthz/ping", True, False, False),
        ("GET /api", True, True, False),
        ("GET /apis/apps/v1", True, True, False),
        ("GET /openapi/v3", True, True, False),
        ("GET /openid/v1/jwks", True, True, False),
        ("GET /pods", True, False, False),
        ("GET /stats/summary", True, False, False),
        ("GET /exec/a/b/c", True, False, False),
        ("GET /api/v1/pods", True, False, False),
        ("GET /api/v1/namespaces/a/secrets/b", True, False, False),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", True, True, False),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectrulesreviews", True, True, False),
        ("POST /apis/authentication.k8s.io/v1/selfsubjectreviews", True, True, False),
        ("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", True, False, False),
        ("POST /apis/authentication.k8s.io/v1/tokenreviews", True, False, False),
        ("POST /api/v1/namespaces/team/serviceaccounts/robot/token", True, False, False),
        ("GET /apis/podtui.dev/v1alpha1/manifests", True, False, False),
    ],
)
def test_rights_without_a_binding(
    request_line: str, admin: bool, account: bool, anonymous: bool
) -> None:
    method, _, path = request_line.partition(" ")
    wanted = parse_attributes(method, path, {})
    found = [DEFAULT.decide(user, wanted).allowed for user in (ADMIN, ACCOUNT, ANONYMOUS)]
    assert found == [admin, account, anonymous]


def test_a_refusal_has_the_servers_message() -> None:
    """Recorded from a v1.36 API server."""

    def message(method: str, path: str, reason: str = "", user: User = ACCOUNT) -> str:
        return str(refused(user, parse_attributes(method, path, {}), reason))

    who = 'User "system:serviceaccount:team:robot" cannot'
    assert message("GET", "/foo") == f'forbidden: {who} get path "/foo"'
    assert message("GET", "/api/v1/pods") == (
        f'pods is forbidden: {who} list resource "pods" in API group "" at the cluster scope'
    )
    assert message("GET", "/api/v1/namespaces/default/pods/x/log") == (
        f'pods "x" is forbidden: {who} get resource "pods/log" in API group ""'
        ' in the namespace "default"'
    )
    assert message("GET", "/apis/apps/v1/deployments", "RBAC: why") == (
        f'deployments.apps is forbidden: {who} list resource "deployments" in API group "apps"'
        " at the cluster scope: RBAC: why"
    )
    assert message("GET", "/x", user=User('<b>"&')) == (
        'forbidden: User "&lt;b&gt;\\"&amp;" cannot get path "/x"'
    )


@pytest.mark.parametrize(
    ("name", "account", "node"),
    [
        ("system:serviceaccount:team:robot", ("team", "robot"), None),
        ("system:serviceaccount:team:ro.bot", ("team", "ro.bot"), None),
        ("system:serviceaccount:te.am:robot", None, None),
        ("system:serviceaccount:team:", None, None),
        ("system:serviceaccount:team", None, None),
        ("system:serviceaccount:team:a:b", None, None),
        ("team:robot", None, None),
        ("system:node:n1", None, "n1"),
        ("system:node:N1", None, None),
        ("n1", None, None),
    ],
)
def test_names_of_accounts_and_nodes(
    name: str, account: tuple[str, str] | None, node: str | None
) -> None:
    assert (service_account_of(name), node_of(name)) == (account, node)
