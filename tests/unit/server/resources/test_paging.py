"""Lists in pages, of one consistent state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from served import Served, serving

from podtui.api.v1 import ConfigMap, ObjectMeta
from podtui.clock import SystemClock
from podtui.server.resources.paging import LATEST, ContinueToken, encode_token, parse_token
from podtui.store import open_store

MAPS = "/api/v1/namespaces/pages/configmaps"


def config(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="pages"))


async def page(http: aiohttp.ClientSession, query: str, code: int = 200) -> dict[str, Any]:
    async with http.get(f"{MAPS}?{query}") as response:
        document = await response.json()
        assert response.status == code, document
        return document


def names(document: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in document["items"]]


async def test_pages_are_one_list(served: Served, http: aiohttp.ClientSession) -> None:
    for name in "abcde":
        await served.store.create("configmaps", config(name))
    first = await page(http, "limit=2")
    assert (names(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    for name in ("aa", "cc"):
        await served.store.create("configmaps", config(name))
    await served.store.delete("configmaps", "pages", "d")
    second = await page(http, f"limit=2&continue={first['metadata']['continue']}")
    assert (names(second), second["metadata"]["remainingItemCount"]) == (["c", "d"], 1)
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    last = await page(http, f"limit=2&continue={second['metadata']['continue']}")
    assert names(last) == ["e"]
    assert "continue" not in last["metadata"]
    exact = f"resourceVersion={first['metadata']['resourceVersion']}&resourceVersionMatch=Exact"
    assert names(await page(http, exact)) == list("abcde")


async def test_remaining_item_count_is_omitted_with_a_selector(
    served: Served, http: aiohttp.ClientSession
) -> None:
    for name in "abc":
        await served.store.create("configmaps", config(name))
    found = await page(http, "limit=1&fieldSelector=metadata.name!%3Da")
    assert names(found) == ["b"]
    assert found["metadata"]["continue"]
    assert "remainingItemCount" not in found["metadata"]


async def test_an_old_continue_token_returns_a_fresh_one(tmp_path: Path) -> None:
    store = open_store(None, clock=SystemClock(), history={"configmaps": 2})
    connector = aiohttp.UnixConnector(str(tmp_path / "s.sock"))
    async with (
        serving(tmp_path / "s.sock", store=store),
        aiohttp.ClientSession("http://podtui", connector=connector) as http,
    ):
        for name in "abc":
            await store.create("configmaps", config(name))
        token = (await page(http, "limit=1"))["metadata"]["continue"]
        for name in "defgh":
            await store.create("configmaps", config(name))
        status = await page(http, f"limit=1&continue={token}", 410)
        assert status["reason"] == "Expired"
        assert status["message"].startswith("The provided continue parameter is too old")
        rest = await page(http, f"continue={status['metadata']['continue']}")
        assert names(rest) == list("bcdefgh")
    await store.close()


@pytest.mark.parametrize("rv", [LATEST, 0, 1795404992840198])
def test_continue_tokens_round_trip(rv: int) -> None:
    token = ContinueToken(rv, ("namespace", "name"))
    assert parse_token(encode_token(token)) == token
