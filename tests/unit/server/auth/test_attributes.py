from __future__ import annotations

import pytest

from podtui.server.auth.attributes import (
    Attributes,
    authorized_as,
    kubelet_attributes,
    parse_attributes,
)


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
        ("GET /api/v1/namespaces/a/secrets?fieldSelector=metadata.name=s",
         "list secrets name=s ns=a"),
        ("GET /api/v1/secrets?fieldSelector=type==Opaque, metadata.name==s", "list secrets name=s"),
        ("GET /api/v1/secrets?fieldSelector=metadata.name!=s", "list secrets"),
        ("GET /api/v1/secrets?fieldSelector=metadata.name=a/b", "list secrets"),
        ("GET /api/v1/secrets?fieldSelector=xmetadata.name=s", "list secrets"),
    ],
)  # fmt: skip
def test_attributes(request_line: str, found: str) -> None:
    method, _, url = request_line.partition(" ")
    path, _, query = url.partition("?")
    one = parse_attributes(method, path, dict([query.split("=", 1)]) if query else {})
    if not one.resource:
        assert f"{one.verb} {one.path}" == found
        return
    text = f"{one.verb} {one.resource}" + (f"/{one.subresource}" if one.subresource else "")
    text += f" name={one.name}" if one.name else ""
    text += f" ns={one.namespace}" if one.namespace else ""
    assert text == found


@pytest.mark.parametrize(
    ("request_line", "needed"),
    [
        ("GET /exec/a/b/c", ["get nodes/proxy"]),
        ("POST /exec/a/b/c", ["create nodes/proxy"]),
        ("GET /containerLogs/a/b/c", ["get nodes/proxy"]),
        ("GET /pods", ["get nodes/pods", "get nodes/proxy"]),
        ("GET /runningpods/", ["get nodes/pods", "get nodes/proxy"]),
        ("GET /stats/summary", ["get nodes/stats", "get nodes/proxy"]),
        ("GET /metrics/cadvisor", ["get nodes/metrics", "get nodes/proxy"]),
        ("GET /configz", ["get nodes/configz", "get nodes/proxy"]),
        ("GET /metrics", ["get /metrics"]),
        ("GET /metrics/slis", ["get /metrics/slis"]),
        ("GET /healthz/ping", ["get /healthz/ping"]),
        ("GET /executions", ["get /executions"]),
        ("GET /api/v1/pods", ["list pods"]),
    ],
)
def test_paths_of_the_kubelet_need_a_subresource_of_the_node(
    request_line: str, needed: list[str]
) -> None:
    method, _, path = request_line.partition(" ")
    found = dict.fromkeys(map(_shown, authorized_as(parse_attributes(method, path, {}))))
    assert list(found) == needed


def _shown(wanted: Attributes) -> str:
    if not wanted.resource:
        return f"{wanted.verb} {wanted.path}"
    subresource = f"/{wanted.subresource}" if wanted.subresource else ""
    return f"{wanted.verb} {wanted.resource}{subresource}"


@pytest.mark.parametrize(
    ("request_line", "needed"),
    [
        ("GET /healthz", "get healthz proxy"),
        ("GET /healthz/ping", "get healthz proxy"),
        ("GET /pods", "get pods proxy"),
        ("GET /pods/x", "get pods proxy"),
        ("GET /runningpods/", "get pods proxy"),
        ("GET /configz", "get configz proxy"),
        ("GET /flagz", "get configz"),
        ("GET /statusz", "get statusz"),
        ("GET /stats/summary", "get stats"),
        ("GET /metrics", "get metrics"),
        ("GET /metrics/slis", "get metrics"),
        ("GET /logs/syslog", "get log"),
        ("POST /checkpoint/a/b/c", "create checkpoint"),
        ("GET /exec/a/b/c", "get proxy"),
        ("POST /run/a/b/c", "create proxy"),
        ("PUT /debug/flags/v", "update proxy"),
        ("PATCH /x", "patch proxy"),
        ("DELETE /x", "delete proxy"),
        ("HEAD /pods", " pods proxy"),
        ("GET /podsx", "get proxy"),
        ("GET //pods", "get proxy"),
        ("OPTIONS *", " proxy"),
    ],
)
def test_what_a_kubelet_asks_the_api_server(request_line: str, needed: str) -> None:
    method, _, path = request_line.partition(" ")
    verb, *subresources = needed.split(" ")
    assert kubelet_attributes(method, path, "n1") == tuple(
        Attributes(verb=verb, version="v1", resource="nodes", subresource=subresource, name="n1")
        for subresource in subresources
    )
