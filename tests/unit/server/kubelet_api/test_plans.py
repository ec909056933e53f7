"""Plans over HTTP: the request to the planner, and the client's handling of the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from served import FakeKubelet

from podtui.api.local import ManifestState, Plan, PlanOutcome, PodPlan
from podtui.api.v1 import ObjectMeta
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import ApiError
from podtui.server import build_app, serve_unix
from podtui.server.kubelet_api.what_if import PlanRoutes
from podtui.store import open_store

PLAN = Plan(
    metadata=ObjectMeta(name="web.yaml"),
    path="/m/web.yaml",
    state=ManifestState.ACCEPTED,
    pods=(PodPlan(outcome=PlanOutcome.NEW, namespace="default", name="web-n1"),),
)


@pytest.fixture
async def planner(
    tmp_path: Path,
) -> AsyncIterator[tuple[UnixClient, list[tuple[str, bytes | None]]]]:
    calls: list[tuple[str, bytes | None]] = []

    async def plan(name: str, data: bytes | None) -> Plan:
        if name.startswith("."):
            raise ValueError(f"{name} would not be read")
        calls.append((name, data))
        return PLAN

    store = open_store(None, clock=SystemClock())
    app = build_app(store, FakeKubelet(), version="0", extra_routes=PlanRoutes(plan).routes())
    async with serve_unix(app, tmp_path / "s"):
        client = UnixClient(tmp_path / "s")
        yield client, calls
        await client.close()
    await store.close()


async def test_the_plan_of_the_planner_is_returned(
    planner: tuple[UnixClient, list[tuple[str, bytes | None]]],
) -> None:
    client, calls = planner
    assert await client.plan("web.yaml", b"kind: Pod") == PLAN
    assert await client.plan("a b%2F.yaml", b"") == PLAN
    assert await client.plan("web.yaml", None) == PLAN
    assert calls == [("web.yaml", b"kind: Pod"), ("a b%2F.yaml", b""), ("web.yaml", None)]


async def test_an_ignored_file_name_is_a_bad_request(
    planner: tuple[UnixClient, list[tuple[str, bytes | None]]],
) -> None:
    client, _ = planner
    with pytest.raises(ApiError, match=r"\.x would not be read") as refused:
        await client.plan(".x", b"")
    assert refused.value.code == 400
