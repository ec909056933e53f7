"""Watches held by many clients while records change: complete, in order, and of bounded cost."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from pathlib import Path

import aiohttp
from msgspec import structs
from served import Served, pod, serving

from podtui.api.v1 import Pod
from podtui.clock import SystemClock
from podtui.store import open_store

CLIENTS = 50
PODS = 100
CHANGES = 1_000
LIMIT = 256 * 1024
"""The bytes that the server buffers for a client that does not read."""


def changed(number: int) -> Pod:
    one = pod(f"p{number % PODS}")
    labels = {"change": str(number)}
    return structs.replace(one, metadata=structs.replace(one.metadata, labels=labels))


async def follow(
    session: aiohttp.ClientSession, version: str, started: asyncio.Semaphore, until: int
) -> list[tuple[int, str]]:
    """Return (resourceVersion, change label) of the events, up to the change ``until``."""
    found: list[tuple[int, str]] = []
    query = {"watch": "true", "resourceVersion": version}
    async with session.get("http://localhost/api/v1/pods", params=query) as response:
        assert response.status == 200
        started.release()
        async for line in response.content:
            event = json.loads(line)
            assert event["type"] in ("ADDED", "MODIFIED"), event
            meta = event["object"]["metadata"]
            found.append((int(meta["resourceVersion"]), meta["labels"]["change"]))
            if meta["labels"]["change"] == str(until):
                return found
    raise AssertionError("the watch ended before the last change")


async def version_of(session: aiohttp.ClientSession) -> str:
    async with session.get("http://localhost/api/v1/pods") as response:
        return (await response.json())["metadata"]["resourceVersion"]


async def make_changes(served: Served) -> None:
    for number in range(CHANGES):
        await served.store.put("pods", changed(number))
        if number % 20 == 0:
            await asyncio.sleep(0)


async def test_each_of_fifty_clients_sees_every_change_once_and_in_order(tmp_path: Path) -> None:
    async with serving(tmp_path / "s") as served:
        connector = aiohttp.UnixConnector(str(served.socket), limit=0)
        async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
            version = await version_of(session)
            started = asyncio.Semaphore(0)
            async with asyncio.TaskGroup() as group:
                followers = [
                    group.create_task(follow(session, version, started, CHANGES - 1))
                    for _ in range(CLIENTS)
                ]
                for _ in range(CLIENTS):
                    await started.acquire()
                await make_changes(served)
            for follower in followers:
                found = follower.result()
                assert [label for _, label in found] == [str(n) for n in range(CHANGES)]
                versions = [version for version, _ in found]
                assert versions == sorted(set(versions))


async def test_a_client_that_does_not_read_costs_little_and_delays_no_other(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "s") as served:
        _, stalled = await asyncio.open_unix_connection(str(served.socket), limit=1024)
        stalled.write(b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await stalled.drain()
        connector = aiohttp.UnixConnector(str(served.socket), limit=0)
        async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
            version, started = await version_of(session), asyncio.Semaphore(0)
            await make_changes(served)
            tracemalloc.start()
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(follow(session, version, started, CHANGES - 1))
                await started.acquire()
                before, _ = tracemalloc.get_traced_memory()
                for _ in range(3):
                    await make_changes(served)
                after, _ = tracemalloc.get_traced_memory()
            tracemalloc.stop()
        assert len(reader.result()) >= CHANGES
        # The ring of changes holds their objects; the stalled client adds its buffer alone.
        assert after - before < 40 * LIMIT
        stalled.transport.abort()


async def test_a_client_that_fell_too_far_behind_gets_410_and_can_list_again(
    tmp_path: Path,
) -> None:
    store = open_store(None, clock=SystemClock(), history={"pods": 64})
    async with serving(tmp_path / "s", store) as served:
        connector = aiohttp.UnixConnector(str(served.socket), limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            version = await version_of(session)
            await make_changes(served)
            query = {"watch": "true", "resourceVersion": version}
            async with session.get("http://localhost/api/v1/pods", params=query) as response:
                text = await response.text()
            event = json.loads(text.splitlines()[0]) if response.status == 200 else None
            status = json.loads(text) if event is None else event["object"]
            assert (status["code"], status["reason"]) == (410, "Expired")
            query["resourceVersion"] = await version_of(session)
            await served.store.put("pods", changed(7777))
            async with session.get("http://localhost/api/v1/pods", params=query) as response:
                line = await anext(aiter(response.content))
            assert json.loads(line)["object"]["metadata"]["labels"] == {"change": "7777"}
    await store.close()
