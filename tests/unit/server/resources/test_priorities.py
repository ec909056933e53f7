"""The priority classes of the system, and the one that counts if several are the default."""

from __future__ import annotations

import pytest
from served import Served

from podtui.api.scheduling import PriorityClass
from podtui.api.v1 import ObjectMeta, Pod, PodSpec
from podtui.clock import SystemClock
from podtui.server.resources.priorities import (
    default_class,
    priority_class_of,
    publish_system_classes,
    with_priority,
)
from podtui.server.status import StatusError


def priority_class(name: str, value: int, *, default: bool = False) -> PriorityClass:
    return PriorityClass(
        metadata=ObjectMeta(name=name),
        value=value,
        globalDefault=default,
        preemptionPolicy="PreemptLowerPriority",
    )


async def test_the_classes_of_the_system_are_created_once(served: Served) -> None:
    await publish_system_classes(served.store, SystemClock())
    first = await served.store.list("priorityclasses")
    await publish_system_classes(served.store, SystemClock())
    assert await served.store.list("priorityclasses") == first
    values = {
        item.metadata.name: (item.value, item.preemptionPolicy)
        for item in first.items
        if isinstance(item, PriorityClass)
    }
    assert values == {
        "system-cluster-critical": (2_000_000_000, "PreemptLowerPriority"),
        "system-node-critical": (2_000_001_000, "PreemptLowerPriority"),
    }


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ([], None),
        ([priority_class("a", 1)], None),
        ([priority_class("a", 5, default=True), priority_class("b", 3, default=True)], "b"),
    ],
)
def test_the_lowest_default_counts(classes: list[PriorityClass], expected: str | None) -> None:
    chosen = default_class(classes)
    assert (chosen and chosen.metadata.name) == expected


async def test_a_pod_without_a_class_has_priority_0_or_that_of_the_default(
    served: Served,
) -> None:
    pod = Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=PodSpec(containers=()))
    plain = with_priority(pod, await priority_class_of(pod, served.store)).spec
    assert (plain.priority, plain.priorityClassName) == (0, "")
    await served.store.create("priorityclasses", priority_class("mine", 7, default=True))
    spec = with_priority(pod, await priority_class_of(pod, served.store)).spec
    assert (spec.priority, spec.priorityClassName) == (7, "mine")


@pytest.mark.parametrize(
    ("meta", "name"),
    [
        (ObjectMeta(name="p-x1", generateName="p-"), "p-"),
        (ObjectMeta(name="q", generateName="p-"), "q"),
        (ObjectMeta(name="p"), "p"),
    ],
)
async def test_a_refusal_has_the_name_of_the_request(
    served: Served, meta: ObjectMeta, name: str
) -> None:
    """Names are generated later; so the events of a controller about its refusals are alike."""
    pod = Pod(metadata=meta, spec=PodSpec(containers=(), priorityClassName="none"))
    with pytest.raises(StatusError) as refusal:
        await priority_class_of(pod, served.store)
    assert str(refusal.value) == (
        f'pods "{name}" is forbidden: no PriorityClass with name none was found'
    )
