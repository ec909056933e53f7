"""Which pressures a node is under, from what it has left (reference §14.2): pure."""

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
    """What is remembered from one look to the next; times are seconds that never go back."""

    conditions: tuple[str, ...] = ()
    """Those that hold, in the node's order."""
    due: tuple[Threshold, ...] = ()
    """Thresholds that were met for their grace: something is to be done, memory first."""
    first_met: Mapping[Threshold, float] = field(default_factory=dict[Threshold, float])
    last_seen: Mapping[str, float] = field(default_factory=dict[str, float])
    """By condition: when a threshold of it was last met."""


def needed(threshold: Threshold, observation: Observation, *, reclaimed: bool = False) -> int:
    """What must be left; with ``reclaimed``, the minimum reclaim on top of it."""
    amount = threshold_amount(threshold.value, observation.capacity)
    if reclaimed and threshold.reclaim:
        amount += threshold_amount(threshold.reclaim, observation.capacity)
    return amount


def met(
    thresholds: Iterable[Threshold], observed: Observations, *, reclaimed: bool = False
) -> tuple[Threshold, ...]:
    """The thresholds below which something is now. One without an observation is not met."""
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
    """The pressure after one more look.

    A threshold that was due stays met until its minimum reclaim is there too; a condition stays for
    ``transition`` seconds after it was last seen.
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
    """``allocatableMemory.available``: what the machine has less what is ``reserved``, less the
    pods' working sets (``used``).

    All together use no more than the whole machine does, and asking the engine for each costs: with
    ``used`` None the machine's own use stands for it, and None comes back where that is too rough
    to tell that no threshold is met.
    """
    capacity = max(node.capacity - reserved, 0)
    if used is not None:
        return Observation(max(capacity - used, 0), capacity)
    bound = Observation(max(capacity - (node.capacity - node.available), 0), capacity)
    mine = [one for one in thresholds if one.signal == ALLOCATABLE_MEMORY]
    return None if met(mine, {ALLOCATABLE_MEMORY: bound}, reclaimed=True) else bound
