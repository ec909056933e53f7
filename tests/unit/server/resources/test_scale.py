"""The scale subresource; its other answers are in ``recorded_workloads.jsonl``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
APPLY = "application/apply-patch+yaml"
REPLICAS = {"f:spec": {"f:replicas": {}}}


def deployment(**spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def scale(replicas: int, **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "web", **metadata},
        "spec": {"replicas": replicas},
    }


async def send(
    http: aiohttp.ClientSession, method: str, path: str, body: Any = None, media: str = ""
) -> tuple[int, Any]:
    headers = {"Content-Type": media} if media else None
    url = f"{DEPLOYMENTS}{path}"
    async with http.request(method, url, json=body, headers=headers) as response:
        return response.status, await response.json()


def managers(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the managers of replicas, with subresource and operation, and whether they have a
    time."""
    return {
        entry["manager"]: (entry.get("subresource"), entry["operation"], "time" in entry)
        for entry in item["metadata"]["managedFields"]
        if "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    }


@pytest.fixture
async def web(http: aiohttp.ClientSession) -> Any:
    code, item = await send(http, "POST", "?fieldManager=author", deployment(replicas=2))
    assert code == 201
    return item


async def test_who_scales_manages_the_replicas(http: aiohttp.ClientSession, web: Any) -> None:
    assert managers(web) == {"author": (None, "Update", True)}
    code, answer = await send(http, "PUT", "/web/scale?fieldManager=scaler", scale(3))
    assert (code, answer["spec"], "managedFields" in answer["metadata"]) == (
        200,
        {"replicas": 3},
        False,
    )
    item = (await send(http, "GET", "/web"))[1]
    assert managers(item) == {"scaler": ("scale", "Update", False)}
    assert [entry["manager"] for entry in item["metadata"]["managedFields"]] == ["scaler", "author"]
    assert item["metadata"]["managedFields"][0]["fieldsV1"] == REPLICAS
    assert item["metadata"]["generation"] == 2
    # The same number again changes nothing.
    await send(http, "PUT", "/web/scale?fieldManager=other", scale(3))
    assert (await send(http, "GET", "/web"))[1] == item


async def test_applying_conflicts_with_who_scaled(http: aiohttp.ClientSession, web: Any) -> None:
    await send(http, "PUT", "/web/scale?fieldManager=scaler", scale(3))
    code, status = await send(
        http, "PATCH", "/web?fieldManager=applier", deployment(replicas=1), APPLY
    )
    assert (code, status["reason"]) == (409, "Conflict")
    causes = {cause["field"]: cause["message"] for cause in status["details"]["causes"]}
    assert causes[".spec.replicas"] == (
        'conflict with "scaler" with subresource "scale" using apps/v1'
    )


async def test_an_applied_scale_is_taken_over_only_by_force(
    http: aiohttp.ClientSession, web: Any
) -> None:
    path = "/web/scale?fieldManager=applier"
    code, status = await send(http, "PATCH", path, scale(5), APPLY)
    assert (code, status["message"]) == (
        409,
        'Apply failed with 1 conflict: conflict with "author" using autoscaling/v1: .spec.replicas',
    )
    code, _ = await send(http, "PATCH", f"{path}&force=true", scale(5), APPLY)
    item = (await send(http, "GET", "/web"))[1]
    assert (code, item["spec"]["replicas"]) == (200, 5)
    assert managers(item) == {"applier": ("scale", "Apply", False)}


async def test_a_scale_of_an_older_version_is_refused(
    http: aiohttp.ClientSession, web: Any
) -> None:
    version = web["metadata"]["resourceVersion"]
    assert (await send(http, "PUT", "/web/scale", scale(3, resourceVersion=version)))[0] == 200
    code, status = await send(http, "PUT", "/web/scale", scale(4, resourceVersion=version))
    assert (code, status["reason"], status["details"]["kind"]) == (409, "Conflict", "deployments")
