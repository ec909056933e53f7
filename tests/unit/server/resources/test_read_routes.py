from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from served import Served, event, node, pod, put_records, serving

from podtui.api.local import Diagnostic, Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.v1 import ObjectMeta
from podtui.server.transport.streams import STREAMS

pytestmark = pytest.mark.virtual_time

PODS = "/api/v1/namespaces/default/pods"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


async def fetch(http: aiohttp.ClientSession, path: str, code: int = 200, **options: Any) -> Any:
    async with http.get(path, **options) as response:
        body = await response.read()
        assert response.status == code, body
        assert response.headers["Content-Type"] == "application/json"
        return json.loads(body)


async def names(http: aiohttp.ClientSession, path: str) -> list[str]:
    return [item["metadata"]["name"] for item in (await fetch(http, path))["items"]]


async def read_watch(response: aiohttp.ClientResponse, count: int) -> list[tuple[str, Any]]:
    events: list[tuple[str, Any]] = []
    async with asyncio.timeout(120):
        while len(events) < count:
            raw = await response.content.readline()
            assert raw, "the watch ended"
            event = json.loads(raw)
            events.append((event["type"], event["object"]))
    return events


def brief(events: list[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(kind, item["metadata"]["name"]) for kind, item in events]


async def test_one_pod(served: Served, http: aiohttp.ClientSession) -> None:
    stored = await served.store.put("pods", pod("web"))
    found = await fetch(http, f"{PODS}/web")
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")
    assert found["metadata"]["resourceVersion"] == stored.metadata.resourceVersion
    assert found["status"]["phase"] == "Running"


async def test_a_missing_pod_is_a_status(http: aiohttp.ClientSession) -> None:
    found = await fetch(http, f"{PODS}/x", 404)
    assert found == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'pods "x" not found',
        "reason": "NotFound",
        "details": {"name": "x", "kind": "pods"},
        "code": 404,
    }


async def test_lists(served: Served, http: aiohttp.ClientSession) -> None:
    for item in (pod("b"), pod("a"), pod("c", "other")):
        await served.store.put("pods", item)
    everything = await fetch(http, "/api/v1/pods?limit=500")
    assert (everything["kind"], everything["apiVersion"]) == ("PodList", "v1")
    version = (await served.store.list("pods")).resource_version
    assert everything["metadata"] == {"resourceVersion": str(version)}
    assert all(item.keys() == {"metadata", "spec", "status"} for item in everything["items"])
    assert await names(http, PODS) == ["a", "b"]
    assert await names(http, "/api/v1/namespaces/other/pods") == ["c"]
    assert "kube-system" in await names(http, "/api/v1/namespaces")
    assert (await fetch(http, "/api/v1/namespaces/default"))["status"] == {"phase": "Active"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("labelSelector=app%3Dweb", ["a"]),
        ("labelSelector=app+in+(web,db),tier", ["b"]),
        ("labelSelector=!tier", ["a"]),
        ("fieldSelector=metadata.name%3Db", ["b"]),
        ("fieldSelector=status.phase!%3DRunning", ["b"]),
        ("fieldSelector=spec.nodeName%3Dnode,status.phase%3DRunning", ["a"]),
        ("fieldSelector=spec.nodeName%3D", []),
    ],
)
async def test_selectors(
    query: str, expected: list[str], served: Served, http: aiohttp.ClientSession
) -> None:
    await served.store.put("pods", pod("a", app="web"))
    await served.store.put("pods", pod("b", phase="Pending", app="db", tier="back"))
    assert await names(http, f"{PODS}?{query}") == expected


