"""A controller asks the API for the owner before it creates or adopts pods: caches may be old."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from controller_store import ControllerStore, RecordedEvents
from fixed_clock import FixedClock
from msgspec import structs

from podtui.api.apps import ControllerRevision, DaemonSet, ReplicaSet, StatefulSet
from podtui.api.batch import Job
from podtui.api.objects import Object
from podtui.api.v1 import (
    Node,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
)
from podtui.client.cache import Cache
from podtui.controllers.daemon_sets import DaemonSetController
from podtui.controllers.events import ControllerEvents
from podtui.controllers.jobs import JobController
from podtui.controllers.loop import Controller
from podtui.controllers.replica_sets import ReplicaSetController
from podtui.controllers.stateful_sets import StatefulSetController
from podtui.errors import ApiError

LABELS = {"app": "a"}
KINDS = (ReplicaSet, ReplicationController, StatefulSet, DaemonSet, Job)


def owner(kind: type[Object]) -> Object:
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Always"},
    }
    selector: Any = LABELS if kind is ReplicationController else {"matchLabels": LABELS}
    spec = {"replicas": 2, "selector": selector, "template": template}
    if kind is Job:
        spec = {"parallelism": 2, "completions": 2, "selector": selector, "template": template}
    if kind is StatefulSet:
        spec |= {"serviceName": "a", "podManagementPolicy": "Parallel"}
    meta = {"name": "a", "namespace": "ns", "uid": "old", "generation": 1}
    return msgspec.convert({"metadata": meta, "spec": spec}, kind)


def stored(item: Object, state: str) -> Object:
    """Return the owner as the API has it."""
    meta = item.metadata
    match state:
        case "alive":
            return item
        case "deleting":
            meta = structs.replace(meta, deletionTimestamp="2026-01-01T00:00:00Z")
        case "another":
            meta = structs.replace(meta, uid="new")
        case _:
            raise ApiError(404, "NotFound", "not found")
    return structs.replace(cast("Any", item), metadata=meta)


def controller(kind: type[Object], cache: Cache, store: ControllerStore) -> Controller:
    clock, events = store.clock, cast("ControllerEvents", RecordedEvents())
    if kind is StatefulSet:
        return StatefulSetController(cache, store, events, clock)
    if kind is DaemonSet:
        return DaemonSetController(cache, store, events, clock)
    if kind is Job:
        return JobController(cache, store, events, clock)
    return ReplicaSetController(cast("Any", kind), "replicas", cache, store, events, clock)


def pods_after_sync(kind: type[Object], state: str, *pods: Pod) -> list[Pod]:
    cache = Cache()
    for item in (*KINDS, Pod, Node, PersistentVolumeClaim, ControllerRevision):
        cache.add_kind(item)
    store = ControllerStore(cache, FixedClock(datetime(2026, 1, 1, tzinfo=UTC)))
    item = store.add(owner(kind))
    for name in ("n1", "n2"):
        store.add(msgspec.convert({"metadata": {"name": name}, "spec": {}}, Node))
    for pod in pods:
        store.add(pod)

    async def get(*_: object) -> Object:
        return stored(item, state)

    store.get = get  # type: ignore[method-assign,assignment]
    asyncio.run(controller(kind, cache, store).sync(("ns", "a")))
    return cache.list(Pod)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["alive", "deleting", "another", "gone"])
def test_pods_are_created_for_an_owner_that_is_alive(kind: type[Object], state: str) -> None:
    assert len(pods_after_sync(kind, state)) == (2 if state == "alive" else 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["alive", "deleting", "another", "gone"])
def test_pods_are_adopted_by_an_owner_that_is_alive(kind: type[Object], state: str) -> None:
    orphans = [
        msgspec.convert(
            {
                "metadata": {"name": f"a-{number}", "namespace": "ns", "labels": LABELS},
                "spec": {
                    "nodeName": f"n{number + 1}",
                    "containers": [{"name": "c", "image": "i"}],
                },
                "status": {"phase": "Running"},
            },
            Pod,
        )
        for number in range(2)
    ]
    pods = pods_after_sync(kind, state, *orphans)
    assert {pod.metadata.name for pod in pods} == {"a-0", "a-1"}
    adopted = [pod for pod in pods if pod.metadata.ownerReferences]
    assert len(adopted) == (2 if state == "alive" else 0)
