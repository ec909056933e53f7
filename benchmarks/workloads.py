"""Deployments: their pods against the same pods as files, a rollout against bare calls, the agent
at rest with many of them, and one change among many pods."""

from __future__ import annotations

import asyncio
import contextlib
import time
from functools import partial
from typing import Any

import yaml

from benchmarks import agent as agents
from benchmarks import engine
from benchmarks.api import create, request
from benchmarks.pods import app_starts, gone, pairs_of, podtui_start_and_remove
from benchmarks.report import Row, row
from benchmarks.scale import CHANGES, SETTINGS, TURNS, cpu_seconds, wait_running

APPS = "http://localhost/apis/apps/v1/namespaces/default/deployments"
SERVICES = "http://localhost/api/v1/namespaces/default/services"
REPLICAS = 50
ROLLED_OUT = 20
WORKERS = 4
DEPLOYMENTS = 20
PODS_AT_REST = 50
PODS_OF_DEPLOYMENT = 10


def measure(*, quick: bool) -> list[Row]:
    engine.clear()
    with agents.running() as agent:
        podtui_start_and_remove(agent, 1)
        rows = [
            _created(agent, 10 if quick else REPLICAS, 1 if quick else 4),
            _rolled_out(agent, 4 if quick else ROLLED_OUT, 1 if quick else 4),
        ]
    engine.clear()
    return [*rows, *_at_rest(10.0 if quick else 60.0), _one_change(quick=quick)]


def deployment(name: str, replicas: int, version: str = "1") -> dict[str, Any]:
    """Return a Deployment with the pods of `benchmarks.agent.MANIFEST`."""
    spec = yaml.safe_load(agents.MANIFEST.format(name=name, version=version))["spec"]
    # A static pod has no token either.
    spec["automountServiceAccountToken"] = False
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _change(agent: agents.Agent, name: str, version: str) -> int:
    """Change the pods of a Deployment; return the time before, in nanoseconds."""
    spec = {"containers": [{"name": "app", "env": [{"name": "VERSION", "value": version}]}]}
    patch = {"spec": {"template": {"spec": spec}}}
    begin = time.time_ns()
    media = "application/strategic-merge-patch+json"
    asyncio.run(request(agent.root, "PATCH", f"{APPS}/{name}", patch, media))
    return begin


def delete(agent: agents.Agent, url: str, name: str) -> None:
    asyncio.run(request(agent.root, "DELETE", f"{url}/{name}", {}))


# --- on the real engine


def _created(agent: agents.Agent, count: int, runs: int) -> Row:
    files, created = pairs_of(
        runs,
        lambda: podtui_start_and_remove(agent, count).start,
        partial(_create_and_delete, agent, count),
    )
    return row(
        f"a Deployment of {count}, create → all running", created, "s",
        floor=files, floor_name="the same pods as files", bound=1.1,
    )  # fmt: skip


def _create_and_delete(agent: agents.Agent, count: int) -> float:
    name = f"d{time.monotonic_ns()}"
    with engine.watching() as watcher:
        begin = create(agent, deployment(name, count), url=APPS)
        watcher.wait(lambda events: len(app_starts(events, name)) >= count, 300)
        started = max(app_starts(watcher.events, name))
        agent.settle(count)
        delete(agent, APPS, name)
        watcher.wait(lambda events: len(gone(events, name)) >= 2 * count, 300)
    return (started - begin) / 1e9


def _rolled_out(agent: agents.Agent, count: int, runs: int) -> Row:
    from podtui.runtime.docker.pause import PAUSE_IMAGE

    bare, ours = pairs_of(
        runs,
        partial(engine.bare_rollout, count, WORKERS, PAUSE_IMAGE),
        partial(_roll_out, agent, count),
    )
    return row(
        f"a rollout of {count}, patch → old pods gone, new ones running", ours, "s",
        floor=bare, floor_name=f"bare starts and stops, {WORKERS} at a time", bound=1.15,
    )  # fmt: skip


def _roll_out(agent: agents.Agent, count: int) -> float:
    name = f"r{time.monotonic_ns()}"
    with engine.watching() as watcher:
        create(agent, deployment(name, count), url=APPS)
        watcher.wait(lambda events: len(app_starts(events, name)) >= count, 300)
        agent.settle(count)
        begin = _change(agent, name, "2")
        watcher.wait(
            lambda events: (
                len(app_starts(events, name)) >= 2 * count and len(gone(events, name)) >= 2 * count
            ),
            300,
        )
        last = max(*app_starts(watcher.events, name), *gone(watcher.events, name))
        delete(agent, APPS, name)
        watcher.wait(lambda events: len(gone(events, name)) >= 4 * count, 300)
    return (last - begin) / 1e9


def _at_rest(seconds: float) -> list[Row]:
    with agents.running() as agent:
        sizes = [PODS_AT_REST // DEPLOYMENTS] * DEPLOYMENTS
        for index in range(PODS_AT_REST % DEPLOYMENTS):
            sizes[index] += 1
        names = [f"rest-{index}" for index in range(DEPLOYMENTS)]
        create(agent, *map(deployment, names, sizes), url=APPS)
        create(agent, *map(_service, names), url=SERVICES)
        agent.settle(PODS_AT_REST)
        time.sleep(20)
        cpu, memory = agent.cpu_and_memory(seconds)
    what = f"agent at rest, {PODS_AT_REST} pods of {DEPLOYMENTS} Deployments with Services"
    return [
        row(f"{what}: CPU", [cpu], "% of a core", bound=0.7),
        row(f"{what}: RSS", [memory], "MB", bound=120.0),
    ]


def _service(name: str) -> dict[str, Any]:
    ports = [{"port": 80}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": name}, "ports": ports}}


# --- on the simulated engine


def _one_change(*, quick: bool) -> Row:
    """Measure as `benchmarks.scale` does: the CPU time of a rollout of one pod above idle."""
    counts = (10, 100 if quick else 1000)
    costs: dict[int, list[float]] = {count: [] for count in counts}
    with contextlib.ExitStack() as stack:
        running = {
            count: stack.enter_context(agents.running("memory", settings=SETTINGS))
            for count in counts
        }
        for count, agent in running.items():
            names = [f"scale-{index}" for index in range(count // PODS_OF_DEPLOYMENT)]
            create(agent, deployment("changed", 1), url=APPS)
            create(agent, *(deployment(name, PODS_OF_DEPLOYMENT) for name in names), url=APPS)
            wait_running(agent, count + 1)
        time.sleep(20)
        for turn in range(1 if quick else TURNS):
            idle = cpu_seconds(running.values(), lambda _, __: None)
            changed = cpu_seconds(
                running.values(),
                lambda agent, change, turn=turn: _change(agent, "changed", f"{turn}-{change}"),
            )
            for count, before, spent in zip(counts, idle, changed, strict=True):
                costs[count].append((spent - before) / CHANGES * 1e3)
    few, many = counts
    return row(
        f"agent: CPU of a rollout of one pod among {many:,} pods", costs[many], "ms",
        floor=costs[few], floor_name=f"among {few}", bound=1.2,
    )  # fmt: skip
