"""The failed pods of a Job: what its pod failure policy says about them, and how long their
replacements wait."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from podtui.api.batch import PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement
from podtui.api.pods import is_sidecar
from podtui.api.times import parse_time
from podtui.api.v1 import ContainerStatus, Pod

FIRST_BACK_OFF_SECONDS: Final = 10.0
MAX_BACK_OFF_SECONDS: Final = 600.0
_MAX_DOUBLINGS: Final = 10


# --- the policy


@dataclass(frozen=True, slots=True)
class Verdict:
    """``action`` is that of the rule that matches, empty without one. ``message`` is why the Job
    fails, if it does."""

    action: str = ""
    message: str = ""

    @property
    def counts(self) -> bool:
        """Whether the pod counts for the back-off limit."""
        return self.action != "Ignore"


def judge(policy: PodFailurePolicy | None, pod: Pod) -> Verdict:
    """Return what the first rule that matches a failed pod says."""
    meta = pod.metadata
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        reason = ""
        if rule.onExitCodes is not None:
            status = _exited(pod, rule.onExitCodes)
            if status is not None and status.state.terminated is not None:
                reason = (
                    f"Container {status.name} for pod {meta.namespace}/{meta.name} failed with exit"
                    f" code {status.state.terminated.exitCode}"
                )
        else:
            patterns = {(pattern.type, pattern.status) for pattern in rule.onPodConditions}
            for condition in pod.status.conditions:
                if (condition.type, condition.status) in patterns:
                    reason = f"Pod {meta.namespace}/{meta.name} has condition {condition.type}"
                    break
        if reason:
            message = f"{reason} matching {rule.action} rule at index {index}"
            return Verdict(rule.action, message if rule.action == "FailJob" else "")
    return Verdict()


def _exited(
    pod: Pod, requirement: PodFailurePolicyOnExitCodesRequirement
) -> ContainerStatus | None:
    for status in (*pod.status.containerStatuses, *pod.status.initContainerStatuses):
        ended = status.state.terminated
        if ended is None or requirement.containerName not in ("", status.name):
            continue
        listed = ended.exitCode in requirement.values
        if ended.exitCode != 0 and listed == (requirement.operator == "In"):
            return status
    return None


# --- the back-off


@dataclass(frozen=True, slots=True)
class BackOff:
    """The failures of pods since the last success, and the time of the last one."""

    failures: int = 0
    last: datetime | None = None

    def after(self, succeeded: Sequence[Pod], failed: Sequence[Pod]) -> BackOff:
        """Return the back-off after more pods have ended."""
        times = sorted(map(finished_at, failed))
        if succeeded:
            success = max(map(finished_at, succeeded))
            times = [time for time in times if time > success]
            return BackOff(len(times), times[-1] if times else None)
        if not times:
            return self
        return BackOff(self.failures + len(times), times[-1])

    def seconds_left(self, now: datetime) -> float:
        """Return the seconds until a replacement may be created."""
        if self.failures == 0 or self.last is None:
            return 0.0
        doubled = FIRST_BACK_OFF_SECONDS * 2 ** min(self.failures - 1, _MAX_DOUBLINGS)
        end = self.last + timedelta(seconds=min(doubled, MAX_BACK_OFF_SECONDS))
        return max(0.0, (end - now).total_seconds())


def finished_at(pod: Pod) -> datetime:
    """Return when a pod ended: when its last container did; else when it became unready, was
    deleted or created."""
    status = pod.status
    sidecars = {container.name for container in pod.spec.initContainers if is_sidecar(container)}
    restarted = (item for item in status.initContainerStatuses if item.name in sidecars)
    ended = _last_end((*status.containerStatuses, *restarted))
    if ended is not None:
        return ended
    for condition in status.conditions:
        if condition.type == "Ready" and condition.status == "False":
            since = parse_time(condition.lastTransitionTime)
            if since is not None:
                return since
    meta = pod.metadata
    deleted, created = parse_time(meta.deletionTimestamp), parse_time(meta.creationTimestamp)
    if deleted is not None:
        return deleted - timedelta(seconds=meta.deletionGracePeriodSeconds or 0)
    if created is None:
        raise ValueError(f"pod {meta.name} has no creationTimestamp")
    return created


def _last_end(statuses: Iterable[ContainerStatus]) -> datetime | None:
    """Return when the last container ended; None if one has not."""
    last: datetime | None = None
    for status in statuses:
        ended = status.state.terminated
        end = parse_time(ended.finishedAt) if ended is not None else None
        if end is None:
            return None
        last = end if last is None else max(last, end)
    return last
