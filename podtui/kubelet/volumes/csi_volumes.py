"""Decide how a CSI volume is staged and published (`pkg/volume/csi` of the kubelet, v1.36): pure
functions on objects."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from podtui.api.claims import attachment_name
from podtui.api.storage import CSIDriver, VolumeAttachment
from podtui.api.v1 import CSIVolumeSource, PersistentVolume, Pod, SecretReference, Volume
from podtui.kubelet.plugins.csi_api import (
    AccessMode,
    AccessModeOf,
    BlockVolume,
    Capability,
    CapacityRange,
    CsiError,
    ExpandRequest,
    MountVolume,
    PublishRequest,
    StageRequest,
    VolumeCapability,
)
from podtui.text.go_format import quoted

PERSISTENT, EPHEMERAL = "Persistent", "Ephemeral"
BLOCK: Final = "Block"
DEFAULT_GROUP_POLICY: Final = "ReadWriteOnceWithFSType"
_MODES: Final[Mapping[str, AccessMode]] = {
    "ReadWriteOnce": AccessMode.SINGLE_NODE_WRITER,
    "ReadOnlyMany": AccessMode.MULTI_NODE_READER_ONLY,
    "ReadWriteMany": AccessMode.MULTI_NODE_MULTI_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_WRITER,
}
_FINER_MODES: Final[Mapping[str, AccessMode]] = {
    **_MODES,
    "ReadWriteOnce": AccessMode.SINGLE_NODE_MULTI_WRITER,
    "ReadWriteOncePod": AccessMode.SINGLE_NODE_SINGLE_WRITER,
}
_GROUP_MODES: Final = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})


class ClaimedCsi(CSIVolumeSource, frozen=True, kw_only=True):
    """The CSI volume of a claim. ``readOnly`` is that of the pod's volume."""

    volume: PersistentVolume


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiVolume:
    """One volume of a pod. ``name`` is that of its PersistentVolume, or that which the pod gives a
    volume of its own."""

    name: str
    driver: str
    handle: str
    mode: str
    """`PERSISTENT` or `EPHEMERAL`."""
    read_only: bool
    fs_type: str
    attributes: Mapping[str, str]
    mount_options: tuple[str, ...]
    access_modes: tuple[str, ...]
    publish_secret: SecretReference | None
    stage_secret: SecretReference | None
    expand_secret: SecretReference | None = None
    block: bool = False
    """Containers get a device, not a directory."""

    @property
    def key(self) -> tuple[str, str]:
        """Driver and handle, which identify the volume on a node."""
        return self.driver, self.handle


