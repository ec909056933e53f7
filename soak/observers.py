"""Two observers of the rollouts: one follows the pods over the API, the other the containers on the
engine, which go on while no agent runs. Each checks the rules after every change."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import docker
import docker.errors

from podtui.api import names
from soak.workloads import (
    NAMESPACE,
    Instance,
    Limits,
    broken_by_end,
    broken_by_pods,
    broken_by_start,
    workload_name,
)
from soak.world import World

_PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
_RETRY_SECONDS: Final = 0.01
_SOURCES: Final = ("API", "engine")


@dataclass(slots=True)
class Observations:
    """The limits that hold now, and the rules that were broken. ``changes`` counts what
    each observer has checked; ``started`` counts the containers of each workload."""

    limits: dict[str, Limits] = field(default_factory=dict[str, Limits])
    problems: list[str] = field(default_factory=list[str])
    changes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SOURCES, 0))
    started: dict[str, int] = field(default_factory=dict[str, int])
    stopped: threading.Event = field(default_factory=threading.Event)

    def report(self, source: str, problems: list[str]) -> None:
        self.changes[source] += 1
        stamp = time.strftime("%H:%M:%S")
        self.problems += [f"{stamp} {source}: {one}" for one in problems]


@contextmanager
def observing(world: World) -> Generator[Observations]:
    """Observe the namespace during the block."""
    shared = Observations()
    pods, engine = _Pods(world, shared), _Engine(world, shared)
    threads = [threading.Thread(target=one.run, daemon=True) for one in (pods, engine)]
    for thread in threads:
        thread.start()
    try:
        yield shared
    finally:
        shared.stopped.set()
        engine.close()
        for thread in threads:
            thread.join(5)


class _Pods:
    """Lists and watches. A watch goes on after a restart of the agent where it ended, unless the
    agent has lost that version: then the pods are listed again."""

    def __init__(self, world: World, shared: Observations) -> None:
        self._world = world
        self._shared = shared
        self._pods: dict[str, Mapping[str, Any]] = {}
        self._version = ""

    def run(self) -> None:
        while not self._shared.stopped.is_set():
            with suppress(OSError, http.client.HTTPException, ValueError):
                if not self._version:
                    self._list()
                self._watch()
            time.sleep(_RETRY_SECONDS)

    def _list(self) -> None:
        listed = self._world.get(_PODS)
        self._version = listed["metadata"]["resourceVersion"]
        self._pods = {pod["metadata"]["uid"]: pod for pod in listed["items"]}
        for name in {workload_name(pod["metadata"]["name"]) for pod in self._pods.values()}:
            self._check(name)

    def _watch(self) -> None:
        query = f"watch=true&allowWatchBookmarks=true&resourceVersion={self._version}"
        with closing(self._world.connect(timeout=60)) as connection:
            connection.request("GET", f"{_PODS}?{query}")
            response = connection.getresponse()
            if response.status != 200:
                self._version = ""
                return
            while not self._shared.stopped.is_set() and (line := response.readline()):
                self._take(json.loads(line))

    def _take(self, event: Mapping[str, Any]) -> None:
        item = event["object"]
        if event["type"] == "ERROR":
            self._version = ""
            return
        self._version = item["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        uid = item["metadata"]["uid"]
        if event["type"] == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = item
        self._check(workload_name(item["metadata"]["name"]))

    def _check(self, name: str) -> None:
        if (limit := self._shared.limits.get(name)) is None:
            return
        mine = [p for p in self._pods.values() if workload_name(p["metadata"]["name"]) == name]
        problems = broken_by_pods(limit, mine)
        if problems:
            problems.append(f"the pods are {', '.join(map(_described, mine))}")
        self._shared.report("API", problems)


def _described(pod: Mapping[str, Any]) -> str:
    """Return what the rules depend on, and the version of the record."""
    metadata, status = pod["metadata"], pod["status"]
    ready = [one for one in status.get("conditions", []) if one["type"] == "Ready"]
    states = [one["state"] for one in status.get("containerStatuses", [])]
    deleted = f" deleted {at}" if (at := metadata.get("deletionTimestamp")) else ""
    return (
        f"{metadata['name']} {metadata['uid'][:8]} at {metadata['resourceVersion']}{deleted}"
        f" {status.get('phase')} {ready} {states}"
    )


class _Engine:
    """Counts the running app containers by the engine's events."""

    def __init__(self, world: World, shared: Observations) -> None:
        self._shared = shared
        self._running: dict[str, Instance] = {}
        # The stub of the SDK omits None, which is no timeout.
        self._client = docker.APIClient(
            base_url=world.engine.url, version="1.41", timeout=None  # pyright: ignore[reportArgumentType]
        )  # fmt: skip
        self._stream = self._client.events(
            decode=True, since=int(time.time()),
            filters={"label": [world.label, f"{names.POD_NAMESPACE}={NAMESPACE}"],
                     "type": "container", "event": ["start", "die"]},
        )  # fmt: skip

    def run(self) -> None:
        with suppress(docker.errors.DockerException, OSError, ValueError):
            for event in self._stream:
                self._take(event)

    def close(self) -> None:
        with suppress(OSError):
            self._stream.close()
        self._client.close()

    def _take(self, event: Mapping[str, Any]) -> None:
        labels = event["Actor"]["Attributes"]
        container = labels.get(names.CONTAINER_NAME, names.SANDBOX_CONTAINER_NAME)
        if container == names.SANDBOX_CONTAINER_NAME:
            return
        instance = Instance(labels[names.POD_NAME], labels[names.POD_UID])
        name = workload_name(instance.pod)
        others = [one for one in self._running.values() if workload_name(one.pod) == name]
        limit = self._shared.limits.get(name)
        if event["Action"] == "start":
            self._shared.started[name] = self._shared.started.get(name, 0) + 1
            self._running[event["Actor"]["ID"]] = instance
            problems = broken_by_start(limit, others, instance) if limit is not None else []
        else:
            ended = self._running.pop(event["Actor"]["ID"], None)
            left = [one for one in others if one is not ended]
            problems = broken_by_end(limit, left) if limit is not None else []
        self._shared.report("engine", problems)
