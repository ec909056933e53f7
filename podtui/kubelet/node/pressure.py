"""Compute the node's pressure conditions from the eviction signals (reference §14.2). Pure
functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from podtui.api.thresholds import (
    ALLOCATABLE_MEMORY,
    IMAGEFS,
    IMAGEFS_INODES,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
    Threshold,
    threshold_amount,
)
from podtui.kubelet.node.signals import Observation, Observations

MEMORY_PRESSURE: Final = "MemoryPressure"
DISK_PRESSURE: Final = "DiskPressure"
PID_PRESSURE: Final = "PIDPressure"
CONDITIONS: Final = {
    MEMORY: MEMORY_PRESSURE,
    ALLOCATABLE_MEMORY: MEMORY_PRESSURE,
    NODEFS: DISK_PRESSURE,
    NODEFS_INODES: DISK_PRESSURE,
    IMAGEFS: DISK_PRESSURE,
    IMAGEFS_INODES: DISK_PRESSURE,
    PIDS: PID_PRESSURE,
}
RESOURCES: Final = {
    MEMORY: "memory",
    ALLOCATABLE_MEMORY: "memory",
    NODEFS: "ephemeral-storage",
    NODEFS_INODES: "inodes",
    IMAGEFS: "ephemeral-storage",
    IMAGEFS_INODES: "inodes",
    PIDS: "pids",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """The state kept between two observations; times are monotonic seconds."""

    conditions: tuple[str, ...] = ()
    """The conditions that hold, in the node's order."""
    due: tuple[Threshold, ...] = ()
    """Thresholds that were met for their grace period and require action, memory first."""
    first_met: Mapping[Threshold, float] = field(default_factory=dict[Threshold, float])
    last_seen: Mapping[str, float] = field(default_factory=dict[str, float])
    """Time at which a threshold of the condition was last met."""


def needed(threshold: Threshold, observation: Observation, *, reclaimed: bool = False) -> int:
    """Return the amount that must be available; with ``reclaimed``, including the minimum
    reclaim."""
    amount = threshold_amount(threshold.value, observation.capacity)
    if reclaimed and threshold.reclaim:
        amount += threshold_amount(threshold.reclaim, observation.capacity)
    return amount


def met(
    thresholds: Iterable[Threshold], observed: Observations, *, reclaimed: bool = False
) -> tuple[Threshold, ...]:
    """Return the thresholds that are met, that is, less than needed is available. A threshold
    without an observation is not met."""
    return tuple(
        one
        for one in thresholds
        if (seen := observed.get(one.signal)) is not None
        and needed(one, seen, reclaimed=reclaimed) > seen.available
    )


def advance(
    before: Pressure,
    thresholds: Sequence[Threshold],
    observed: Observations,
    *,
    now: float,
    transition: float,
) -> Pressure:
    """Return the pressure after one more observation.

    A threshold that was due stays met until its minimum reclaim is available too. A condition holds
    for ``transition`` seconds after it was last observed.
    """
    unresolved = met(before.due, observed, reclaimed=True)
    current = tuple(dict.fromkeys((*met(thresholds, observed), *unresolved)))
    first = {one: before.first_met.get(one, now) for one in current}
    seen = {CONDITIONS[one.signal] for one in current}
    last = {**before.last_seen, **dict.fromkeys(seen, now)}
    due = [one for one in current if now - first[one] >= one.grace]
    due.sort(key=lambda one: CONDITIONS[one.signal] != MEMORY_PRESSURE)
    order = (MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE)
    return Pressure(
        conditions=tuple(
            one for one in order if one in seen or (one in last and now - last[one] < transition)
        ),
        due=tuple(due),
        first_met=first,
        last_seen=last,
    )


def pods_memory(
    node: Observation, reserved: int, used: int | None, thresholds: Iterable[Threshold]
) -> Observation | None:
    """Compute ``allocatableMemory.available``: the machine's capacity less ``reserved``, less the
    pods' working sets (``used``).

    Asking the engine for the usage of all pods is expensive. With ``used`` None, the machine's
    total usage serves as an upper bound. Return None if a threshold would be met with this bound:
    then the exact usage is needed.
    """
    capacity = max(node.capacity - reserved, 0)
    if used is not None:
        return Observation(max(capacity - used, 0), capacity)
    bound = Observation(max(capacity - (node.capacity - node.available), 0), capacity)
    mine = [one for one in thresholds if one.signal == ALLOCATABLE_MEMORY]
    return None if met(mine, {ALLOCATABLE_MEMORY: bound}, reclaimed=True) else bound
