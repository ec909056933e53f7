"""The ``ephemeralcontainers`` subresource."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest
from msgspec import structs
from served import Served, pod

from podtui.api.v1 import EphemeralContainer
from podtui.server.ephemeral import merged, merged_by_name

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
    item = structs.replace(item, spec=structs.replace(item.spec, ephemeralContainers=containers))
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


async def test_those_that_are_there_stay(served: Served, http: aiohttp.ClientSession) -> None:
    await have(served, EphemeralContainer(name="first", image="busybox:1"))
    await send(http, "PATCH", asking(DEBUG))
    await send(http, "PATCH", {"spec": {}})
    await send(http, "PATCH", asking(DEBUG), kind=MERGE)
    await send(http, "PATCH", asking({"name": "first", "$patch": "delete"}))
    names = [[one.name for one in wanted] for _, _, wanted in served.kubelet.debugged]
    assert names == [["first", "debug"], ["first"], ["debug"], []]


async def test_nulls_are_fields_left_out(served: Served, http: aiohttp.ClientSession) -> None:
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


async def test_what_may_not_be_is_invalid(served: Served, http: aiohttp.ClientSession) -> None:
    await have(served, name="refusing")
    status = await send(http, "PATCH", asking(DEBUG), name="refusing", code=422)
    assert status["message"] == 'Pod "refusing" is invalid: spec: Forbidden: not here'
    assert (status["reason"], status["details"]["kind"]) == ("Invalid", "Pod")
    assert status["details"]["causes"] == [
        {"reason": "FieldValueForbidden", "message": "Forbidden: not here", "field": "spec"}
    ]


async def test_a_pod_that_is_not_there(http: aiohttp.ClientSession) -> None:
    status = await send(http, "PATCH", asking(DEBUG), code=404)
    assert status["message"] == 'pods "web" not found'


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "error decoding the body"),
        ([], "the body is not a Pod"),
        ({"spec": []}, "the body is not a Pod"),
        ({"spec": {"ephemeralContainers": {}}}, "is not a list of containers"),
        ({"spec": {"ephemeralContainers": ["x"]}}, "is not a list of containers"),
        (asking({"image": "x"}), "does not contain declared merge key: name"),
        (asking({"name": "d", "image": 7}), "cannot be handled as a Pod"),
    ],
)
async def test_bodies_that_are_no_pod(
    body: Any, words: str, served: Served, http: aiohttp.ClientSession
) -> None:
    await have(served)
    status = await send(http, "PATCH", body, code=400)
    assert words in status["message"]
    assert served.kubelet.debugged == []


async def test_other_kinds_of_patch(served: Served, http: aiohttp.ClientSession) -> None:
    await have(served)
    status = await send(http, "PATCH", [], kind="application/json-patch+json", code=415)
    assert status["reason"] == "UnsupportedMediaType"
    assert STRATEGIC in status["message"]
    dry = await send(http, "PATCH", asking(DEBUG), query="?dryRun=All", code=400)
    assert dry["message"] == "dryRun is not supported"


def test_merging() -> None:
    assert merged({"a": 1, "b": {"c": 1, "d": 2}}, {"a": None, "b": {"c": 3}, "e": [1]}) == {
        "b": {"c": 3, "d": 2},
        "e": [1],
    }
    old = [{"name": "a", "x": {"y": 1, "z": 2}}, {"name": "b"}]
    assert merged_by_name(old, [{"name": "a", "x": {"y": 3}}, {"name": "c"}]) == [
        {"name": "a", "x": {"y": 3, "z": 2}},
        {"name": "b"},
        {"name": "c"},
    ]
    assert merged_by_name(old, [{"$patch": "replace"}, {"name": "c"}]) == [{"name": "c"}]
