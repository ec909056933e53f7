"""How many replicas the use of a resource asks for: pure functions of pods and their metrics.

All amounts are integers: thousandths of cores, bytes or units. Pods without metrics, and pods that
are not ready, are not left out: they make a change smaller, never larger or into its opposite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from podtui.api.autoscaling import HorizontalPodAutoscalerBehavior
from podtui.api.local import PodMetrics
from podtui.api.pods import is_sidecar
from podtui.api.quantity import milli_value, parse_quantity
from podtui.api.times import parse_time
from podtui.api.v1 import Pod

TOLERANCE: Final = 0.1
CPU_INITIALIZATION: Final = timedelta(minutes=5)
INITIAL_READINESS: Final = timedelta(seconds=30)


class MetricError(Exception):
    """Raised if a metric gives no number of replicas; the text is the controller's."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Ratios of use and target from 1 - ``down`` to 1 + ``up`` change nothing."""

    down: float = TOLERANCE
    up: float = TOLERANCE

    @classmethod
    def of(cls, behavior: HorizontalPodAutoscalerBehavior | None) -> Tolerance:
        down = up = TOLERANCE
        if behavior is not None:
            if behavior.scaleDown is not None and behavior.scaleDown.tolerance:
                down = float(parse_quantity(behavior.scaleDown.tolerance).nano) / 1e9
            if behavior.scaleUp is not None and behavior.scaleUp.tolerance:
                up = float(parse_quantity(behavior.scaleUp.tolerance).nano) / 1e9
        return cls(down, up)

    def allows(self, ratio: float) -> bool:
        return 1 - self.down <= ratio <= 1 + self.up


@dataclass(frozen=True, slots=True)
class Sample:
    """The use of a pod over the ``window`` before ``time``, in thousandths."""

    value: int
    time: datetime
    window: timedelta


def samples(
    metrics: Iterable[PodMetrics], resource: str, container: str, window: timedelta
) -> dict[str, Sample]:
    """Return the use of pods, or of one of their containers, by the names of the pods."""
    by_pod: dict[str, Sample] = {}
    for item in metrics:
        usages = [
            each.usage.get(resource) for each in item.containers if container in ("", each.name)
        ]
        time = parse_time(item.timestamp)
        values = [milli_value(usage) for usage in usages if usage is not None]
        if usages and len(values) == len(usages) and time is not None:
            by_pod[item.metadata.name] = Sample(sum(values), time, window)
    return by_pod


class Proposal(NamedTuple):
    """``average`` is the use of a pod in thousandths, ``percent`` its share of the requests."""

    replicas: int
    average: int
    percent: int | None = None


class _Groups(NamedTuple):
    ready: int
    unready: frozenset[str]
    missing: frozenset[str]
    ignored: frozenset[str]


