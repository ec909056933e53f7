from __future__ import annotations

import pytest

from podtui.server.auth.attributes import parse_attributes
from podtui.server.auth.users import ADMIN, ANONYMOUS, may, refusal, service_account

ACCOUNT = service_account("team", "robot", "u1", {})


@pytest.mark.parametrize(
    ("request_line", "found"),
    [
        ("GET /api", "get /api"),
        ("GET /api/v1", "get /api/v1"),
        ("GET /apis/apps/v1", "get /apis/apps/v1"),
        ("HEAD /healthz", "head /healthz"),
        ("GET /api/v1/pods", "list pods"),
        ("GET /api/v1/pods?watch=true", "watch pods"),
        ("GET /api/v1/pods?watch=false", "list pods"),
        ("GET /api/v1/pods?watch=maybe", "watch pods"),
        ("GET /api/v1/watch/pods", "watch pods"),
        ("GET /api/v1/watch/namespaces/team/pods/web", "watch pods name=web ns=team"),
        ("GET /api/v1/watch", "get /api/v1/watch"),
        ("GET /api/v1/namespaces", "list namespaces"),
        ("GET /api/v1/namespaces/team", "get namespaces name=team ns=team"),
        ("PUT /api/v1/namespaces/team/finalize", "update namespaces/finalize name=team ns=team"),
        ("GET /api/v1/namespaces/team/pods/web", "get pods name=web ns=team"),
        ("GET /api/v1/namespaces/team/pods/web/log", "get pods/log name=web ns=team"),
        ("POST /api/v1/namespaces/team/pods/web/exec", "create pods/exec name=web ns=team"),
        ("DELETE /api/v1/namespaces/team/pods", "deletecollection pods ns=team"),
        ("PATCH /api/v1/nodes/n1", "patch nodes name=n1"),
        ("DELETE /apis/coordination.k8s.io/v1/namespaces/a/leases/l", "delete leases name=l ns=a"),
        ("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
         "create selfsubjectaccessreviews"),
    ],
)  # fmt: skip
def test_attributes(request_line: str, found: str) -> None:
    method, _, url = request_line.partition(" ")
    path, _, query = url.partition("?")
    one = parse_attributes(method, path, dict([query.split("=")]) if query else {})
    if not one.resource:
        assert f"{one.verb} {one.path}" == found
        return
    text = f"{one.verb} {one.resource}" + (f"/{one.subresource}" if one.subresource else "")
    text += f" name={one.name}" if one.name else ""
    text += f" ns={one.namespace}" if one.namespace else ""
    assert text == found


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
def test_permissions_of_users(
    request_line: str, admin: bool, account: bool, anonymous: bool
) -> None:
    method, _, path = request_line.partition(" ")
    wanted = parse_attributes(method, path, {})
    assert (may(ADMIN, wanted), may(ACCOUNT, wanted), may(ANONYMOUS, wanted)) == (
        admin, account, anonymous,
    )  # fmt: skip


def test_a_refusal_has_the_servers_message() -> None:
    """Recorded from a v1.36 API server."""

    def words(method: str, path: str) -> str:
        return refusal(ACCOUNT, parse_attributes(method, path, {}))

    who = 'User "system:serviceaccount:team:robot" cannot'
    assert words("GET", "/foo") == f'forbidden: {who} get path "/foo"'
    assert words("GET", "/api/v1/pods") == (
        f'pods is forbidden: {who} list resource "pods" in API group "" at the cluster scope'
    )
    assert words("GET", "/api/v1/namespaces/default/pods/x/log") == (
        f'pods "x" is forbidden: {who} get resource "pods/log" in API group ""'
        ' in the namespace "default"'
    )