async def test_events_by_their_object(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("events", event("web.1"))
    await served.store.put("events", event("db.1", "db"))
    path = "/api/v1/namespaces/default/events"
    query = "involvedObject.name=web,involvedObject.namespace=default,involvedObject.uid=uid-web"
    async with http.get(path, params={"fieldSelector": query}) as response:
        assert [o["metadata"]["name"] for o in (await response.json())["items"]] == ["web.1"]
    assert await names(http, f"{path}?fieldSelector=source%3Dkubelet,reason!%3DStarted") == []


@pytest.mark.parametrize(
    ("path", "code", "reason"),
    [
        (f"{PODS}?fieldSelector=spec.color%3Dred", 400, "BadRequest"),
        (f"{PODS}?labelSelector=a+in+b", 400, "BadRequest"),
        (f"{PODS}?resourceVersion=new", 400, "BadRequest"),
        (f"{PODS}?continue=abc", 400, "BadRequest"),
        (f"{PODS}?resourceVersion=9999999999999999999", 504, "Timeout"),
        (f"{PODS}?resourceVersion=1&resourceVersionMatch=Exact", 410, "Expired"),
        ("/apis/metrics.k8s.io/v1beta1/pods?watch=true", 405, "MethodNotAllowed"),
        ("/api/v1/nosuch", 404, "NotFound"),
        ("/api/v1/nodes/x", 404, "NotFound"),
        ("/apis/metrics.k8s.io/v1beta1/nodes/x", 404, "NotFound"),
    ],
)
async def test_refusals_are_statuses(
    path: str, code: int, reason: str, http: aiohttp.ClientSession
) -> None:
    status = await fetch(http, path, code)
    assert (status["kind"], status["code"], status["reason"]) == ("Status", code, reason)
    assert status["message"]


@pytest.mark.parametrize(
    ("version", "code", "reason", "words"),
    [
        ("", 200, None, None),
        ("0", 200, None, None),
        ("1", 200, None, None),
        ("9999999999999999999", 504, "Timeout", "Too large resource version: 9999999999999999999"),
        ("new", 500, None, 'parsing "new": invalid syntax'),
        ("-1", 500, None, 'resourceVersion: Invalid value: "-1"'),
    ],
)
@pytest.mark.parametrize("path", [f"{PODS}/web", f"{PODS}/web/status"])
async def test_one_object_of_at_least_a_version(
    path: str,
    version: str,
    code: int,
    reason: str | None,
    words: str | None,
    served: Served,
    http: aiohttp.ClientSession,
) -> None:
    await put_records(served.store)
    document = await fetch(http, f"{path}?resourceVersion={version}", code)
    assert document.get("reason") == reason
    assert words is None or words in document["message"]


async def test_a_present_flag_is_true_unless_it_is_false_or_zero(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await put_records(served.store)
    for value, is_watch in (
        ("", True),
        ("maybe", True),
        ("F", True),
        ("False", False),
        ("0", False),
    ):
        async with http.get(f"{PODS}?watch={value}&timeoutSeconds=1") as response:
            document = json.loads((await response.content.readline()) or b"{}")
        assert (document.get("kind") != "PodList") == is_watch, value


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/watch/pods", {"web", "db", "far"}),
        ("/api/v1/watch/namespaces/default/pods", {"web", "db"}),
        ("/api/v1/watch/namespaces/default/pods?labelSelector=app", {"web"}),
        ("/api/v1/watch/namespaces/default/pods/db", {"db"}),
        ("/api/v1/watch/nodes/node", {"node"}),
    ],
)
async def test_the_deprecated_paths_of_watches(
    path: str, expected: set[str], served: Served, http: aiohttp.ClientSession
) -> None:
    await put_records(served.store)
    separator = "&" if "?" in path else "?"
    async with http.get(f"{path}{separator}timeoutSeconds=1") as response:
        events = [json.loads(row) for row in (await response.read()).splitlines()]
    assert {one["type"] for one in events} == {"ADDED"}
    assert {one["object"]["metadata"]["name"] for one in events} == expected


async def test_large_lists_are_compressed_for_clients_that_accept_it(
    served: Served, http: aiohttp.ClientSession
) -> None:
    for number in range(150):
        await served.store.put("pods", pod(f"p{number}", note="x" * 1000))
    plain = {"Accept-Encoding": "identity"}
    async with http.get(PODS, headers=plain) as response:
        expected = await response.read()
        assert "Content-Encoding" not in response.headers
    async with http.get(PODS, headers={"Accept-Encoding": "deflate, gzip"}) as response:
        assert response.headers["Content-Encoding"] == "gzip"
        assert response.headers["Vary"] == "Accept-Encoding"
        assert int(response.headers["Content-Length"]) < len(expected) / 5
        assert await response.read() == expected
    async with http.get(f"{PODS}/p1", headers={"Accept-Encoding": "gzip"}) as response:
        assert "Content-Encoding" not in response.headers


async def test_only_json_is_accepted(http: aiohttp.ClientSession) -> None:
    protobuf = "application/vnd.kubernetes.protobuf"
    assert (await fetch(http, PODS, 406, headers={"Accept": protobuf}))["reason"] == "NotAcceptable"
    await fetch(http, PODS, headers={"Accept": f"{protobuf},application/json"})


