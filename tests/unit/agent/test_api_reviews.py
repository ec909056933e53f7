"""Reviews for the kubelet server by an API server: podtui's own, or one that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kubelet_server_world import ask, kubelet_server_world
from served import serving
from virtual_time import VirtualClock

from podtui.agent.api_reviews import ApiReviewer
from podtui.api.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from podtui.api.v1 import ObjectMeta, ServiceAccount
from podtui.client.any_kind import AnyObject, ServedKind
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import AgentUnavailable, ApiError, PodtuiError
from podtui.pki.certificates import make_key
from podtui.pki.tokens import TokenIssuer
from podtui.server.auth.attributes import kubelet_attributes
from podtui.server.auth.reviews import ReviewRoutes
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.server.auth.users import User
from podtui.store import Store, open_store

METRICS = kubelet_attributes("GET", "/metrics", "node")[0]


@dataclass
class Home:
    """podtui's API with the service account ``default/scraper``, which may read the metrics of
    nodes."""

    store: Store
    reviewer: ApiReviewer
    token: str


@asynccontextmanager
async def home(folder: Path) -> AsyncIterator[Home]:
    clock = SystemClock()
    store = open_store(None, clock=clock)
    tokens = TokenRegistry(store, TokenIssuer(make_key()), clock)
    path = folder / "s.sock"
    client = UnixClient(path, clock=clock)
    async with serving(path, store, extra_routes=ReviewRoutes(tokens, clock).routes()):
        meta = ObjectMeta(name="scraper", namespace="default")
        await store.create("serviceaccounts", ServiceAccount(metadata=meta))
        rules = (PolicyRule(verbs=("get",), apiGroups=("",), resources=("nodes/metrics",)),)
        role = ClusterRole(metadata=ObjectMeta(name="scraping"), rules=rules)
        await store.create("clusterroles", role)
        binding = ClusterRoleBinding(
            metadata=ObjectMeta(name="scraping"),
            roleRef=RoleRef(
                apiGroup="rbac.authorization.k8s.io", kind="ClusterRole", name="scraping"
            ),
            subjects=(Subject(kind="ServiceAccount", name="scraper", namespace="default"),),
        )
        await store.create("clusterrolebindings", binding)
        token, _, _ = await tokens.issue("default", "scraper")
        try:
            yield Home(store, ApiReviewer(client, clock), token)
        finally:
            await client.close()
    await store.close()


async def test_podtuis_own_api_reviews_a_service_account(tmp_path: Path) -> None:
    async with home(tmp_path) as world:
        assert await world.reviewer.token("other") is None
        user = await world.reviewer.token(world.token)
        assert user is not None
        assert (user.name, user.groups[-1]) == (
            "system:serviceaccount:default:scraper",
            "system:authenticated",
        )
        assert user.uid
        assert await world.reviewer.allows(user, METRICS)
        for path in ("/stats/summary", "/pods", "/exec/a/b/c"):
            for wanted in kubelet_attributes("GET", path, "node"):
                assert not await world.reviewer.allows(user, wanted), path


async def test_a_kubelet_server_beside_podtuis_own_api(tmp_path: Path) -> None:
    async with (
        home(tmp_path) as world,
        kubelet_server_world(tmp_path, world.reviewer) as server,
        server.client(world.token) as client,
    ):
        assert await ask(client, "/metrics") == (200, "metrics")
        name = "system:serviceaccount:default:scraper"
        assert await ask(client, "/pods") == (
            403,
            f"Forbidden (user={name}, verb=get, resource=nodes, subresource(s)=[pods proxy])\n",
        )
        async with server.client("other") as stranger:
            assert await ask(stranger, "/metrics") == (401, "Unauthorized")


class Client(UnixClient):
    """Gives prepared answers, and records the requests."""

    def __init__(self, *answers: object) -> None:
        super().__init__("/nowhere")
        self.answers = list(answers)
        self.requests: list[tuple[str, object]] = []

    async def create_object(
        self, kind: ServedKind, namespace: str, content: Mapping[str, Any], *, dry_run: bool = False
    ) -> AnyObject:
        sent = msgspec.json.decode(msgspec.json.encode(content))
        self.requests.append((kind.collection(namespace), sent))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return AnyObject(ObjectMeta(), answer)


def busy(code: int) -> ApiError:
    return ApiError(code, "", "please wait")


async def test_the_reviews_have_what_a_kubelet_sends() -> None:
    info = {"username": "anne", "uid": "u", "groups": ["g"], "extra": {"k": ["v"]}}
    client = Client(
        {"status": {"authenticated": True, "user": info}}, {"status": {"allowed": True}}
    )
    reviewer = ApiReviewer(client, SystemClock())
    user = await reviewer.token("secret")
    assert user == User("anne", ("g",), "u", {"k": ("v",)})
    assert await reviewer.allows(user, METRICS)
    assert client.requests == [
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": "secret"},
            },
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SubjectAccessReview",
                "spec": {
                    "user": "anne",
                    "uid": "u",
                    "groups": ["g"],
                    "extra": {"k": ["v"]},
                    "resourceAttributes": {
                        "verb": "get",
                        "version": "v1",
                        "resource": "nodes",
                        "subresource": "metrics",
                        "name": "node",
                    },
                },
            },
        ),
    ]


async def test_refusing_answers() -> None:
    answers = [{"status": {"allowed": True, "denied": True}}, {"status": {"denied": True}}, {}]
    reviewer = ApiReviewer(Client(*answers), SystemClock())
    for _ in answers:
        assert not await reviewer.allows(User("anne"), METRICS)


async def test_users_without_a_name_are_not_authenticated() -> None:
    answers = [{"status": {"authenticated": True}}, {"status": {"user": {"username": "a"}}}, {}]
    reviewer = ApiReviewer(Client(*answers), SystemClock())
    for _ in answers:
        assert await reviewer.token("x") is None


@pytest.mark.virtual_time
async def test_passing_failures_are_tried_again(virtual_clock: VirtualClock) -> None:
    allowed = {"status": {"allowed": True}}
    client = Client(busy(429), busy(500), busy(504), allowed)
    assert await ApiReviewer(client, virtual_clock).allows(User("anne"), METRICS)
    assert virtual_clock.monotonic() == pytest.approx(0.5 + 0.75 + 1.125)
    for errors in ([busy(403)], [AgentUnavailable("refused")], [busy(500)] * 5):
        client = Client(*errors)
        with pytest.raises(PodtuiError):
            await ApiReviewer(client, virtual_clock).allows(User("anne"), METRICS)
        assert not client.answers
    with pytest.raises(PodtuiError, match="the answer is not a SubjectAccessReview"):
        await ApiReviewer(Client({"status": 1}), virtual_clock).allows(User("anne"), METRICS)
