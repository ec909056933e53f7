"""The cost of the API: a list, watches, patches, records and pods in memory, and a pod created
over it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import yaml

from benchmarks import agent as agents
from benchmarks import engine
from benchmarks.report import Row, row
from benchmarks.worlds import world

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PODS = "http://localhost/api/v1/namespaces/default/pods"
WATCHERS = 10
EVENTS = 1_000
RECORDS = 1_000
PATCH_WATCHERS = 20
PATCHES_PER_SECOND = 100
API_PODS = 1_000


def measure(*, quick: bool) -> list[Row]:
    return [
        *_lists(20 if quick else 200),
        *_watches(3.0 if quick else 10.0),
        *_patches(200 if quick else 2_000),
        *_records(),
        *_api_pods(),
        *_created(3 if quick else 9),
    ]


def _session(root: Path) -> aiohttp.ClientSession:
    connector = aiohttp.UnixConnector(str(root / "podtui.sock"), limit=0)
    return aiohttp.ClientSession(connector=connector)


def _lists(requests: int) -> list[Row]:
    """Measure the CPU time of the agent for the request of ``kubectl get pods``."""
    with agents.running("memory") as agent:
        for index in range(50):
            agent.drop(f"list-{index}")
        agent.settle(50)
        time.sleep(3)

        async def ask() -> None:
            async with _session(agent.root) as session:
                for _ in range(requests):
                    query, headers = {"limit": "500"}, {"Accept": TABLE}
                    async with session.get(PODS, params=query, headers=headers) as response:
                        await response.read()

        values: list[float] = []
        for _ in range(5):
            before = agent.cpu_seconds()
            asyncio.run(ask())
            values.append((agent.cpu_seconds() - before) * 1e3 / requests)
    return [row("kubectl get pods with 50 pods: CPU time of the agent", values, "ms", bound=10)]


def _watches(seconds: float) -> list[Row]:
    """Measure the server while each of the watchers gets 1,000 events a second."""
    with world(pods=RECORDS, changes=EVENTS) as found:
        server = next(
            child
            for child in psutil.Process().children(recursive=True)
            if str(found.root) in " ".join(child.cmdline())
        )
        received = [0] * WATCHERS

        async def follow(session: aiohttp.ClientSession, number: int) -> None:
            query = {"watch": "true"}
            async with session.get("http://localhost/api/v1/pods", params=query) as response:
                async for data in response.content.iter_any():
                    received[number] += data.count(b"\n")

        async def run() -> tuple[float, float]:
            async with _session(found.root) as session, asyncio.TaskGroup() as group:
                tasks = [group.create_task(follow(session, n)) for n in range(WATCHERS)]
                await asyncio.sleep(3)
                counted, before = sum(received), agents.cpu_seconds(server.pid)
                began = time.monotonic()
                await asyncio.sleep(seconds)
                took = time.monotonic() - began
                used = 100 * (agents.cpu_seconds(server.pid) - before) / took
                rate = (sum(received) - counted) / took / WATCHERS
                for task in tasks:
                    task.cancel()
            return used, rate

        used, rate = asyncio.run(run())
    return [
        row(f"{WATCHERS} watchers, events a second to each", [rate], ""),
        row(f"{WATCHERS} watchers, the server that makes and sends them", [used],
            "% of a core", bound=50),
    ]  # fmt: skip


def _patches(count: int) -> list[Row]:
    """Measure the CPU time of the agent for a PATCH that changes a pod, while others watch pods."""
    merge = {"Content-Type": "application/merge-patch+json"}
    with agents.running("memory") as agent:

        async def watch(session: aiohttp.ClientSession) -> None:
            async with session.get(PODS, params={"watch": "true"}) as response:
                async for _ in response.content.iter_any():
                    pass

        async def patch(session: aiohttp.ClientSession, first: int, number: int) -> None:
            begin = time.monotonic()
            for index in range(number):
                body = {"metadata": {"annotations": {"turn": str(first + index)}}}
                url = f"{PODS}/patched"
                async with session.patch(url, json=body, headers=merge) as response:
                    response.raise_for_status()
                await asyncio.sleep(begin + (index + 1) / PATCHES_PER_SECOND - time.monotonic())

        async def run() -> list[float]:
            values: list[float] = []
            async with _session(agent.root) as session, asyncio.TaskGroup() as group:
                async with session.post(PODS, json=_pod("patched")) as response:
                    response.raise_for_status()
                await asyncio.to_thread(agent.settle, 1)
                tasks = [group.create_task(watch(session)) for _ in range(PATCH_WATCHERS)]
                await patch(session, 0, 50)
                for turn in range(5):
                    idle = await _cpu_seconds(agent, asyncio.sleep(count / PATCHES_PER_SECOND / 5))
                    first = 100 + turn * count
                    used = await _cpu_seconds(agent, patch(session, first, count // 5))
                    values.append((used - idle) * 1e3 / (count // 5))
                for task in tasks:
                    task.cancel()
            return values

        values = asyncio.run(run())
    return [
        row(f"one PATCH of a pod with {PATCH_WATCHERS} watchers: CPU time of the agent", values,
            "ms", bound=2)
    ]  # fmt: skip


async def _cpu_seconds(agent: agents.Agent, work: Awaitable[None]) -> float:
    before = agent.cpu_seconds()
    await work
    return agent.cpu_seconds() - before


def _api_pods() -> list[Row]:
    """Measure the agent's memory with many running pods that were created over the API."""
    with agents.running("memory") as agent:

        async def create() -> None:
            async with _session(agent.root) as session:
                for number in range(API_PODS):
                    pod = yaml.safe_load(agents.MANIFEST.format(name=f"p{number}", version="1"))
                    async with session.post(PODS, json=pod) as response:
                        response.raise_for_status()

        asyncio.run(create())
        agent.settle(API_PODS)
        _, memory = agent.cpu_and_memory(10)
    return [
        row(f"memory of the agent with {API_PODS:,} pods created over the API, simulated engine",
            [memory], "MB", bound=150)
    ]  # fmt: skip


