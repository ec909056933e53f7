"""The sizes of a Deployment's ReplicaSets during a rollout, and while it is scaled.

Each function returns the next changes, in order; a ReplicaSet may be changed twice. There are never
more than ``replicas + maxSurge`` pods, and the changes leave ``replicas - maxUnavailable`` of them
available. Pods of old ReplicaSets that are not available are given up first: otherwise they would
block the rollout.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podtui.api.apps import Deployment, ReplicaSet
from podtui.controllers.amounts import scaled
from podtui.controllers.revisions import DESIRED, MAX, by_age, replicas_annotation

Change = tuple[ReplicaSet, int]
"""A ReplicaSet, and its next number of replicas."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The numbers of pods that a rollout may add, and that may be unavailable."""

    surge: int
    unavailable: int


def replicas_of(item: Deployment | ReplicaSet) -> int:
    replicas = item.spec.replicas
    return 1 if replicas is None else replicas


def total(items: Iterable[ReplicaSet]) -> int:
    return sum(replicas_of(item) for item in items)


def available(items: Iterable[ReplicaSet]) -> int:
    return sum(item.status.availableReplicas or 0 for item in items)


def _surely_available(item: ReplicaSet) -> int:
    """Return the pods that stay available: a ReplicaSet that shrinks gives up the others first, and
    its status may be older than its size."""
    return min(item.status.availableReplicas or 0, replicas_of(item))


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def limits(deployment: Deployment) -> Limits:
    """Return the limits of a rolling update; both are 0 for Recreate."""
    update = deployment.spec.strategy.rollingUpdate
    if not is_rolling(deployment) or update is None:
        return Limits(0, 0)
    replicas = replicas_of(deployment)
    surge = scaled(update.maxSurge, replicas, up=True)
    unavailable = scaled(update.maxUnavailable, replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(surge, min(unavailable, replicas))


def active(items: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    return [item for item in items if replicas_of(item) > 0]


def first_size(deployment: Deployment, new: ReplicaSet, old: Iterable[ReplicaSet]) -> int:
    """Return to how many replicas the new ReplicaSet may grow now."""
    desired, current = replicas_of(deployment), replicas_of(new)
    if not is_rolling(deployment):
        return desired
    room = desired + limits(deployment).surge - total(old) - current
    return current + min(room, desired - current) if room > 0 else current


def rolling_changes(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]
) -> list[Change]:
    """Return the next step of a rolling update: the new ReplicaSet grows if it can, else the old
    ones shrink if they can."""
    desired, current = replicas_of(deployment), replicas_of(new)
    size = desired if current > desired else first_size(deployment, new, old)
    return [(new, size)] if size != current else _old_changes(deployment, new, by_age(active(old)))


def _old_changes(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]
) -> list[Change]:
    least = replicas_of(deployment) - limits(deployment).unavailable
    surplus = total(old) + _surely_available(new) - least
    if not old or surplus <= 0:
        return []
    changes: list[Change] = []
    sizes = [replicas_of(item) for item in old]
    for index, item in enumerate(old):
        count = min(surplus, sizes[index] - _surely_available(item))
        if count > 0:
            surplus -= count
            sizes[index] -= count
            changes.append((item, sizes[index]))
    spare = sum(map(_surely_available, [*old, new])) - least
    for index, item in enumerate(old):
        count = min(sizes[index], spare)
        if count > 0:
            spare -= count
            sizes[index] -= count
            changes.append((item, sizes[index]))
    return changes


def is_scaled(deployment: Deployment, items: Iterable[ReplicaSet]) -> bool:
    """Return whether the Deployment was scaled since the sizes were set."""
    desired = replicas_of(deployment)
    noted = (replicas_annotation(item, DESIRED) for item in active(items))
    return any(number is not None and number != desired for number in noted)


def scaling_changes(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> list[Change]:
    """Return the sizes after a Deployment was scaled, or while it is paused: each ReplicaSet keeps
    its share."""
    desired = replicas_of(deployment)
    everything = [*old] if new is None else [*old, new]
    running = active(everything)
    if len(running) <= 1:
        latest = running or ([new] if new is not None else by_age(old)[-1:])
        return [(item, desired) for item in latest]
    if new is not None and _is_saturated(deployment, new):
        return [(item, 0) for item in active(old)]
    return _shares(deployment, running) if is_rolling(deployment) else []


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    desired = replicas_of(deployment)
    return (
        replicas_of(new) == desired
        and replicas_annotation(new, DESIRED) == desired
        and (new.status.availableReplicas or 0) == desired
    )


def _shares(deployment: Deployment, running: Sequence[ReplicaSet]) -> list[Change]:
    desired = replicas_of(deployment)
    allowed = desired + limits(deployment).surge if desired > 0 else 0
    missing = allowed - total(running)
    # The largest comes first; of equal ones the newest if pods are added, else the oldest.
    ordered = by_age(running)
    if missing > 0:
        ordered.reverse()
    if missing != 0:
        ordered.sort(key=replicas_of, reverse=True)
    sizes: list[int] = []
    added = 0
    for item in ordered:
        left = missing - added
        share = _share(deployment, item, allowed) if left else 0
        share = min(share, left) if missing > 0 else max(share, left)
        added += share
        sizes.append(replicas_of(item) + share)
    sizes[0] = max(0, sizes[0] + missing - added)
    return list(zip(ordered, sizes, strict=True))


def _share(deployment: Deployment, item: ReplicaSet, allowed: int) -> int:
    """Return how many replicas the ReplicaSet gets in proportion to its size."""
    size = replicas_of(item)
    if replicas_of(deployment) == 0:
        return -size
    before = replicas_annotation(item, MAX) or deployment.status.replicas or 0
    if before == 0:
        return 0
    return math.floor(size * allowed / before + 0.5) - size
