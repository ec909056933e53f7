"""The eviction manager: monitors the node's resources, reports pressure and reclaims resources
(kubelet.md §14.2).

It evicts one API pod at a time under pressure, and each API pod that exceeds its limits of local
storage. Static and other critical pods are never evicted (kubelet.md §0.3): if no other pod is
left, the node's record names the pod that would be evicted first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from podtui.api.pod_resources import is_critical, limit_amounts, pod_requests
from podtui.api.pods import pod_ref
from podtui.api.quantity import Format, Quantity, canonical, parse_quantity
from podtui.api.thresholds import (
    ALLOCATABLE_MEMORY,
    IMAGEFS,
    IMAGEFS_INODES,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
    Threshold,
    threshold_amount,
)
from podtui.api.v1 import Pod
from podtui.clock import Clock
from podtui.errors import EngineError, EngineNotFound
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.containers.killer import MIN_GRACE_SECONDS
from podtui.kubelet.events.recorder import WARNING, EventRecorder
from podtui.kubelet.node.host import Host, Observation, Observations
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.node.node_manager import NodeManager
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import ContainerState, Runtime, SandboxState

MEMORY_PRESSURE: Final = "MemoryPressure"
DISK_PRESSURE: Final = "DiskPressure"
PID_PRESSURE: Final = "PIDPressure"
CONDITIONS: Final = {
    MEMORY: MEMORY_PRESSURE,
    ALLOCATABLE_MEMORY: MEMORY_PRESSURE,
    NODEFS: DISK_PRESSURE,
    NODEFS_INODES: DISK_PRESSURE,
    IMAGEFS: DISK_PRESSURE,
    IMAGEFS_INODES: DISK_PRESSURE,
    PIDS: PID_PRESSURE,
}
RESOURCES: Final = {
    MEMORY: "memory",
    ALLOCATABLE_MEMORY: "memory",
    NODEFS: "ephemeral-storage",
    NODEFS_INODES: "inodes",
    IMAGEFS: "ephemeral-storage",
    IMAGEFS_INODES: "inodes",
    PIDS: "pids",
}
_LOG = logging.getLogger(__name__)
MONITORING_PERIOD: Final = 10.0
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
EMPTY_DIR_LIMIT: Final = "emptydirfs.limit"
POD_LIMIT: Final = "ephemeralpodfs.limit"
CONTAINER_LIMIT: Final = "ephemeralcontainerfs.limit"
PAUSE_FACTOR: Final = 50.0
"""Minimum pause after a measurement, as a multiple of its duration."""


class EvictionManager:
    """Sets the pressure conditions, reclaims disk space and evicts pods.

    ``memory`` returns the working sets in bytes by pod UID and container; ``pods`` returns the
    running pods; ``reclaim`` removes dead containers and unused images; ``evict`` kills a pod with
    a grace period in seconds, and returns when it has stopped.
    """

    def __init__(
        self,
        *,
        host: Host,
        link: EngineLink,
        node: NodeManager,
        events: EventRecorder,
        clock: Clock,
        config: KubeletConfig,
        limits: StorageLimits,
        memory: Callable[[], Awaitable[Mapping[str, Mapping[str, int]]]],
        pods: Callable[[], Iterable[Pod]],
        reclaim: Callable[[], Awaitable[None]],
        evict: Callable[[Pod, int, EvictionMessage], Awaitable[None]],
    ) -> None:
        self._host = host
        self._link = link
        self._node = node
        self._events = events
        self._clock = clock
        self._config = config
        self._pods = pods
        self._memory = memory
        self._limits = limits
        self._reclaim = reclaim
        self._evict = evict
        self._thresholds = config.eviction_thresholds()
        self._pressure = Pressure()

    async def run(self) -> None:
        """Check the limits of pods and the resources of the node periodically. Runs forever. The
        resources of an engine's node on another machine are unknown."""
        while True:
            await self._link.wait_ready()
            info = self._link.info
            try:
                # An eviction may already end the shortage: the node is checked in the next period.
                if not await self._evict_over_limits() and info is not None and info.local:
                    await self._check(info.root_dir)
            except EngineError as error:
                self._link.suspect(error)
            await self._clock.sleep(MONITORING_PERIOD)

    async def _evict_over_limits(self) -> bool:
        """Evict the pods that exceed a limit of local storage, and return whether there were
        any."""
        evictions = await self._limits.exceeded(self._pods())
        for pod, eviction in evictions:
            await self._evict(pod, MIN_GRACE_SECONDS, eviction)
        return bool(evictions)

    async def _check(self, engine_root: str) -> None:
        observed = await self._observe(engine_root)
        self._pressure = advance(
            self._pressure,
            self._thresholds,
            observed,
            now=self._clock.monotonic(),
            transition=self._config.eviction_pressure_transition_period,
        )
        due = self._pressure.due
        self._node.set_pressure(self._pressure.conditions)
        # One threshold at a time: what is freed for it may help the others.
        if not due or await self._try_reclaim(due[0], engine_root):
            self._node.set_would_evict("")
            return
        await self._evict_one(due[0], observed)

    async def _observe(self, engine_root: str) -> Observations:
        root = self._config.root_dir or engine_root
        seen = dict(await asyncio.to_thread(self._host.signals, engine_root, root))
        memory = seen.get(MEMORY)
        if memory is not None:
            reserved = self._reserved_memory()
            pods = pods_memory(memory, reserved, None, self._thresholds)
            if pods is None:
                used = sum(sum(pod.values()) for pod in (await self._memory()).values())
                pods = pods_memory(memory, reserved, used, self._thresholds)
            if pods is not None:
                seen[ALLOCATABLE_MEMORY] = pods
        return seen

    def _reserved_memory(self) -> int:
        reserved = (self._config.system_reserved, self._config.kube_reserved)
        return sum(
            parse_quantity(amounts["memory"]).value() for amounts in reserved if "memory" in amounts
        )

    async def _try_reclaim(self, threshold: Threshold, engine_root: str) -> bool:
        """Record the shortage, reclaim unused resources and return whether that was enough."""
        resource = RESOURCES[threshold.signal]
        _LOG.warning("the node is short of %s (%s)", resource, threshold.signal)
        self._events.node(WARNING, "EvictionThresholdMet", f"Attempting to reclaim {resource}")
        if not await self._can_free(threshold, engine_root):
            return False
        await self._reclaim()
        observed = await self._observe(engine_root)
        return not met(self._thresholds, observed, reclaimed=True)

    async def _can_free(self, threshold: Threshold, engine_root: str) -> bool:
        """Return whether images and dead containers are on the disk that is short of space."""
        if CONDITIONS[threshold.signal] != DISK_PRESSURE:
            return False
        if threshold.signal not in (NODEFS, NODEFS_INODES) or not self._config.root_dir:
            return True
        root_disk = await asyncio.to_thread(self._host.disk, self._config.root_dir)
        engine_disk = await asyncio.to_thread(self._host.disk, engine_root)
        return (
            root_disk is not None
            and engine_disk is not None
            and root_disk.device == engine_disk.device
        )

    async def _evict_one(self, threshold: Threshold, observed: Observations) -> None:
        """Evict the first pod of the ranking that is not critical."""
        resource = RESOURCES[threshold.signal]
        pods = tuple(self._pods())
        used: Mapping[str, Mapping[str, int]] = {}
        if resource == "memory":
            used = await self._memory()
        usage = {
            pod.metadata.uid: PodUsage(memory=sum(used[pod.metadata.uid].values()))
            for pod in pods
            if pod.metadata.uid in used
        }
        order = ranked(resource, pods, usage)
        for pod in order:
            if is_critical(pod):
                _LOG.warning("cannot evict a critical pod: %s", pod_ref(pod))
                continue
            seen = observed.get(threshold.signal)
            eviction = eviction_of(pod, resource, threshold, seen, used.get(pod.metadata.uid))
            self._node.set_would_evict("")
            await self._evict(pod, self._grace(pod, threshold), eviction)
            # Only one: the next observation shows whether that was enough.
            return
        _LOG.warning("unable to evict any pods from the node")
        first = order[0].metadata if order else None
        self._node.set_would_evict("" if first is None else f"{first.namespace}/{first.name}")

    def _grace(self, pod: Pod, threshold: Threshold) -> int:
        """Return the grace period of an evicted pod: none for a hard threshold."""
        if threshold.grace == 0:
            return MIN_GRACE_SECONDS
        grace = pod.spec.terminationGracePeriodSeconds
        longest = self._config.eviction_max_pod_grace_period
        return longest if grace is None else min(longest, grace)


