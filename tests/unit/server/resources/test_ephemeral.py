"""The ``ephemeralcontainers`` subresource."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from msgspec import structs
from served import Served, pod

from podtui.api.names import CONFIG_MIRROR
from podtui.api.v1 import EphemeralContainer

PATH = "/api/v1/namespaces/default/pods/{}/ephemeralcontainers"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
DEBUG = {"name": "debug", "image": "busybox:1", "targetContainerName": "c", "resources": {}}


async def send(
    http: aiohttp.ClientSession,
    method: str,
    body: Any,
    *,
    name: str = "web",
    kind: str = STRATEGIC,
    code: int = 200,
    query: str = "",
) -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": kind}
    async with http.request(
        method, PATH.format(name) + query, data=data, headers=headers
    ) as response:
        answer = await response.read()
        assert response.status == code, answer
        return json.loads(answer)


def asking(*containers: dict[str, Any], **metadata: str) -> dict[str, Any]:
    return {"metadata": metadata, "spec": {"ephemeralContainers": list(containers)}}


async def have(served: Served, *containers: EphemeralContainer, name: str = "web") -> str:
    item = pod(name)
    mirror = structs.replace(item.metadata, annotations={CONFIG_MIRROR: "1"})
    spec = structs.replace(item.spec, ephemeralContainers=containers)
    item = structs.replace(item, metadata=mirror, spec=spec)
    stored = await served.store.put("pods", item)
    return stored.metadata.resourceVersion


async def test_a_patch_as_kubectl_debug_makes_it(
    served: Served, http: aiohttp.ClientSession
) -> None:
    version = await have(served)
    body = asking(DEBUG)
    body["spec"]["$setElementOrder/ephemeralContainers"] = [{"name": "debug"}]
    answer = await send(http, "PATCH", body)
    ((namespace, name, (wanted,)),) = served.kubelet.debugged
    assert (namespace, name) == ("default", "web")
    assert (wanted.name, wanted.targetContainerName) == ("debug", "c")
    # Defaults are the API's.
    assert wanted.terminationMessagePath == "/dev/termination-log"
    assert wanted.terminationMessagePolicy == "File"
    assert wanted.imagePullPolicy == "IfNotPresent"
    assert answer["kind"] == "Pod"
    assert answer["metadata"]["resourceVersion"] == version
    assert answer["spec"]["ephemeralContainers"][0]["name"] == "debug"


async def test_existing_ephemeral_containers_are_kept(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await have(served, EphemeralContainer(name="first", image="busybox:1"))
    await send(http, "PATCH", asking(DEBUG))
    await send(http, "PATCH", {"spec": {}})
    await send(http, "PATCH", asking(DEBUG), kind=MERGE)
    await send(http, "PATCH", asking({"name": "first", "$patch": "delete"}))
    names = [[one.name for one in wanted] for _, _, wanted in served.kubelet.debugged]
    assert [sorted(each) for each in names] == [["debug", "first"], ["first"], ["debug"], []]


async def test_nulls_are_omitted_fields(served: Served, http: aiohttp.ClientSession) -> None:
    await have(served)
    security = {"capabilities": None, "runAsUser": 0}
    await send(http, "PATCH", asking({**DEBUG, "command": None, "securityContext": security}))
    ((_, _, (wanted,)),) = served.kubelet.debugged
    assert wanted.command == ()
    assert wanted.securityContext is not None
    assert wanted.securityContext.runAsUser == 0


async def test_get_and_put(served: Served, http: aiohttp.ClientSession) -> None:
    version = await have(served)
    async with http.get(PATH.format("web")) as response:
        found = await response.json()
    assert found["metadata"]["name"] == "web"
    found["spec"]["ephemeralContainers"] = [DEBUG]
    await send(http, "PUT", found, kind="application/json")
    assert served.kubelet.debugged[0][2][0].name == "debug"
    found["metadata"]["resourceVersion"] = str(int(version) + 1)
    conflict = await send(http, "PUT", found, kind="application/json", code=409)
    assert conflict["reason"] == "Conflict"
    assert "the object has been modified" in conflict["message"]
    wrong = await send(http, "PUT", asking(DEBUG, name="db"), kind="application/json", code=400)
    assert wrong["message"] == (
        "the name of the object (db) does not match the name on the URL (web)"
    )


async def test_forbidden_changes_are_invalid(served: Served, http: aiohttp.ClientSession) -> None:
    await have(served, name="refusing")
    status = await send(http, "PATCH", asking(DEBUG), name="refusing", code=422)
    assert status["message"] == 'Pod "refusing" is invalid: spec: Forbidden: not here'
    assert (status["reason"], status["details"]["kind"]) == ("Invalid", "Pod")
    assert status["details"]["causes"] == [
        {"reason": "FieldValueForbidden", "message": "Forbidden: not here", "field": "spec"}
    ]


async def test_an_unknown_pod(http: aiohttp.ClientSession) -> None:
    status = await send(http, "PATCH", asking(DEBUG), code=404)
    assert status["message"] == 'pods "web" not found'


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        (b"{", 400, "error decoding patch"),
        ([], 400, "cannot unmarshal"),
        ({"spec": []}, 422, "Pod.spec of type v1.PodSpec"),
        ({"spec": {"ephemeralContainers": {}}}, 422, "of type []v1.EphemeralContainer"),
        (asking({"name": "d", "image": 7}), 422, "ephemeralContainers.image of type string"),
    ],
)
async def test_bodies_that_are_not_pods(
    body: Any, code: int, words: str, served: Served, http: aiohttp.ClientSession
) -> None:
    await have(served)
    status = await send(http, "PATCH", body, code=code)
    assert words in status["message"]
    assert served.kubelet.debugged == []


async def test_other_requests(served: Served, http: aiohttp.ClientSession) -> None:
    await have(served)
    add = [{"op": "add", "path": "/spec/ephemeralContainers", "value": [DEBUG]}]
    await send(http, "PATCH", add, kind="application/json-patch+json")
    assert served.kubelet.debugged[0][2][0].name == "debug"
    status = await send(http, "PATCH", {}, kind="application/json", code=415)
    assert status["reason"] == "UnsupportedMediaType"
    dry = await send(http, "PATCH", asking(DEBUG), query="?dryRun=All", code=400)
    assert dry["message"] == "dryRun is not supported for static pods"
