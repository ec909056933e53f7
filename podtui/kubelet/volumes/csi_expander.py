"""Expand the volumes of claims on the node, as the volume manager of a kubelet does
(`pkg/volume/util/operationexecutor` of v1.36)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from msgspec import structs

from podtui.api.quantity import Quantity, parse_quantity
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimCondition,
    PersistentVolumeClaimStatus,
    Pod,
)
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.backoff import Backoff
from podtui.kubelet.events.recorder import NORMAL, WARNING, EventRecorder
from podtui.kubelet.plugins.csi_api import CsiError
from podtui.kubelet.ports import ClaimSource
from podtui.kubelet.tasks import Broadcast
from podtui.kubelet.volumes.csi_volumes import ClaimedCsi, CsiMount

_LOG = logging.getLogger(__name__)
PERIOD: Final = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 122.0
_STORAGE: Final = "storage"
_PENDING: Final = "NodeResizePending"
_IN_PROGRESS: Final = "NodeResizeInProgress"
_INFEASIBLE: Final = "NodeResizeInfeasible"
_ERROR: Final = "NodeResizeError"
_CONDITIONS: Final = frozenset(
    {"FileSystemResizePending", "Resizing", "ControllerResizeError", _ERROR}
)
_NOT_REQUIRED: Final = "volume.kubernetes.io/node-expansion-not-required"
_IN_USE: Final = "FailedPrecondition"
Key = tuple[str, str]
Expand = Callable[[Quantity], Awaitable[None]]
"""Call the driver. Raises `CsiError`."""


class NotExpandable(CsiError):
    """Raised if a driver does not expand volumes on nodes."""


class CsiExpander:
    """Decides when drivers expand volumes, and reports it in the status of the claims. Volumes are
    identified by driver and handle."""

    def __init__(self, claims: ClaimSource, events: EventRecorder, clock: Clock) -> None:
        self._claims = claims
        self._events = events
        self._clock = clock
        self._sizes: dict[Key, Quantity] = {}
        """The size that each mounted volume has on this node."""
        self._in_use: set[Key] = set()
        """Volumes that their drivers do not expand while they are in use."""
        self._failed: set[Key] = set()
        self._busy: set[Key] = set()
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._wake = Broadcast()

    def check_soon(self) -> None:
        """Note that a claim has changed."""
        self._wake.notify()

    def forget(self, key: Key) -> None:
        """Drop what is known of a volume that no pod uses any more."""
        self._sizes.pop(key, None)
        self._in_use.discard(key)
        self._failed.discard(key)

    async def run(
        self,
        mounts: Callable[[], Iterable[CsiMount]],
        expand: Callable[[CsiMount], Awaitable[None]],
    ) -> None:
        """Expand the volumes of running pods. ``expand`` calls `expand_mounted` for a volume that
        is still mounted. Runs forever."""
        async with asyncio.TaskGroup() as group:
            while True:
                for key, mount in _expandable(mounts()).items():
                    if key not in self._busy:
                        self._busy.add(key)
                        group.create_task(self._try(key, mount, expand), name=f"expand {key}")
                await self._wake.wait(PERIOD)

    async def _try(
        self, key: Key, mount: CsiMount, expand: Callable[[CsiMount], Awaitable[None]]
    ) -> None:
        try:
            await expand(mount)
            self._backoff.forget(key)
        except CsiError as error:
            start = f'NodeExpandVolume.NodeExpandVolume failed for volume "{mount.volume.name}"'
            self._events.pod(mount.pod, WARNING, "VolumeResizeFailed", f"{start} : {error}")
            await self._clock.sleep(self._backoff.next(key, self._clock.monotonic()))
            self._wake.notify()
        finally:
            self._busy.discard(key)

    async def expand_mounted(self, mount: CsiMount, expand: Expand) -> None:
        """Expand the volume of a running pod if it is larger than it was. Raises `CsiError`."""
        volume, key = claimed(mount).volume, mount.volume.key
        try:
            claim = await self._claim(volume)
            fresh = await self._claims.volume(volume.metadata.name)
        except PodtuiError as error:
            _LOG.debug("the size of volume %s is not known: %s", volume.metadata.name, error)
            return
        if fresh is None or fresh.metadata.uid != volume.metadata.uid or key in self._in_use:
            return
        held, size = self._sizes.setdefault(key, claim_size(claim)), volume_size(fresh)
        if not held or size <= held:
            return
        expanded = await self._expand(mount, claim, fresh, expand)
        if expanded is not None:
            self._sizes[key] = expanded

    async def expand_at_mount(self, mount: CsiMount, expand: Expand) -> None:
        """Expand a volume that has just been published, if its claim has less. Raises
        `CsiError`."""
        source = claimed(mount)
        volume = source.volume
        try:
            claim = await self._claim(volume)
        except PodtuiError as error:
            raise CsiError(f"mountVolume.NodeExpandVolume get PVC failed : {error}") from error
        held = self._sizes.setdefault(mount.volume.key, claim_size(claim))
        if claim_size(claim) >= volume_size(volume):
            return
        if source.readOnly:
            start = f'MountVolume.NodeExpandVolume failed for volume "{volume.metadata.name}"'
            text = f"{start} requested read-only file system"
            self._report(mount.pod, claim, WARNING, "FileSystemResizeFailed", text)
            return
        expanded = await self._expand(mount, claim, volume, expand)
        self._sizes[mount.volume.key] = held if expanded is None else expanded

    async def _claim(self, volume: PersistentVolume) -> PersistentVolumeClaim:
        ref = volume.spec.claimRef
        claim = None if ref is None else await self._claims.claim(ref.namespace, ref.name)
        if claim is None or ref is None or claim.metadata.uid != ref.uid:
            name = "" if ref is None else ref.name
            raise PodtuiError(f'persistentvolumeclaims "{name}" not found')
        return claim

    async def _expand(
        self,
        mount: CsiMount,
        claim: PersistentVolumeClaim,
        volume: PersistentVolume,
        expand: Expand,
    ) -> Quantity | None:
        """Return the size that the volume has now; None if it is to be tried later. Resizers mark
        claims by ``allocatedResources``; those of old resizers have no mark."""
        key, name = mount.volume.key, mount.volume.name
        state = claim.status.allocatedResourceStatuses.get(_STORAGE, "")
        allocated = claim.status.allocatedResources.get(_STORAGE)
        size = volume_size(volume) if allocated is None else parse_quantity(allocated)
        is_marked = bool(state) or allocated is not None
        is_done = claim_size(claim) >= size and not state
        if is_marked and is_done and not _needs_each_node(claim):
            return size
        if is_marked and not is_done and state not in (_PENDING, _IN_PROGRESS):
            return None
        if is_marked and not is_done:
            claim = await self._set(claim, with_state(claim.status, _IN_PROGRESS))
        try:
            await expand(size)
        except NotExpandable as error:
            if is_done or not is_marked:
                return size
            await self._note_failure(key, claim, size, error)
            raise
        except CsiError as error:
            if is_marked:
                await self._note_failure(key, claim, size, error)
            if error.code == _IN_USE:
                _LOG.warning("volume %s is not expanded: %s", name, error)
                self._in_use.add(key)
                return None
            raise
        self._failed.discard(key)
        where = f'volume "{name}" {mount.pod.spec.nodeName}'
        text = f"MountVolume.NodeExpandVolume succeeded for {where}"
        self._report(mount.pod, claim, NORMAL, "FileSystemResizeSuccessful", text)
        if not is_done:
            try:
                await self._set(claim, expanded_status(claim.status, size))
            except CsiError as error:
                step = "update pvc status failed:" if is_marked else "update PVC status failed :"
                raise CsiError(f"mountVolume.NodeExpandVolume {step} {error}") from error
        return size

    async def _note_failure(
        self, key: Key, claim: PersistentVolumeClaim, size: Quantity, error: CsiError
    ) -> None:
        """Write the failure into the claim's status. If another size is asked for meanwhile, the
        resizer is to start over. In v1.36 every error counts as final here: the type of those that
        are not is hidden by the text around them."""
        message = f"failed to expand pvc with {error}"
        status = with_error(claim.status, message, rfc3339(self._clock.now()))
        if error.is_infeasible or (key in self._failed and requested_size(claim) != size):
            status = with_state(status, _INFEASIBLE)
        self._failed.add(key)
        try:
            await self._set(claim, status)
        except CsiError as problem:
            _LOG.warning("cannot write a failed expansion: %s", problem)

    async def _set(
        self, claim: PersistentVolumeClaim, status: PersistentVolumeClaimStatus
    ) -> PersistentVolumeClaim:
        try:
            return await self._claims.set_status(claim, status)
        except PodtuiError as error:
            name = claim.metadata.name
            raise CsiError(f'patchPVCStatus failed to patch PVC "{name}": {error}') from error

    def _report(
        self, pod: Pod, claim: PersistentVolumeClaim, kind: str, reason: str, text: str
    ) -> None:
        self._events.pod(pod, kind, reason, text)
        self._events.claim(claim, kind, reason, text)


def _expandable(mounts: Iterable[CsiMount]) -> Mapping[Key, CsiMount]:
    """Return a mount of each volume of a claim that a pod may write to."""
    return {
        mount.volume.key: mount
        for mount in mounts
        if isinstance(mount.source.csi, ClaimedCsi) and not mount.volume.read_only
    }


def claimed(mount: CsiMount) -> ClaimedCsi:
    source = mount.source.csi
    assert isinstance(source, ClaimedCsi)
    return source


def volume_size(volume: PersistentVolume) -> Quantity:
    return parse_quantity(volume.spec.capacity.get(_STORAGE, "0"))


def claim_size(claim: PersistentVolumeClaim) -> Quantity:
    """Return the size that the claim has according to its status."""
    return parse_quantity(claim.status.capacity.get(_STORAGE, "0"))


def requested_size(claim: PersistentVolumeClaim) -> Quantity:
    resources = claim.spec.resources
    return parse_quantity("0" if resources is None else resources.requests.get(_STORAGE, "0"))


def _needs_each_node(claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume that is expanded elsewhere has to be expanded on this node as
    well."""
    shared = "ReadWriteMany" in claim.spec.accessModes
    return shared and _NOT_REQUIRED not in claim.metadata.annotations


def with_state(status: PersistentVolumeClaimStatus, state: str) -> PersistentVolumeClaimStatus:
    states = {**status.allocatedResourceStatuses, _STORAGE: state}
    return structs.replace(status, allocatedResourceStatuses=states)


def with_error(
    status: PersistentVolumeClaimStatus, message: str, now: str
) -> PersistentVolumeClaimStatus:
    """Return the status with a condition; one that exists keeps its message."""
    conditions = status.conditions
    if any(each.type == _ERROR and each.status == "True" for each in conditions):
        return status
    added = PersistentVolumeClaimCondition(
        type=_ERROR, status="True", lastTransitionTime=now, message=message
    )
    others = (each for each in conditions if each.type != _ERROR)
    return structs.replace(status, conditions=(*others, added))


def expanded_status(
    status: PersistentVolumeClaimStatus, size: Quantity
) -> PersistentVolumeClaimStatus:
    states = {
        name: state for name, state in status.allocatedResourceStatuses.items() if name != _STORAGE
    }
    return structs.replace(
        status,
        capacity={**status.capacity, _STORAGE: str(size)},
        allocatedResourceStatuses=states,
        conditions=tuple(each for each in status.conditions if each.type not in _CONDITIONS),
    )
