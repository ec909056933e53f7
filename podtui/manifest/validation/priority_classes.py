"""The API server's rules for a PriorityClass."""

from __future__ import annotations

from typing import Final

from podtui.api.scheduling import PriorityClass
from podtui.manifest.validation.errors import Errors, GoText, forbidden, invalid, not_supported
from podtui.manifest.validation.metadata import object_meta
from podtui.manifest.validation.pod import PREEMPTION_POLICIES

CLUSTER_CRITICAL: Final = "system-cluster-critical"
NODE_CRITICAL: Final = "system-node-critical"
SYSTEM_VALUES: Final = {NODE_CRITICAL: 2_000_001_000, CLUSTER_CRITICAL: 2_000_000_000}
"""The values of the classes that every cluster has."""
_HIGHEST: Final = 1_000_000_000
_PREFIX: Final = "system-"


def validate_priority_class(item: PriorityClass) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    name, value = item.metadata.name, item.value
    if name.startswith(_PREFIX):
        problem = _system_problem(item)
        if problem:
            why = f"priority class names with '{_PREFIX}' prefix are reserved for system use only"
            yield forbidden("metadata.name", f"{why}. error: {problem}")
    elif value > _HIGHEST:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        yield forbidden("value", why)
    if item.preemptionPolicy not in PREEMPTION_POLICIES:
        yield not_supported("preemptionPolicy", item.preemptionPolicy, PREEMPTION_POLICIES)


def priority_class_update(new: PriorityClass, old: PriorityClass) -> Errors:
    if new.value != old.value:
        yield forbidden("value", "may not be changed in an update.")
    if new.preemptionPolicy != old.preemptionPolicy:
        policy = GoText(new.preemptionPolicy)
        yield invalid("preemptionPolicy", policy, "field is immutable")


def _system_problem(item: PriorityClass) -> str:
    name = item.metadata.name
    if name not in SYSTEM_VALUES:
        return f"{name} is not a known system priority class"
    if item.value != SYSTEM_VALUES[name]:
        return f"value of {name} PriorityClass must be {SYSTEM_VALUES[name]}"
    if item.globalDefault:
        return f"globalDefault of {name} PriorityClass must be false"
    return ""