def csi_volume(pod: Pod, volume: Volume) -> CsiVolume:
    source = volume.csi
    assert source is not None
    if not isinstance(source, ClaimedCsi):
        ref = source.nodePublishSecretRef
        secret = None
        if ref is not None:
            secret = SecretReference(name=ref.name, namespace=pod.metadata.namespace)
        return CsiVolume(
            name=volume.name,
            driver=source.driver,
            handle=ephemeral_handle(pod.metadata.uid, volume.name),
            mode=EPHEMERAL,
            read_only=bool(source.readOnly),
            fs_type=source.fsType,
            attributes=source.volumeAttributes,
            mount_options=(),
            access_modes=(),
            publish_secret=secret,
            stage_secret=None,
        )
    spec = source.volume.spec
    csi = spec.csi
    assert csi is not None
    return CsiVolume(
        name=source.volume.metadata.name,
        driver=csi.driver,
        handle=csi.volumeHandle,
        mode=PERSISTENT,
        read_only=bool(source.readOnly),
        fs_type=csi.fsType,
        attributes=csi.volumeAttributes,
        mount_options=spec.mountOptions,
        access_modes=spec.accessModes,
        publish_secret=csi.nodePublishSecretRef,
        stage_secret=csi.nodeStageSecretRef,
        expand_secret=csi.nodeExpandSecretRef,
        block=spec.volumeMode == BLOCK,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CsiMount:
    """A volume that is published at ``path`` for a pod; ``source`` is the pod's entry for it."""

    pod: Pod
    source: Volume
    volume: CsiVolume
    path: str


def ephemeral_handle(uid: str, name: str) -> str:
    return f"csi-{_digest(uid + name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- files


PLUGIN_DIRECTORY: Final = "kubernetes.io~csi"
VOLUME_DATA: Final = "vol_data.json"
STAGING: Final = "globalmount"


def pods_directory(root: Path) -> Path:
    return root / "pods"


def staging_directory(root: Path) -> Path:
    return root / "plugins" / "kubernetes.io" / "csi"


def volume_directories(root: Path, uid: str) -> dict[Path, str]:
    """Return the directories of a pod's volumes, with the name at which each is published: for file
    systems and for devices."""
    pod = pods_directory(root) / uid
    return {
        pod / "volumes" / PLUGIN_DIRECTORY: "mount",
        pod / "volumeDevices" / PLUGIN_DIRECTORY: "device",
    }


def target_path(root: Path, uid: str, volume: CsiVolume) -> Path:
    """Return where a volume is published. Raises `CsiError`."""
    mounts, devices = volume_directories(root, _part(uid)).items()
    directory, name = devices if volume.block else mounts
    return directory / _part(volume.name) / name


def staging_path(root: Path, driver: str, handle: str) -> Path:
    """Return where a volume is staged for all its pods. Raises `CsiError`."""
    return staging_directory(root) / _part(driver) / _digest(handle) / STAGING


def _part(text: str) -> str:
    """Return the text as a part of a path. Raises `CsiError`."""
    if text in ("", ".", ".."):
        raise CsiError(f"{quoted(text)} cannot be part of a path")
    return text.replace("/", "~")


def volume_data(volume: CsiVolume, node: str) -> bytes:
    """Return what unpublishing needs, also after a restart."""
    data = {
        "specVolID": volume.name,
        "volumeHandle": volume.handle,
        "driverName": volume.driver,
        "nodeName": node,
        "volumeLifecycleMode": volume.mode,
        "attachmentID": attachment_name(volume.handle, volume.driver, node),
    }
    return _encoded(data)


def staging_data(volume: CsiVolume) -> bytes:
    return _encoded({"volumeHandle": volume.handle, "driverName": volume.driver})


def _encoded(data: Mapping[str, str]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class VolumeData:
    """The content of a `VOLUME_DATA` file. ``mode`` is empty for a staged volume."""

    driver: str
    handle: str
    mode: str

    @property
    def key(self) -> tuple[str, str]:
        return self.driver, self.handle


def parse_volume_data(data: bytes, path: Path) -> VolumeData:
    """Raises `CsiError`."""
    try:
        tree = json.loads(data)
        driver, handle = tree["driverName"], tree["volumeHandle"]
        mode = tree.get("volumeLifecycleMode", "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"kubernetes.io/csi: failed to parse volume data file [{path}]: {error}"
        raise CsiError(text) from error
    return VolumeData(str(driver), str(handle), str(mode))


# --- rules


def lifecycle_problem(volume: CsiVolume, driver: CSIDriver | None) -> str:
    """Return why the driver does not have such volumes; empty if it does."""
    if driver is None and volume.mode == PERSISTENT:
        return ""
    start = f"volume mode {quoted(volume.mode)} not supported by driver {volume.driver}"
    if driver is None:
        return f"{start} (no CSIDriver object)"
    modes = driver.spec.volumeLifecycleModes
    if volume.mode in modes:
        return ""
    return f"{start} (only supports [{' '.join(map(quoted, modes))}])"


def needs_attachment(volume: CsiVolume, driver: CSIDriver | None) -> bool:
    return volume.mode == PERSISTENT and (driver is None or driver.spec.attachRequired is not False)


def attachment_problem(item: VolumeAttachment | None, name: str, volume: CsiVolume) -> str:
    """Return why the volume is not attached; empty if it is."""
    if item is None:
        return (
            f"volume {volume.handle} has GET error for volume attachment {name}:"
            f' volumeattachments.storage.k8s.io "{name}" not found'
        )
    if item.metadata.deletionTimestamp is not None:
        return "volume attachment is being deleted"
    if item.status.attached:
        return ""
    if item.status.attachError is not None:
        return item.status.attachError.message
    return f"volume {volume.handle} is not attached for volume attachment {name}"


def is_being_attached(item: VolumeAttachment | None) -> bool:
    """Return whether a volume that is not attached may be soon, without an error so far."""
    return item is None or (
        item.metadata.deletionTimestamp is None and item.status.attachError is None
    )


def takes_group(volume: CsiVolume, driver: CSIDriver | None) -> bool:
    """Return whether the kubelet gives the volume to the group ``fsGroup`` of the pod."""
    policy = DEFAULT_GROUP_POLICY if driver is None else driver.spec.fsGroupPolicy
    if policy == "None" or volume.read_only or volume.block:
        return False
    if policy == "File":
        return True
    return bool(volume.fs_type) and (
        volume.mode == EPHEMERAL or not _GROUP_MODES.isdisjoint(volume.access_modes)
    )


def volume_capability(
    volume: CsiVolume, capabilities: Iterable[int], group: int | None
) -> VolumeCapability:
    capabilities = frozenset(capabilities)
    finer = Capability.SINGLE_NODE_MULTI_WRITER in capabilities
    modes = _FINER_MODES if finer else _MODES
    first = volume.access_modes[0] if volume.access_modes else "ReadWriteOnce"
    access_mode = AccessModeOf(modes.get(first, AccessMode.UNKNOWN))
    if volume.block:
        return VolumeCapability(block=BlockVolume(), access_mode=access_mode)
    passed = group is not None and Capability.VOLUME_MOUNT_GROUP in capabilities
    return VolumeCapability(
        mount=MountVolume(
            fs_type=volume.fs_type,
            mount_flags=volume.mount_options,
            volume_mount_group=str(group) if passed else "",
        ),
        access_mode=access_mode,
    )


def stage_request(
    volume: CsiVolume,
    path: Path,
    *,
    capability: VolumeCapability,
    publish_context: Mapping[str, str],
    secrets: Mapping[str, str],
) -> StageRequest:
    return StageRequest(
        volume_id=volume.handle,
        publish_context=publish_context,
        staging_target_path=str(path),
        volume_capability=capability,
        secrets=secrets,
        volume_context=volume.attributes,
    )


def publish_request(
    volume: CsiVolume,
    target: Path,
    staging: Path | None,
    *,
    capability: VolumeCapability,
    publish_context: Mapping[str, str],
    secrets: Mapping[str, str],
    attributes: Mapping[str, str],
) -> PublishRequest:
    """``attributes`` are added to those of the volume."""
    return PublishRequest(
        volume_id=volume.handle,
        publish_context=publish_context,
        staging_target_path="" if staging is None else str(staging),
        target_path=str(target),
        volume_capability=capability,
        readonly=volume.read_only,
        secrets=secrets,
        volume_context={**volume.attributes, **attributes},
    )


def expand_request(
    volume: CsiVolume,
    path: str,
    staging: Path | None,
    *,
    size: int,
    capability: VolumeCapability,
    secrets: Mapping[str, str],
) -> ExpandRequest:
    return ExpandRequest(
        volume_id=volume.handle,
        volume_path=path,
        capacity_range=CapacityRange(size),
        staging_target_path="" if staging is None else str(staging),
        volume_capability=capability,
        secrets=secrets,
    )


def pod_attributes(pod: Pod, volume: CsiVolume) -> dict[str, str]:
    """Return the facts about the pod for a driver with ``podInfoOnMount``."""
    meta, start = pod.metadata, "csi.storage.k8s.io/"
    return {
        f"{start}pod.name": meta.name,
        f"{start}pod.namespace": meta.namespace,
        f"{start}pod.uid": meta.uid,
        f"{start}serviceAccount.name": pod.spec.serviceAccountName,
        f"{start}ephemeral": "true" if volume.mode == EPHEMERAL else "false",
    }
