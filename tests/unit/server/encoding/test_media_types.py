"""Responses in YAML, and media types that are not served."""

from __future__ import annotations

import aiohttp
import pytest
import yaml
from served import Served, pod

PODS = "/api/v1/namespaces/default/pods"
YAML = "application/yaml"
JSON = "application/json"


@pytest.mark.parametrize(
    ("path", "code"), [(f"{PODS}/web", 200), (PODS, 200), (f"{PODS}/x", 404), ("/api/v1", 200)]
)
async def test_a_response_in_yaml_says_the_same(
    path: str, code: int, served: Served, http: aiohttp.ClientSession
) -> None:
    await served.store.put("pods", pod("web"))
    async with http.get(path) as response:
        expected = await response.json()
    async with http.get(path, headers={"Accept": YAML}) as response:
        text = await response.text()
        assert (response.status, response.headers["Content-Type"]) == (code, YAML)
        assert response.headers["Content-Length"] == str(len(text.encode()))
    assert yaml.safe_load(text) == expected
    assert text.startswith("apiVersion: v1\n")


async def test_a_table_in_yaml(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("pods", pod("web"))
    table = {"Accept": f"{YAML};as=Table;v=v1;g=meta.k8s.io"}
    async with http.get(PODS, headers=table) as response:
        document = yaml.safe_load(await response.text())
    assert document["kind"] == "Table"
    assert document["rows"][0]["cells"][0] == "web"


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("application/json,application/yaml", JSON),
        ("text/x, application/yaml", YAML),
        ("application/json;q=0.5, application/yaml", YAML),
        ("application/json;Q=0.5, application/yaml; q=0.51", YAML),
        ("application/yaml;q=0.8, application/json;q=0.8", YAML),
        ("*/*, application/yaml", YAML),
        ("application/*, application/yaml", YAML),
        ("*/*;q=1, application/yaml;q=0.999", JSON),
        ("application/json;q=0, application/yaml;q=0.1", YAML),
        ("application/json;q=high, application/yaml;q=0.1", YAML),
        ("application/json;q=high", JSON),
        ("text/html,application/xml;q=0.9,*/*;q=0.8", JSON),
        ("", JSON),
    ],
)
async def test_the_preferred_media_type_is_taken(
    accept: str, media: str, http: aiohttp.ClientSession
) -> None:
    async with http.get(PODS, headers={"Accept": accept}) as response:
        assert response.headers["Content-Type"] == media


async def test_a_watch_in_yaml_is_refused(http: aiohttp.ClientSession) -> None:
    async with http.get(f"{PODS}?watch=1", headers={"Accept": YAML}) as response:
        assert response.status == 406
        assert yaml.safe_load(await response.text())["message"] == (
            "only the following media types are accepted: application/json;stream=watch"
        )


async def test_media_types_that_are_not_served_are_refused(http: aiohttp.ClientSession) -> None:
    async with http.get(PODS, headers={"Accept": "text/plain"}) as response:
        status = await response.json()
    assert (status["code"], status["reason"]) == (406, "NotAcceptable")
    assert status["message"] == (
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml,"
        " application/json;stream=watch"
    )
