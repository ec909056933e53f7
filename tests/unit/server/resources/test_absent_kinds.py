"""Kinds without objects."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from served import Served, put_records

from podtui.server.resources.definitions import ABSENT
from podtui.server.resources.resource import AnyResource

pytestmark = pytest.mark.virtual_time
WRITABLE = "'kubectl api-resources' lists what podtui serves"


async def send(
    http: aiohttp.ClientSession, method: str, path: str, code: int, body: Any = None
) -> Any:
    async with http.request(method, path, json=body) as response:
        document = json.loads(await response.read())
        assert response.status == code, document
        return document


def collection(resource: AnyResource) -> str:
    within = "/namespaces/default" if resource.namespaced else ""
    return f"{resource.root}{within}/{resource.plural}"


@pytest.mark.parametrize("resource", ABSENT, ids=lambda resource: resource.qualified_name)
async def test_an_absent_kind_is_listed_watched_and_found_nowhere(
    resource: AnyResource, served: Served, http: aiohttp.ClientSession
) -> None:
    await put_records(served.store)
    path = collection(resource)
    for listed in {path, f"{resource.root}/{resource.plural}"}:
        found = await send(http, "GET", listed, 200)
        assert (found["kind"], found["items"]) == (f"{resource.kind}List", [])
    version = found["metadata"]["resourceVersion"]
    pods = await send(http, "GET", "/api/v1/pods", 200)
    assert version == pods["metadata"]["resourceVersion"]
    watch = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=1"
    async with http.get(watch) as response:
        assert (response.status, await response.read()) == (200, b"")
    expected = (
        f'{resource.qualified_name} "x" not found: podtui has no {resource.plural}; {WRITABLE}'
    )
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        status = await send(http, method, f"{path}/x", 404, {})
        assert (status["reason"], status["message"]) == ("NotFound", expected)
        assert status["details"]["name"] == "x"
    status = await send(http, "POST", path, 404, {})
    assert status["message"] == f"podtui has no {resource.plural}; {WRITABLE}"


async def test_an_unknown_resource_gets_what_is_served(http: aiohttp.ClientSession) -> None:
    for path in ("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas", "/api/v1/podtemplates"):
        for method in ("GET", "POST"):
            status = await send(http, method, path, 404)
            message = f"the server could not find the requested resource; {WRITABLE}"
            assert status["message"] == message
    # Not for a subresource that a served resource does not have.
    for path in ("/nosuch", "/api/v1/namespaces/default/pods/web/scale"):
        status = await send(http, "GET", path, 404)
        assert status["message"] == "the server could not find the requested resource"
