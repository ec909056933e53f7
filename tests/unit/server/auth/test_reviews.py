"""Reviews of access and tokens; the answers are recorded from a v1.36 API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs
from served import node, pod
from tls_world import TlsWorld, tls_world

from podtui.api.v1 import ObjectMeta, ServiceAccount
from podtui.clock import SystemClock
from podtui.pki.certificates import make_key, server_names
from podtui.pki.pki import Pki
from podtui.pki.tokens import ISSUER, TokenIssuer
from podtui.server.auth.access import Access
from podtui.server.auth.reviews import ReviewRoutes
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.store import open_store

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
AUTHENTICATION = "/apis/authentication.k8s.io/v1"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/robot/token"
ROBOT = ServiceAccount(metadata=ObjectMeta(name="robot", namespace="default"))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[TlsWorld]:
    clock = SystemClock()
    store = open_store(None, clock=clock)
    tokens = TokenRegistry(store, TokenIssuer(make_key()), clock)
    pki = Pki(tmp_path / "pki", clock.now())
    async with tls_world(
        tmp_path,
        store=store,
        access=Access(pki.token, names=server_names(()), verify=tokens.verify),
        extra_routes=ReviewRoutes(tokens, clock, server="https://here:1").routes(),
    ) as it:
        await store.create("serviceaccounts", ROBOT)
        yield it
    await store.close()


@pytest.fixture
async def admin(world: TlsWorld) -> AsyncIterator[aiohttp.ClientSession]:
    async with world.client() as client:
        yield client


@pytest.mark.parametrize(
    "path",
    [
        f"{AUTHORIZATION}/selfsubjectaccessreviews",
        f"{AUTHENTICATION}/selfsubjectreviews",
        TOKEN,
        "/api/v1/namespaces/default/pods/web/binding",
        "/api/v1/namespaces/default/pods/web/eviction",
    ],
)
async def test_requests_have_no_tables(path: str, admin: aiohttp.ClientSession) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with admin.post(path, json={}, headers=accept) as response:
        status = await response.json()
    assert (response.status, status["reason"]) == (406, "NotAcceptable")


async def post(client: aiohttp.ClientSession, path: str, spec: Any = None, **more: Any) -> Any:
    body = {**more} if spec is None else {"spec": spec, **more}
    async with client.post(path, json=body) as response:
        found = await response.json()
        assert response.status == found.get("code", 201)
        return found


async def status(client: aiohttp.ClientSession, path: str, spec: Any = None) -> Any:
    return (await post(client, path, spec))["status"]


async def robot(admin: aiohttp.ClientSession, **spec: Any) -> str:
    return (await post(admin, TOKEN, spec))["status"]["token"]


PODS = {"resourceAttributes": {"verb": "list", "resource": "pods"}}
SELF = {
    "resourceAttributes": {
        "verb": "create",
        "group": "authorization.k8s.io",
        "resource": "selfsubjectaccessreviews",
    }
}
PATH = {"nonResourceAttributes": {"verb": "get", "path": "/api"}}
METRICS = {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}


async def test_can_i(world: TlsWorld, admin: aiohttp.ClientSession) -> None:
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    for spec in (PODS, SELF, PATH, METRICS, {"resourceAttributes": {}}):
        assert await status(admin, path, spec) == {"allowed": True}
    async with world.client(await robot(admin)) as client:
        found = [
            (await status(client, path, spec))["allowed"] for spec in (PODS, SELF, PATH, METRICS)
        ]
        assert found == [False, True, True, False]
        assert await status(client, path, {"resourceAttributes": {}}) == {"allowed": False}
    answer = await post(admin, path, PODS)
    assert answer == {
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {}, "spec": PODS, "status": {"allowed": True},
    }  # fmt: skip


async def test_unknown_fields_are_not_repeated(admin: aiohttp.ClientSession) -> None:
    path = f"{AUTHORIZATION}/selfsubjectaccessreviews"
    answer = await post(admin, path, {"unknown": 1, **PODS, "uid": 2})
    assert answer["spec"] == PODS


async def test_can_they(admin: aiohttp.ClientSession) -> None:
    path = f"{AUTHORIZATION}/subjectaccessreviews"
    assert await status(admin, path, {"user": "bob", **PODS}) == {"allowed": False}
    masters = {"user": "bob", "groups": ["system:masters"]}
    assert await status(admin, path, {**masters, **PODS}) == {"allowed": True}
    local = f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews"
    there = {"resourceAttributes": {**PODS["resourceAttributes"], "namespace": "default"}}
    assert await status(admin, local, {"user": "bob", **there}) == {"allowed": False}


@pytest.mark.parametrize(
    ("path", "spec", "message"),
    [
        (
            "selfsubjectaccessreviews", {},
            ('.authorization.k8s.io "" is invalid: spec.resourceAttributes: Invalid value: null:'
            " exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        ),
        (
            "selfsubjectaccessreviews",
            {**PODS, "nonResourceAttributes": {"path": "/", "verb": "get"}},
            ('.authorization.k8s.io "" is invalid: spec.nonResourceAttributes: Invalid value:'
            ' {"Path":"/","Verb":"get"}: cannot be specified in combination with'
            " resourceAttributes"),
        ),
        (
            "subjectaccessreviews", PODS,
            ('.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of'
            " user or group must be specified"),
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "b", "resourceAttributes": {"namespace": "x"}},
            ('.authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid'
            ' value: "x": must match metadata.namespace'),
        ),
        ("selfsubjectrulesreviews", {}, "no namespace on request"),
    ],
)  # fmt: skip
async def test_refused_questions(
    admin: aiohttp.ClientSession, path: str, spec: Any, message: str
) -> None:
    found = await post(admin, f"{AUTHORIZATION}/{path}", spec)
    assert (found["status"], found["message"]) == ("Failure", message)


async def test_list_of_rules(world: TlsWorld, admin: aiohttp.ClientSession) -> None:
    path = f"{AUTHORIZATION}/selfsubjectrulesreviews"
    found = await status(admin, path, {"namespace": "default"})
    assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in found["resourceRules"]
    assert {"verbs": ["*"], "nonResourceURLs": ["*"]} in found["nonResourceRules"]
    assert found["incomplete"] is False
    async with world.client(await robot(admin)) as client:
        found = await status(client, path, {"namespace": "default"})
    assert [rule["resources"] for rule in found["resourceRules"]] == [
        ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["selfsubjectreviews"],
    ]  # fmt: skip
    assert {verb for rule in found["nonResourceRules"] for verb in rule["verbs"]} == {"get"}


async def test_who_am_i(world: TlsWorld, admin: aiohttp.ClientSession) -> None:
    path = f"{AUTHENTICATION}/selfsubjectreviews"
    assert (await status(admin, path))["userInfo"] == {
        "username": "podtui:admin", "groups": ["system:masters", "system:authenticated"],
    }  # fmt: skip
    await world.served.store.put("nodes", node())
    web = await world.served.store.put(
        "pods",
        structs.replace(
            pod("web"), spec=structs.replace(pod("web").spec, serviceAccountName="robot")
        ),
    )
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web"}
    async with world.client(await robot(admin, boundObjectRef=bound)) as client:
        info = (await status(client, path))["userInfo"]
    host = await world.served.store.get("nodes", "", "node")
    account = await world.served.store.get("serviceaccounts", "default", "robot")
    assert host is not None
    assert account is not None
    (credential,) = info["extra"].pop("authentication.kubernetes.io/credential-id")
    assert credential.startswith("JTI=")
    assert info == {
        "username": "system:serviceaccount:default:robot",
        "uid": account.metadata.uid,
        "groups": [
            "system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated",
        ],
        "extra": {
            "authentication.kubernetes.io/pod-name": ["web"],
            "authentication.kubernetes.io/pod-uid": [web.metadata.uid],
            "authentication.kubernetes.io/node-name": ["node"],
            "authentication.kubernetes.io/node-uid": [host.metadata.uid],
        },
    }  # fmt: skip


async def test_a_service_account_may_not_read_pods(
    world: TlsWorld, admin: aiohttp.ClientSession
) -> None:
    async with world.client(await robot(admin)) as client:
        async with client.get("/api") as response:
            assert response.status == 200
        async with client.get("/api/v1/namespaces/default/pods") as response:
            found = await response.json()
    assert (response.status, found["reason"], found["details"]) == (
        403, "Forbidden", {"kind": "pods"},
    )  # fmt: skip
    assert found["message"] == (
        'pods is forbidden: User "system:serviceaccount:default:robot" cannot list resource "pods"'
        ' in API group "" in the namespace "default"'
    )


async def test_a_token_ends_with_its_account_and_with_its_pod(
    world: TlsWorld, admin: aiohttp.ClientSession
) -> None:
    store = world.served.store
    named = structs.replace(pod("web").spec, serviceAccountName="robot")
    await store.put("pods", structs.replace(pod("web"), spec=named))
    free = await robot(admin)
    bound = await robot(admin, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "web"})

    async def code(token: str) -> int:
        async with world.client(token) as client, client.get("/api") as response:
            return response.status

    assert [await code(free), await code(bound)] == [200, 200]
    await store.delete("pods", "default", "web")
    assert [await code(free), await code(bound)] == [200, 401]
    await store.delete("serviceaccounts", "default", "robot")
    assert await code(free) == 401
    await store.create("serviceaccounts", ROBOT)
    assert await code(free) == 401, "it has another uid"


async def test_token_review(admin: aiohttp.ClientSession) -> None:
    path = f"{AUTHENTICATION}/tokenreviews"
    token = await robot(admin)
    found = await status(admin, path, {"token": token})
    assert (found["authenticated"], found["audiences"]) == (True, [ISSUER])
    assert found["user"]["username"] == "system:serviceaccount:default:robot"
    found = await status(admin, path, {"token": token, "audiences": ["x", ISSUER]})
    assert found["audiences"] == [ISSUER]
    found = await status(admin, path, {"token": token, "audiences": ["x"]})
    assert found == {
        "user": {},
        "error": f'[invalid bearer token, token audiences ["{ISSUER}"] is invalid for the target'
        ' audiences ["x"]]',
    }
    assert await status(admin, path, {"token": "foo"}) == {
        "user": {}, "error": "invalid bearer token",
    }  # fmt: skip
    found = await post(admin, path, {})
    assert found["message"] == "token is required for TokenReview in authentication"


async def test_token_request(admin: aiohttp.ClientSession) -> None:
    found = await post(admin, TOKEN, {"audiences": ["a"], "expirationSeconds": 700})
    assert found["spec"] == {"audiences": ["a"], "expirationSeconds": 700, "boundObjectRef": None}
    assert (found["kind"], found["metadata"]["name"]) == ("TokenRequest", "robot")
    assert found["status"].keys() == {"token", "expirationTimestamp"}
    assert (await post(admin, TOKEN))["spec"]["expirationSeconds"] == 3600
    assert (await post(admin, TOKEN, {"expirationSeconds": 1 << 32}))["kind"] == "TokenRequest"


@pytest.mark.parametrize(
    ("spec", "code", "message"),
    [
        ({"expirationSeconds": 599}, 422,
         ('TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value:'
         " 599: may not specify a duration less than 10 minutes")),
        ({"expirationSeconds": (1 << 32) + 1}, 422,
         ('TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value:'
         " 4294967297: may not specify a duration larger than 2^32 seconds")),
        ({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}, 404,
         'pods "x" not found'),
        ({"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "x"}}, 404,
         'nodes "x" not found'),
        ({"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "x"}}, 400,
         "cannot bind token to object of type apps/v1, Kind=Deployment"),
    ],
)  # fmt: skip
async def test_refused_token_requests(
    admin: aiohttp.ClientSession, spec: Any, code: int, message: str
) -> None:
    found = await post(admin, TOKEN, spec)
    assert (found["code"], found["message"]) == (code, message)


async def test_no_token_without_an_account_or_for_a_foreign_pod(
    world: TlsWorld, admin: aiohttp.ClientSession
) -> None:
    found = await post(admin, TOKEN.replace("robot", "missing"), {})
    assert found["message"] == 'serviceaccounts "missing" not found'
    web = await world.served.store.put("pods", pod("web"))
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web"}
    found = await post(admin, TOKEN, {"boundObjectRef": bound})
    assert found["code"] == 400
    assert "different serviceaccount name" in found["message"]
    found = await post(admin, TOKEN, {"boundObjectRef": {**bound, "uid": "other"}})
    assert found["code"] == 409
    assert web.metadata.uid not in found["message"]


async def test_invalid_bodies(admin: aiohttp.ClientSession) -> None:
    bodies = (
        b"", b"x", b"[]", b'"a"', b"[" * 5000, b'{"spec": []}', b'{"metadata": 1}',
        b'{"kind": "Pod", "apiVersion": "v1"}', b'{"spec": {"token": 1}}', b"k8s\x00\xff",
    )  # fmt: skip
    accepted = []
    for media in ("application/json", "application/vnd.kubernetes.protobuf"):
        for body in bodies:
            path, headers = f"{AUTHENTICATION}/tokenreviews", {"Content-Type": media}
            async with admin.post(path, data=body, headers=headers) as response:
                status = await response.json()
            if response.status != 400 or not status["message"]:
                accepted.append((media, body, status))
    assert accepted == []


async def test_yaml_and_no_other_media_type(admin: aiohttp.ClientSession) -> None:
    path, text = f"{AUTHENTICATION}/tokenreviews", "spec: {token: foo}"
    async with admin.post(path, data=text, headers={"Content-Type": "application/yaml"}) as found:
        assert found.status == 201
    async with admin.post(path, data=text, headers={"Content-Type": "text/plain"}) as found:
        assert found.status == 415


async def test_openid(world: TlsWorld, admin: aiohttp.ClientSession) -> None:
    async with world.client(await robot(admin)) as client:
        async with client.get("/.well-known/openid-configuration") as response:
            assert (await response.json())["jwks_uri"] == "https://here:1/openid/v1/jwks"
        async with client.get("/openid/v1/jwks") as response:
            assert response.content_type == "application/jwk-set+json"
            assert [key["kty"] for key in (await response.json())["keys"]] == ["EC"]


async def test_discovery(admin: aiohttp.ClientSession) -> None:
    async with admin.get(AUTHORIZATION) as response:
        rows = (await response.json())["resources"]
    assert {(row["name"], row["namespaced"], *row["verbs"]) for row in rows} == {
        ("localsubjectaccessreviews", True, "create"),
        ("selfsubjectaccessreviews", False, "create"),
        ("selfsubjectrulesreviews", False, "create"),
        ("subjectaccessreviews", False, "create"),
    }
