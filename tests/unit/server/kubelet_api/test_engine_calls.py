"""The journal over HTTP."""

from __future__ import annotations

from pathlib import Path

from served import FakeKubelet

from podtui.api.local import EngineCall
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.server import build_app, serve_unix
from podtui.server.kubelet_api.insight import EngineCallRoutes
from podtui.store import open_store

CALL = EngineCall(serial=1, time="2026-01-01T00:00:00Z", line="docker pull a", verb="pull", uid="u")


async def test_the_journal_is_read_whole_or_for_one_pod(tmp_path: Path) -> None:
    requested: list[str] = []

    def calls(uid: str) -> tuple[EngineCall, ...]:
        requested.append(uid)
        return (CALL,)

    store = open_store(None, clock=SystemClock())
    app = build_app(
        store, FakeKubelet(), version="0", extra_routes=EngineCallRoutes(calls).routes()
    )
    async with serve_unix(app, tmp_path / "s"):
        client = UnixClient(tmp_path / "s")
        assert await client.engine_calls() == (CALL,)
        assert await client.engine_calls("u") == (CALL,)
        await client.close()
    await store.close()
    assert requested == ["", "u"]
