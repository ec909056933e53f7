"""The resources that pods were admitted with, and those last applied through the engine (kubelet.md
§13.6, 17).

An allocation is independent of later edits of the manifest: the kubelet runs the pod with the
allocated resources, and a new amount is allocated only after admission. Both are kept over
restarts: a kubelet has two checkpoints for this, podtui one file in the root directory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec
from msgspec import structs

from podtui.api.quantity import parse_quantity
from podtui.api.v1 import Container, Pod, ResourceRequirements
from podtui.clock import Clock
from podtui.private_files import read_private, write_private

RESIZABLE: Final = ("cpu", "memory")
_LOG = logging.getLogger(__name__)
FILE_NAME: Final = "allocations.json"
SETTLE: Final = 0.5
"""Seconds in which further changes are combined into one write."""
RETRY_SECONDS: Final = 5.0
"""Seconds until a write that failed is repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The resources of a pod and of its containers by name. ``pod`` is None if the pod sets no
    pod-level resources.

    Ephemeral containers have no resources and are left out.
    """

    pod: ResourceRequirements | None
    containers: Mapping[str, ResourceRequirements]


def allocation_of(pod: Pod) -> Allocation:
    """Return the pod's requested resources as an allocation."""
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    return Allocation(
        pod=pod.spec.resources,
        containers={container.name: container.resources for container in containers},
    )


def _same_amounts(left: Mapping[str, str], right: Mapping[str, str]) -> bool:
    # Equal texts are the rule, and parsing is slow; ``1000m`` and ``1`` are equal amounts.
    return left == right or (
        left.keys() == right.keys()
        and all(parse_quantity(text) == parse_quantity(right[name]) for name, text in left.items())
    )


def same_resources(left: ResourceRequirements | None, right: ResourceRequirements | None) -> bool:
    """Return whether both have equal amounts, independent of the notation."""
    if left is None or right is None:
        return left is right
    return (
        _same_amounts(left.limits, right.limits)
        and _same_amounts(left.requests, right.requests)
        and left.claims == right.claims
    )


def allocated_pod(pod: Pod, allocation: Allocation | None) -> Pod:
    """Return the pod with its allocated resources; the same object if nothing differs."""
    if allocation is None:
        return pod

    def allocated(container: Container) -> Container:
        resources = allocation.containers.get(container.name)
        if resources is None or same_resources(resources, container.resources):
            return container
        return structs.replace(container, resources=resources)

    spec = pod.spec
    # Most pods are never resized: nothing is copied for them.
    init = tuple([allocated(container) for container in spec.initContainers])
    regular = tuple([allocated(container) for container in spec.containers])
    same = all(
        new is old
        for new, old in zip(
            (*init, *regular), (*spec.initContainers, *spec.containers), strict=True
        )
    )
    if same_resources(allocation.pod, spec.resources):
        if same:
            return pod
        resources = spec.resources
    else:
        resources = allocation.pod
    return structs.replace(
        pod,
        spec=structs.replace(spec, initContainers=init, containers=regular, resources=resources),
    )


def with_pod_limits(pod: Pod, container: Container) -> ResourceRequirements:
    """Return a container's resources for the engine: limits that it does not set come from the
    pod."""
    resources = container.resources
    shared = pod.spec.resources.limits if pod.spec.resources is not None else {}
    # A container without a limit of its own may use what the whole pod may use, but no more.
    missing = {
        name: shared[name]
        for name in RESIZABLE
        if name in shared and not parse_quantity(resources.limits.get(name, "0"))
    }
    return (
        structs.replace(resources, limits={**resources.limits, **missing}) if missing else resources
    )


def _resizable(resources: ResourceRequirements) -> list[int]:
    texts = [
        amounts.get(name, "0")
        for name in RESIZABLE
        for amounts in (resources.limits, resources.requests)
    ]
    return [parse_quantity(text).nano for text in texts]


def requests_resize(old: Pod, new: Pod) -> bool:
    """Return whether an update changes the pod-level resources, or the CPU or memory of an existing
    container."""
    if not same_resources(old.spec.resources, new.spec.resources):
        return True
    before = {
        container.name: container for container in (*old.spec.initContainers, *old.spec.containers)
    }
    return any(
        container.name in before
        and _resizable(before[container.name].resources) != _resizable(container.resources)
        for container in (*new.spec.initContainers, *new.spec.containers)
    )


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    allocated: dict[str, Allocation] = {}
    actuated: dict[str, Allocation] = {}


class _Table:
    """Allocations by pod UID with their cached JSON, so that a change encodes only one pod."""

    def __init__(self) -> None:
        self.by_uid: dict[str, Allocation] = {}
        self.encoded: dict[str, msgspec.Raw] = {}

    def set(self, uid: str, allocation: Allocation) -> None:
        self.by_uid[uid] = allocation
        self.encoded[uid] = msgspec.Raw(msgspec.json.encode(allocation))


