"""Plan how to set up each volume of a pod, host paths and huge pages included
(kubelet.md §10.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from podtui.api.pod_resources import is_static, pod_limits
from podtui.api.pods import all_containers
from podtui.api.quantity import Format, Quantity, parse_quantity
from podtui.api.v1 import (
    EmptyDirVolumeSource,
    HostPathVolumeSource,
    NFSVolumeSource,
    Pod,
    ResourceRequirements,
    Volume,
)
from podtui.kubelet.types import ConfigError, NodeView
from podtui.kubelet.value_sources import ValueSources
from podtui.kubelet.volumes.volume_files import laid_out, volume_contents
from podtui.runtime.protocol import HostPathKind, NfsShare, PodVolume

MEDIUM: Final = "HugePages"
RESOURCE: Final = "hugepages-"
DIRECTORY_MODE: Final = 0o777
TMPFS_MODE: Final = 0o1777
HUGE_PAGES_MODE: Final = 0o755
"""The kernel's default modes of file systems in memory, which a kubelet does not change."""
IMAGE_MODE: Final = 0o755
_GROUP_MODE: Final = 0o2770
_IN_MEMORY: Final = ("downwardAPI", "projected", "secret")
"""A kubelet writes the files of these volumes to a tmpfs."""
OWN_DIRECTORY: Final = ("emptyDir", "downwardAPI", "projected", "configMap", "secret", "image")
_WANTED: Final[Mapping[str, tuple[HostPathKind, str]]] = {
    "Directory": (HostPathKind.DIRECTORY, "a directory"),
    "DirectoryOrCreate": (HostPathKind.DIRECTORY, "a directory"),
    "File": (HostPathKind.FILE, "a file"),
    "FileOrCreate": (HostPathKind.FILE, "a file"),
    "Socket": (HostPathKind.SOCKET, "a socket file"),
    "CharDevice": (HostPathKind.CHAR_DEVICE, "a character device"),
    "BlockDevice": (HostPathKind.BLOCK_DEVICE, "a block device"),
}
_CREATED: Final[Mapping[str, Literal["Directory", "File"]]] = {
    "DirectoryOrCreate": "Directory",
    "FileOrCreate": "File",
}


class MountedNfs(NFSVolumeSource, frozen=True, kw_only=True):
    """The NFS volume of a claim, with the mount options of its PersistentVolume."""

    options: tuple[str, ...] = ()


class PublishedDevice(HostPathVolumeSource, frozen=True, kw_only=True):
    """The device of a CSI volume."""

    read_only: bool = False


def nfs_share(volume: Volume) -> NfsShare | None:
    """Return the share of an NFS volume; None for other volumes."""
    nfs = volume.nfs
    if nfs is None:
        return None
    options = nfs.options if isinstance(nfs, MountedNfs) else ()
    mode = ("ro",) if nfs.readOnly else ()
    return NfsShare(server=nfs.server, path=nfs.path, options=(*options, *mode))


def volume_type(volume: Volume) -> str:
    """Return the name of the volume source that is set; a volume without one is an emptyDir."""
    for name in volume.__struct_fields__:
        if name != "name" and getattr(volume, name) is not None:
            return name
    return "emptyDir"


def used_volumes(pod: Pod) -> tuple[Volume, ...]:
    """Return the volumes that some container mounts, in the pod's order. The kubelet ignores all
    others."""
    names = mounted_names(pod) | device_names(pod)
    return tuple(volume for volume in pod.spec.volumes if volume.name in names)


def mounted_names(pod: Pod) -> set[str]:
    return {mount.name for _, each in all_containers(pod) for mount in each.volumeMounts}


def device_names(pod: Pod) -> set[str]:
    return {device.name for _, each in all_containers(pod) for device in each.volumeDevices}


@dataclass(frozen=True, slots=True)
class HostPathCheck:
    """A host path whose type (``hostPath.type``) must be checked before the pod is created."""

    volume: str
    path: str
    kind: str


@dataclass(frozen=True, slots=True)
class NfsCheck:
    """A share that must be mountable before the pod is created."""

    volume: str
    share: NfsShare


Check = HostPathCheck | NfsCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumePlan:
    """The setup plan of a pod's volumes at one moment.

    ``volumes`` are the directories to create, with their files. ``failures`` maps a volume to the
    kubelet's message on why it cannot be set up now. ``checks`` are host paths and shares to check
    through the engine. ``csi`` are volumes that CSI drivers publish. ``foreign`` are volumes of
    types that podtui cannot mount.
    """

    volumes: tuple[PodVolume, ...] = ()
    failures: Mapping[str, str]
    checks: tuple[Check, ...] = ()
    csi: tuple[Volume, ...] = ()
    foreign: tuple[str, ...] = ()


