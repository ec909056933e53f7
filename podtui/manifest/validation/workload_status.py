"""Rules of the statuses of workloads, which their controllers write."""

from __future__ import annotations

from collections.abc import Iterable

from podtui.api.apps import DaemonSet, Deployment, ReplicaSet, ReplicaSetStatus, StatefulSet
from podtui.api.v1 import ReplicationController, ReplicationControllerStatus
from podtui.manifest.validation.errors import Errors, invalid
from podtui.manifest.validation.workloads import not_negative

_TOO_MANY = "cannot be greater than status.replicas"


def deployment_status(new: Deployment, old: Deployment) -> Errors:
    yield from _not_negative(
        new.status,
        "observedGeneration replicas updatedReplicas readyReplicas availableReplicas"
        " unavailableReplicas terminatingReplicas collisionCount",
    )
    yield from _within_replicas(
        new.status, ("updatedReplicas", "readyReplicas", "availableReplicas")
    )
    yield from _available(new.status, "readyReplicas")
    yield from _not_decremented(new.status.collisionCount, old.status.collisionCount)


def replica_set_status(new: ReplicaSet, old: ReplicaSet) -> Errors:
    yield from _replicas(new.status, "observedGeneration terminatingReplicas")


def replication_controller_status(new: ReplicationController, old: ReplicationController) -> Errors:
    yield from _replicas(new.status, "observedGeneration")


def stateful_set_status(new: StatefulSet, old: StatefulSet) -> Errors:
    yield from _not_negative(
        new.status,
        "replicas readyReplicas currentReplicas updatedReplicas availableReplicas"
        " observedGeneration collisionCount",
    )
    parts = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    yield from _within_replicas(new.status, parts)
    yield from _available(new.status, "status.readyReplicas")
    yield from _not_decremented(new.status.collisionCount, old.status.collisionCount)


def daemon_set_status(new: DaemonSet, old: DaemonSet) -> Errors:
    yield from _not_negative(
        new.status,
        "currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady"
        " observedGeneration updatedNumberScheduled numberAvailable numberUnavailable"
        " collisionCount",
    )
    yield from _not_decremented(new.status.collisionCount, old.status.collisionCount)


def _replicas(new: ReplicaSetStatus | ReplicationControllerStatus, others: str) -> Errors:
    parts = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    yield from _not_negative(new, f"replicas {' '.join(parts)} {others}")
    yield from _within_replicas(new, parts)
    yield from _available(new, "readyReplicas")


def _number(status: object, name: str) -> int:
    value: int | None = getattr(status, name)
    return value or 0


def _not_negative(status: object, names: str) -> Errors:
    for name in names.split():
        yield from not_negative(_number(status, name), f"status.{name}")


def _within_replicas(status: object, names: Iterable[str]) -> Errors:
    for name in names:
        if _number(status, name) > _number(status, "replicas"):
            yield invalid(f"status.{name}", _number(status, name), _TOO_MANY)


def _available(status: object, limit: str) -> Errors:
    """``limit`` is how the message calls the number of ready replicas."""
    available = _number(status, "availableReplicas")
    if available > _number(status, "readyReplicas"):
        why = f"cannot be greater than {limit}"
        yield invalid("status.availableReplicas", available, why)


def _not_decremented(new: int | None, old: int | None) -> Errors:
    if old is not None and (new is None or new < old):
        yield invalid("status.collisionCount", new or 0, "cannot be decremented")
