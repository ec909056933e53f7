"""Writes that the recorded requests do not cover."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
from msgspec import structs
from served import Served, node, pod

from podtui.api.names import CONFIG_MIRROR, MANIFEST_PATH
from podtui.api.v1 import ResourceRequirements
from podtui.clock import SystemClock
from podtui.errors import PodtuiError
from podtui.manifest.strategies.strategy import with_meta
from podtui.server.resources.namespace_care import NamespaceCare

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def send(
    http: aiohttp.ClientSession,
    method: str,
    path: str,
    body: Any = None,
    *,
    kind: str = "application/json",
    accept: str = "application/json",
    code: int = 200,
) -> Any:
    data = body if isinstance(body, bytes) else (None if body is None else json.dumps(body))
    headers = {"Content-Type": kind, "Accept": accept}
    async with http.request(method, path, data=data, headers=headers) as response:
        document = json.loads(await response.read())
        assert response.status == code, document
        return document


def config(**data: str) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "data": data}


async def test_patches_at_the_same_time_lose_nothing(http: aiohttp.ClientSession) -> None:
    await send(http, "POST", MAPS, config(), code=201)
    async with asyncio.TaskGroup() as group:
        for number in range(20):
            patch = {"data": {f"k{number}": "v"}}
            group.create_task(send(http, "PATCH", f"{MAPS}/c", patch, kind=MERGE))
    found = await send(http, "GET", f"{MAPS}/c")
    assert len(found["data"]) == 20


async def test_a_dry_run_leaves_no_trace(served: Served, http: aiohttp.ClientSession) -> None:
    before = (await served.store.list("configmaps")).resource_version
    created = await send(http, "POST", f"{MAPS}?dryRun=All", config(a="1"), code=201)
    assert created["metadata"]["uid"]
    await send(http, "POST", MAPS, config(a="1"), code=201)
    patched = await send(http, "PATCH", f"{MAPS}/c?dryRun=All", {"data": {"a": "2"}}, kind=MERGE)
    assert patched["data"] == {"a": "2"}
    await send(http, "DELETE", f"{MAPS}/c?dryRun=All")
    assert (await served.store.list("configmaps")).resource_version == before + 1


async def test_a_write_without_changes_is_not_stored(
    served: Served, http: aiohttp.ClientSession
) -> None:
    created = await send(http, "POST", MAPS, config(a="1"), code=201)
    same = await send(http, "PUT", f"{MAPS}/c", config(a="1"))
    assert same["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


async def test_the_unknown_fields_of_a_strategic_merge_patch_are_sorted(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await served.store.put("pods", pod("web"))
    patch = {"spec": {"containers": [{"name": "c", "b": 1}], "a": 1}}
    strategic = "application/strategic-merge-patch+json"
    path = f"{PODS}/web?fieldValidation=Strict"
    refused = await send(http, "PATCH", path, patch, kind=strategic, code=422)
    assert refused["message"].endswith(
        'strict decoding error: unknown field "spec.a", unknown field "spec.containers[0].b"'
    )


async def test_writes_are_answered_as_tables(http: aiohttp.ClientSession) -> None:
    document = await send(http, "POST", MAPS, config(a="1"), accept=TABLE, code=201)
    assert (document["kind"], document["rows"][0]["cells"][0]) == ("Table", "c")


async def test_the_record_of_a_static_pod_is_deleted_with_a_warning(
    served: Served, http: aiohttp.ClientSession
) -> None:
    annotations = {CONFIG_MIRROR: "1", MANIFEST_PATH: "/m/web.yaml"}
    item = pod("web")
    item = structs.replace(item, spec=structs.replace(item.spec, terminationGracePeriodSeconds=30))
    await served.store.put("pods", with_meta(item, annotations=annotations))
    async with http.delete(f"{PODS}/web") as response:
        assert response.status == 200
        assert (await response.json())["metadata"]["deletionGracePeriodSeconds"] == 30
        [warning] = response.headers.getall("Warning")
        assert "its mirror pod is recreated; delete /m/web.yaml to stop it" in warning


async def test_a_broken_protobuf_body_is_refused(http: aiohttp.ClientSession) -> None:
    kind = "application/vnd.kubernetes.protobuf"
    status = await send(http, "POST", MAPS, b"k8s\x00\xff", kind=kind, code=400)
    assert status["reason"] == "BadRequest"


async def test_an_object_whose_managers_cannot_be_computed_is_stored_without_them(
    http: aiohttp.ClientSession,
) -> None:
    account = {"metadata": {"name": "a"}, "secrets": [{"kind": "x"}]}
    path = "/api/v1/namespaces/default/serviceaccounts"
    stored = await send(http, "POST", path, account, code=201)
    assert "managedFields" not in stored["metadata"]


async def test_a_response_implies_durability(
    served: Served, http: aiohttp.ClientSession, monkeypatch: Any
) -> None:
    async def full(key: object) -> None:
        raise PodtuiError("the records are not on disk: disk full")

    monkeypatch.setattr(served.store, "flush", full)
    status = await send(http, "POST", MAPS, config(), code=500)
    assert "disk full" in status["message"]
    lease = {"metadata": {"name": "l"}, "spec": {}}
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await send(http, "POST", path, lease, code=201)


async def test_events_are_served_in_two_groups(http: aiohttp.ClientSession) -> None:
    core = "/api/v1/namespaces/default/events"
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
        "message": "hello",
        "reason": "R",
        "type": "Normal",
    }
    await send(http, "POST", core, event, code=201)
    found = await send(http, "GET", f"{new}/e")
    assert (found["note"], found["regarding"]["name"]) == ("hello", "web")
    assert (found["apiVersion"], found["kind"]) == ("events.k8s.io/v1", "Event")
    series = [{"op": "add", "path": "/series", "value": {"count": 2, "lastObservedTime": None}}]
    refused = await send(http, "PATCH", f"{new}/e", series, kind=JSON_PATCH, code=422)
    assert refused["message"] == ('Event "e" is invalid: series.lastObservedTime: Required value')
    partial = {"series": {"lastObservedTime": "2026-01-01T00:00:00.000000Z"}}
    await send(http, "PATCH", f"{core}/e", partial, kind=MERGE)
    assert (await send(http, "GET", f"{new}/e"))["series"] == {"count": 0} | partial["series"]
    counted = await send(http, "PATCH", f"{core}/e", {"count": 2}, kind=MERGE)
    assert counted["count"] == 2
    assert (await send(http, "GET", f"{new}/e"))["deprecatedCount"] == 2


async def put_on_node(served: Served) -> None:
    await served.store.put("nodes", node())
    item = pod("web")
    requests = ResourceRequirements(requests={"cpu": "1", "memory": "100Mi"})
    [container] = item.spec.containers
    container = structs.replace(container, resources=requests)
    spec = structs.replace(item.spec, containers=(container,))
    [shown] = item.status.containerStatuses
    shown = structs.replace(shown, resources=requests)
    status = structs.replace(item.status, qosClass="Burstable", containerStatuses=(shown,))
    await served.store.put("pods", structs.replace(item, spec=spec, status=status))


async def test_a_resize_beyond_the_node_is_forbidden(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await put_on_node(served)

    def resized(cpu: str, memory: str) -> dict[str, Any]:
        requests = {"cpu": cpu, "memory": memory}
        return {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}

    async def resize(cpu: str, memory: str, code: int, query: str = "") -> dict[str, Any]:
        path = f"{PODS}/web/resize{query}"
        kind = "application/strategic-merge-patch+json"
        return await send(http, "PATCH", path, resized(cpu, memory), kind=kind, code=code)

    for query in ("", "?dryRun=All"):
        refused = await resize("3", "2Gi", 403, query)
        assert refused["message"] == (
            'pods "web" is forbidden: node didn\'t have enough allocatable resources:'
            " cpu, requested: 3000, allocatable: 2000;"
            " memory, requested: 2147483648, allocatable: 1073741824"
        )
        assert refused["details"]["causes"] == [{"reason": "NodeCapacity"}]
    assert "memory" not in (await resize("2001m", "100Mi", 403))["message"]
    await resize("2", "1Gi", 200)
    # Without a change nothing is checked, even if the node has become smaller.
    smaller = structs.replace(node().status, allocatable={"cpu": "1", "memory": "1Gi"})
    await served.store.put("nodes", structs.replace(node(), status=smaller))
    await resize("2", "1Gi", 200)
    await served.store.delete("nodes", "", "node")
    assert 'node "node" not found' in (await resize("1", "1Gi", 403))["message"]


async def test_a_stop_signal_without_an_os_is_dropped(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await NamespaceCare(served.store, SystemClock()).prepare()

    async def created(name: str, **spec: Any) -> dict[str, Any]:
        hooks = {"stopSignal": "SIGUSR1"}
        containers = [{"name": "c", "image": "a", "lifecycle": hooks}]
        body = {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}
        return (await send(http, "POST", PODS, body, code=201))["spec"]["containers"][0]

    assert "lifecycle" not in await created("a")
    assert (await created("b", os={"name": "linux"}))["lifecycle"] == {"stopSignal": "SIGUSR1"}
