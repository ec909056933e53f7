"""The device manager: which devices of plugins a container has (kubelet.md §13.7; `manager.go` of
the kubelet's devicemanager, v1.36).

Plugins report the devices of their extended resources. A container with a limit of such a resource
gets devices when its pod is admitted, and keeps them until the pod has stopped, also over restarts
of the kubelet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from msgspec import structs

from podtui.api.pods import is_sidecar
from podtui.api.quantity import parse_quantity
from podtui.api.v1 import Container, Pod, PodStatus, ResourceHealth, ResourceStatus
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.kubelet_metrics import DEVICE_ALLOCATION_SECONDS
from podtui.kubelet.resource_managers.device_api import (
    HEALTHY,
    AllocateResponse,
    ContainerAllocateResponse,
    Device,
    DevicePluginOptions,
)
from podtui.kubelet.resource_managers.device_checkpoint import (
    WITHOUT_NODE,
    AllocatedDevices,
    Allocations,
    decode_checkpoint,
    each_allocation,
    encode_checkpoint,
)
from podtui.kubelet.resource_managers.device_choice import (
    device_hints,
    group_by_affinity,
    has_topology,
    nodes_of,
    take,
    take_in_order,
)
from podtui.kubelet.resource_managers.topology_manager import ANY, NO_AFFINITY, Hint, Hints
from podtui.kubelet.types import NodeResources

STOP_GRACE: Final = 300.0
"""Seconds for which a resource keeps its capacity after its plugin is gone."""
_IDS: Final = frozenset[str]()


class DeviceError(PodtuiError):
    """Raised if devices cannot be allocated or prepared, with the kubelet's texts."""


class DevicePlugin(Protocol):
    """A connected plugin. All methods raise `DeviceError`."""

    @property
    def options(self) -> DevicePluginOptions: ...

    async def allocate(self, ids: Collection[str]) -> AllocateResponse: ...

    async def preferred(
        self, available: Collection[str], must_include: Collection[str], size: int
    ) -> tuple[str, ...]: ...

    async def pre_start(self, ids: Collection[str]) -> None: ...


