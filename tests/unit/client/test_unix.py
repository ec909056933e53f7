from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web
from msgspec import structs
from msgspec.structs import replace
from served import Served, event, line, node, pod, serving

from podtui.api.local import Manifest, ManifestSpec, ManifestState, ManifestStatus
from podtui.api.names import CONFIG_MIRROR
from podtui.api.v1 import EphemeralContainer, Event, Node, ObjectMeta, Pod
from podtui.client.protocol import Changed, Client, Delta, LogQuery, Lost, Removed, Synced
from podtui.client.unix import UnixClient
from podtui.clock import SystemClock
from podtui.errors import AgentUnavailable, ApiError
from podtui.server import serve_unix
from podtui.store import open_store

pytestmark = pytest.mark.virtual_time

LOG = LogQuery(container="c", follow=False, timestamps=False)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "s.sock") as it:
        yield it


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[UnixClient]:
    it = UnixClient(tmp_path / "s.sock")
    yield it
    await it.close()


def names(delta: Delta) -> list[str]:
    assert isinstance(delta, Synced | Changed | Removed), delta
    return [item.metadata.name for item in delta.items]


async def after(deltas: AsyncIterator[Delta]) -> Delta:
    async with asyncio.timeout(120):
        return await anext(deltas)


async def test_implements_the_client_protocol(client: UnixClient, served: Served) -> None:
    as_protocol: Client = client
    assert as_protocol.target == f"unix:{served.socket}"
    assert (await client.version()).startswith("v1.36.0+podtui")


async def test_get_of_every_kind(client: UnixClient, served: Served) -> None:
    manifest = Manifest(
        metadata=ObjectMeta(name="a b#c.yaml"),
        spec=ManifestSpec(path="/m/a b#c.yaml"),
        status=ManifestStatus(state=ManifestState.IGNORED),
    )
    stored = [
        await served.store.put("pods", pod("web")),
        await served.store.put("nodes", node()),
        await served.store.put("events", event("e")),
        await served.store.put("manifests", manifest),
    ]
    for item in stored:
        found = await client.get(type(item), item.metadata.namespace, item.metadata.name)
        assert structs.replace(found, kind="", apiVersion="") == structs.replace(
            item, kind="", apiVersion=""
        )
    with pytest.raises(ApiError) as refused:
        await client.get(Pod, "default", "none")
    assert refused.value.code == 404


async def test_follow_starts_with_a_list_and_continues_with_changes(
    client: UnixClient, served: Served
) -> None:
    await served.store.put("pods", pod("a"))
    await served.store.put("pods", pod("x", "other"))
    async with aclosing(client.follow(Pod, "default")) as deltas:
        assert names(await after(deltas)) == ["a"]
        await served.store.put("pods", pod("b"))
        changed = await after(deltas)
        assert isinstance(changed, Changed)
        assert names(changed) == ["b"]
        await served.store.delete("pods", "default", "a")
        removed = await after(deltas)
        assert isinstance(removed, Removed)
        assert names(removed) == ["a"]


async def test_follow_of_other_kinds(client: UnixClient, served: Served) -> None:
    await served.store.put("nodes", node())
    await served.store.put("events", event("e"))
    for kind, name in ((Node, "node"), (Event, "e")):
        async with aclosing(client.follow(kind)) as deltas:
            delta = await after(deltas)
            assert names(delta) == [name]
            assert isinstance(delta.items[0], kind)


async def test_changes_in_quick_succession_are_one_delta(
    client: UnixClient, served: Served
) -> None:
    async with aclosing(client.follow(Pod)) as deltas:
        assert names(await after(deltas)) == []
        for phase in ("1", "2", "3"):
            for name in ("a", "b"):
                await served.store.put("pods", pod(name, phase=phase))
        await served.store.put("pods", pod("c"))
        await served.store.put("pods", pod("a", phase="4"))
        await served.store.delete("pods", "default", "c")
        latest: dict[str, str] = {}
        count = 0
        while latest != {"a": "4", "b": "3"}:
            delta = await after(deltas)
            count += 1
            for item in delta.items:
                if isinstance(delta, Removed):
                    latest.pop(item.metadata.name, None)
                else:
                    latest[item.metadata.name] = item.status.phase
        assert count <= 3


async def test_two_hundred_changes_per_second_are_few_deltas(
    client: UnixClient, served: Served
) -> None:
    async def change() -> None:
        for index in range(100):
            await served.store.put("pods", pod("a", phase=str(index)))
            await asyncio.sleep(0.002)

    count = 0
    async with aclosing(client.follow(Pod)) as deltas, asyncio.TaskGroup() as group:
        await after(deltas)
        group.create_task(change())
        while True:
            delta = await after(deltas)
            count += 1
            if delta.items[-1].status.phase == "99":
                break
    assert count <= 40


