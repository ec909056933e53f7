"""What the agent tells of one pod, over its socket and through the client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from served import FakeKubelet

from podtui.api.insight import PodInsight, ProbeReport, ProbeRun, Timeline, UsageSeries
from podtui.api.v1 import ObjectMeta
from podtui.client import UnixClient
from podtui.clock import SystemClock
from podtui.errors import ApiError
from podtui.server import build_app, serve_unix
from podtui.server.insight import Insight
from podtui.store import open_store

TOLD = PodInsight(
    time=5.0,
    probes=(ProbeReport(container="app", probe="Readiness", nextIn=2.5),),
    usage=(UsageSeries(container="app", times=(1.0,), cpu=(12.5,), memory=(4096,)),),
)


class FakeInsights:
    async def insight(self, namespace: str, name: str) -> PodInsight:
        if name != "web":
            raise LookupError(f'pods "{name}" not found')
        return TOLD

    async def run_probe(self, namespace: str, name: str, container: str, probe: str) -> ProbeRun:
        if probe != "Readiness":
            raise LookupError(f'container "{container}" has no {probe} probe under way')
        said = f"{namespace}/{name}/{container}"
        return ProbeRun(time="2026-01-01T00:00:00Z", verdict="failure", seconds=0.1, output=said)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[UnixClient]:
    store = open_store(None, clock=SystemClock())
    await store.put("timelines", Timeline(metadata=ObjectMeta(name="web", namespace="default")))
    routes = Insight(FakeInsights()).routes()
    app = build_app(store, FakeKubelet(), version="0", extra_routes=routes)
    async with serve_unix(app, tmp_path / "s.sock"):
        it = UnixClient(tmp_path / "s.sock")
        yield it
        await it.close()
    await store.close()


async def test_probes_and_usage_come_as_they_are_told(client: UnixClient) -> None:
    assert await client.insight("default", "web") == TOLD


async def test_a_probe_is_run_by_its_container_and_kind(client: UnixClient) -> None:
    run = await client.run_probe("default", "web", "a b&c", "Readiness")
    assert (run.verdict, run.output) == ("failure", "default/web/a b&c")


async def test_what_is_not_there_is_said_in_words(client: UnixClient) -> None:
    with pytest.raises(ApiError, match='pods "nobody" not found') as refused:
        await client.insight("default", "nobody")
    assert refused.value.code == 404
    with pytest.raises(ApiError, match="has no Liveness probe") as refused:
        await client.run_probe("default", "web", "app", "Liveness")
    assert refused.value.code == 404


async def test_a_probe_must_be_named(client: UnixClient) -> None:
    with pytest.raises(ApiError) as refused:
        await client.run_probe("default", "web", "", "Readiness")
    assert refused.value.code == 400


async def test_timelines_are_objects_like_others(client: UnixClient) -> None:
    assert (await client.get(Timeline, "default", "web")).metadata.name == "web"
    with pytest.raises(ApiError) as refused:
        await client.get(Timeline, "default", "nobody")
    assert refused.value.code == 404
