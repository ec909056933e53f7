"""PodDisruptionBudgets."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from controller_store import ControllerStore, RecordedEvents
from fixed_clock import FixedClock
from msgspec import structs

from podtui.api.apps import (
    Deployment,
    DeploymentSpec,
    ReplicaSet,
    ReplicaSetSpec,
    StatefulSet,
)
from podtui.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ReplicationController,
)
from podtui.client.cache import Cache
from podtui.controllers.disruption import DisruptionController
from podtui.controllers.events import ControllerEvents

KEY = ("ns", "b")
SELECTOR = LabelSelector(matchLabels={"app": "web"})
TEMPLATE = PodTemplateSpec(spec=PodSpec(containers=()))


def owner(kind: str, name: str, version: str = "apps/v1") -> tuple[OwnerReference, ...]:
    return (
        OwnerReference(
            apiVersion=version, kind=kind, name=name, uid=f"uid of {name}", controller=True
        ),
    )


def pod(number: int, *, ready: bool = True, owners: tuple[OwnerReference, ...] = ()) -> Pod:
    condition = PodCondition(type="Ready", status=str(ready))
    return Pod(
        metadata=ObjectMeta(
            name=f"p{number}", namespace="ns", labels={"app": "web"}, ownerReferences=owners
        ),
        spec=PodSpec(containers=()),
        status=PodStatus(phase="Running", conditions=(condition,)),
    )


class World:
    def __init__(self, *pods: Pod, **spec: Any) -> None:
        self.cache = Cache()
        self.clock = FixedClock()
        kinds = (PodDisruptionBudget, Pod, Deployment, ReplicaSet, StatefulSet)
        for kind in (*kinds, ReplicationController):
            self.cache.add_kind(kind)
        self.store = ControllerStore(self.cache, self.clock)
        self.events = RecordedEvents()
        events = cast("ControllerEvents", self.events)
        self.controller = DisruptionController(self.cache, self.store, events, self.clock)
        self.store.add(
            PodDisruptionBudget(
                metadata=ObjectMeta(name="b", namespace="ns", generation=3),
                spec=PodDisruptionBudgetSpec(selector=SELECTOR, **spec),
            )
        )
        for item in pods:
            self.store.add(item)

    def add_deployment(self, replicas: int) -> None:
        """A Deployment ``d`` with a ReplicaSet ``r``."""
        meta = ObjectMeta(name="d", namespace="ns", uid="uid of d")
        spec = DeploymentSpec(replicas=replicas, selector=SELECTOR, template=TEMPLATE)
        self.store.add(Deployment(metadata=meta, spec=spec))
        meta = ObjectMeta(
            name="r", namespace="ns", uid="uid of r", ownerReferences=owner("Deployment", "d")
        )
        self.store.add(
            ReplicaSet(
                metadata=meta, spec=ReplicaSetSpec(replicas=1, selector=SELECTOR, template=TEMPLATE)
            )
        )

    @property
    def budget(self) -> PodDisruptionBudget:
        item = self.cache.get(PodDisruptionBudget, *KEY)
        assert item is not None
        return item

    def sync(self) -> float | None:
        return asyncio.run(self.controller.sync(KEY))

    def numbers(self) -> tuple[int, int, int, int]:
        """Expected, desired and current pods, and allowed disruptions."""
        status = self.budget.status
        return (
            status.expectedPods,
            status.desiredHealthy,
            status.currentHealthy,
            status.disruptionsAllowed,
        )

    def condition(self) -> tuple[str, str, str]:
        (found,) = self.budget.status.conditions
        return found.status, found.reason, found.message


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ({"minAvailable": 1}, (3, 1, 2, 1)),
        ({"minAvailable": 2}, (3, 2, 2, 0)),
        ({"minAvailable": 9}, (3, 9, 2, 0)),
        ({"minAvailable": "50%"}, (5, 3, 2, 0)),
        ({"minAvailable": "20%"}, (5, 1, 2, 1)),
        ({"maxUnavailable": 4}, (5, 1, 2, 1)),
        ({"maxUnavailable": "10%"}, (5, 4, 2, 0)),
        ({"maxUnavailable": 9}, (5, 0, 2, 2)),
        ({}, (0, 0, 2, 0)),
    ],
)
def test_numbers(spec: dict[str, Any], numbers: tuple[int, ...]) -> None:
    owners = owner("ReplicaSet", "r")
    pods = (pod(1, owners=owners), pod(2, owners=owners), pod(3, ready=False, owners=owners))
    world = World(*pods, **spec)
    world.add_deployment(5)
    world.sync()
    assert world.numbers() == numbers
    allowed = bool(numbers[3])
    reason = "SufficientPods" if allowed else "InsufficientPods"
    assert world.condition() == (str(allowed), reason, "")
    assert world.budget.status.observedGeneration == 3
    version = world.budget.metadata.resourceVersion
    world.clock.advance(60)
    world.sync()
    assert world.budget.metadata.resourceVersion == version


def test_pods_without_a_controller_do_not_count() -> None:
    world = World(pod(1), maxUnavailable=1)
    world.sync()
    assert world.numbers() == (0, 0, 1, 0)
    (text,) = world.events.texts
    selector = (
        "&LabelSelector{MatchLabels:map[string]string{app: web,},"
        "MatchExpressions:[]LabelSelectorRequirement{},}"
    )
    assert text.startswith(
        "Warning UnmanagedPods: Pods selected by this PodDisruptionBudget"
        f" (selector: {selector}) were found to be unmanaged."
    )


@pytest.mark.parametrize(
    ("owners", "why"),
    [
        (owner("ReplicaSet", "gone"), 'found no controllers for pod "p1"'),
        (owner("Job", "j", "batch/v1"), "jobs.batch does not implement the scale subresource"),
    ],
)
def test_an_unknown_scale_allows_nothing(owners: tuple[OwnerReference, ...], why: str) -> None:
    world = World(pod(1, owners=owners), maxUnavailable=1)
    world.sync()
    assert world.condition() == ("False", "SyncFailed", why)
    message = f"Failed to calculate the number of expected pods: {why}"
    assert world.events.texts == [f"Warning CalculateExpectedPodCountFailed: {message}"]


def test_without_pods_there_is_an_event() -> None:
    world = World(minAvailable=1)
    world.sync()
    assert world.numbers() == (0, 1, 0, 0)
    assert world.events.texts == ["Normal NoPods: No matching pods found"]


def test_an_evicted_pod_counts_as_gone_until_it_should_be() -> None:
    world = World(pod(1), pod(2), minAvailable=1)
    world.sync()
    assert world.numbers() == (2, 1, 2, 1)
    evicted = {"p1": rfc3339(world.clock.now()), "absent": rfc3339(world.clock.now())}
    status = structs.replace(world.budget.status, disruptedPods=evicted)
    world.store.change(world.budget, status=status)
    assert world.sync() == 120
    assert world.numbers() == (2, 1, 1, 0)
    assert list(world.budget.status.disruptedPods) == ["p1"]
    world.clock.advance(121)
    assert world.sync() is None
    assert world.numbers() == (2, 1, 2, 1)
    message = "Pod was expected by PDB ns/ns to be deleted but it wasn't"
    assert world.events.texts == [f"Warning NotDeleted: {message}"]


def test_the_time_of_the_condition_changes_with_its_status() -> None:
    world = World(pod(1), minAvailable=0)
    world.sync()
    (before,) = world.budget.status.conditions
    world.clock.advance(60)
    world.store.add(pod(2))
    world.sync()
    (same,) = world.budget.status.conditions
    assert same.lastTransitionTime == before.lastTransitionTime
    world.store.change(world.budget, spec=structs.replace(world.budget.spec, minAvailable=5))
    world.sync()
    (after,) = world.budget.status.conditions
    assert after.lastTransitionTime != before.lastTransitionTime