# --- pressure


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """The state kept between two observations; times are monotonic seconds."""

    conditions: tuple[str, ...] = ()
    """The conditions that hold, in the node's order."""
    due: tuple[Threshold, ...] = ()
    """Thresholds that were met for their grace period and require action, memory first."""
    first_met: Mapping[Threshold, float] = field(default_factory=dict[Threshold, float])
    last_seen: Mapping[str, float] = field(default_factory=dict[str, float])
    """Time at which a threshold of the condition was last met."""


def needed(threshold: Threshold, observation: Observation, *, reclaimed: bool = False) -> int:
    """Return the amount that must be available; with ``reclaimed``, including the minimum
    reclaim."""
    amount = threshold_amount(threshold.value, observation.capacity)
    if reclaimed and threshold.reclaim:
        amount += threshold_amount(threshold.reclaim, observation.capacity)
    return amount


def met(
    thresholds: Iterable[Threshold], observed: Observations, *, reclaimed: bool = False
) -> tuple[Threshold, ...]:
    """Return the thresholds that are met, that is, less than needed is available. A threshold
    without an observation is not met."""
    return tuple(
        threshold
        for threshold in thresholds
        if (seen := observed.get(threshold.signal)) is not None
        and needed(threshold, seen, reclaimed=reclaimed) > seen.available
    )