def plan_volumes(pod: Pod, values: ValueSources, *, strict: bool = False) -> VolumePlan:
    """Plan the volumes that containers mount. ``strict``: projected volumes of static pods fail, as
    on a kubelet without an API server (kubelet.md §0.6)."""
    volumes: list[PodVolume] = []
    failures: dict[str, str] = {}
    checks: list[Check] = []
    csi: list[Volume] = []
    foreign: list[str] = []
    for volume in used_volumes(pod):
        kind = volume_type(volume)
        if (share := nfs_share(volume)) is not None:
            checks.append(NfsCheck(volume.name, share))
        elif (host := volume.hostPath) is not None:
            if not host.path.startswith("/"):
                failures[volume.name] = f'the hostPath "{host.path}" is not absolute'
            elif host.type:
                checks.append(HostPathCheck(volume.name, host.path, host.type))
        elif volume.csi is not None:
            csi.append(volume)
        elif kind not in OWN_DIRECTORY:
            foreign.append(volume.name)
        elif kind == "projected" and strict and is_static(pod):
            failures[volume.name] = (
                f"cannot setup projected volume {volume.name} because kube client is not configured"
            )
        else:
            try:
                volumes.append(pod_volume(pod, volume, values))
            except ConfigError as error:
                failures[volume.name] = str(error)
    return VolumePlan(
        volumes=tuple(volumes),
        failures=failures,
        checks=tuple(checks),
        csi=tuple(csi),
        foreign=tuple(foreign),
    )


def pod_volume(pod: Pod, volume: Volume, values: ValueSources) -> PodVolume:
    """Build the directory of one volume, with its files. Raises `ConfigError`.

    With ``fsGroup``, the directory belongs to that group, which may write to it, and has the setgid
    bit; its files belong to the group and are readable for it (except in image volumes).
    ``fsGroupChangePolicy`` has no effect: the kubelet ignores it for all these types, as it creates
    each volume with the right owner and mode.
    """
    if volume.image is not None:
        return PodVolume(name=volume.name, mode=IMAGE_MODE)
    security = pod.spec.securityContext
    group = None if security is None else security.fsGroup
    shared = 0 if group is None else _GROUP_MODE
    contents = volume_contents(pod, volume, values)
    if contents is not None:
        memory = volume_type(volume) in _IN_MEMORY
        return PodVolume(
            name=volume.name,
            mode=(TMPFS_MODE if memory else DIRECTORY_MODE) | shared,
            gid=group or 0,
            memory=memory,
            files=laid_out(contents, group),
        )
    empty = volume.emptyDir or EmptyDirVolumeSource()
    memory = empty.medium == "Memory"
    mode = TMPFS_MODE if memory else HUGE_PAGES_MODE if empty.medium else DIRECTORY_MODE
    return PodVolume(
        name=volume.name,
        mode=mode | shared,
        gid=group or 0,
        memory=memory,
        # An exceeded limit on disk causes an eviction, and never of a static pod (kubelet.md §0.3).
        size_limit=_memory_size(pod, values.node, empty.sizeLimit) if memory else None,
        huge_pages=page_size(pod, empty.medium, values.node),
    )


def _memory_size(pod: Pod, node: NodeView, size_limit: str) -> int | None:
    """Return the smallest of the node's memory, the pod's limit and the volume's ``sizeLimit``, in
    bytes."""
    bounds = [node.resources.allocatable.get("memory", 0), _memory_limit(pod)]
    if size_limit:
        bounds.append(parse_quantity(size_limit).value())
    return min((bound for bound in bounds if bound > 0), default=None)


def _memory_limit(pod: Pod) -> int:
    """Return the memory limit of the pod's cgroup in bytes; 0 for no limit."""
    spec = pod.spec
    pod_has_limit = spec.resources is not None and "memory" in spec.resources.limits
    containers = (*spec.initContainers, *spec.containers)
    if pod_has_limit or all("memory" in container.resources.limits for container in containers):
        return pod_limits(pod).get("memory", 0)
    return 0


# --- host paths


def created_as(kind: str) -> Literal["", "Directory", "File"]:
    """Return the kind of file to create at a missing path of this ``hostPath.type``; empty for
    none."""
    return _CREATED.get(kind, "")


def host_path_problem(path: str, kind: str, actual: HostPathKind) -> str:
    """Return the kubelet's error message if the path is not of the type that ``hostPath.type``
    requires; empty if it is."""
    wanted, expected = _WANTED[kind]
    return "" if actual is wanted else f"hostPath type check failed: {path} is not {expected}"


# --- huge pages


def page_size(pod: Pod, medium: str, node: NodeView) -> int:
    """Return the page size in bytes for the emptyDir ``medium``; 0 if it is not a huge pages
    medium.

    ``HugePages`` without a size means the only size that the pod requests. Raises `ConfigError` if
    the pod requests none or several sizes, or if the node does not have the size.
    """
    if not medium.startswith(MEDIUM):
        return 0
    sizes = set(_requested_page_sizes(pod))
    exact = medium.removeprefix(MEDIUM).removeprefix("-")
    if exact:
        sizes &= {parse_quantity(exact).value()}
    if len(sizes) > 1:
        raise ConfigError(
            f"medium: {medium} can't be used if container requests multiple huge page sizes"
        )
    if not sizes:
        raise ConfigError(
            f"medium {medium}: hugePages storage requested, but there is no resource request for"
            " huge pages"
        )
    (size,) = sizes
    capacity = node.resources.capacity
    if size not in {_size_of(name) for name in capacity if name.startswith(RESOURCE)}:
        raise ConfigError(f"the node has no huge pages of {Quantity.of(size, Format.BINARY_SI)}")
    return size


def _requested_page_sizes(pod: Pod) -> Iterator[int]:
    spec = pod.spec
    of_containers = [container.resources for container in (*spec.containers, *spec.initContainers)]
    for resources in (*of_containers, spec.resources or ResourceRequirements()):
        for name in resources.requests:
            if name.startswith(RESOURCE):
                yield _size_of(name)


def _size_of(resource: str) -> int:
    return parse_quantity(resource.removeprefix(RESOURCE)).value()
