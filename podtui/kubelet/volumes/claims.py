"""Replace the claims of a pod by the volumes that they are bound to.

A claim of a `hostPath`, `local`, `nfs` or `csi` volume becomes such a volume of the pod, so that
all later steps treat it as one: the check of its type, mounts, subPath. A claim stays resolved
while its pod runs: neither its deletion nor an edit takes the volume away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import structs

from podtui.api.claims import claim_names, ephemeral_claim_name
from podtui.api.pod_resources import is_static
from podtui.api.v1 import (
    Container,
    HostPathVolumeSource,
    PersistentVolume,
    Pod,
    Volume,
)
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.ports import ClaimSource
from podtui.kubelet.volumes.csi_volumes import BLOCK, ClaimedCsi
from podtui.kubelet.volumes.pod_volumes import (
    MountedNfs,
    device_names,
    mounted_names,
    used_volumes,
)

QUIET_SECONDS: Final = 5.0
"""A claim of a pod that no scheduler placed is bound after the pod has its node, which takes a
moment: a shorter wait is no event."""
Source = HostPathVolumeSource | MountedNfs | ClaimedCsi
ClaimKey = tuple[str, str]
"""Namespace and name of a claim."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """``pod`` has the volumes of its claims. ``failures``: the text of the event by name of each
    volume that is missing; empty if it is too early for an event."""

    pod: Pod
    failures: Mapping[str, str]


@dataclass(slots=True)
class _Sources:
    """What is known of a pod's volumes: their sources, and since when they are missing."""

    by_volume: dict[str, Source] = field(default_factory=dict[str, Source])
    missing: dict[str, float] = field(default_factory=dict[str, float])