def _pod(name: str) -> dict[str, object]:
    pod = yaml.safe_load(agents.MANIFEST.format(name=name, version="1"))
    # A static pod has no token either.
    pod["spec"]["automountServiceAccountToken"] = False
    return pod


def _records() -> list[Row]:
    """Measure the agent's memory with many ConfigMaps."""
    with agents.running("memory") as agent:

        async def create() -> None:
            url = "http://localhost/api/v1/namespaces/default/configmaps"
            async with _session(agent.root) as session:
                for number in range(RECORDS):
                    body = {"metadata": {"name": f"c{number}"}, "data": {"key": "x" * 1000}}
                    async with session.post(url, json=body) as response:
                        response.raise_for_status()

        asyncio.run(create())
        _, memory = agent.cpu_and_memory(2)
    return [row(f"memory of the agent with {RECORDS:,} records of 1 kB", [memory], "MB", bound=120)]


def _created(runs: int) -> list[Row]:
    """Measure a pod from the request, or from the file, to its process, alternately."""
    over_api: list[float] = []
    as_file: list[float] = []
    with agents.running() as agent:
        for turn in range(runs):
            name = f"a{turn}-{time.monotonic_ns()}"
            with engine.watching() as watcher:
                begin = agent.drop(name)
                as_file.append(_seconds(watcher, name, begin))
            agent.remove(name)
            name = f"b{turn}-{time.monotonic_ns()}"
            with engine.watching() as watcher:
                begin = time.time_ns()
                asyncio.run(request(agent.root, "POST", PODS, _pod(name)))
                over_api.append(_seconds(watcher, name, begin))
            options = {"gracePeriodSeconds": 0}
            asyncio.run(request(agent.root, "DELETE", f"{PODS}/{name}", options))
            time.sleep(2)
    return [
        row("an API pod from create to running", over_api, "s", floor=as_file,
            floor_name="the same pod as a file", bound=1.15)
    ]  # fmt: skip


def _seconds(watcher: engine.Watcher, name: str, begin: int) -> float:
    def starts(events: list[tuple[str, str, int]]) -> list[int]:
        prefix = f"k8s_app_{name}"
        return [at for act, one, at in events if act == "start" and one.startswith(prefix)]

    watcher.wait(lambda events: bool(starts(events)), 60)
    return (starts(watcher.events)[0] - begin) / 1e9


async def request(
    root: Path, method: str, url: str, body: object, media: str = "application/json"
) -> None:
    """Send a request to an agent. Raises `aiohttp.ClientError`."""
    headers = {"Content-Type": media}
    async with (
        _session(root) as session,
        session.request(method, url, data=json.dumps(body), headers=headers) as response,
    ):
        response.raise_for_status()


def create(agent: agents.Agent, *items: dict[str, Any], url: str) -> int:
    """Create objects one after another; return the time before the first, in nanoseconds."""

    async def post() -> None:
        for item in items:
            await request(agent.root, "POST", url, item)

    begin = time.time_ns()
    asyncio.run(post())
    return begin