async def test_a_replaced_pod_is_removed_before_it_is_added(
    client: UnixClient, served: Served
) -> None:
    await served.store.put("pods", pod("a"))
    async with aclosing(client.follow(Pod)) as deltas:
        await after(deltas)
        await served.store.delete("pods", "default", "a")
        successor = pod("a")
        meta = structs.replace(successor.metadata, uid="another")
        await served.store.put("pods", structs.replace(successor, metadata=meta))
        gone, come = await after(deltas), await after(deltas)
        assert isinstance(gone, Removed)
        assert [o.metadata.uid for o in gone.items] == ["uid-a"]
        assert isinstance(come, Changed)
        assert [o.metadata.uid for o in come.items] == ["another"]


async def test_reconnects_after_a_lost_connection_and_reports_it_once(
    client: UnixClient, tmp_path: Path
) -> None:
    async with aclosing(client.follow(Pod)) as deltas:
        assert await after(deltas) == Lost("no agent is running")
        async with serving(tmp_path / "s.sock"):
            assert names(await after(deltas)) == []
        assert isinstance(await after(deltas), Lost)
        store = open_store(None, clock=SystemClock())
        await store.put("pods", pod("b"))
        async with serving(tmp_path / "s.sock", store):
            synced = await after(deltas)
            assert isinstance(synced, Synced)
            assert names(synced) == ["b"]
        await store.close()


async def test_a_watch_that_ends_normally_is_resumed(tmp_path: Path) -> None:
    requests: list[str] = []

    async def pods(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            requests.append("list")
            return web.json_response({"metadata": {"resourceVersion": "5"}, "items": []})
        requests.append(request.query["resourceVersion"])
        version = {"5": "7", "7": "9"}.get(request.query["resourceVersion"])
        if version is None:
            gone = {"code": 410, "reason": "Expired", "message": "too old"}
            return web.Response(text=json.dumps({"type": "ERROR", "object": gone}) + "\n")
        meta = {"name": f"p{version}", "resourceVersion": version}
        found = {"metadata": meta, "spec": {"containers": []}}
        mark = {"metadata": {"resourceVersion": version}}
        lines = [{"type": "ADDED", "object": found}, {"type": "BOOKMARK", "object": mark}]
        return web.Response(text="".join(json.dumps(event) + "\n" for event in lines))

    app = web.Application()
    app.add_routes([web.get("/api/v1/pods", pods)])
    client = UnixClient(tmp_path / "s")
    async with serve_unix(app, tmp_path / "s"), aclosing(client.follow(Pod)) as deltas:
        assert names(await after(deltas)) == []
        assert names(await after(deltas)) == ["p7"]
        assert names(await after(deltas)) == ["p9"]
        # After the error that its version is too old, it lists again; nothing is lost.
        assert isinstance(await after(deltas), Synced)
    assert requests == ["list", "5", "7", "9", "list"]
    await client.close()


async def test_an_unreadable_response_counts_as_a_lost_connection(tmp_path: Path) -> None:
    async def pods(request: web.Request) -> web.Response:
        return web.Response(text="<html>")

    app = web.Application()
    app.add_routes([web.get("/api/v1/pods", pods)])
    client = UnixClient(tmp_path / "s")
    async with serve_unix(app, tmp_path / "s"), aclosing(client.follow(Pod)) as deltas:
        assert isinstance(await after(deltas), Lost)
    await client.close()


async def test_closing_ends_a_follow(client: UnixClient, served: Served) -> None:
    async def read_all() -> list[Delta]:
        return [delta async for delta in client.follow(Pod)]

    async with asyncio.timeout(120), asyncio.TaskGroup() as group:
        reader = group.create_task(read_all())
        async with aclosing(client.follow(Pod)) as deltas:
            await anext(deltas)
        await client.close()
    assert all(not isinstance(delta, Lost) for delta in reader.result())
    with pytest.raises(AgentUnavailable, match="closed"):
        await client.version()


# --- logs, metrics, commands


async def read_log(client: UnixClient, query: LogQuery) -> list[bytes]:
    async with asyncio.timeout(120):
        return [line async for batch in client.logs("default", "web", query) for line in batch]


async def test_logs(client: UnixClient, served: Served) -> None:
    await served.store.put("pods", pod("web"))
    served.kubelet.lines = [line(b"one"), line(b""), line(b"cut ", partial=True), line(b"here")]
    assert await read_log(client, LOG) == [b"one", b"", b"cut here"]
    stamped = replace(LOG, timestamps=True)
    assert (await read_log(client, stamped))[2] == b"2026-01-01T00:00:00.000000001Z cut here"


async def test_followed_logs_arrive_as_they_are_written(client: UnixClient, served: Served) -> None:
    await served.store.put("pods", pod("web"))
    served.kubelet.lines = [line(b"old"), line(b"last")]
    query = replace(LOG, follow=True, tail=1, since_seconds=60)
    async with asyncio.timeout(120), aclosing(client.logs("default", "web", query)) as batches:
        assert await anext(batches) == [b"last"]
        served.kubelet.more.put_nowait(line(b"new"))
        assert await anext(batches) == [b"new"]
        served.kubelet.more.put_nowait(None)
        assert [batch async for batch in batches] == []
    request = served.kubelet.log_requests[0]
    assert request[:4] == ("default", "web", "c", False)
    assert (request[4].follow, request[4].tail) == (True, 1)
    assert request[4].since is not None
    await read_log(client, replace(LOG, since_time="2026-01-01T00:00:05Z"))
    assert served.kubelet.log_requests[1][4].since == datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)


