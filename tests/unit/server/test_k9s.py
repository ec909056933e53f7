"""The requests that k9s sends when it starts, with the headers of its client library.

From its source (``internal/client``, ``internal/dao``, ``internal/watch``; v0.50): the version,
discovery, access reviews, the valid namespaces, metrics, a table of pods, and informers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from served import line, node, pod
from tls_world import TlsWorld, tls_world

from podtui.clock import SystemClock
from podtui.pki.certificates import make_key, server_names
from podtui.pki.pki import Pki
from podtui.pki.tokens import TokenIssuer
from podtui.server.auth.access import Access
from podtui.server.auth.reviews import ReviewRoutes
from podtui.server.auth.service_accounts import TokenRegistry
from podtui.server.resources.garbage_collector import GarbageCollector
from podtui.store import open_store

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
TABLES = (
    "application/json;as=Table;v=v1;g=meta.k8s.io,"
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
)
TYPED = "application/json, */*"
INFORMED = ("pods", "nodes", "namespaces", "events", "configmaps", "secrets", "serviceaccounts")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[TlsWorld]:
    clock = SystemClock()
    store = open_store(None, clock=clock)
    tokens = TokenRegistry(store, TokenIssuer(make_key()), clock)
    pki = Pki(tmp_path / "pki", clock.now())
    await store.put("pods", pod("web"))
    await store.put("nodes", node())
    async with tls_world(
        tmp_path,
        store=store,
        access=Access(pki.token, names=server_names(()), verify=tokens.verify),
        extra_routes=ReviewRoutes(tokens, clock).routes(),
    ) as it:
        yield it
    await store.close()


@pytest.fixture
async def k9s(world: TlsWorld) -> AsyncIterator[aiohttp.ClientSession]:
    async with world.client() as client:
        client.headers["User-Agent"] = "k9s/v0.50.0 (linux/amd64) kubernetes/$Format"
        yield client


async def get(client: aiohttp.ClientSession, path: str, accept: str = TYPED, **query: str) -> Any:
    async with client.get(path, params=query, headers={"Accept": accept}) as response:
        assert response.status == 200, (path, await response.text())
        return await response.json()


async def test_k9s_finds_version_and_resources(k9s: aiohttp.ClientSession) -> None:
    assert (await get(k9s, "/version", timeout="15s"))["gitVersion"].startswith("v1.")
    verbs: dict[str, list[str]] = {}
    for root in ("/api", "/apis"):
        for group in (await get(k9s, root, AGGREGATED))["items"]:
            for version in group["versions"]:
                for one in version["resources"]:
                    verbs.setdefault(one["resource"], one["verbs"])
    # It shows only resources with these verbs.
    assert {"list", "watch"} <= set(verbs["pods"])
    assert {"pods", "nodes", "namespaces", "events"} <= verbs.keys()


async def test_k9s_reviews_its_access(k9s: aiohttp.ClientSession) -> None:
    for verb, resource, namespace in (
        ("list", "namespaces", ""), ("get", "pods", "default"), ("list", "pods", ""),
        ("watch", "pods", "default"), ("list", "nodes", ""), ("delete", "pods", "default"),
    ):  # fmt: skip
        wanted = {"namespace": namespace, "verb": verb, "version": "v1", "resource": resource}
        review = {
            "kind": "SelfSubjectAccessReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {"creationTimestamp": None},
            "spec": {"resourceAttributes": {key: value for key, value in wanted.items() if value}},
            "status": {"allowed": False},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        async with k9s.post(path, json=review, headers={"Accept": TYPED}) as response:
            assert response.status == 201
            assert (await response.json())["status"]["allowed"] is True


async def test_k9s_reads_namespaces_and_metrics(k9s: aiohttp.ClientSession) -> None:
    names = {one["metadata"]["name"] for one in (await get(k9s, "/api/v1/namespaces"))["items"]}
    assert isinstance(names, set)
    found = await get(k9s, "/apis/metrics.k8s.io/v1beta1/nodes")
    assert found["items"][0]["usage"].keys() == {"cpu", "memory"}
    assert (await get(k9s, "/apis/metrics.k8s.io/v1beta1/pods"))["items"]


async def test_k9s_shows_a_table_of_pods(k9s: aiohttp.ClientSession) -> None:
    for path in ("/api/v1/pods", "/api/v1/namespaces/default/pods"):
        table = await get(k9s, path, TABLES, includeObject="Object")
        assert table["kind"] == "Table"
        assert [column["name"] for column in table["columnDefinitions"]][:3] == [
            "Name", "Ready", "Status",
        ]  # fmt: skip
        assert table["rows"][0]["object"]["kind"] == "Pod"


@pytest.mark.parametrize("resource", INFORMED)
async def test_informers_of_k9s_list_and_watch(k9s: aiohttp.ClientSession, resource: str) -> None:
    path = f"/api/v1/{resource}"
    listed = await get(k9s, path, "application/json", limit="500", resourceVersion="0")
    version = listed["metadata"]["resourceVersion"]
    query = {
        "allowWatchBookmarks": "true", "resourceVersion": version, "timeoutSeconds": "590",
        "watch": "true",
    }  # fmt: skip
    async with k9s.get(path, params=query) as response:
        assert response.status == 200
    # Newer client libraries ask for the list as the first part of the watch.
    query = {
        "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan",
        "sendInitialEvents": "true", "watch": "true",
    }  # fmt: skip
    async with k9s.get(path, params=query) as response, asyncio.timeout(120):
        assert response.status == 200
        kinds: list[str] = []
        async for line in response.content:
            event = json.loads(line)
            kinds.append(event["type"])
            if event["type"] == "BOOKMARK":
                end = event["object"]["metadata"]["annotations"]
                assert end == {"k8s.io/initial-events-end": "true"}
                break
    assert kinds[:-1] == ["ADDED"] * len(listed["items"])


async def test_k9s_follows_a_log(world: TlsWorld, k9s: aiohttp.ClientSession) -> None:
    world.served.kubelet.lines = [line(b"hello")]
    query = {"container": "c", "follow": "true", "tailLines": "100", "timestamps": "true"}
    path = "/api/v1/namespaces/default/pods/web/log"
    async with k9s.get(path, params=query, headers={"Accept": TYPED}) as response:
        assert response.status == 200
        assert (await response.content.readline()).endswith(b" hello\n")


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_k9s_deletes_a_pod(world: TlsWorld, k9s: aiohttp.ClientSession, policy: str) -> None:
    """As its dialog offers it; the dynamic client sends the options as the body."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
    path = "/api/v1/namespaces/default/pods/web"
    async with k9s.delete(path, json=options) as response:
        assert response.status == 200
        assert (await response.json())["metadata"]["deletionGracePeriodSeconds"] == 30
    # "Force" asks for no grace period.
    async with k9s.delete(path, json={**options, "gracePeriodSeconds": 0}) as response:
        assert response.status == 200
    async with asyncio.TaskGroup() as group:
        collector = GarbageCollector(world.served.store, SystemClock())
        collecting = group.create_task(collector.run())
        for _ in range(10_000):
            if await world.served.store.get("pods", "default", "web") is None:
                break
            await asyncio.sleep(0)
        collecting.cancel()
    assert await world.served.store.get("pods", "default", "web") is None
