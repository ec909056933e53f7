"""What was allocated to every pod and what was last said to the engine, kept over restarts
(reference §13.6, 17).

A kubelet keeps two checkpoints for this; here it is one file in the root directory.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from podtui.api.v1 import Container, Pod, ResourceRequirements
from podtui.clock import Clock
from podtui.kubelet.resize.allocation import (
    Allocation,
    allocated_pod,
    allocation_of,
    with_pod_limits,
)

_LOG = logging.getLogger(__name__)
FILE_NAME: Final = "allocations.json"
SETTLE: Final = 0.5
"""Seconds in which further changes go into the same writing."""


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    allocated: dict[str, Allocation] = {}
    actuated: dict[str, Allocation] = {}


class _Table:
    """Allocations by pod UID, and each as JSON: a change encodes one of many pods."""

    def __init__(self) -> None:
        self.known: dict[str, Allocation] = {}
        self.encoded: dict[str, msgspec.Raw] = {}

    def set(self, uid: str, allocation: Allocation) -> None:
        self.known[uid] = allocation
        self.encoded[uid] = msgspec.Raw(msgspec.json.encode(allocation))


class Allocations:
    """Both by pod UID. ``root_dir`` empty keeps nothing on disk.

    A file that is missing or damaged is as good as an empty one: pods are then allocated what their
    manifests ask for, and what runs is taken to have it.
    """

    def __init__(self, root_dir: str, clock: Clock) -> None:
        self._path = Path(root_dir) / FILE_NAME if root_dir else None
        self._clock = clock
        self._allocated = _Table()
        self._actuated = _Table()
        self._changed = asyncio.Event()

    # --- allocated

    def allocated(self, pod: Pod) -> Pod:
        """The pod with what it was allocated; the same object where that is what it asks for."""
        return allocated_pod(pod, self._allocated.known.get(pod.metadata.uid))

    def allocate(self, pod: Pod) -> None:
        """From now on the pod has what it asks for here."""
        self._set(self._allocated, pod.metadata.uid, allocation_of(pod))

    # --- actuated

    def actuated(self, uid: str) -> Allocation | None:
        """What the engine was last told; None where nobody knows."""
        return self._actuated.known.get(uid)

    def actuate(self, pod: Pod, container: Container) -> None:
        """The engine was told the container's amounts, or is about to be. Ephemeral ones have
        none."""
        if container.name not in {one.name for one in pod.spec.ephemeralContainers}:
            self._actuate(pod, {container.name: with_pod_limits(pod, container)})

    def adopt(self, pod: Pod, running: Collection[Container]) -> None:
        """Take running containers of which nothing is known for what the pod was allocated."""
        known = self._actuated.known.get(pod.metadata.uid)
        names = () if known is None else known.containers
        fresh = [one for one in running if one.name not in names]
        self._actuate(pod, {one.name: with_pod_limits(pod, one) for one in fresh})

    def actuate_pod(self, pod: Pod) -> None:
        """The pod's own resources are what its containers are held to."""
        known = self._actuated.known.get(pod.metadata.uid)
        if known is not None:
            self._set(self._actuated, pod.metadata.uid, replace(known, pod=pod.spec.resources))

    def _actuate(self, pod: Pod, containers: Mapping[str, ResourceRequirements]) -> None:
        uid = pod.metadata.uid
        known = self._actuated.known.get(uid) or Allocation(pod=pod.spec.resources, containers={})
        if containers:
            merged = replace(known, containers={**known.containers, **containers})
            self._set(self._actuated, uid, merged)

    # --- forgetting

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for table in (self._allocated, self._actuated):
            if table.known.pop(uid, None) is not None:
                del table.encoded[uid]
                self._changed.set()

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget every other pod."""
        for uid in (self._allocated.known.keys() | self._actuated.known.keys()) - set(uids):
            self.forget(uid)

    def _set(self, table: _Table, uid: str, allocation: Allocation) -> None:
        if table.known.get(uid) != allocation:
            table.set(uid, allocation)
            self._changed.set()

    # --- the file

    async def load(self) -> None:
        """Read what an earlier kubelet knew."""
        if self._path is None:
            return
        try:
            kept = msgspec.json.decode(await asyncio.to_thread(self._path.read_bytes), type=_Kept)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            _LOG.warning("%s is not read: %s", self._path, error)
            return
        for table, found in ((self._allocated, kept.allocated), (self._actuated, kept.actuated)):
            for uid, allocation in found.items():
                table.set(uid, allocation)

    async def run(self) -> None:
        """Endless: write what changed."""
        while True:
            await self._changed.wait()
            await self._clock.sleep(SETTLE)
            await self.drain()

    async def drain(self) -> None:
        """Write what has changed by now."""
        if not self._changed.is_set():
            return
        self._changed.clear()
        if self._path is None:
            return
        data = msgspec.json.encode(
            {"allocated": self._allocated.encoded, "actuated": self._actuated.encoded}
        )
        try:
            await asyncio.to_thread(_write, self._path, data)
        except OSError as error:
            _LOG.warning("%s is not written: %s", self._path, error)


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    fresh = path.with_name(path.name + ".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    fresh.replace(path)
