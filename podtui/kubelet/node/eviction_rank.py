"""Rank pods for eviction (reference §14.2). Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from podtui.api.v1 import Pod
from podtui.kubelet.base.resources import pod_requests


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """The resource usage of a pod in the units of its requests; ``storage`` and ``inodes`` are of
    the disk."""

    memory: int = 0
    storage: int = 0
    inodes: int = 0
    processes: int = 0


def ranked(resource: str, pods: Iterable[Pod], usage: Mapping[str, PodUsage]) -> tuple[Pod, ...]:
    """Return the pods in the order in which they would be evicted for ``memory``,
    ``ephemeral-storage``, ``inodes`` or ``pids``. ``usage`` is by UID; a pod with unknown usage
    comes before its peers."""

    def key(pod: Pod) -> tuple[object, ...]:
        priority = pod.spec.priority or 0
        used = usage.get(pod.metadata.uid)
        if resource == "pids":
            return (priority, used is not None, -(used.processes if used else 0))
        if used is None:
            return (False, False, priority, 0)
        over = _above_request(resource, pod, used)
        return (True, over <= 0, priority, -over)

    return tuple(sorted(pods, key=key))


def _above_request(resource: str, pod: Pod, used: PodUsage) -> int:
    amounts = {
        "memory": used.memory,
        "ephemeral-storage": used.storage,
        "inodes": used.inodes,
    }
    return amounts[resource] - pod_requests(pod).get(resource, 0)