def _group(
    pods: Iterable[Pod], used: Mapping[str, Sample], resource: str, now: datetime
) -> _Groups:
    ready = 0
    unready: set[str] = set()
    missing: set[str] = set()
    ignored: set[str] = set()
    for pod in pods:
        name = pod.metadata.name
        if pod.metadata.deletionTimestamp is not None or pod.status.phase == "Failed":
            ignored.add(name)
        elif pod.status.phase == "Pending":
            unready.add(name)
        elif name not in used:
            missing.add(name)
        elif resource == "cpu" and _is_starting(pod, used[name], now):
            unready.add(name)
        else:
            ready += 1
    return _Groups(ready, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_starting(pod: Pod, sample: Sample, now: datetime) -> bool:
    """Return whether the pod's use of the CPU says nothing yet about its load."""
    condition = next((c for c in pod.status.conditions if c.type == "Ready"), None)
    start = parse_time(pod.status.startTime)
    changed = parse_time(condition.lastTransitionTime) if condition is not None else None
    if condition is None or start is None or changed is None:
        return True
    is_unready = condition.status == "False"
    if start + CPU_INITIALIZATION > now:
        return is_unready or sample.time < changed + sample.window
    return is_unready and start + INITIAL_READINESS > changed


def _propose(
    current: int,
    pods: Sequence[Pod],
    used: Mapping[str, Sample],
    resource: str,
    tolerance: Tolerance,
    now: datetime,
    ratio_of: Callable[[Mapping[str, int]], float],
    full: Callable[[str], int],
) -> int:
    """Return the number of replicas. ``ratio_of`` compares uses with the target; ``full`` is what a
    pod without metrics is assumed to use when replicas are removed."""
    groups = _group(pods, used, resource, now)
    left_out = groups.ignored | groups.unready
    values = {name: sample.value for name, sample in used.items() if name not in left_out}
    ratio = ratio_of(values)
    grows = bool(groups.unready) and ratio > 1
    if not grows and not groups.missing:
        return current if tolerance.allows(ratio) else math.ceil(ratio * groups.ready)
    if ratio < 1:
        values |= {name: full(name) for name in groups.missing}
    elif ratio > 1:
        values |= dict.fromkeys(groups.missing, 0)
    if grows:
        values |= dict.fromkeys(groups.unready, 0)
    changed = ratio_of(values)
    turns = (ratio < 1 < changed) or (ratio > 1 > changed)
    if tolerance.allows(changed) or turns:
        return current
    replicas = math.ceil(changed * len(values))
    wrong = (changed < 1 and replicas > current) or (changed > 1 and replicas < current)
    return current if wrong else replicas


def _counted(
    pods: Sequence[Pod], used: Mapping[str, Sample], resource: str, now: datetime
) -> dict[str, int]:
    """Return the uses that count. Raises `MetricError`."""
    if not pods:
        raise MetricError("no pods returned by selector while calculating replica count")
    groups = _group(pods, used, resource, now)
    left_out = groups.ignored | groups.unready
    values = {name: sample.value for name, sample in used.items() if name not in left_out}
    if not values:
        raise MetricError("did not receive metrics for targeted pods (pods might be unready)")
    return values


def by_average(
    current: int,
    target: int,
    pods: Sequence[Pod],
    used: Mapping[str, Sample],
    resource: str,
    tolerance: Tolerance,
    now: datetime,
) -> Proposal:
    """Return the replicas for an average use of ``target`` thousandths. Raises `MetricError`."""
    values = _counted(pods, used, resource, now)

    def ratio_of(uses: Mapping[str, int]) -> float:
        return sum(uses.values()) // len(uses) / target

    replicas = _propose(current, pods, used, resource, tolerance, now, ratio_of, lambda _: target)
    return Proposal(replicas, sum(values.values()) // len(values))


def by_utilization(
    current: int,
    target: int,
    pods: Sequence[Pod],
    used: Mapping[str, Sample],
    resource: str,
    container: str,
    tolerance: Tolerance,
    now: datetime,
) -> Proposal:
    """Return the replicas for a use of ``target`` percent of the requests. Raises
    `MetricError`."""
    values = _counted(pods, used, resource, now)
    requests = {pod.metadata.name: request_of(pod, resource, container) for pod in pods}

    def percent_of(uses: Mapping[str, int]) -> int:
        total = sum(requests[name] for name in uses if name in requests)
        if total == 0:
            raise MetricError("no metrics returned matched known pods")
        return sum(use for name, use in uses.items() if name in requests) * 100 // total

    def full(name: str) -> int:
        return requests[name] * max(100, target) // 100

    percent = percent_of(values)
    replicas = _propose(
        current,
        pods,
        used,
        resource,
        tolerance,
        now,
        lambda uses: percent_of(uses) / target,
        full,
    )
    measured = [use for name, use in values.items() if name in requests]
    return Proposal(replicas, sum(measured) // len(measured), percent)


def request_of(pod: Pod, resource: str, container: str) -> int:
    """Return the request of a pod, or of one of its containers, in thousandths. Raises
    `MetricError` if a container has none."""
    name = pod.metadata.name
    if not container and pod.spec.resources is not None and pod.spec.resources.requests:
        text = pod.spec.resources.requests.get(resource)
        if text is None:
            raise MetricError(f"missing pod-level request for {resource} in Pod {name}")
        return milli_value(text)
    total, is_found = 0, not container
    for each in (*pod.spec.containers, *filter(is_sidecar, pod.spec.initContainers)):
        if container not in ("", each.name):
            continue
        text = each.resources.requests.get(resource)
        if text is None:
            where = f"container {each.name} of Pod {name}"
            raise MetricError(f"missing request for {resource} in {where}")
        total += milli_value(text)
        is_found = True
    if not is_found:
        raise MetricError(f"container {container} not found in Pod {name}")
    return total
