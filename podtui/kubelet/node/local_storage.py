"""Limits of local storage: the ``sizeLimit`` of emptyDir volumes, and limits of ephemeral storage
(kubelet.md §14.2). API pods that exceed them are evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from podtui.api.pod_resources import is_critical, limit_amounts
from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.errors import EngineNotFound
from podtui.kubelet.base.types import ObservedPod
from podtui.kubelet.node.eviction import EvictionMessage
from podtui.runtime.protocol import ContainerState, Runtime, SandboxState

RESOURCE: Final = "ephemeral-storage"
EMPTY_DIR: Final = "emptydirfs.limit"
POD: Final = "ephemeralpodfs.limit"
CONTAINER: Final = "ephemeralcontainerfs.limit"
_SHARE: Final = 50.0
"""Minimum pause after a measurement, as a multiple of its duration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUsage:
    """The bytes that a pod uses: emptyDir volumes on the disk, and containers (writable layer and
    logs), by name. What is unknown is left out."""

    volumes: Mapping[str, int]
    containers: Mapping[str, int]


def empty_dirs(pod: Pod) -> Mapping[str, Quantity | None]:
    """Return the emptyDir volumes on the disk, with their limits."""
    found: dict[str, Quantity | None] = {}
    for volume in pod.spec.volumes:
        if volume.emptyDir is not None and not volume.emptyDir.medium:
            text = volume.emptyDir.sizeLimit
            limit = parse_quantity(text) if text else None
            found[volume.name] = limit or None
    return found


def storage_limit(pod: Pod) -> Quantity | None:
    """Return the limit of ephemeral storage of all containers together."""
    return limit_amounts(pod).get(RESOURCE)


def storage_eviction(pod: Pod, usage: StorageUsage) -> EvictionMessage | None:
    """Return why the pod must be evicted, in the kubelet's words; None if it keeps its limits."""
    for name, limit in empty_dirs(pod).items():
        if limit is not None and usage.volumes.get(name, 0) > limit.value():
            text = f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
            return _eviction(EMPTY_DIR, text)
    total = storage_limit(pod)
    used = sum(usage.volumes.values()) + sum(usage.containers.values())
    if total is not None and used > total.value():
        text = f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
        return _eviction(POD, text)
    for container in pod.spec.containers:
        quantity = container.resources.limits.get(RESOURCE)
        limit = parse_quantity(quantity) if quantity else None
        if limit and usage.containers.get(container.name, 0) > limit.value():
            name = container.name
            text = f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
            return _eviction(CONTAINER, text)
    return None


def _eviction(signal: str, message: str) -> EvictionMessage:
    return EvictionMessage(signal=signal, message=message, annotations={}, disruption=False)


class StorageLimits:
    """Measures pods that have limits. ``container_usage`` returns the bytes of a container's
    writable layer and logs by its id, None if unknown; ``observed`` returns a pod by UID."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        clock: Clock,
        observed: Callable[[str], ObservedPod | None],
        container_usage: Callable[[str], int | None],
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._observed = observed
        self._container_usage = container_usage
        self._due = 0.0

    async def exceeded(self, pods: Iterable[Pod]) -> tuple[tuple[Pod, EvictionMessage], ...]:
        """Return the pods to evict; none while no measurement is due. Raises `EngineError`."""
        began = self._clock.monotonic()
        if began < self._due:
            return ()
        found: list[tuple[Pod, EvictionMessage]] = []
        for pod in pods:
            limited = storage_limit(pod) is not None or any(empty_dirs(pod).values())
            observed = self._observed(pod.metadata.uid)
            if not limited or is_critical(pod) or observed is None:
                continue
            eviction = storage_eviction(pod, await self._measure(pod, observed))
            if eviction is not None:
                found.append((pod, eviction))
        now = self._clock.monotonic()
        self._due = now + _SHARE * (now - began)
        return tuple(found)

    async def _measure(self, pod: Pod, observed: ObservedPod) -> StorageUsage:
        total = storage_limit(pod)
        volumes: dict[str, int] = {}
        ready = (one.id for one in observed.sandboxes if one.state is SandboxState.READY)
        sandbox_id = next(ready, "")
        for name, limit in empty_dirs(pod).items() if sandbox_id else ():
            bounds = [one.value() for one in (limit, total) if one is not None]
            if bounds:
                try:
                    size = await self._runtime.volume_size(sandbox_id, name, max(bounds))
                except EngineNotFound:
                    # The pod just ended.
                    continue
                volumes[name] = size
        containers = {
            one.name: used
            for one in observed.containers
            if one.state is ContainerState.RUNNING
            and (used := self._container_usage(one.id)) is not None
        }
        return StorageUsage(volumes=volumes, containers=containers)
