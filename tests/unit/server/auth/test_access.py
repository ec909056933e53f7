"""What roles allow over the API: requests of service accounts, with their tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from served import pod
from tls_world import TlsWorld, tls_world

from podtui.api.v1 import ObjectMeta, ServiceAccount
from podtui.clock import SystemClock
from podtui.pki.certificates import make_key, server_names
from podtui.pki.pki import Pki
from podtui.pki.tokens import TokenIssuer
from podtui.server.auth.access import Access
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.store import open_store

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
SUBJECT = {"kind": "ServiceAccount", "name": "robot", "namespace": "default"}


class Robot:
    """A service account without rights, and the admin who gives it some."""

    def __init__(self, admin: aiohttp.ClientSession, robot: aiohttp.ClientSession) -> None:
        self._admin = admin
        self._robot = robot

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, str]:
        async with self._robot.request(method, path, **options) as response:
            found = await response.read()
            if response.content_type != "application/json":
                return response.status, found.decode()
            return response.status, (await response.json()).get("message", "")

    async def code(self, method: str, path: str, **options: Any) -> int:
        return (await self.ask(method, path, **options))[0]

    async def allow(self, name: str, *rules: dict[str, Any], namespace: str = "") -> None:
        """Give rules in a namespace, or in all."""
        scope = f"{RBAC}/namespaces/{namespace}/" if namespace else f"{RBAC}/cluster"
        kind = "Role" if namespace else "ClusterRole"
        role = {"metadata": {"name": name}, "rules": rules}
        await self.create(f"{scope}roles", role)
        binding = {
            "metadata": {"name": name},
            "roleRef": {"kind": kind, "name": name},
            "subjects": [SUBJECT],
        }
        await self.create(f"{scope}rolebindings", binding)

    async def create(self, path: str, body: dict[str, Any]) -> None:
        async with self._admin.post(path, json=body) as response:
            assert response.status == 201, await response.text()

    async def delete(self, path: str) -> None:
        async with self._admin.delete(path) as response:
            assert response.status == 200, await response.text()


def rule(verbs: str, resources: str, group: str = "") -> dict[str, Any]:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": resources.split()}


def urls(verbs: str, *paths: str) -> dict[str, Any]:
    return {"verbs": verbs.split(), "nonResourceURLs": paths}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[tuple[TlsWorld, str]]:
    clock = SystemClock()
    store = open_store(None, clock=clock)
    tokens = TokenRegistry(store, TokenIssuer(make_key()), clock)
    pki = Pki(tmp_path / "pki", clock.now())
    access = Access(pki.token, names=server_names(()), verify=tokens.verify)
    async with tls_world(tmp_path, store=store, access=access) as it:
        account = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default"))
        await store.create("serviceaccounts", account)
        token, _, _ = await tokens.issue("default", "robot")
        await store.put("pods", pod("web"))
        yield it, token
    await store.close()


@pytest.fixture
async def robot(world: tuple[TlsWorld, str]) -> AsyncIterator[Robot]:
    served, token = world
    async with served.client() as admin, served.client(token) as client:
        yield Robot(admin, client)


async def test_rights_begin_and_end_with_a_binding(robot: Robot) -> None:
    assert await robot.code("GET", PODS) == 403
    await robot.allow("reader", rule("get list", "pods"), namespace="default")
    assert await robot.code("GET", PODS) == 200
    assert await robot.code("GET", f"{PODS}/web") == 200
    assert await robot.code("GET", "/api/v1/pods") == 403
    assert await robot.code("GET", "/api/v1/namespaces/kube-system/pods") == 403
    assert await robot.code("DELETE", f"{PODS}/web") == 403
    await robot.delete(f"{RBAC}/namespaces/default/rolebindings/reader")
    assert await robot.code("GET", PODS) == 403


async def test_a_rule_for_one_object(robot: Robot) -> None:
    named = {**rule("get list watch delete", "pods"), "resourceNames": ["web"]}
    await robot.allow("named", named, namespace="default")
    assert await robot.code("GET", f"{PODS}/web") == 200
    assert await robot.code("GET", f"{PODS}/db") == 403
    assert await robot.code("GET", PODS) == 403
    assert await robot.code("GET", PODS, params={"fieldSelector": "metadata.name=web"}) == 200
    assert await robot.code("GET", PODS, params={"fieldSelector": "metadata.name=db"}) == 403
    assert await robot.code("DELETE", PODS, params={"fieldSelector": "metadata.name=web"}) == 403


async def test_an_update_that_creates_needs_the_verb_create(robot: Robot) -> None:
    await robot.allow("writer", rule("update patch", "leases", "coordination.k8s.io"))
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/new"
    body = {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "new"},
    }  # fmt: skip
    refusal = (
        'leases.coordination.k8s.io "new" is forbidden: User "system:serviceaccount:default:robot"'
        ' cannot create resource "leases" in API group "coordination.k8s.io" in the namespace'
        ' "default"'
    )
    apply = {"Content-Type": "application/apply-patch+yaml"}
    patch = {"json": body, "headers": apply, "params": {"fieldManager": "m"}}
    assert await robot.ask("PUT", path, json=body) == (403, refusal)
    assert await robot.ask("PATCH", path, **patch) == (403, refusal)
    await robot.allow("creator", rule("create", "leases", "coordination.k8s.io"))
    assert await robot.code("PUT", path, json=body) == 201
    assert await robot.code("PATCH", path, **patch) == 200


async def test_a_session_needs_the_verb_create(robot: Robot) -> None:
    """A WebSocket is a GET request."""
    await robot.allow("reader", rule("get", "pods/exec pods/log pods/portforward pods/attach"))
    for subresource in ("exec", "attach", "portforward"):
        found = await robot.ask("GET", f"{PODS}/web/{subresource}?command=ls")
        assert found == (403, 'pods "web" is forbidden: ')
    assert await robot.code("GET", f"{PODS}/web/log") == 200
    await robot.allow("runner", rule("create", "pods/exec"))
    assert await robot.code("GET", f"{PODS}/none/exec?command=ls") == 404
    assert await robot.code("GET", f"{PODS}/none/attach") == 403
    assert await robot.code("GET", f"{PODS}/web/attach") == 403


async def test_a_rule_for_all_urls_is_not_one_for_the_kubelet(robot: Robot) -> None:
    await robot.allow("urls", urls("*", "*"))
    assert await robot.code("GET", "/nowhere") == 404
    assert await robot.code("GET", "/healthz/ping") == 200
    for path in ("/exec/default/web/c", "/containerLogs/default/web/c", "/pods", "/configz"):
        code, message = await robot.ask("GET", path)
        assert code == 403
        assert message.startswith("nodes is forbidden: ")
    await robot.allow("logs", rule("get", "nodes/proxy"))
    assert await robot.code("GET", "/containerLogs/default/web/c") == 200
    assert await robot.code("POST", "/exec/default/web/c") == 403


async def test_a_cluster_admin_may_do_everything(robot: Robot) -> None:
    ref = {"kind": "ClusterRole", "name": "cluster-admin"}
    body = {"metadata": {"name": "all"}, "roleRef": ref, "subjects": [SUBJECT]}
    await robot.create(f"{RBAC}/clusterrolebindings", body)
    assert await robot.code("GET", "/api/v1/secrets") == 200
    assert await robot.code("GET", "/containerLogs/default/web/c") == 200
    assert await robot.code("DELETE", f"{RBAC}/clusterroles/view") == 200


async def test_the_default_roles_can_be_bound_in_a_namespace(robot: Robot) -> None:
    ref = {"kind": "ClusterRole", "name": "view"}
    body = {"metadata": {"name": "view"}, "roleRef": ref, "subjects": [SUBJECT]}
    await robot.create(f"{RBAC}/namespaces/default/rolebindings", body)
    assert await robot.code("GET", f"{PODS}/web/log") == 200
    assert await robot.code("GET", "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods") == 200
    assert await robot.code("GET", "/api/v1/namespaces/default") == 200
    assert await robot.code("GET", "/api/v1/namespaces/default/secrets") == 403
    assert await robot.code("DELETE", f"{PODS}/web") == 403


async def test_impersonation_needs_its_verb(robot: Robot) -> None:
    bob = {"Impersonate-User": "bob"}
    code, message = await robot.ask("GET", PODS, headers=bob)
    assert code == 403
    assert message.startswith(
        'pods is forbidden: User "system:serviceaccount:default:robot" cannot'
        ' impersonate-on:user-info:list resource "pods"'
    )
    await robot.allow("actor", {**rule("impersonate", "users"), "resourceNames": ["bob"]})
    code, message = await robot.ask("GET", PODS, headers=bob)
    assert (code, message.partition(" cannot")[0]) == (403, 'pods is forbidden: User "bob"')
    masters = {**bob, "Impersonate-Group": "system:masters"}
    assert await robot.code("GET", PODS, headers=masters) == 403
