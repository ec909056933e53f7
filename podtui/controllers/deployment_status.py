"""The status of a Deployment: the sums of its ReplicaSets, and the conditions of its rollout.

Progress is a change of the sums in the right direction. Its time is the ``lastUpdateTime`` of the
condition Progressing, from which ``progressDeadlineSeconds`` count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import structs

from podtui.api.apps import Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet
from podtui.api.times import parse_time, rfc3339
from podtui.controllers.rollouts import available, limits, replicas_of, total

AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
FAILURE: Final = "ReplicaFailure"
CREATED: Final = "NewReplicaSetCreated"
CREATE_FAILED: Final = "ReplicaSetCreateError"
FOUND: Final = "FoundNewReplicaSet"
UPDATED: Final = "ReplicaSetUpdated"
DONE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
PAUSED: Final = "DeploymentPaused"
RESUMED: Final = "DeploymentResumed"
_NO_DEADLINE: Final = 2**31 - 1
Conditions = tuple[DeploymentCondition, ...]


def condition_of(status: DeploymentStatus, name: str) -> DeploymentCondition | None:
    return next((condition for condition in status.conditions if condition.type == name), None)


def new_condition(
    name: str, status: str, reason: str, message: str, now: datetime
) -> DeploymentCondition:
    moment = rfc3339(now)
    return DeploymentCondition(
        type=name,
        status=status,
        reason=reason,
        message=message,
        lastUpdateTime=moment,
        lastTransitionTime=moment,
    )


def with_condition(status: DeploymentStatus, condition: DeploymentCondition) -> DeploymentStatus:
    """Set a condition as the last one. One with the same status and reason stays as it is."""
    current = condition_of(status, condition.type)
    if current is not None and current.status == condition.status:
        if current.reason == condition.reason:
            return status
        condition = structs.replace(condition, lastTransitionTime=current.lastTransitionTime)
    others = without_condition(status, condition.type).conditions
    return structs.replace(status, conditions=(*others, condition))


def without_condition(status: DeploymentStatus, name: str) -> DeploymentStatus:
    kept = tuple(condition for condition in status.conditions if condition.type != name)
    return structs.replace(status, conditions=kept)


def has_deadline(deployment: Deployment) -> bool:
    seconds = deployment.spec.progressDeadlineSeconds
    return seconds is not None and seconds != _NO_DEADLINE


def paused_status(deployment: Deployment, now: datetime) -> DeploymentStatus:
    """Return the status after a pause or its end, which stop the time of the deadline. A deadline
    that was exceeded stays."""
    status = deployment.status
    current = condition_of(status, PROGRESSING)
    reason = "" if current is None else current.reason
    if not has_deadline(deployment) or reason == TIMED_OUT:
        return status
    if deployment.spec.paused and reason != PAUSED:
        message, reason = "Deployment is paused", PAUSED
    elif not deployment.spec.paused and reason == PAUSED:
        message, reason = "Deployment is resumed", RESUMED
    else:
        return status
    return with_condition(status, new_condition(PROGRESSING, "Unknown", reason, message, now))


def deployment_status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return the sums and the condition Available; the other conditions stay."""
    items = [*old] if new is None else [*old, new]
    ready = available(items)
    unavailable = max(0, total(items) - ready)
    status = DeploymentStatus(
        observedGeneration=deployment.metadata.generation,
        replicas=_sum(items, lambda item: item.status.replicas),
        updatedReplicas=None if new is None else new.status.replicas or None,
        readyReplicas=_sum(items, lambda item: item.status.readyReplicas),
        availableReplicas=ready or None,
        unavailableReplicas=unavailable or None,
        terminatingReplicas=_terminating(items),
        collisionCount=deployment.status.collisionCount,
        conditions=deployment.status.conditions,
    )
    if ready >= replicas_of(deployment) - limits(deployment).unavailable:
        text = "Deployment has minimum availability."
        condition = new_condition(AVAILABLE, "True", "MinimumReplicasAvailable", text, now)
    else:
        text = "Deployment does not have minimum availability."
        condition = new_condition(AVAILABLE, "False", "MinimumReplicasUnavailable", text, now)
    return with_condition(status, condition)


def _sum(items: Iterable[ReplicaSet], count: Callable[[ReplicaSet], int | None]) -> int | None:
    return sum(count(item) or 0 for item in items) or None


