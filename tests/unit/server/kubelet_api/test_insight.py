"""The agent's insight into one pod, over its socket and through the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from served import FakeKubelet

from podtui.api.insight import (
    InsightPart,
    InsightQuery,
    NetworkSeries,
    NodeInsight,
    PodInsight,
    PodStart,
    ProbeReport,
    ProbeRun,
    Timeline,
    UsageSeries,
)
from podtui.api.v1 import ObjectMeta
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import ApiError
from podtui.server import build_app, serve_unix
from podtui.server.kubelet_api.insight import InsightRoutes
from podtui.store import open_store

pytestmark = pytest.mark.virtual_time

INSIGHT = PodInsight(
    time=5.0,
    version="p1",
    starts=(PodStart(uid="u", began="2026-01-01T00:00:00Z"),),
    probes=(ProbeReport(container="app", probe="Readiness", nextIn=2.5),),
    usage=(UsageSeries(container="app", times=(1.0,), cpu=(12.5,), memory=(4096,), read=(None,)),),
    network=NetworkSeries(times=(1.0,), received=(8.0,), sent=(None,)),
    unmeasured={"disk": "not counted"},
)


NODE = NodeInsight(time=5.0, version="n1", times=(1.0,), cpu=(3.5,), memory=(7,), pods=(2,),
                   storage=(None,))  # fmt: skip


class FakeInsights:
    def __init__(self) -> None:
        self.queries: list[InsightQuery] = []
        self.begun = asyncio.Event()
        self.left = asyncio.Event()
        """Set when a waiting client disconnected."""

    async def insight(self, namespace: str, name: str, query: InsightQuery) -> PodInsight | None:
        self.queries.append(query)
        if name == "later":
            self.begun.set()
            try:
                await asyncio.sleep(query.wait)
            finally:
                self.left.set()
            return None
        if name != "web":
            raise LookupError(f'pods "{name}" not found')
        return INSIGHT if query.seen != INSIGHT.version else None

    async def node(self, query: InsightQuery) -> NodeInsight | None:
        return NODE if query.seen != NODE.version else None

    async def run_probe(self, namespace: str, name: str, container: str, probe: str) -> ProbeRun:
        if probe != "Readiness":
            raise LookupError(f'container "{container}" has no active {probe} probe')
        output = f"{namespace}/{name}/{container}"
        return ProbeRun(time="2026-01-01T00:00:00Z", verdict="failure", seconds=0.1, output=output)


@pytest.fixture
def insights() -> FakeInsights:
    return FakeInsights()


@pytest.fixture
async def client(tmp_path: Path, insights: FakeInsights) -> AsyncIterator[UnixClient]:
    store = open_store(None, clock=SystemClock())
    await store.put("timelines", Timeline(metadata=ObjectMeta(name="web", namespace="default")))
    routes = InsightRoutes(insights).routes()
    app = build_app(store, FakeKubelet(), version="0", extra_routes=routes)
    async with serve_unix(app, tmp_path / "s.sock"):
        it = UnixClient(tmp_path / "s.sock")
        yield it
        await it.close()
    await store.close()


async def test_probes_and_usage_are_returned_unchanged(client: UnixClient) -> None:
    assert await client.insight("default", "web") == INSIGHT


async def test_a_known_version_is_not_sent_again(client: UnixClient) -> None:
    assert await client.insight("default", "web", InsightQuery(seen="p1")) is None
    assert await client.insight("default", "web", InsightQuery(seen="p0")) == INSIGHT
    assert await client.node_insight() == NODE
    assert await client.node_insight(InsightQuery(seen="n1")) is None


async def test_query_parameters_are_passed_on(client: UnixClient, insights: FakeInsights) -> None:
    query = InsightQuery(part=InsightPart.USAGE, span=900.0, seen="a b&c", wait=0.25)
    await client.insight("default", "web", query)
    assert insights.queries == [query]


async def test_a_disconnected_client_ends_the_wait(
    client: UnixClient, insights: FakeInsights
) -> None:
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        asking = group.create_task(client.insight("default", "later", InsightQuery(wait=60)))
        await insights.begun.wait()
        asking.cancel()
        await insights.left.wait()
    assert insights.left.is_set()


async def test_a_closing_server_ends_waiting_requests(tmp_path: Path) -> None:
    insights, store = FakeInsights(), open_store(None, clock=SystemClock())
    app = build_app(
        store, FakeKubelet(), version="0", extra_routes=InsightRoutes(insights).routes()
    )
    client = UnixClient(tmp_path / "s.sock")
    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        async with serve_unix(app, tmp_path / "s.sock"):
            asking = group.create_task(client.insight("default", "later", InsightQuery(wait=60)))
            await insights.begun.wait()
        assert await asking is None, "answered, not cut off"
    await client.close()
    await store.close()


@pytest.mark.parametrize("query", ["span=week", "wait=-1", "span=0", "part=rest", "wait=inf"])
async def test_invalid_query_parameters_are_refused(client: UnixClient, query: str) -> None:
    path = f"/apis/podtui.dev/v1alpha1/namespaces/default/pods/web/insight?{query}"
    with pytest.raises(ApiError, match="invalid insight query") as refused:
        await client.ask(path)
    assert refused.value.code == 400


async def test_a_probe_is_run_by_its_container_and_kind(client: UnixClient) -> None:
    run = await client.run_probe("default", "web", "a b&c", "Readiness")
    assert (run.verdict, run.output) == ("failure", "default/web/a b&c")


async def test_missing_objects_are_reported(client: UnixClient) -> None:
    with pytest.raises(ApiError, match='pods "missing" not found') as refused:
        await client.insight("default", "missing")
    assert refused.value.code == 404
    with pytest.raises(ApiError, match="has no active Liveness probe") as refused:
        await client.run_probe("default", "web", "app", "Liveness")
    assert refused.value.code == 404


async def test_a_probe_must_be_named(client: UnixClient) -> None:
    with pytest.raises(ApiError) as refused:
        await client.run_probe("default", "web", "", "Readiness")
    assert refused.value.code == 400


async def test_timelines_are_encoded_as_objects(client: UnixClient) -> None:
    assert (await client.get(Timeline, "default", "web")).metadata.name == "web"
    with pytest.raises(ApiError) as refused:
        await client.get(Timeline, "default", "missing")
    assert refused.value.code == 404
