"""The API followed into a model, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tui_scene import FakeClient, manifest, node, pod, status, usage

from podtui.api.local import Manifest, NodeMetrics, PodMetrics
from podtui.api.v1 import Event, Node, Pod
from podtui.client.any_kind import ServedKind
from podtui.client.protocol import CLUSTER, LOCAL, Delta, Lost, Server, Synced
from podtui.errors import ApiError, PodtuiError
from podtui.tui.model.follower import ApiFollower
from podtui.tui.model.model import LinkState, Model

pytestmark = pytest.mark.virtual_time

NOW = 1_000.0


class Source(FakeClient):
    """Fails as often as told, and records what is followed and measured."""

    namespace = "shop"

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.followed: list[type] = []
        self.measured: list[str] = []

    async def follow(self, kind: Any, namespace: str = "") -> AsyncIterator[Delta]:
        self.followed.append(kind)
        if kind is Pod and self.failures:
            self.failures -= 1
            raise PodtuiError("no route")
        async for delta in super().follow(kind, namespace):
            yield delta

    async def pod_metrics(self) -> tuple[PodMetrics, ...]:
        self.measured.append("pods")
        if self.failures:
            raise PodtuiError("no route")
        return await super().pod_metrics()

    async def node_metrics(self) -> NodeMetrics | None:
        self.measured.append("node")
        return await super().node_metrics()

    async def nodes_metrics(self) -> tuple[NodeMetrics, ...]:
        self.measured.append("nodes")
        return ()


@asynccontextmanager
async def following(
    client: Any, model: Model, on_change: Callable[[], None] = lambda: None
) -> AsyncIterator[None]:
    follower = ApiFollower(client, model, lambda: NOW, on_change)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(follower.run())
        yield
        task.cancel()


async def test_deltas_and_usage_reach_the_model_and_are_reported() -> None:
    client, model, changes = Source(), Model(), list[LinkState]()
    client.usages = (usage("web", "1m", "1Mi"),)
    client.fill((pod("web", status()),), (), (), (node(),))
    async with following(client, model, lambda: changes.append(model.link)):
        await asyncio.sleep(1)
        assert set(client.followed) == {Node, Pod, Event, Manifest}
        assert set(model.pods) == {"uid-web"}
        assert model.usage
        assert model.contact_at == NOW
        assert changes.count(LinkState.CONNECTED) == 5, "four lists and the usage"


async def test_pods_are_shown_once_their_files_are_known() -> None:
    client, model, web = Source(), Model(), pod("web", status())
    name = web.metadata.name
    client.send(Pod, Synced((web,)))
    async with following(client, model):
        await asyncio.sleep(60)
        assert model.pods == {}
        client.send(Manifest, Synced((manifest("web.yaml", pod_name=name),)))
        await asyncio.sleep(1)
        assert model.manifest_of(model.pods["uid-web"]) == manifest("web.yaml", pod_name=name)


async def test_pods_are_shown_if_the_files_may_not_be_listed() -> None:
    client, model = Source(), Model()
    client.send(Pod, Synced((pod("web", status()),)))
    client.send(Manifest, Lost("forbidden", refused=True))
    async with following(client, model):
        await asyncio.sleep(1)
        assert set(model.pods) == {"uid-web"}


@pytest.mark.parametrize(("code", "attempts"), [(429, 2), (503, 2), (403, 1), (404, 1)])
async def test_the_kinds_are_read_again_if_the_server_is_busy(code: int, attempts: int) -> None:
    class Busy(Source):
        reads = 0

        async def kinds(self) -> tuple[ServedKind, ...]:
            self.reads += 1
            if self.reads == 1:
                raise ApiError(code, "Busy", "try again")
            return await super().kinds()

    client, model = Busy(), Model()
    client.fill((), (), (), (node(),))
    async with following(client, model):
        await asyncio.sleep(5)
    assert client.reads == attempts


async def test_a_failed_watch_is_reported_as_lost_and_repeated() -> None:
    client, model, changes = Source(), Model(), list[str]()
    client.failures = 2
    async with following(client, model, lambda: changes.append(model.lost_reason)):
        await asyncio.sleep(0.5)
        assert changes == ["no route"]
        assert model.contact_at is None, "a failure is no contact"
        client.send(Manifest, Synced(()))
        client.send(Pod, Synced((pod("web", status()),)))
        await asyncio.sleep(5)
        assert client.followed.count(Pod) == 3
        assert set(model.pods) == {"uid-web"}


async def test_usage_is_read_only_while_connected_and_a_failure_keeps_the_last_one() -> None:
    client, model = Source(), Model()
    client.usages = (usage("web", "1m", "1Mi"),)
    async with following(client, model):
        await asyncio.sleep(60)
        assert client.measured == []
        client.send(Node, Synced((node(),)))
        await asyncio.sleep(60)
        measured, kept = len(client.measured), dict(model.usage)
        assert measured
        assert kept
        client.failures = 1_000
        client.usages = ()
        await asyncio.sleep(60)
        assert len(client.measured) > measured, "it is tried again"
        assert model.usage == kept
        client.send(Node, Lost("gone"))
        await asyncio.sleep(60)
        measured = len(client.measured)
        await asyncio.sleep(60)
        assert len(client.measured) == measured


@pytest.mark.parametrize(
    ("server", "namespace", "measured"),
    [(LOCAL, None, {"pods", "node"}), (Server(capabilities=CLUSTER, host="h", context="c"),
                                       "shop", {"pods", "nodes"})],
    ids=["agent", "cluster"],
)  # fmt: skip
async def test_only_what_the_server_has_is_followed_and_measured(
    server: Server, namespace: str | None, measured: set[str]
) -> None:
    client, model = Source(), Model(server)
    client.send(Node, Synced((node(),)))
    async with following(client, model):
        await asyncio.sleep(1)
    assert (Manifest in client.followed) is server.capabilities.manifests
    assert model.namespace == namespace
    assert set(client.measured) == measured