def _terminating(items: Iterable[ReplicaSet]) -> int | None:
    """Return the sum, None if a ReplicaSet does not report its number."""
    observed = [item.status for item in items if item.status.observedGeneration]
    if any(status.terminatingReplicas is None for status in observed):
        return None
    return sum(status.terminatingReplicas or 0 for status in observed)


def rollout_status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """Return the whole status during and after a rollout."""
    status = deployment_status(deployment, new, old, now)
    current = condition_of(deployment.status, PROGRESSING)
    ended = (
        status.replicas == status.updatedReplicas and current is not None and current.reason == DONE
    )
    if not has_deadline(deployment):
        status = without_condition(status, PROGRESSING)
    elif not ended:
        status = _with_progress(deployment, status, new, now)
    return _with_failure(status, new, old)


def _with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    subject = (
        f'Deployment "{deployment.metadata.name}"'
        if new is None
        else f'ReplicaSet "{new.metadata.name}"'
    )
    if is_complete(deployment, status):
        message = f"{subject} has successfully progressed."
        return with_condition(status, new_condition(PROGRESSING, "True", DONE, message, now))
    if _has_progressed(deployment.status, status):
        condition = new_condition(PROGRESSING, "True", UPDATED, f"{subject} is progressing.", now)
        current = condition_of(deployment.status, PROGRESSING)
        if current is not None and current.status == "True":
            condition = structs.replace(condition, lastTransitionTime=current.lastTransitionTime)
        # The time of the update changes with each progress, also if the reason stays.
        return with_condition(without_condition(status, PROGRESSING), condition)
    if _has_timed_out(deployment, status, now):
        message = f"{subject} has timed out progressing."
        return with_condition(status, new_condition(PROGRESSING, "False", TIMED_OUT, message, now))
    return status


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Return whether all replicas are updated and available, and no old pods run."""
    desired = replicas_of(deployment)
    return (
        (status.updatedReplicas or 0) == desired
        and (status.replicas or 0) == desired
        and (status.availableReplicas or 0) == desired
        and (status.observedGeneration or 0) >= (deployment.metadata.generation or 0)
    )


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        (after.updatedReplicas or 0) > (before.updatedReplicas or 0)
        or _old_replicas(after) < _old_replicas(before)
        or (after.readyReplicas or 0) > (before.readyReplicas or 0)
        or (after.availableReplicas or 0) > (before.availableReplicas or 0)
    )


def _old_replicas(status: DeploymentStatus) -> int:
    return (status.replicas or 0) - (status.updatedReplicas or 0)


def _has_timed_out(deployment: Deployment, status: DeploymentStatus, now: datetime) -> bool:
    condition = condition_of(status, PROGRESSING)
    if condition is None or condition.reason == DONE:
        return False
    if condition.reason == TIMED_OUT:
        return True
    due = _deadline(deployment, condition)
    return due is not None and due < now


def _deadline(deployment: Deployment, condition: DeploymentCondition) -> datetime | None:
    since = parse_time(condition.lastUpdateTime)
    seconds = deployment.spec.progressDeadlineSeconds
    return None if since is None or seconds is None else since + timedelta(seconds=seconds)


def seconds_to_deadline(
    deployment: Deployment, status: DeploymentStatus, now: datetime
) -> float | None:
    """Return the seconds after which the rollout may have timed out; None if it ended, has timed
    out already, or has no deadline."""
    condition = condition_of(status, PROGRESSING)
    if condition is None or not has_deadline(deployment) or condition.reason == TIMED_OUT:
        return None
    due = _deadline(deployment, condition)
    if due is None or is_complete(deployment, status):
        return None
    return max(0.0, (due - now).total_seconds()) + 1


def _with_failure(
    status: DeploymentStatus, new: ReplicaSet | None, old: Iterable[ReplicaSet]
) -> DeploymentStatus:
    """Copy the condition ReplicaFailure of a ReplicaSet, the new one first."""
    for item in [*old] if new is None else [new, *old]:
        for condition in item.status.conditions:
            if condition.type == FAILURE:
                return with_condition(
                    status,
                    DeploymentCondition(
                        type=FAILURE,
                        status=condition.status,
                        reason=condition.reason,
                        message=condition.message,
                        lastUpdateTime=condition.lastTransitionTime,
                        lastTransitionTime=condition.lastTransitionTime,
                    ),
                )
    return without_condition(status, FAILURE)
