"""ReplicaSets and ReplicationControllers: claims, batches, the order of deletion, the status."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from deployment_world import NAMESPACE, DeploymentWorld, template
from msgspec import convert, structs

from podtui.api.apps import ReplicaSet
from podtui.api.times import rfc3339
from podtui.api.v1 import OwnerReference, Pod, ReplicationController
from podtui.client.cache import controller_of
from podtui.controllers.batches import call_in_batches
from podtui.controllers.deletion_order import DELETION_COST, deletion_cost, pods_to_delete
from podtui.controllers.replica_sets import as_replica_set, replica_set_status, with_status
from podtui.errors import ApiError, PodtuiError

NOW = datetime(2026, 1, 2, tzinfo=UTC)
REFUSED = ApiError(403, "Forbidden", "exceeded quota")


def pod(name: str, **fields: Any) -> Pod:
    """Return a pod that has run and been ready on a node for an hour."""
    values = {
        "node": "n1",
        "phase": "Running",
        "ready": True,
        "cost": "",
        "ready_minutes": 60,
        "restarts": 0,
        "minutes": 60,
        "labels": {"app": "web"},
        **fields,
    }
    minutes = {key: NOW - timedelta(minutes=values[key]) for key in ("ready_minutes", "minutes")}
    condition = {
        "type": "Ready",
        "status": str(values["ready"]),
        "lastTransitionTime": rfc3339(minutes["ready_minutes"]),
    }
    status = {"name": "c", "image": "", "imageID": "", "ready": True}
    return convert(
        {
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "uid": name,
                "labels": values["labels"],
                "creationTimestamp": rfc3339(minutes["minutes"]),
                "annotations": {DELETION_COST: values["cost"]} if values["cost"] else {},
            },
            "spec": {"containers": [], "nodeName": values["node"]},
            "status": {
                "phase": values["phase"],
                "conditions": [condition],
                "containerStatuses": [{**status, "restartCount": values["restarts"]}],
            },
        },
        Pod,
    )


def replica_set(replicas: int = 2, **spec: Any) -> ReplicaSet:
    fields = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(),
        **spec,
    }
    meta = {"name": "r", "namespace": NAMESPACE, "uid": "r1", "generation": 1}
    return convert({"metadata": meta, "spec": fields}, ReplicaSet)


def replication(replicas: int = 2, **spec: Any) -> ReplicationController:
    fields = {"replicas": replicas, "selector": {"app": "web"}, "template": template(), **spec}
    meta = {"name": "r", "namespace": NAMESPACE, "uid": "r1", "generation": 1}
    return convert({"metadata": meta, "spec": fields}, ReplicationController)


# --- the order of deletion


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"node": ""}, {"phase": "Pending"}),
        ({"phase": "Pending"}, {"phase": "Unknown"}),
        ({"phase": "Unknown"}, {"ready": False}),
        ({"ready": False}, {"cost": "-5"}),
        ({"cost": "-5"}, {}),
        ({}, {"cost": "10"}),
        ({"node": "n2"}, {"ready_minutes": 1}),  # Two related pods run on n2.
        ({"ready_minutes": 1}, {"restarts": 9}),
        ({"restarts": 9}, {"minutes": 1}),
        ({"minutes": 1}, {}),
    ],
)
def test_pods_that_serve_least_are_deleted_first(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    related = [pod("x", node="n2"), pod("y", node="n2"), pod("z", node="n2", phase="Failed")]
    one, other = pod("one", **first), pod("other", **second)
    for pods in ([one, other], [other, one]):
        assert pods_to_delete(pods, related, 1, NOW) == [one]


def test_of_pods_of_about_the_same_age_the_uid_decides() -> None:
    old, young = pod("a", ready_minutes=100), pod("b", ready_minutes=90)
    assert pods_to_delete([young, old], [], 1, NOW) == [old]
    old, young = pod("a", minutes=100), pod("b", minutes=90)
    assert pods_to_delete([young, old], [], 1, NOW) == [old]


@pytest.mark.parametrize(
    ("text", "cost"),
    [("", 0), ("0", 0), ("7", 7), ("-7", -7), ("+7", 0), ("07", 0), ("x", 0), ("2147483648", 0)],
)
def test_invalid_costs_are_0(text: str, cost: int) -> None:
    assert deletion_cost(pod("a", cost=text)) == cost


# --- batches


@pytest.mark.parametrize(("allowed", "calls"), [(100, 10), (0, 1), (1, 3), (3, 7), (6, 7)])
async def test_batches_double_until_one_fails(allowed: int, calls: int) -> None:
    made = 0

    async def call() -> None:
        nonlocal made
        made += 1
        if made > allowed:
            raise REFUSED

    async def is_wanted() -> bool:
        return True

    failure = await call_in_batches(10, call, is_wanted)
    assert made == calls
    assert failure == (REFUSED if allowed < 10 else None)


# --- the status


def test_the_status_counts_pods() -> None:
    item = replica_set(template=template(more="x"), minReadySeconds=3600)
    pods = [
        pod("a", labels={"app": "web", "more": "x"}),
        pod("b", ready_minutes=59),
        pod("c", ready=False),
    ]
    status = replica_set_status(item, pods, 2, None, NOW)
    assert (status.replicas, status.fullyLabeledReplicas) == (3, 1)
    assert (status.readyReplicas, status.availableReplicas) == (2, 1)
    assert (status.terminatingReplicas, status.observedGeneration) == (2, 1)


def test_a_failure_is_a_condition_until_it_ends() -> None:
    item = replica_set(2)
    status = replica_set_status(item, [], 0, REFUSED, NOW)
    [condition] = status.conditions
    assert (condition.type, condition.status) == ("ReplicaFailure", "True")
    assert (condition.reason, condition.message) == ("FailedCreate", "exceeded quota")
    item = structs.replace(item, status=status)
    later = NOW + timedelta(hours=1)
    again = replica_set_status(item, [], 0, PodtuiError("another"), later)
    assert again.conditions == status.conditions
    assert replica_set_status(item, [], 0, None, later).conditions == ()
    many = [pod(name) for name in "abc"]
    [condition] = replica_set_status(replica_set(2), many, 0, REFUSED, NOW).conditions
    assert condition.reason == "FailedDelete"


def test_a_replication_controller_is_a_replica_set() -> None:
    item = replication(2, minReadySeconds=5)
    same = as_replica_set(item)
    assert same.spec == replica_set(2, minReadySeconds=5).spec
    status = replica_set_status(same, [pod("a")], None, REFUSED, NOW)
    stored = with_status(item, status)
    assert as_replica_set(stored).status == status
    assert as_replica_set(replication(selector={})).spec.selector is None


# --- the controllers on a store


def events(world: DeploymentWorld) -> list[str]:
    return [text.split(": ")[0] for text in world.recorder.texts]


async def sync(world: DeploymentWorld) -> float | None:
    return await world.sets.sync((NAMESPACE, "r"))


async def test_a_replica_set_keeps_its_number_of_pods() -> None:
    world = DeploymentWorld()
    world.store.add(replica_set(3))
    await sync(world)
    assert events(world) == ["Normal SuccessfulCreate"] * 3
    assert {item.metadata.generateName for item in world.pods} == {"r-"}
    world.run()
    gone = world.pods[0]
    world.cache.remove(gone)
    await sync(world)
    assert len(world.active) == 3
    world.run()
    item = world.replica_sets["a"]
    world.store.change(item, spec=structs.replace(item.spec, replicas=1))
    await sync(world)
    assert len(world.active) == 1
    assert events(world)[-2:] == ["Normal SuccessfulDelete"] * 2
    await sync(world)
    status = world.replica_sets["a"].status
    assert (status.replicas, status.terminatingReplicas) == (1, 2)
    world.end()
    await sync(world)
    assert world.replica_sets["a"].status.terminatingReplicas == 0


async def test_pods_that_ended_are_replaced() -> None:
    world = DeploymentWorld()
    world.store.add(replica_set(1))
    await sync(world)
    [first] = world.pods
    world.store.change(first, status=structs.replace(first.status, phase="Failed"))
    await sync(world)
    assert len(world.pods) == 2
    assert len(world.active) == 1


async def test_pods_are_adopted_and_released() -> None:
    world = DeploymentWorld()
    world.store.add(replica_set(1))
    orphan = world.store.add(pod("orphan"))
    keys = world.sets.kinds[Pod]
    assert list(keys(orphan)) == [(NAMESPACE, "r")]
    assert list(keys(pod("other", labels={}))) == []
    await sync(world)
    [adopted] = world.pods
    owner = controller_of(adopted)
    assert owner is not None
    assert (owner.uid, owner.blockOwnerDeletion) == ("r1", True)
    meta = structs.replace(adopted.metadata, labels={"app": "debug"})
    world.store.change(adopted, metadata=meta)
    await sync(world)
    free = world.cache.get(Pod, NAMESPACE, "orphan")
    assert free is not None
    assert controller_of(free) is None
    assert len(world.active) == 2


async def test_a_replication_controller_works_alike() -> None:
    world = DeploymentWorld()
    world.store.add(replication(2))
    await world.replications.sync((NAMESPACE, "r"))
    world.run()
    await world.replications.sync((NAMESPACE, "r"))
    item = world.cache.get(ReplicationController, NAMESPACE, "r")
    assert item is not None
    assert item.status.availableReplicas == 2
    owners = [controller_of(each) for each in world.pods]
    assert {(owner.kind, owner.apiVersion) for owner in owners if owner is not None} == {
        ("ReplicationController", "v1")
    }


async def test_ready_pods_become_available_later() -> None:
    world = DeploymentWorld()
    world.store.add(replica_set(1, minReadySeconds=10))
    await sync(world)
    world.run()
    world.clock.advance(4)
    assert await sync(world) == 6
    assert world.replica_sets["a"].status.availableReplicas is None
    world.clock.advance(6)
    assert await sync(world) is None
    assert world.replica_sets["a"].status.availableReplicas == 1


async def test_only_some_of_many_refused_pods_are_tried() -> None:
    world = DeploymentWorld()
    world.store.add(replica_set(20))
    world.store.failures += [REFUSED] * 20
    with pytest.raises(ApiError, match="exceeded quota"):
        await sync(world)
    assert world.recorder.texts == ["Warning FailedCreate: Error creating: exceeded quota"]


async def test_a_failure_is_in_the_status() -> None:
    world = DeploymentWorld()
    world.store.add(replica_set(1))
    world.store.failures.append(REFUSED)
    with pytest.raises(ApiError, match="exceeded quota"):
        await sync(world)
    [condition] = world.replica_sets["a"].status.conditions
    assert condition.reason == "FailedCreate"


@pytest.mark.parametrize("code", [404, 200])
async def test_a_deleted_replica_set_creates_no_pods(code: int) -> None:
    """Also if the cache does not know of its deletion yet."""
    world = DeploymentWorld()
    item = world.store.add(replica_set(2))
    meta = structs.replace(item.metadata, deletionTimestamp="2026-01-01T00:00:00Z")

    async def get(*_: object) -> ReplicaSet:
        if code == 404:
            raise ApiError(404, "NotFound", "not found")
        return structs.replace(item, metadata=meta)

    world.store.get = get  # type: ignore[method-assign,assignment]
    await sync(world)
    assert world.pods == []
    world.store.change(item, metadata=meta)
    await sync(world)
    assert world.pods == []


async def test_a_replica_set_that_is_scaled_down_meanwhile_gets_no_more_pods() -> None:
    """Also if the cache does not know of its new size yet."""
    world = DeploymentWorld()
    item = world.store.add(replica_set(5))
    scaled = structs.replace(item.metadata, generation=(item.metadata.generation or 0) + 1)

    async def get(*_: object) -> ReplicaSet:
        # It is scaled down while the second batch, of two pods, is created.
        return item if len(world.pods) < 3 else structs.replace(item, metadata=scaled)

    world.store.get = get  # type: ignore[method-assign,assignment]
    await sync(world)
    assert len(world.pods) == 3


async def test_pods_are_deleted_where_related_ones_are_many() -> None:
    """All ReplicaSets of a Deployment count."""
    world = DeploymentWorld()
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d1"}
    for name in ("r", "s"):
        item = replica_set(3)
        fields = {"name": name, "namespace": NAMESPACE, "uid": name, "generation": 1}
        meta = {**fields, "ownerReferences": [{**owner, "controller": True}]}
        world.store.add(structs.replace(item, metadata=convert(meta, type(item.metadata))))
    for name, set_name, node in (("a", "r", "n1"), ("b", "r", "n2"), ("c", "s", "n1")):
        mine = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set_name, "uid": set_name}
        item = pod(name, node=node)
        references = convert([{**mine, "controller": True}], tuple[OwnerReference, ...])
        meta = structs.replace(item.metadata, ownerReferences=references)
        world.store.add(structs.replace(item, metadata=meta))
    item = world.cache.get(ReplicaSet, NAMESPACE, "r")
    assert item is not None
    world.store.change(item, spec=structs.replace(item.spec, replicas=1))
    await sync(world)
    assert "Normal SuccessfulDelete: Deleted pod: a" in world.recorder.texts


def test_nothing_happens_for_a_replica_set_that_is_gone() -> None:
    asyncio.run(sync(DeploymentWorld()))