class Allocations:
    """Allocated and actuated resources by pod UID. With an empty ``root_dir``, nothing is stored.

    A missing or damaged file counts as empty: pods are then allocated what their manifests request,
    and running containers are assumed to have it.
    """

    def __init__(self, root_dir: str, clock: Clock) -> None:
        self._path = Path(root_dir) / FILE_NAME if root_dir else None
        self._clock = clock
        # Two tables, because a resize has two steps: the node admits the new amounts (allocated),
        # then the engine applies them (actuated). While they differ, the resize is in progress.
        # Both are on disk, so that a restarted agent neither admits a resize twice nor forgets to
        # apply it.
        self._allocated = _Table()
        self._actuated = _Table()
        self._changed = asyncio.Event()
        self._unwritten = ""
        """The error of the last write."""

    # --- allocated

    def allocated(self, pod: Pod) -> Pod:
        """Return the pod with its allocated resources; the same object if they equal the requested
        ones."""
        return allocated_pod(pod, self._allocated.by_uid.get(pod.metadata.uid))

    def allocate(self, pod: Pod) -> None:
        """Allocate to the pod the resources that it requests here."""
        self._set(self._allocated, pod.metadata.uid, allocation_of(pod))

    # --- actuated

    def actuated(self, uid: str) -> Allocation | None:
        """Return the resources last applied through the engine; None if unknown."""
        return self._actuated.by_uid.get(uid)

    def actuate(self, pod: Pod, container: Container) -> None:
        """Record the container's resources as applied; called just before or after the engine call.
        Ephemeral containers have none."""
        if container.name not in {ephemeral.name for ephemeral in pod.spec.ephemeralContainers}:
            self._actuate(pod, {container.name: with_pod_limits(pod, container)})

    def adopt(self, pod: Pod, running: Collection[Container]) -> None:
        """Assume that unknown running containers have the pod's allocated resources."""
        allocation = self._actuated.by_uid.get(pod.metadata.uid)
        # A running container without a record was started before the file was lost. podtui starts
        # containers with the allocated resources, so these are assumed.
        names = () if allocation is None else allocation.containers
        fresh = [container for container in running if container.name not in names]
        self._actuate(pod, {container.name: with_pod_limits(pod, container) for container in fresh})

    def actuate_pod(self, pod: Pod) -> None:
        """Record the pod-level resources as applied to its containers."""
        allocation = self._actuated.by_uid.get(pod.metadata.uid)
        if allocation is not None:
            self._set(self._actuated, pod.metadata.uid, replace(allocation, pod=pod.spec.resources))

    def _actuate(self, pod: Pod, containers: Mapping[str, ResourceRequirements]) -> None:
        uid = pod.metadata.uid
        allocation = self._actuated.by_uid.get(uid) or Allocation(
            pod=pod.spec.resources, containers={}
        )
        if containers:
            merged = replace(allocation, containers={**allocation.containers, **containers})
            self._set(self._actuated, uid, merged)

    # --- removal

    def forget(self, uid: str) -> None:
        """Drop all state of a pod that is gone."""
        for table in (self._allocated, self._actuated):
            if table.by_uid.pop(uid, None) is not None:
                del table.encoded[uid]
                self._changed.set()

    def keep_only(self, uids: Collection[str]) -> None:
        """Drop the state of all other pods."""
        for uid in (self._allocated.by_uid.keys() | self._actuated.by_uid.keys()) - set(uids):
            self.forget(uid)

    def _set(self, table: _Table, uid: str, allocation: Allocation) -> None:
        if table.by_uid.get(uid) != allocation:
            table.set(uid, allocation)
            self._changed.set()

    # --- the file

    async def load(self) -> None:
        """Load the file of an earlier run."""
        if self._path is None:
            return
        try:
            data = await asyncio.to_thread(read_private, self._path)
            if data is None:
                return
            kept = msgspec.json.decode(data, type=_Kept)
        except (OSError, ValueError, RecursionError) as error:
            _LOG.warning("cannot read %s: %s", self._path, error)
            return
        for table, entries in ((self._allocated, kept.allocated), (self._actuated, kept.actuated)):
            for uid, allocation in entries.items():
                table.set(uid, allocation)

    async def run(self) -> None:
        """Write changes to the file. Runs forever."""
        while True:
            await self._changed.wait()
            await self._clock.sleep(RETRY_SECONDS if self._unwritten else SETTLE)
            await self.drain()

    async def drain(self) -> None:
        """Write pending changes now."""
        if not self._changed.is_set():
            return
        # Cleared before the data is collected: a change during the write causes another write.
        self._changed.clear()
        if self._path is None:
            return
        data = msgspec.json.encode(
            {"allocated": self._allocated.encoded, "actuated": self._actuated.encoded}
        )
        try:
            await asyncio.to_thread(write_private, self._path, data)
            self._unwritten = ""
        except OSError as error:
            # Log each error once: on a full disk, every retry fails in the same way.
            if self._unwritten != str(error):
                _LOG.warning("cannot write %s, retrying: %s", self._path, error)
            self._unwritten = str(error)
            self._changed.set()
