from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from served import pod, serving

from podtui.client.blocking import get_json, refusal
from podtui.errors import AgentUnavailable, ApiError


async def test_a_single_request(tmp_path: Path) -> None:
    async with serving(tmp_path / "s") as served:
        await served.store.put("pods", pod("web"))
        found = await asyncio.to_thread(get_json, served.socket, "/api/v1/pods")
        assert [item["metadata"]["name"] for item in found["items"]] == ["web"]
        with pytest.raises(ApiError, match='pods "x" not found') as refused:
            await asyncio.to_thread(get_json, served.socket, "/api/v1/namespaces/default/pods/x")
        assert (refused.value.code, refused.value.reason) == (404, "NotFound")


def test_connection_refused(tmp_path: Path) -> None:
    with pytest.raises(AgentUnavailable, match="no agent"):
        get_json(tmp_path / "none", "/version")


async def test_a_silent_peer_times_out(tmp_path: Path) -> None:
    silent = await asyncio.start_unix_server(lambda r, w: w.close(), tmp_path / "s")
    async with silent:
        with pytest.raises(AgentUnavailable):
            await asyncio.to_thread(get_json, tmp_path / "s", "/version", 0.1)


def test_refusals_without_a_status_have_messages() -> None:
    error = refusal(502, "Bad Gateway", b"<html>no</html>")
    assert (error.code, error.reason, str(error)) == (502, "BadGateway", "<html>no</html>")
    assert str(refusal(500, "X", b"")) == "500 X"
    assert str(refusal(500, "X", b"[]")) == "[]"


def test_a_status_without_a_reason_has_a_message() -> None:
    error = refusal(500, "Internal Server Error", b'{"kind":"Status","message":"no","code":500}')
    assert (error.code, error.reason, str(error)) == (500, "InternalServerError", "no")
