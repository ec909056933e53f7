"""The node proxy leads to the kubelet of the agent's own node only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from served import node, serving

PREFIX = "/api/v1/nodes/{}/proxy"


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    path = tmp_path / "s"
    async with serving(path) as served:
        await served.store.put("nodes", node("other"))
        connector = aiohttp.UnixConnector(str(path))
        async with aiohttp.ClientSession("http://podtui", connector=connector) as session:
            yield session


@pytest.mark.parametrize("name", ["node", "node:10250", "https:node:10250"])
async def test_the_own_node_answers(name: str, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{PREFIX.format(name)}/healthz") as response:
        assert (response.status, await response.text()) == (200, "ok")


@pytest.mark.parametrize(
    ("name", "code", "text"),
    [
        ("absent", 404, 'nodes "absent" not found'),
        ("https:absent:10250", 404, 'nodes "absent" not found'),
        ("ftp:node:21", 400, 'invalid node request "ftp:node:21"'),
        ("other", 500, 'this agent reaches only the kubelet of node "node"'),
    ],
)
@pytest.mark.parametrize("path", ["healthz", "containerLogs/default/web/c"])
async def test_other_nodes_do_not_answer(
    name: str, code: int, text: str, path: str, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{PREFIX.format(name)}/{path}") as response:
        status = await response.json()
    assert (response.status, status["code"]) == (code, code)
    assert text in status["message"]