def advance(
    before: Pressure,
    thresholds: Sequence[Threshold],
    observed: Observations,
    *,
    now: float,
    transition: float,
) -> Pressure:
    """Return the pressure after one more observation.

    A threshold that was due stays met until its minimum reclaim is available too. A condition holds
    for ``transition`` seconds after it was last observed.
    """
    unresolved = met(before.due, observed, reclaimed=True)
    current = tuple(dict.fromkeys((*met(thresholds, observed), *unresolved)))
    first = {threshold: before.first_met.get(threshold, now) for threshold in current}
    seen = {CONDITIONS[threshold.signal] for threshold in current}
    last = {**before.last_seen, **dict.fromkeys(seen, now)}
    due = [threshold for threshold in current if now - first[threshold] >= threshold.grace]
    due.sort(key=lambda threshold: CONDITIONS[threshold.signal] != MEMORY_PRESSURE)
    order = (MEMORY_PRESSURE, DISK_PRESSURE, PID_PRESSURE)
    return Pressure(
        conditions=tuple(
            condition
            for condition in order
            if condition in seen or (condition in last and now - last[condition] < transition)
        ),
        due=tuple(due),
        first_met=first,
        last_seen=last,
    )


def pods_memory(
    node: Observation, reserved: int, used: int | None, thresholds: Iterable[Threshold]
) -> Observation | None:
    """Compute ``allocatableMemory.available``: the machine's capacity less ``reserved``, less the
    pods' working sets (``used``).

    Asking the engine for the usage of all pods is expensive. With ``used`` None, the machine's
    total usage serves as an upper bound. Return None if a threshold would be met with this bound:
    then the exact usage is needed.
    """
    capacity = max(node.capacity - reserved, 0)
    if used is not None:
        return Observation(max(capacity - used, 0), capacity)
    bound = Observation(max(capacity - (node.capacity - node.available), 0), capacity)
    allocatable = [threshold for threshold in thresholds if threshold.signal == ALLOCATABLE_MEMORY]
    return None if met(allocatable, {ALLOCATABLE_MEMORY: bound}, reclaimed=True) else bound


# --- ranking


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
        # False sorts before True: first unknown usage, then usage above the request, then low
        # priority, then the largest excess.
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


# --- messages


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionMessage:
    """The message of an eviction, and the annotations of its event."""

    signal: str
    message: str
    annotations: Mapping[str, str]
    disruption: bool = True
    """Set the condition ``DisruptionTarget``: the node disrupts the pod, not the pod itself."""


def eviction_of(
    pod: Pod,
    resource: str,
    threshold: Threshold,
    seen: Observation | None,
    memory: Mapping[str, int] | None,
) -> EvictionMessage:
    """Compose the kubelet's message: the shortage, and the containers that use more than they
    request. ``memory`` has the working sets by container; None if they are unknown."""
    message = f"The node was low on resource: {resource}. "
    if seen is not None:
        least = _quantity(needed(threshold, seen))
        if not threshold.value.endswith("%"):
            least = canonical(threshold.value)
        message += f"Threshold quantity: {least}, available: {_quantity(seen.available)}. "
    if memory is None:
        return EvictionMessage(signal=threshold.signal, message=message, annotations={})
    over: dict[str, str] = {}
    for container in (*pod.spec.containers, *pod.spec.initContainers):
        request = container.resources.requests.get(resource, "0")
        used = memory.get(container.name)
        if resource == "memory" and used is not None and used > parse_quantity(request).value():
            over[container.name] = _quantity(used)
            message += (
                f"Container {container.name} was using {over[container.name]}, request is"
                f" {canonical(request)}, has larger consumption of {resource}. "
            )
    annotations = {
        "offending_containers": ",".join(over),
        "offending_containers_usage": ",".join(over.values()),
        "starved_resource": resource,
    }
    return EvictionMessage(signal=threshold.signal, message=message, annotations=annotations)


