"""Evictions against the disruption budgets of a pod, in the API server's words.

A budget allows as many evictions as its controller has computed. Each one takes part of it here,
and is noted in the status until the controller sees that the pod has gone.
"""

from __future__ import annotations

from typing import Final

from msgspec import structs

from podtui.api.pods import is_true
from podtui.api.policy import PodDisruptionBudget, PodDisruptionBudgetStatus
from podtui.api.selectors import labels_match
from podtui.api.v1 import Condition, Pod, StatusCause, StatusDetails
from podtui.server.status import StatusError, forbidden
from podtui.store.protocol import Records

_MOST_DISRUPTED: Final = 2000
_RETRY_SECONDS: Final = 10
_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_CAUSE: Final = "DisruptionBudget"
_ALLOWED: Final = "DisruptionAllowed"


def ignores_budgets(pod: Pod) -> bool:
    """Return whether a pod may be evicted whatever its budget: it does not run, or ends already."""
    ends = pod.metadata.deletionTimestamp is not None
    return ends or pod.status.phase in ("Succeeded", "Failed", "Pending")


async def budget_of(pod: Pod, records: Records) -> PodDisruptionBudget | None:
    """Return the budget that selects the pod. Raises `StatusError` 500 if several do."""
    listing = await records.list("poddisruptionbudgets", pod.metadata.namespace)
    budgets = [
        item
        for item in listing.items
        if isinstance(item, PodDisruptionBudget)
        and labels_match(item.spec.selector, pod.metadata.labels)
    ]
    if len(budgets) > 1:
        raise StatusError(
            500,
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does"
            " not support.",
            reason="",
        )
    return budgets[0] if budgets else None


def is_free(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Return whether a pod is not ready, and can be evicted without use of the budget."""
    if is_true(pod, "Ready"):
        return False
    status = budget.status
    healthy = 0 < status.desiredHealthy <= status.currentHealthy
    return healthy or budget.spec.unhealthyPodEvictionPolicy == "AlwaysAllow"


def disrupted(budget: PodDisruptionBudget, pod: str, now: str) -> PodDisruptionBudget:
    """Return the budget after an eviction of the pod. Raises `StatusError` 403 and 429."""
    name, status = budget.metadata.name, budget.status
    if (status.observedGeneration or 0) < (budget.metadata.generation or 0):
        raise unprocessed(name)
    if status.disruptionsAllowed < 0:
        raise _forbidden(name, "pdb disruptions allowed is negative")
    if len(status.disruptedPods) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _forbidden(name, why)
    if status.disruptionsAllowed == 0:
        raise _too_many(_exhaustion(name, status))
    status = structs.replace(
        status,
        disruptionsAllowed=status.disruptionsAllowed - 1,
        disruptedPods=status.disruptedPods | {pod: now},
    )
    if status.disruptionsAllowed == 0:
        status = _exhausted(status, now)
    return structs.replace(budget, status=status)


def unprocessed(name: str) -> StatusError:
    """Return the refusal of an eviction because the budget, or the pod, changed just now."""
    text = f"The disruption budget {name} is still being processed by the server."
    return _too_many(text, _RETRY_SECONDS)


def _too_many(cause: str, seconds: int | None = None) -> StatusError:
    details = StatusDetails(
        causes=(StatusCause(reason=_CAUSE, message=cause),), retryAfterSeconds=seconds
    )
    headers = {"Retry-After": str(seconds)} if seconds else None
    return StatusError(429, _REFUSED, reason="TooManyRequests", details=details, headers=headers)


def _forbidden(name: str, why: str) -> StatusError:
    return forbidden("poddisruptionbudget", name, why, "policy")


def _exhaustion(name: str, status: PodDisruptionBudgetStatus) -> str:
    subject = f"The disruption budget {name}"
    refusing = next((item for item in status.conditions if item.type == _ALLOWED), None)
    message = refusing.message if refusing is not None and refusing.status == "False" else ""
    reason = refusing.reason if refusing is not None else ""
    if message and reason == "SyncFailed":
        return f"{subject} does not allow evicting pods currently because it failed sync: {message}"
    if status.currentHealthy <= status.desiredHealthy:
        wanted, current = status.desiredHealthy, status.currentHealthy
        return f"{subject} needs {wanted} healthy pods and has {current} currently"
    if message:
        return f"{subject} does not allow evicting pods currently ({reason}): {message}"
    return f"{subject} does not allow evicting pods currently"


def _exhausted(status: PodDisruptionBudgetStatus, now: str) -> PodDisruptionBudgetStatus:
    """Return a status with the condition that no disruption is allowed."""
    before = next((item for item in status.conditions if item.type == _ALLOWED), None)
    unchanged = before is not None and before.status == "False"
    condition = Condition(
        type=_ALLOWED,
        status="False",
        reason="InsufficientPods",
        message="",
        observedGeneration=status.observedGeneration,
        lastTransitionTime=before.lastTransitionTime if before and unchanged else now,
    )
    if before is None:
        return structs.replace(status, conditions=(*status.conditions, condition))
    conditions = tuple(condition if item is before else item for item in status.conditions)
    return structs.replace(status, conditions=conditions)
