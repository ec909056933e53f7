"""Requests, limits and usage of pods as integers: millicores, bytes, counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from podtui.api.local import NodeMetrics, PodMetrics
from podtui.api.pods import is_sidecar
from podtui.api.quantity import milli_value, value
from podtui.api.v1 import Container, Pod

_Of = Callable[[Container], dict[str, str]]


class Usage(Struct, frozen=True):
    """``cpu`` in millicores, ``memory`` in bytes."""

    cpu: int
    memory: int


@lru_cache(maxsize=4096)
def amount(resource: str, quantity: str) -> int:
    """Return a quantity in the unit of its resource; 0 if it is invalid."""
    try:
        return milli_value(quantity) if resource == "cpu" else value(quantity)
    except ValueError:
        return 0


def pod_usage(metrics: PodMetrics) -> Usage:
    return Usage(
        sum(amount("cpu", c.usage.get("cpu", "0")) for c in metrics.containers),
        sum(amount("memory", c.usage.get("memory", "0")) for c in metrics.containers),
    )


def node_usage(metrics: NodeMetrics) -> Usage:
    return Usage(
        amount("cpu", metrics.usage.get("cpu", "0")),
        amount("memory", metrics.usage.get("memory", "0")),
    )


def is_active(pod: Pod) -> bool:
    """Return whether the pod counts for its node: a finished, rejected or unscheduled pod uses no
    resources."""
    return bool(pod.spec.nodeName) and pod.status.phase not in ("Succeeded", "Failed")


def requested(pod: Pod, resource: str) -> int:
    """Return the amount that admission counts for a pod (kubelet.md §5.1)."""
    if resource == "pods":
        return 1
    level = pod.spec.resources.requests if pod.spec.resources else {}
    return _pod_total(pod, resource, level, lambda c: c.resources.requests)


def limited(pod: Pod, resource: str) -> int:
    """Return the pod's limit; 0 if it is only set per container and any container has none."""
    level = pod.spec.resources.limits if pod.spec.resources else {}
    if resource not in level and any(
        resource not in c.resources.limits for c in pod.spec.containers
    ):
        return 0
    return _pod_total(pod, resource, level, lambda c: c.resources.limits)


def _pod_total(pod: Pod, resource: str, level: dict[str, str], of: _Of) -> int:
    overhead = amount(resource, pod.spec.overhead.get(resource, "0"))
    if resource in level:
        return amount(resource, level[resource]) + overhead
    total = _sum((of(c) for c in pod.spec.containers), resource)
    sidecars = 0
    peak = 0
    for container in pod.spec.initContainers:
        request = amount(resource, of(container).get(resource, "0"))
        if is_sidecar(container):
            sidecars += request
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + request)
    return max(total + sidecars, peak) + overhead


def _sum(maps: Iterable[dict[str, str]], resource: str) -> int:
    return sum(amount(resource, m.get(resource, "0")) for m in maps)


KEPT: Final = 1200
"""Maximum number of samples: one hour at one sample every three seconds."""


class Sample(Struct, frozen=True):
    """Usage ``at`` a time (Unix seconds): ``cpu`` in millicores, ``memory`` in bytes."""

    at: float
    cpu: int
    memory: int


class NodeHistory:
    """Samples, oldest first, limited to the newest `KEPT`."""

    def __init__(self) -> None:
        self.samples: deque[Sample] = deque(maxlen=KEPT)

    def add(self, at: float, usage: Usage) -> None:
        """Add a sample, unless it is not newer than the last one."""
        if not self.samples or at > self.samples[-1].at:
            self.samples.append(Sample(at, usage.cpu, usage.memory))