def _quantity(amount: int) -> str:
    return str(Quantity.of(amount, Format.BINARY_SI))


# --- limits of local storage


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageUsage:
    """The bytes that a pod uses: emptyDir volumes on the disk, and containers (writable layer and
    logs), by name. What is unknown is left out."""

    volumes: Mapping[str, int]
    containers: Mapping[str, int]


def empty_dirs(pod: Pod) -> Mapping[str, Quantity | None]:
    """Return the emptyDir volumes on the disk, with their limits."""
    limits: dict[str, Quantity | None] = {}
    for volume in pod.spec.volumes:
        if volume.emptyDir is not None and not volume.emptyDir.medium:
            text = volume.emptyDir.sizeLimit
            limit = parse_quantity(text) if text else None
            limits[volume.name] = limit or None
    return limits


def storage_limit(pod: Pod) -> Quantity | None:
    """Return the limit of ephemeral storage of all containers together."""
    return limit_amounts(pod).get(EPHEMERAL_STORAGE)


def storage_eviction(pod: Pod, usage: StorageUsage) -> EvictionMessage | None:
    """Return why the pod must be evicted, in the kubelet's words; None if it keeps its limits."""
    for name, limit in empty_dirs(pod).items():
        if limit is not None and usage.volumes.get(name, 0) > limit.value():
            text = f'Usage of EmptyDir volume "{name}" exceeds the limit "{limit}". '
            return _eviction(EMPTY_DIR_LIMIT, text)
    total = storage_limit(pod)
    used = sum(usage.volumes.values()) + sum(usage.containers.values())
    if total is not None and used > total.value():
        text = f"Pod ephemeral local storage usage exceeds the total limit of containers {total}. "
        return _eviction(POD_LIMIT, text)
    for container in pod.spec.containers:
        quantity = container.resources.limits.get(EPHEMERAL_STORAGE)
        limit = parse_quantity(quantity) if quantity else None
        if limit and usage.containers.get(container.name, 0) > limit.value():
            name = container.name
            text = f'Container {name} exceeded its local ephemeral storage limit "{limit}". '
            return _eviction(CONTAINER_LIMIT, text)
    return None


def _eviction(signal: str, message: str) -> EvictionMessage:
    return EvictionMessage(signal=signal, message=message, annotations={}, disruption=False)


class StorageLimits:
    """Measures the pods that have limits: the ``sizeLimit`` of an emptyDir volume, or limits of
    ephemeral storage. ``container_usage`` returns the bytes of a container's
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
        evictions: list[tuple[Pod, EvictionMessage]] = []
        for pod in pods:
            limited = storage_limit(pod) is not None or any(empty_dirs(pod).values())
            observed = self._observed(pod.metadata.uid)
            if not limited or is_critical(pod) or observed is None:
                continue
            eviction = storage_eviction(pod, await self._measure(pod, observed))
            if eviction is not None:
                evictions.append((pod, eviction))
        # Measuring reads whole directories: the pause keeps its share of the time small.
        now = self._clock.monotonic()
        self._due = now + PAUSE_FACTOR * (now - began)
        return tuple(evictions)

    async def _measure(self, pod: Pod, observed: ObservedPod) -> StorageUsage:
        total = storage_limit(pod)
        volumes: dict[str, int] = {}
        ready = (
            sandbox.id for sandbox in observed.sandboxes if sandbox.state is SandboxState.READY
        )
        sandbox_id = next(ready, "")
        for name, limit in empty_dirs(pod).items() if sandbox_id else ():
            bounds = [amount.value() for amount in (limit, total) if amount is not None]
            if bounds:
                try:
                    size = await self._runtime.volume_size(sandbox_id, name, max(bounds))
                except EngineNotFound:
                    # The pod just ended.
                    continue
                volumes[name] = size
        containers = {
            container.name: used
            for container in observed.containers
            if container.state is ContainerState.RUNNING
            and (used := self._container_usage(container.id)) is not None
        }
        return StorageUsage(volumes=volumes, containers=containers)