@dataclass(slots=True)
class _Resource:
    """A resource of a plugin. After the plugin is gone, ``devices`` are those that it had, none of
    them healthy, and ``stopped`` is the time at which it went. Without ``plugin``, an earlier run
    of the kubelet had it."""

    plugin: DevicePlugin | None = None
    devices: Mapping[str, Device] = field(default_factory=dict[str, Device])
    healthy: frozenset[str] = _IDS
    count: int = 0
    """The capacity: the healthy and the unhealthy devices."""
    stopped: float | None = None


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """The part of a container's configuration that plugins ask for: devices as (host path,
    container path, permissions), mounts as (host path, container path, read-only)."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    mounts: tuple[tuple[str, str, bool], ...] = ()
    devices: tuple[tuple[str, str, str], ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    cdi: tuple[str, ...] = ()


async def _write_nothing(content: bytes) -> None:
    """Stands for no file."""


class DeviceManager:
    """Implements `HintSource` for devices.

    ``is_running`` returns whether a container, by pod UID and name, runs now. ``write`` stores the
    checkpoint; ``on_change`` is called when `save` has something to store. ``on_capacity`` is
    called when the node's resources have changed, ``on_health`` with the UIDs of pods whose devices
    have another health.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        is_running: Callable[[str, str], bool],
        write: Callable[[bytes], Awaitable[None]] = _write_nothing,
        on_change: Callable[[], None] = lambda: None,
        on_capacity: Callable[[], None] = lambda: None,
        on_health: Callable[[Collection[str]], None] = lambda uids: None,
    ) -> None:
        self._clock = clock
        self._is_running = is_running
        self._write = write
        self._on_change = on_change
        self._on_capacity = on_capacity
        self._on_health = on_health
        self._resources: dict[str, _Resource] = {}
        self._allocations: Allocations = {}
        # Devices of init containers of the pod that is being admitted, for its next containers.
        self._reusable: tuple[str, dict[str, frozenset[str]]] = ("", {})
        self._numa: tuple[int, ...] = ()
        self._allocating = asyncio.Lock()
        self._saving = asyncio.Lock()
        self._saved = True

    def restore(self, content: bytes) -> None:
        """Take over what an earlier run of the kubelet allocated. Its resources have no devices
        until their plugins register again. Raises `PodtuiError`."""
        self._allocations, registered = decode_checkpoint(content)
        now = self._clock.monotonic()
        self._resources = {name: _Resource(stopped=now) for name in registered}

    def set_machine(self, numa: Iterable[int]) -> None:
        """Set the NUMA nodes of the machine."""
        self._numa = tuple(numa)

    # --- plugins

    def connected(self, resource: str, plugin: DevicePlugin) -> None:
        """Take a plugin into use; it replaces an earlier one of this resource."""
        state = self._resources.setdefault(resource, _Resource())
        state.plugin, state.stopped = plugin, None

    def disconnected(self, resource: str, plugin: DevicePlugin) -> None:
        """Take the resource out of use, unless another plugin serves it by now."""
        state = self._resources.get(resource)
        if state is None or state.plugin is not plugin:
            return
        state.stopped, state.healthy = self._clock.monotonic(), _IDS
        self._on_capacity()

    def reported(self, resource: str, plugin: DevicePlugin, devices: Iterable[Device]) -> None:
        """Replace the devices of a resource by those that its plugin lists now."""
        state = self._resources.get(resource)
        if state is None or state.plugin is not plugin or state.stopped is not None:
            return
        before = state.devices
        state.devices = {device.ID: device for device in devices}
        state.healthy = frozenset(id for id, d in state.devices.items() if d.health == HEALTHY)
        state.count = len(state.devices)
        changed = {
            id
            for id, device in state.devices.items()
            if id not in before or before[id].health != device.health
        }
        self._mark_changed()
        self._on_capacity()
        users = {
            uid
            for uid, _, name, allocated in each_allocation(self._allocations)
            if name == resource and allocated.ids & changed
        }
        if users:
            self._on_health(users)

    def resources(self) -> NodeResources:
        """Return capacity and allocatable by resource, and forget the resources whose plugins have
        been gone for `STOP_GRACE`: their amounts are 0."""
        now = self._clock.monotonic()
        expired = [
            name
            for name, state in self._resources.items()
            if state.stopped is not None and now - state.stopped > STOP_GRACE
        ]
        for name in expired:
            del self._resources[name]
        if expired:
            self._mark_changed()
        gone = dict.fromkeys(expired, 0)
        return NodeResources(
            capacity={**gone, **{name: state.count for name, state in self._resources.items()}},
            allocatable={
                **gone,
                **{name: len(state.healthy) for name, state in self._resources.items()},
            },
        )

    def allocated_counts(self, uid: str) -> Mapping[str, int]:
        """Return the number of allocated devices by resource, if the pod has some of any."""
        if uid not in self._allocations:
            return {}
        names = {name for _, _, name, _ in each_allocation(self._allocations)}
        return {name: len(self._in_use(name)) for name in names}

    # --- HintSource

    def hints(self, pod: Pod, container: Container) -> Hints:
        hints: dict[str, list[Hint]] = {}
        uid = pod.metadata.uid
        for resource, requested in self._requests(container).items():
            has = self._devices_of(uid, container.name, resource) or _IDS
            reusable = self._reusable_of(uid).get(resource, _IDS)
            hints[resource] = self._hints(resource, requested, has, reusable)
        return hints

    def pod_hints(self, pod: Pod) -> Hints:
        hints: dict[str, list[Hint]] = {}
        containers = self._allocations.get(pod.metadata.uid, {})
        for resource, requested in self._pod_requests(pod).items():
            each = (resources.get(resource) for resources in containers.values())
            has = _IDS.union(*(devices.ids for devices in each if devices is not None))
            hints[resource] = self._hints(resource, requested, has, _IDS)
        return hints

    def _hints(
        self, resource: str, requested: int, has: frozenset[str], reusable: frozenset[str]
    ) -> list[Hint]:
        state = self._resources.get(resource, _Resource())
        if not has_topology(state.devices):
            return [ANY]
        if has:
            if len(has) != requested:
                return []
            return device_hints(state.devices, has, _IDS, requested, self._numa)
        available = state.healthy - self._in_use(resource)
        if len(available | reusable) < requested:
            return []
        return device_hints(state.devices, available, reusable, requested, self._numa)

    # --- allocation

    async def allocate(self, pod: Pod, container: Container, affinity: Hint) -> None:
        """Allocate the devices of a container, unless it has them. Raises `DeviceError`."""
        async with self._allocating:
            await self._allocate(pod, container, affinity)

    async def _allocate(self, pod: Pod, container: Container, affinity: Hint) -> None:
        uid = pod.metadata.uid
        for resource, requested in self._requests(container).items():
            ids = await self._choose(uid, container.name, resource, requested, affinity)
            if not ids:
                continue
            plugin = self._plugin(resource)
            began = self._clock.monotonic()
            response = await plugin.allocate(sorted(ids))
            took = self._clock.monotonic() - began
            DEVICE_ALLOCATION_SECONDS.labels(resource).observe(took)
            if not response.container_responses:
                raise DeviceError("no containers return in allocation response ")
            self._add(uid, container.name, resource, ids, response.container_responses[0])
            # Before the container starts: its devices must not be allocated again after a crash.
            await self.save()
        self._reuse(pod, container)

    def _add(
        self,
        uid: str,
        container: str,
        resource: str,
        ids: frozenset[str],
        response: ContainerAllocateResponse,
    ) -> None:
        devices = self._resources.get(resource, _Resource()).devices
        by_node: dict[int, list[str]] = {}
        for id in sorted(ids):
            for node in sorted(nodes_of(devices, id)) or (WITHOUT_NODE,):
                by_node.setdefault(node, []).append(id)
        allocated = AllocatedDevices({node: tuple(ids) for node, ids in by_node.items()}, response)
        self._allocations.setdefault(uid, {}).setdefault(container, {})[resource] = allocated
        self._mark_changed()

    def _reuse(self, pod: Pod, container: Container) -> None:
        """Let the next containers of the pod reuse the devices of an init container that ends
        before they start."""
        uid = pod.metadata.uid
        reusable = self._reusable_of(uid)
        once = container in pod.spec.initContainers and not is_sidecar(container)
        for resource, devices in self._allocations.get(uid, {}).get(container.name, {}).items():
            others = reusable.get(resource, _IDS)
            reusable[resource] = others | devices.ids if once else others - devices.ids
        self._reusable = (uid, reusable)

    async def _choose(
        self, uid: str, container: str, resource: str, requested: int, affinity: Hint
    ) -> frozenset[str]:
        """Return the devices to allocate; none if the container needs no more."""
        has = self._devices_of(uid, container, resource)
        if has is not None and len(has) != requested:
            raise DeviceError(
                f'pod "{uid}" container "{container}" changed request for resource "{resource}" '
                f"from {len(has)} to {requested}"
            )
        if self._is_running(uid, container):
            # It was started before this run of the kubelet, and its plugin may not be back yet.
            return _IDS
        state = self._resources.get(resource)
        if state is None:
            raise DeviceError(f"cannot allocate unregistered device {resource}")
        if not state.healthy:
            raise DeviceError(
                f"no healthy devices present; cannot allocate unhealthy devices {resource}"
            )
        if has is not None:
            if not has <= state.healthy:
                raise DeviceError(
                    "previously allocated devices are no longer healthy; cannot allocate unhealthy"
                    f" devices {resource}"
                )
            return _IDS
        return await self._take(uid, resource, requested, affinity)

    async def _take(
        self, uid: str, resource: str, requested: int, affinity: Hint
    ) -> frozenset[str]:
        state = self._resources[resource]
        chosen = take(_IDS, self._reusable_of(uid).get(resource, _IDS), requested)
        needed = requested - len(chosen)
        if not needed:
            return chosen
        available = state.healthy - self._in_use(resource)
        if len(available) < needed:
            raise DeviceError(
                f"requested number of devices unavailable for {resource}. Requested: {needed}, "
                f"Available: {len(available)}"
            )
        groups = group_by_affinity(state.devices, available, affinity.nodes)
        if needed < len(groups.aligned):
            preferred = await self._preferred(resource, groups.aligned, chosen, requested)
            return take_in_order(chosen, (preferred & groups.aligned, groups.aligned), requested)
        chosen = take(chosen, groups.aligned, requested)
        if len(chosen) == requested:
            return chosen
        preferred = await self._preferred(resource, available, chosen, requested)
        left = (preferred & available, groups.unaligned, groups.without_nodes)
        return take_in_order(chosen, left, requested)

    async def _preferred(
        self,
        resource: str,
        available: frozenset[str],
        chosen: frozenset[str],
        size: int,
    ) -> frozenset[str]:
        plugin = self._resources[resource].plugin
        if plugin is None or not plugin.options.get_preferred_allocation_available:
            return _IDS
        try:
            ids = await plugin.preferred(sorted(available | chosen), sorted(chosen), size)
            return frozenset(ids)
        except DeviceError as error:
            text = f"device plugin GetPreferredAllocation rpc failed with err: {error}"
            raise DeviceError(text) from error

    def _plugin(self, resource: str) -> DevicePlugin:
        state = self._resources.get(resource)
        if state is None:
            raise DeviceError(f"endpoint not found in cache for a registered resource: {resource}")
        if state.plugin is None or state.stopped is not None:
            raise DeviceError(f"endpoint {resource} has been stopped")
        return state.plugin

    def release(self, uid: str) -> None:
        """Free the devices of a pod."""
        if self._allocations.pop(uid, None) is not None:
            self._mark_changed()

    def uids(self) -> frozenset[str]:
        """Return the UIDs of the pods that have devices."""
        return frozenset(self._allocations)

    # --- containers

    async def prepare(self, pod: Pod, container: Container) -> ContainerDevices:
        """Prepare the devices for a start of the container, and return what it needs. Allocates
        devices for a container that has none. Raises `DeviceError`."""
        uid = pod.metadata.uid
        for resource, requested in self._requests(container).items():
            if not requested:
                continue
            if self._devices_of(uid, container.name, resource) is None:
                await self.allocate(pod, container, NO_AFFINITY)
            await self._pre_start(uid, container.name, resource)
        return container_devices(self._allocations.get(uid, {}).get(container.name, {}))

    async def _pre_start(self, uid: str, container: str, resource: str) -> None:
        state = self._resources.get(resource)
        if state is None:
            raise DeviceError(f"endpoint not found in cache for a registered resource: {resource}")
        if state.plugin is None or not state.plugin.options.pre_start_required:
            return
        ids = self._devices_of(uid, container, resource) or _IDS
        try:
            await self._plugin(resource).pre_start(sorted(ids))
        except DeviceError as error:
            text = f"device plugin PreStartContainer rpc failed with err: {error}"
            raise DeviceError(text) from error

    def show_health(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status with the health of each container's devices."""
        containers = self._allocations.get(pod.metadata.uid)
        if not containers:
            return status
        shown = tuple(
            structs.replace(each, allocatedResourcesStatus=self._health(containers[each.name]))
            if each.name in containers
            else each
            for each in status.containerStatuses
        )
        return structs.replace(status, containerStatuses=shown)

    def _health(self, allocated: Mapping[str, AllocatedDevices]) -> tuple[ResourceStatus, ...]:
        def health(resource: str, id: str) -> str:
            device = self._resources.get(resource, _Resource()).devices.get(id)
            return "Healthy" if device is None or device.health == HEALTHY else "Unhealthy"

        return tuple(
            ResourceStatus(
                name=resource,
                resources=tuple(
                    ResourceHealth(resourceID=id, health=health(resource, id))
                    for id in sorted(devices.ids)
                ),
            )
            for resource, devices in sorted(allocated.items())
        )

    # --- state

    def _requests(self, container: Container) -> dict[str, int]:
        """Return the amounts of the resources of plugins that a container is limited to."""
        return {
            name: parse_quantity(text).value()
            for name, text in sorted(container.resources.limits.items())
            if self._is_managed(name)
        }

    def _pod_requests(self, pod: Pod) -> dict[str, int]:
        """Return the amounts that the containers of a pod need at the same time."""
        peak: dict[str, int] = {}
        total: dict[str, int] = {}
        for container in pod.spec.initContainers:
            for name, amount in self._requests(container).items():
                if is_sidecar(container):
                    total[name] = total.get(name, 0) + amount
                    amount = 0
                peak[name] = max(peak.get(name, 0), total.get(name, 0) + amount)
        for container in pod.spec.containers:
            for name, amount in self._requests(container).items():
                total[name] = total.get(name, 0) + amount
        return {name: max(peak.get(name, 0), total.get(name, 0)) for name in {**peak, **total}}

    def _is_managed(self, resource: str) -> bool:
        if resource in self._resources:
            return True
        return any(name == resource for _, _, name, _ in each_allocation(self._allocations))

    def _devices_of(self, uid: str, container: str, resource: str) -> frozenset[str] | None:
        devices = self._allocations.get(uid, {}).get(container, {}).get(resource)
        return None if devices is None else devices.ids

    def _in_use(self, resource: str) -> frozenset[str]:
        each = each_allocation(self._allocations)
        return _IDS.union(*(devices.ids for _, _, name, devices in each if name == resource))

    def _reusable_of(self, uid: str) -> dict[str, frozenset[str]]:
        owner, reusable = self._reusable
        return reusable if owner == uid else {}

    def _mark_changed(self) -> None:
        self._saved = False
        self._on_change()

    async def save(self) -> None:
        """Write the checkpoint, if something has changed."""
        async with self._saving:
            if self._saved:
                return
            self._saved = True
            registered = {name: state.healthy for name, state in self._resources.items()}
            await self._write(encode_checkpoint(self._allocations, registered))


def container_devices(allocated: Mapping[str, AllocatedDevices]) -> ContainerDevices:
    """Join what the plugins of a container's resources ask for. If two ask for the same variable,
    path, or annotation, the first one in the order of the resources' names counts."""
    joined = ContainerDevices()
    for _, devices in sorted(allocated.items()):
        response = devices.response
        taken = {path for _, path, _ in joined.devices}
        mounted = {path for _, path, _ in joined.mounts}
        joined = replace(
            joined,
            env={**response.envs, **joined.env},
            annotations={**response.annotations, **joined.annotations},
            devices=joined.devices
            + tuple(
                (spec.host_path, spec.container_path, spec.permissions)
                for spec in {each.container_path: each for each in response.devices[::-1]}.values()
                if spec.container_path not in taken
            )[::-1],
            mounts=joined.mounts
            + tuple(
                (mount.host_path, mount.container_path, mount.read_only)
                for mount in {each.container_path: each for each in response.mounts[::-1]}.values()
                if mount.container_path not in mounted
            )[::-1],
            cdi=tuple(dict.fromkeys((*joined.cdi, *(each.name for each in response.cdi_devices)))),
        )
    return joined