async def test_refused_logs(client: UnixClient, served: Served) -> None:
    with pytest.raises(ApiError, match='pods "web" not found'):
        await read_log(client, LOG)
    web = pod("web")
    waiting = structs.replace(web.spec.containers[0], name="waiting")
    spec = structs.replace(web.spec, containers=(*web.spec.containers, waiting))
    await served.store.put("pods", structs.replace(web, spec=spec))
    with pytest.raises(ApiError, match="waiting to start") as refused:
        await read_log(client, replace(LOG, container="waiting"))
    assert refused.value.code == 400


async def test_a_huge_line_arrives_in_parts(client: UnixClient, served: Served) -> None:
    await served.store.put("pods", pod("web"))
    huge = b"x" * (2 * 1024 * 1024 + 5)
    served.kubelet.lines = [line(huge), line(b"after")]
    lines = await read_log(client, LOG)
    assert [len(text) for text in lines] == [1024 * 1024, 1024 * 1024, 5, 5]
    assert lines[-1] == b"after"


async def test_many_lines_arrive_in_few_batches(client: UnixClient, served: Served) -> None:
    await served.store.put("pods", pod("web"))
    served.kubelet.lines = [line(b"%06d" % index) for index in range(50_000)]
    count, lines = 0, 0
    async with asyncio.timeout(120):
        async for batch in client.logs("default", "web", LOG):
            count += 1
            lines += len(batch)
    assert lines == 50_000
    assert count < 500


async def test_metrics(client: UnixClient, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    [found] = await client.pod_metrics()
    assert found.containers[0].usage["cpu"] == "12m"
    figures = await client.node_metrics()
    assert figures is not None
    assert figures.usage["memory"] == "512Mi"

    async def nothing() -> None:
        return None

    monkeypatch.setattr(served.kubelet, "node_metrics", nothing)
    assert await client.node_metrics() is None


async def test_metrics_of_a_server_without_them(tmp_path: Path) -> None:
    client = UnixClient(tmp_path / "s")
    async with serve_unix(web.Application(), tmp_path / "s"):
        assert await client.pod_metrics() == ()
        assert await client.node_metrics() is None
    await client.close()


async def test_retry(client: UnixClient, served: Served) -> None:
    await client.retry("default", "web")
    assert served.kubelet.retried == [("default", "web")]
    with pytest.raises(ApiError, match="not found") as refused:
        await client.retry("default", "missing")
    assert refused.value.code == 404


async def test_a_debug_container_is_added_to_a_pod(client: UnixClient, served: Served) -> None:
    item = pod("web")
    mirror = structs.replace(item.metadata, annotations={CONFIG_MIRROR: "1"})
    await served.store.put("pods", structs.replace(item, metadata=mirror))
    debugger = EphemeralContainer(name="d", image="busybox", targetContainerName="c", tty=True)
    await client.debug("default", "web", debugger)
    ((namespace, name, (added,)),) = served.kubelet.debugged
    assert (namespace, name) == ("default", "web")
    assert (added.name, added.image, added.targetContainerName) == ("d", "busybox", "c")
    with pytest.raises(ApiError) as refused:
        await client.debug("default", "missing", debugger)
    assert refused.value.code == 404


async def test_restart(client: UnixClient, served: Served) -> None:
    await client.restart("default", "web")
    await client.restart("default", "web", "c")
    assert served.kubelet.restarted == [("default", "web", ""), ("default", "web", "c")]
    with pytest.raises(ApiError, match="not found") as refused:
        await client.restart("default", "missing")
    assert refused.value.code == 404
    with pytest.raises(ApiError, match="would not start again") as refused:
        await client.restart("default", "web", "once")
    assert (refused.value.code, refused.value.reason) == (409, "Conflict")
