"""The conditions ``PodResizePending`` and ``PodResizeInProgress`` of every pod (reference
§13.6)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from msgspec import structs

from podtui.api.times import rfc3339
from podtui.api.v1 import PodCondition
from podtui.clock import Clock

PENDING: Final = "PodResizePending"
IN_PROGRESS: Final = "PodResizeInProgress"
DEFERRED: Final = "Deferred"
INFEASIBLE: Final = "Infeasible"
ERROR: Final = "Error"


@dataclass(frozen=True, slots=True)
class _Both:
    pending: PodCondition | None = None
    in_progress: PodCondition | None = None


class ResizeConditions:
    """The resize conditions by pod UID. ``generation`` is the pod's; 0 for a pod from a file."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, _Both] = {}

    def of(self, uid: str) -> tuple[PodCondition, ...]:
        both = self._known.get(uid, _Both())
        return tuple(one for one in (both.pending, both.in_progress) if one is not None)

    def is_deferred(self, uid: str) -> bool:
        pending = self._known.get(uid, _Both()).pending
        return pending is not None and pending.reason == DEFERRED

    def pending_since(self, uid: str) -> str:
        """Return when the resize became pending; empty if none is pending."""
        pending = self._known.get(uid, _Both()).pending
        return "" if pending is None else pending.lastTransitionTime or ""

    def set_pending(self, uid: str, reason: str, message: str, generation: int) -> bool:
        """Set the condition and return whether it changed. Every reason except ``Infeasible``
        becomes ``Deferred``."""
        both = self._known.get(uid, _Both())
        reason = reason if reason == INFEASIBLE else DEFERRED
        fresh = self._condition(PENDING, both.pending, reason, message, generation)
        self._known[uid] = replace(both, pending=fresh)
        old = both.pending
        return old is None or (old.reason, old.observedGeneration) != (
            reason,
            fresh.observedGeneration,
        )

    def set_in_progress(
        self, uid: str, generation: int, *, reason: str = "", message: str = ""
    ) -> tuple[int, bool]:
        """Set the condition. Return the generation that it refers to and whether it changed.
        Without a reason and message, the existing ones are kept."""
        both = self._known.get(uid, _Both())
        old = both.in_progress
        if old is not None:
            generation = old.observedGeneration or 0
            if not reason and not message:
                reason, message = old.reason, old.message
        fresh = self._condition(IN_PROGRESS, old, reason, message, generation)
        self._known[uid] = replace(both, in_progress=fresh)
        return generation, old is None or (old.reason, old.message) != (reason, message)

    def clear_pending(self, uid: str) -> None:
        if uid in self._known:
            self._known[uid] = replace(self._known[uid], pending=None)

    def clear_in_progress(self, uid: str) -> int | None:
        """Remove the condition. Return the generation that it referred to; None if there was
        none."""
        both = self._known.get(uid)
        if both is None or both.in_progress is None:
            return None
        self._known[uid] = replace(both, in_progress=None)
        return both.in_progress.observedGeneration or 0

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)

    def _condition(
        self, kind: str, old: PodCondition | None, reason: str, message: str, generation: int
    ) -> PodCondition:
        now = rfc3339(self._clock.now())
        fresh = PodCondition(
            type=kind,
            status="True",
            reason=reason,
            message=message,
            lastProbeTime=now,
            lastTransitionTime=now,
            observedGeneration=generation or None,
        )
        if old is not None and old.reason == reason:
            fresh = structs.replace(fresh, lastTransitionTime=old.lastTransitionTime)
        return fresh
