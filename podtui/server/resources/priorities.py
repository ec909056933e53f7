"""The admission plugin Priority: the priority of a pod is that of its class, and only one class is
the default."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from uuid import uuid4

from msgspec import structs

from podtui.api.scheduling import PriorityClass
from podtui.api.times import rfc3339
from podtui.api.v1 import ObjectMeta, Pod
from podtui.clock import Clock
from podtui.manifest.validation.priority_classes import (
    CLUSTER_CRITICAL,
    NODE_CRITICAL,
    SYSTEM_VALUES,
)
from podtui.server.resources.field_managers import API_SERVER, managed
from podtui.server.status import StatusError, forbidden, submitted_name
from podtui.store.protocol import Records

_DESCRIPTIONS: Final = {
    NODE_CRITICAL: "Used for system critical pods that must not be moved from their current node.",
    CLUSTER_CRITICAL: "Used for system critical pods that must run in the cluster, but can be moved"
    " to another node if necessary.",
}
_NO_CLASS: Final = PriorityClass(value=0, preemptionPolicy="PreemptLowerPriority")


async def publish_system_classes(records: Records, clock: Clock) -> None:
    """Create the priority classes of the system that do not exist."""
    for name in SYSTEM_VALUES:
        if await records.get("priorityclasses", "", name) is None:
            await records.create("priorityclasses", system_class(name, rfc3339(clock.now())))


def system_class(name: str, now: str) -> PriorityClass:
    """Return a new priority class of the system."""
    metadata = ObjectMeta(name=name, uid=str(uuid4()), creationTimestamp=now, generation=1)
    item = PriorityClass(
        metadata=metadata,
        value=SYSTEM_VALUES[name],
        description=_DESCRIPTIONS[name],
        preemptionPolicy="PreemptLowerPriority",
    )
    return managed(item, None, manager=API_SERVER, now=now)


async def priority_class_of(pod: Pod, records: Records) -> PriorityClass:
    """Return the class that the pod names, or the default. Raises `StatusError` 403."""
    name = pod.spec.priorityClassName
    if not name:
        return default_class(await _classes(records)) or _NO_CLASS
    item = await records.get("priorityclasses", "", name)
    if not isinstance(item, PriorityClass):
        raise _forbidden(pod, f"no PriorityClass with name {name} was found")
    return item


def default_class(classes: Iterable[PriorityClass]) -> PriorityClass | None:
    """Return the default class; the one with the lowest value if there are several."""
    defaults = [item for item in classes if item.globalDefault]
    return min(defaults, key=lambda item: item.value, default=None)


def with_priority(pod: Pod, priority_class: PriorityClass) -> Pod:
    """Return the pod with the priority of its class. Raises `StatusError` 403."""
    spec, priority, policy = pod.spec, priority_class.value, priority_class.preemptionPolicy
    if spec.priority not in (None, priority):
        why = (
            f"the integer value of priority ({spec.priority}) must not be provided in pod spec;"
            f" priority admission controller computed {priority} from the given PriorityClass name"
        )
        raise _forbidden(pod, why)
    if spec.preemptionPolicy not in ("", policy):
        why = (
            f"the string value of PreemptionPolicy ({spec.preemptionPolicy}) must not be provided"
            f" in pod spec; priority admission controller computed {policy} from the given"
            " PriorityClass name"
        )
        raise _forbidden(pod, why)
    spec = structs.replace(
        spec,
        priorityClassName=priority_class.metadata.name,
        priority=priority,
        preemptionPolicy=policy,
    )
    return structs.replace(pod, spec=spec)


async def other_default(item: PriorityClass, records: Records) -> str:
    """Return the name of the default class if it is another one; empty if there is none."""
    current = default_class(await _classes(records))
    name = "" if current is None else current.metadata.name
    return "" if name == item.metadata.name else name


def check_default(item: PriorityClass, other: str) -> None:
    """Refuse a second default class. Raises `StatusError` 403."""
    if item.globalDefault and other:
        why = f"PriorityClass {other} is already marked as default. Only one default can exist"
        raise forbidden("priorityclasses", item.metadata.name, why, "scheduling.k8s.io")


async def _classes(records: Records) -> Iterable[PriorityClass]:
    listing = await records.list("priorityclasses")
    return (item for item in listing.items if isinstance(item, PriorityClass))


def _forbidden(pod: Pod, why: str) -> StatusError:
    return forbidden("pods", submitted_name(pod.metadata), why)
