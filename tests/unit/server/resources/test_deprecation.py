"""The warning in every response about v1 Endpoints."""

from __future__ import annotations

import aiohttp
import pytest
from served import Served

PATH = "/api/v1/namespaces/default/endpoints"
WARNING = '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", PATH, 200),
        ("GET", "/api/v1/endpoints", 200),
        ("GET", f"{PATH}?watch=1&timeoutSeconds=1", 200),
        ("GET", f"{PATH}/missing", 404),
        ("POST", PATH, 422),
        ("PUT", f"{PATH}/web", 201),
        ("DELETE", f"{PATH}/missing", 404),
        ("DELETE", PATH, 200),
    ],
)
async def test_every_response_has_the_warning(
    method: str, path: str, code: int, served: Served, http: aiohttp.ClientSession
) -> None:
    body = {"metadata": {"name": "web"}} if method == "PUT" else None
    if method == "POST":
        body = {"metadata": {"name": "Bad_Name"}}
    async with http.request(method, path, json=body) as response:
        assert response.status == code
        assert response.headers.getall("Warning") == [WARNING]


async def test_other_resources_have_none(http: aiohttp.ClientSession) -> None:
    for path in ("/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"):
        async with http.get(path) as response:
            assert "Warning" not in response.headers
