"""Which pods of a ReplicaSet are deleted first when it has too many.

The order is that of Kubernetes: pods that serve least come first, then those that share a node with
most of their kind, then the youngest. Ages are compared by their powers of two, so that among pods
of about the same age the choice does not follow the order of creation.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from podtui.api.pods import is_sidecar
from podtui.api.times import parse_time
from podtui.api.v1 import Pod
from podtui.controllers.pods import is_active, is_ready

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_MAX_COST: Final = 2**31
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def pods_to_delete(
    pods: Sequence[Pod], related: Iterable[Pod], count: int, now: datetime
) -> list[Pod]:
    """Return the ``count`` of ``pods`` to delete first. ``related`` are the pods that ``pods``
    shall be spread with: those of all ReplicaSets of one Deployment."""
    if count >= len(pods):
        return list(pods)
    on_node = Counter(pod.spec.nodeName for pod in related if is_active(pod))

    def compare(first: Pod, second: Pod) -> int:
        return _compare(first, second, on_node, now)

    return sorted(pods, key=functools.cmp_to_key(compare))[:count]


def deletion_cost(pod: Pod) -> int:
    """Return the value of the annotation, 0 if it is absent or invalid."""
    text = pod.metadata.annotations.get(DELETION_COST, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or (digits != "0" and digits[0] == "0"):
        return 0
    cost = int(text)
    return cost if -_MAX_COST <= cost < _MAX_COST else 0


def _compare(first: Pod, second: Pod, on_node: Counter[str], now: datetime) -> int:
    """Return a negative number if ``first`` is deleted before ``second``."""
    for before, after in zip(_rank(first, on_node), _rank(second, on_node), strict=True):
        if before != after:
            return before - after
    if is_ready(first) and is_ready(second):
        younger = _compare_ages(first, second, _ready_since(first), _ready_since(second), now)
        if younger:
            return younger
    for before, after in zip(_restarts(first), _restarts(second), strict=True):
        if before != after:
            return after - before
    return _compare_ages(
        first,
        second,
        parse_time(first.metadata.creationTimestamp),
        parse_time(second.metadata.creationTimestamp),
        now,
    )


def _rank(pod: Pod, on_node: Counter[str]) -> tuple[int, ...]:
    return (
        bool(pod.spec.nodeName),
        _PHASES.get(pod.status.phase, 0),
        is_ready(pod),
        deletion_cost(pod),
        -on_node[pod.spec.nodeName],
    )


def _ready_since(pod: Pod) -> datetime | None:
    return next(
        (parse_time(c.lastTransitionTime) for c in pod.status.conditions if c.type == "Ready"), None
    )


def _restarts(pod: Pod) -> tuple[int, int]:
    """Return the most restarts of a container, and of a sidecar."""
    sidecars = {container.name for container in pod.spec.initContainers if is_sidecar(container)}
    status = pod.status
    return (
        max((each.restartCount for each in status.containerStatuses), default=0),
        max(
            (each.restartCount for each in status.initContainerStatuses if each.name in sidecars),
            default=0,
        ),
    )


def _compare_ages(
    first: Pod, second: Pod, since: datetime | None, since_second: datetime | None, now: datetime
) -> int:
    """An unknown time counts as younger than any; pods of about the same age compare by UID."""
    if since == since_second:
        return 0
    if since is None or since_second is None:
        return -1 if since is None else 1
    difference = _age_rank(since, now) - _age_rank(since_second, now)
    if difference:
        return difference
    return -1 if first.metadata.uid < second.metadata.uid else 1


def _age_rank(since: datetime, now: datetime) -> int:
    seconds = (now - since).total_seconds()
    return int(math.log2(seconds * 1e9)) if seconds > 0 else -1
