"""The usage of CSI volumes, which their drivers report."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from podtui.api.summary import ClaimReference, VolumeSummary
from podtui.api.times import rfc3339
from podtui.clock import Clock
from podtui.kubelet.plugins.csi_api import CsiError, Unit, Usage, VolumeStats
from podtui.kubelet.volumes.csi_volumes import ClaimedCsi, CsiMount

_LOG = logging.getLogger(__name__)
PERIOD: Final = 60.0
ReadStats = Callable[[CsiMount], Awaitable[VolumeStats | None]]


class CsiUsage:
    """Asks the drivers of each pod again and again. A slow driver delays only the figures of its
    pods. ``mounts`` returns the volumes of all pods; ``read`` asks the driver of one, and returns
    None if it reports no usage. ``jitter`` lengthens each pause by up to a minute."""

    def __init__(
        self,
        mounts: Callable[[], Iterable[CsiMount]],
        read: ReadStats,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        self._mounts = mounts
        self._read = read
        self._clock = clock
        self._jitter = jitter
        self._pods: dict[str, tuple[VolumeSummary, ...]] = {}

    def of(self, uid: str) -> tuple[VolumeSummary, ...]:
        """Return the volumes of a pod as they were read last."""
        return self._pods.get(uid, ())

    async def run(self) -> None:
        """Follow the pods with volumes. Runs forever."""
        async with asyncio.TaskGroup() as group:
            while True:
                uids = {mount.pod.metadata.uid for mount in self._mounts()}
                for uid in uids - self._pods.keys():
                    self._pods[uid] = ()
                    group.create_task(self._follow(uid), name=f"usage of volumes of {uid}")
                await self._clock.sleep(PERIOD)

    async def _follow(self, uid: str) -> None:
        problems: dict[str, str] = {}
        try:
            while mounts := [item for item in self._mounts() if item.pod.metadata.uid == uid]:
                volumes = [await self._summary(mount, problems) for mount in mounts]
                self._pods[uid] = tuple(volume for volume in volumes if volume is not None)
                await self._clock.sleep(PERIOD * (1 + self._jitter()))
        finally:
            del self._pods[uid]

    async def _summary(self, mount: CsiMount, problems: dict[str, str]) -> VolumeSummary | None:
        name, time = mount.source.name, rfc3339(self._clock.now())
        try:
            stats = await self._read(mount)
            summary = None if stats is None else volume_summary(mount, stats, time)
        except CsiError as error:
            if problems.get(name) != str(error):
                problems[name] = str(error)
                _LOG.warning("no usage of the volume %s: %s", mount.path, error)
            return None
        problems.pop(name, None)
        return summary


def volume_summary(mount: CsiMount, stats: VolumeStats, time: str) -> VolumeSummary:
    """Return the figures for ``/stats/summary``. What the driver does not report is 0, as a kubelet
    has it. Raises `CsiError`."""
    if not stats.usage:
        raise CsiError("failed to get usage from response. usage is nil")
    figures = {usage.unit: usage for usage in stats.usage}
    size, inodes = figures.get(Unit.BYTES, Usage()), figures.get(Unit.INODES, Usage())
    if any(min(each.available, each.total, each.used) < 0 for each in (size, inodes)):
        raise CsiError("the driver reports a negative usage")
    source = mount.source.csi
    ref = source.volume.spec.claimRef if isinstance(source, ClaimedCsi) else None
    return VolumeSummary(
        time=time,
        availableBytes=size.available,
        capacityBytes=size.total,
        usedBytes=size.used,
        inodesFree=inodes.available,
        inodes=inodes.total,
        inodesUsed=inodes.used,
        name=mount.source.name,
        pvcRef=None if ref is None else ClaimReference(name=ref.name, namespace=ref.namespace),
    )