class Claims:
    def __init__(self, source: ClaimSource | None, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._pods: dict[str, _Sources] = {}

    async def resolve(self, pod: Pod, *, started: bool) -> Resolved:
        """Return the pod with its volumes. ``started``: it has containers, so that a claim which is
        being deleted still counts."""
        claims = {
            volume.name: name
            for volume in used_volumes(pod)
            if (name := claim_name(pod, volume)) is not None
        }
        if not claims or self._source is None:
            return Resolved(pod, {})
        sources = self._pods.setdefault(pod.metadata.uid, _Sources())
        failures: dict[str, str] = {}
        for volume, claim in claims.items():
            if volume in sources.by_volume:
                continue
            try:
                source = await self._find(self._source, pod, volume, claim, started=started)
            except PodtuiError as error:
                since = sources.missing.setdefault(volume, self._clock.monotonic())
                early = self._clock.monotonic() - since < QUIET_SECONDS
                failures[volume] = "" if early else str(error)
            else:
                sources.by_volume[volume] = source
                sources.missing.pop(volume, None)
        return Resolved(_with_sources(pod, sources.by_volume), failures)

    def forget(self, uid: str) -> None:
        self._pods.pop(uid, None)

    async def _find(
        self, source: ClaimSource, pod: Pod, volume: str, name: str, *, started: bool
    ) -> Source:
        """Raises `PodtuiError` with the kubelet's text."""
        namespace = pod.metadata.namespace
        where = f"error processing PVC {namespace}/{name}: "
        claim = await source.claim(namespace, name)
        if claim is None:
            why = f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
            raise PodtuiError(where + why)
        ephemeral = any(item.name == volume and item.ephemeral for item in pod.spec.volumes)
        uids = {owner.uid for owner in claim.metadata.ownerReferences if owner.controller}
        if ephemeral and not is_static(pod) and pod.metadata.uid not in uids:
            raise PodtuiError(
                f"PVC {namespace}/{name} was not created for pod {namespace}/{pod.metadata.name}"
                " (pod is not owner)"
            )
        if claim.metadata.deletionTimestamp is not None and not started:
            raise PodtuiError(f"{where}PVC is being deleted")
        if claim.status.phase != "Bound" or not claim.spec.volumeName:
            raise PodtuiError(f"{where}PVC is not bound")
        bound = await source.volume(claim.spec.volumeName)
        if bound is None:
            raise PodtuiError(
                f"{where}failed to fetch PV {claim.spec.volumeName} from API server:"
                f' persistentvolumes "{claim.spec.volumeName}" not found'
            )
        uid = claim.metadata.uid
        ref = bound.spec.claimRef
        if ref is None or ref.uid != uid:
            shown = "" if ref is None else ref.uid
            raise PodtuiError(
                f"{where}found PV object {bound.metadata.name} with a pv.Spec.ClaimRef.UID"
                f' "{shown}" that does not point to claim.UID "{uid}"'
            )
        if why := _mode_problem(pod, volume, bound.spec.volumeMode or "Filesystem"):
            raise PodtuiError(why)
        return _source(bound)


def _mode_problem(pod: Pod, volume: str, mode: str) -> str:
    """Return what is wrong with the use of a volume of this mode; empty if nothing is."""
    start = f"volume {volume} has volumeMode {mode}, but is specified in"
    if mode == BLOCK:
        return f"{start} volumeMounts" if volume in mounted_names(pod) else ""
    return f"{start} volumeDevices" if volume in device_names(pod) else ""


def _source(volume: PersistentVolume) -> Source:
    spec = volume.spec
    if spec.volumeMode == BLOCK and spec.csi is None:
        raise PodtuiError("podtui supports block volumes of CSI drivers only")
    if spec.hostPath is not None:
        return spec.hostPath
    if spec.local is not None:
        return HostPathVolumeSource(path=spec.local.path, type="Directory")
    if (nfs := spec.nfs) is not None:
        return MountedNfs(
            server=nfs.server, path=nfs.path, readOnly=nfs.readOnly, options=spec.mountOptions
        )
    if (csi := spec.csi) is not None:
        return ClaimedCsi(driver=csi.driver, volume=volume)
    raise PodtuiError(
        f"podtui mounts persistent volumes of the types hostPath, local, nfs and csi only, and"
        f" {volume.metadata.name} is of another type"
    )


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of the claim of a volume; None if it has none."""
    if volume.persistentVolumeClaim is not None:
        return volume.persistentVolumeClaim.claimName
    return None if volume.ephemeral is None else ephemeral_claim_name(pod, volume.name)


def uses_claim(pod: Pod, key: ClaimKey) -> bool:
    namespace, name = key
    return pod.metadata.namespace == namespace and name in claim_names(pod)


def _volume(name: str, source: Source, *, read_only: bool) -> Volume:
    if isinstance(source, MountedNfs):
        return Volume(name=name, nfs=source)
    if isinstance(source, ClaimedCsi):
        return Volume(name=name, csi=structs.replace(source, readOnly=read_only))
    return Volume(name=name, hostPath=source)


def _with_sources(pod: Pod, sources: Mapping[str, Source]) -> Pod:
    spec = pod.spec
    read_only = frozenset(
        volume.name
        for volume in spec.volumes
        if volume.persistentVolumeClaim is not None and volume.persistentVolumeClaim.readOnly
    )

    def with_mounts(container: Container) -> Container:
        mounts = tuple(
            structs.replace(mount, readOnly=True) if mount.name in read_only else mount
            for mount in container.volumeMounts
        )
        return structs.replace(container, volumeMounts=mounts)

    volumes = tuple(
        _volume(volume.name, sources[volume.name], read_only=volume.name in read_only)
        if volume.name in sources
        else volume
        for volume in spec.volumes
    )
    spec = structs.replace(spec, volumes=volumes)
    if read_only:
        spec = structs.replace(
            spec,
            containers=tuple(map(with_mounts, spec.containers)),
            initContainers=tuple(map(with_mounts, spec.initContainers)),
        )
    return structs.replace(pod, spec=spec)