async def test_method_not_allowed(http: aiohttp.ClientSession) -> None:
    async with http.post(f"{PODS}/x") as response:
        assert response.status == 405
        assert (await response.json())["reason"] == "MethodNotAllowed"
        assert "GET" in response.headers["Allow"]


async def test_internal_errors_are_statuses(
    served: Served, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("disk on fire")

    monkeypatch.setattr(served.store, "list", fail)
    status = await fetch(http, PODS, 500)
    assert status["reason"] == "InternalError"
    assert "disk on fire" in status["message"]


async def test_manifests_name_their_kind(served: Served, http: aiohttp.ClientSession) -> None:
    diagnostic = Diagnostic(severity="Error", path="/m/x", code="C", message="m", line=3)  # type: ignore[arg-type]
    await served.store.put(
        "manifests",
        Manifest(
            metadata=ObjectMeta(name="web.yaml"),
            spec=ManifestSpec(path="/m/web.yaml"),
            status=ManifestStatus(state=ManifestState.INVALID, diagnostics=(diagnostic,)),
        ),
    )
    listing = await fetch(http, "/apis/podtui.dev/v1alpha1/manifests")
    assert listing["kind"] == "ManifestList"
    [item] = listing["items"]
    assert item.keys() == {"metadata", "spec", "status"}
    assert item["status"]["diagnostics"][0]["line"] == 3
    item = await fetch(http, "/apis/podtui.dev/v1alpha1/manifests/web.yaml")
    assert (item["kind"], item["apiVersion"]) == ("Manifest", "podtui.dev/v1alpha1")


async def test_only_a_list_names_the_kind_of_events(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await served.store.put("events", event("web.1"))
    for root in ("/api/v1", "/apis/events.k8s.io/v1"):
        listing = await fetch(http, f"{root}/events")
        assert listing["kind"] == "EventList"
        assert not {"kind", "apiVersion"} & listing["items"][0].keys()


async def test_metrics(http: aiohttp.ClientSession) -> None:
    root = "/apis/metrics.k8s.io/v1beta1"
    [found] = (await fetch(http, f"{root}/namespaces/default/pods"))["items"]
    assert "kind" not in found
    assert found["containers"][0]["usage"] == {"cpu": "12m", "memory": "3Mi"}
    assert (await fetch(http, f"{root}/namespaces/other/pods"))["items"] == []
    assert (await fetch(http, f"{root}/nodes/node"))["usage"]["cpu"] == "250m"


async def test_metrics_are_selected_by_the_labels_of_pods_and_nodes(
    served: Served, http: aiohttp.ClientSession
) -> None:
    root = "/apis/metrics.k8s.io/v1beta1"
    await served.store.put("pods", pod("web", app="web"))
    await served.store.put("nodes", node())
    assert await names(http, f"{root}/namespaces/default/pods?labelSelector=app%3Dweb") == ["web"]
    assert await names(http, f"{root}/namespaces/default/pods?labelSelector=app%3Ddb") == []
    assert await names(http, f"{root}/nodes?labelSelector=%21nosuch") == ["node"]


# --- watches


async def test_watch_from_a_version(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("pods", pod("a"))
    version = (await fetch(http, PODS))["metadata"]["resourceVersion"]
    await served.store.put("pods", pod("b"))
    async with http.get(f"{PODS}?watch=true&resourceVersion={version}") as response:
        assert response.headers["Transfer-Encoding"] == "chunked"
        assert response.headers["Content-Type"] == "application/json"
        assert brief(await read_watch(response, 1)) == [("ADDED", "b")]
        await served.store.put("pods", pod("a", phase="Failed"))
        await served.store.put("pods", pod("elsewhere", "other"))
        await served.store.delete("pods", "default", "b")
        events = await read_watch(response, 2)
        assert brief(events) == [("MODIFIED", "a"), ("DELETED", "b")]
        assert events[0][1]["kind"] == "Pod"


@pytest.mark.parametrize("query", ["watch=1", "watch=true&resourceVersion=0"])
async def test_watch_without_a_version_starts_with_existing_objects(
    query: str, served: Served, http: aiohttp.ClientSession
) -> None:
    await served.store.put("pods", pod("a"))
    async with http.get(f"/api/v1/pods?{query}") as response:
        assert brief(await read_watch(response, 1)) == [("ADDED", "a")]
        await served.store.put("pods", pod("b"))
        assert brief(await read_watch(response, 1)) == [("ADDED", "b")]


async def test_watch_with_initial_events(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("pods", pod("a"))
    query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
    async with http.get(f"{PODS}?{query}&resourceVersionMatch=NotOlderThan") as response:
        (first, _), (second, mark) = await read_watch(response, 2)
    assert (first, second) == ("ADDED", "BOOKMARK")
    assert mark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_a_table_marks_the_end_of_the_initial_events(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await served.store.put("pods", pod("a"))
    query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
    path = f"{PODS}?{query}&resourceVersionMatch=NotOlderThan"
    async with http.get(path, headers=TABLE) as response:
        (_, first), (kind, mark) = await read_watch(response, 2)
    assert (kind, mark["kind"]) == ("BOOKMARK", "Table")
    [row] = mark["rows"]
    assert len(row["cells"]) == len(first["columnDefinitions"])
    assert row["object"]["metadata"] == {
        "resourceVersion": mark["metadata"]["resourceVersion"],
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


async def test_a_watch_without_initial_events(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("pods", pod("a"))
    query = "watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    async with http.get(f"{PODS}?{query}") as response:
        await served.store.put("pods", pod("b"))
        assert brief(await read_watch(response, 1)) == [("ADDED", "b")]


async def test_watch_of_a_selector(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("pods", pod("a", phase="Pending"))
    version = (await served.store.list("pods")).resource_version
    query = f"watch=true&resourceVersion={version}&fieldSelector=status.phase%3DRunning"
    async with http.get(f"{PODS}?{query}") as response:
        await served.store.put("pods", pod("hidden", phase="Pending"))
        await served.store.put("pods", pod("a", app="x"))
        await served.store.put("pods", pod("a", app="y"))
        await served.store.put("pods", pod("a", phase="Failed"))
        await served.store.delete("pods", "default", "a")
        await served.store.put("pods", pod("b"))
        events = await read_watch(response, 4)
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    last = events[2][1]
    assert (last["status"]["phase"], last["metadata"]["labels"]) == ("Running", {"app": "y"})
    versions = [int(item["metadata"]["resourceVersion"]) for _, item in events]
    assert versions == sorted(set(versions))


async def test_bookmarks_have_the_current_version(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", bookmark_seconds=0.01) as served:
        connector = aiohttp.UnixConnector(str(served.socket))
        async with (
            aiohttp.ClientSession("http://x", connector=connector) as http,
            http.get(f"{PODS}?watch=true&allowWatchBookmarks=true") as response,
        ):
            await read_watch(response, 1)
            # A change in another namespace is not sent, but advances the bookmark.
            stored = await served.store.put("pods", pod("a", "other"))
            async with asyncio.timeout(120):
                while True:
                    [(kind, mark)] = await read_watch(response, 1)
                    if mark["metadata"]["resourceVersion"] == stored.metadata.resourceVersion:
                        break
            assert kind == "BOOKMARK"
            assert mark["kind"] == "Pod"


async def test_watch_ends_after_its_time(http: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(120), http.get(f"{PODS}?watch=true&timeoutSeconds=1") as response:
        assert await response.read() == b""


async def test_a_watch_that_falls_behind_gets_an_error(
    served: Served, http: aiohttp.ClientSession
) -> None:
    async with http.get(f"{PODS}?watch=true") as response:
        # The whole burst happens without the server getting a turn.
        for index in range(5000):
            await served.store.put("pods", pod(f"p{index}"))
        [(kind, status)] = await read_watch(response, 1)
        assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
        assert await response.content.read() == b""


async def test_a_watch_of_an_old_version_gets_an_error(
    served: Served, http: aiohttp.ClientSession
) -> None:
    await served.store.put("pods", pod("a"))
    async with http.get(f"{PODS}?watch=true&resourceVersion=1") as response:
        [(kind, status)] = await read_watch(response, 1)
        assert (response.status, kind) == (200, "ERROR")
        assert (status["kind"], status["code"], status["reason"]) == ("Status", 410, "Expired")
        assert status["message"].startswith("too old resource version: 1 (")
        assert await response.content.read() == b""


async def test_many_changes_share_chunks(served: Served, http: aiohttp.ClientSession) -> None:
    async with http.get(f"{PODS}?watch=true") as response:
        for index in range(100):
            await served.store.put("pods", pod(f"p{index}"))
        await response.content.readline()
        chunks = 0
        lines = 1
        async with asyncio.timeout(120):
            while lines < 100:
                lines += (await response.content.readany()).count(b"\n")
                chunks += 1
        assert chunks < 20


async def test_a_disconnected_client_ends_its_watch(
    served: Served, http: aiohttp.ClientSession
) -> None:
    response = await http.get(f"{PODS}?watch=true")
    assert len(served.app[STREAMS]) == 1
    response.close()
    async with asyncio.timeout(120):
        while len(served.app[STREAMS]):  # noqa: ASYNC110 - nothing tells when a stream is gone
            await asyncio.sleep(0.01)


async def test_shutting_down_ends_watches_and_logs_cleanly(tmp_path: Path) -> None:
    async with serving(tmp_path / "s") as served:
        await served.store.put("pods", pod("web"))
        connector = aiohttp.UnixConnector(str(served.socket))
        session = aiohttp.ClientSession("http://x", connector=connector)
        watch = await session.get("/api/v1/pods?watch=true")
        await read_watch(watch, 1)
        log = await session.get(f"{PODS}/web/log?follow=true")
        assert log.status == 200
    async with asyncio.timeout(120):
        assert await watch.content.read() == b""
        assert await log.content.read() == b""
    await session.close()
    assert served.kubelet.closed_logs == 1


# --- tables


async def test_table_of_pods(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("pods", pod("web"))
    await served.store.put("pods", pod("next", phase="Pending"))
    found = await fetch(http, PODS, headers=TABLE)
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert found["metadata"]["resourceVersion"]
    columns = [(c["name"], c["priority"]) for c in found["columnDefinitions"]]
    assert columns[:6] == [
        ("Name", 0),
        ("Ready", 0),
        ("Status", 0),
        ("Restarts", 0),
        ("Age", 0),
        ("IP", 1),
    ]
    first, second = found["rows"]
    assert first["cells"][:4] == ["next", "0/1", "Pending", "0"]
    assert second["cells"][:4] == ["web", "1/1", "Running", "0"]
    assert second["cells"][5:] == ["10.0.0.7", "node", "<none>", "<none>"]
    assert second["object"]["kind"] == "PartialObjectMetadata"
    assert second["object"]["metadata"]["name"] == "web"
    assert "spec" not in second["object"]


async def test_table_of_one_with_its_object(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("nodes", node())
    found = await fetch(http, "/api/v1/nodes/node?includeObject=Object", headers=TABLE)
    [row] = found["rows"]
    assert row["cells"][:3] == ["node", "Ready", "<none>"]
    assert row["object"]["kind"] == "Node"
    assert row["object"]["status"]["nodeInfo"]["osImage"] == "Debian"


async def test_metadata_alone(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("pods", pod("web", app="web"))
    accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
    found = await fetch(http, PODS, headers=accept)
    assert found["kind"] == "PartialObjectMetadataList"
    [item] = found["items"]
    assert (item["kind"], item["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert item["metadata"]["labels"] == {"app": "web"}
    assert set(item) == {"kind", "apiVersion", "metadata"}
    accept = {"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
    assert await fetch(http, f"{PODS}/web", headers=accept) == item
    async with http.get(f"{PODS}?watch=true", headers=accept) as response:
        [(kind, watched)] = await read_watch(response, 1)
    assert (kind, watched) == ("ADDED", item)
    async with http.get(PODS, headers=accept) as response:
        assert response.status == 406


async def test_watch_of_tables(served: Served, http: aiohttp.ClientSession) -> None:
    await served.store.put("events", event("e1"))
    path = "/api/v1/namespaces/default/events?watch=true"
    async with http.get(path, headers=TABLE) as response:
        await served.store.put("events", event("e2", reason="Pulled"))
        events = await read_watch(response, 2)
    tables = [item for _, item in events]
    assert [item["rows"][0]["cells"][2] for item in tables] == ["Started", "Pulled"]
    assert tables[0]["columnDefinitions"][0]["name"] == "Last Seen"
    assert tables[1]["columnDefinitions"] is None
    assert tables[0]["rows"][0]["cells"][3] == "pod/web"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces",
        "/apis/metrics.k8s.io/v1beta1/pods",
        "/apis/metrics.k8s.io/v1beta1/nodes",
    ],
)
async def test_every_table_fills_its_columns(path: str, http: aiohttp.ClientSession) -> None:
    found = await fetch(http, path, headers=TABLE)
    assert found["rows"]
    assert all(len(r["cells"]) == len(found["columnDefinitions"]) for r in found["rows"])
