"""A pod's volumes: what is made for them, and what containers mount (reference §10.2, 10.3)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

from podtui.api.quantity import parse_quantity
from podtui.api.v1 import (
    Container,
    DownwardAPIVolumeFile,
    KeyToPath,
    Pod,
    Volume,
    VolumeMount,
    VolumeProjection,
)
from podtui.kubelet.config_error import ConfigError
from podtui.kubelet.environment import (
    Surroundings,
    config_map_data,
    metadata_field,
    resource_field,
    secret_data,
)
from podtui.kubelet.types import NodeView
from podtui.runtime.protocol import Mount, PodVolume, VolumeFile

DEFAULT_FILE_MODE: Final = 0o644
DIRECTORY_MODE: Final = 0o777
_CREATES: Final[Mapping[str, str]] = {"DirectoryOrCreate": "Directory", "FileOrCreate": "File"}
_OWN_DIRECTORY: Final = ("emptyDir", "downwardAPI", "projected", "configMap", "secret")
_EXPRESSION: Final = re.compile(r"\$\$|\$\(([^)]*)\)")


def volume_type(volume: Volume) -> str:
    """The name of the source that is set; a volume without any is an emptyDir."""
    for name in volume.__struct_fields__:
        if name != "name" and getattr(volume, name) is not None:
            return name
    return "emptyDir"


def unsupported(pod: Pod) -> tuple[str, ...]:
    """What the pod asks of volumes and variables that is not done here, one sentence each."""
    found: list[str] = []
    for volume in pod.spec.volumes:
        kind = volume_type(volume)
        if kind == "image":
            found.append(f'image volumes are not supported: volume "{volume.name}" is not mounted')
        elif kind != "hostPath" and kind not in _OWN_DIRECTORY:
            found.append(
                f'volumes of type {kind} are not supported: containers that mount "{volume.name}"'
                " do not start"
            )
        elif volume.emptyDir is not None and volume.emptyDir.medium.startswith("HugePages"):
            found.append(
                f"emptyDir volumes of huge pages are not supported:"
                f' volume "{volume.name}" is a plain directory'
            )
    for container in (*pod.spec.initContainers, *pod.spec.containers):
        found += [
            f"volume devices are not supported: {device.devicePath} is not there in container"
            f' "{container.name}"'
            for device in container.volumeDevices
        ]
        found += [
            f'fileKeyRef is not supported: variable {variable.name} of container "{container.name}"'
            for variable in container.env
            if variable.valueFrom is not None and variable.valueFrom.fileKeyRef is not None
        ]
    return tuple(found)


# --- what is made


def _memory_size(pod: Pod, node: NodeView, size_limit: str) -> int | None:
    """The least of what the node has, what the pod may use, and what the volume says."""
    bounds: list[int] = []
    if node.resources.allocatable.get("memory", 0) > 0:
        bounds.append(node.resources.allocatable["memory"])
    own = pod.spec.resources
    texts = [one.resources.limits.get("memory") for one in pod.spec.containers]
    if own is not None and "memory" in own.limits:
        bounds.append(parse_quantity(own.limits["memory"]).value())
    elif texts and None not in texts:
        bounds.append(sum(parse_quantity(text).value() for text in texts if text is not None))
    if size_limit and parse_quantity(size_limit).nano > 0:
        bounds.append(parse_quantity(size_limit).value())
    return min(bounds, default=None)


def _projected(files: Mapping[str, tuple[bytes, int]], group: int | None) -> tuple[VolumeFile, ...]:
    """Files as the kubelet lays them out: in a directory of their own that ``..data`` points to,
    so that readers see all of one version."""
    digest = hashlib.sha256()
    for path, (content, mode) in sorted(files.items()):
        digest.update(f"{path}\0{mode}\0{len(content)}\0".encode() + content)
    directory = f"..{digest.hexdigest()[:16]}"
    gid = group or 0
    made = [
        VolumeFile(
            path=f"{directory}/{path}",
            content=content,
            mode=mode if group is None else mode | 0o440,
            gid=gid,
        )
        for path, (content, mode) in sorted(files.items())
    ]
    made.append(VolumeFile(path="..data", target=directory))
    tops = dict.fromkeys(path.partition("/")[0] for path in sorted(files))
    made += [VolumeFile(path=top, target=f"..data/{top}") for top in tops]
    return tuple(made)


def _downward(
    pod: Pod, items: Iterable[DownwardAPIVolumeFile], default: int, node: NodeView
) -> dict[str, tuple[bytes, int]]:
    files: dict[str, tuple[bytes, int]] = {}
    for item in items:
        if item.fieldRef is not None:
            text = metadata_field(pod, item.fieldRef.fieldPath)
            if text is None:
                raise ConfigError(f"unsupported fieldPath: {item.fieldRef.fieldPath}")
        elif item.resourceFieldRef is not None:
            text = resource_field(pod, None, item.resourceFieldRef, node)
        else:
            text = ""
        mode = default if item.mode is None else item.mode
        files[item.path] = (text.encode(), mode)
    return files


def _picked(
    entries: Mapping[str, bytes],
    items: tuple[KeyToPath, ...],
    default: int,
    *,
    optional: bool,
    kind: str,
) -> dict[str, tuple[bytes, int]]:
    if not items:
        return {key: (content, default) for key, content in entries.items()}
    files: dict[str, tuple[bytes, int]] = {}
    for item in items:
        if item.key in entries:
            files[item.path] = (entries[item.key], default if item.mode is None else item.mode)
        elif not optional:
            noun = "config" if kind == "configmap" else "secret"
            raise ConfigError(f"{kind} references non-existent {noun} key: {item.key}")
    return files


def _source(
    pod: Pod, source: VolumeProjection, default: int, around: Surroundings
) -> dict[str, tuple[bytes, int]]:
    space = pod.metadata.namespace
    if source.downwardAPI is not None:
        return _downward(pod, source.downwardAPI.items, default, around.node)
    if (wanted := source.configMap) is not None:
        optional = bool(wanted.optional)
        entries = config_map_data(around, space, wanted.name, optional=optional)
        return _picked(entries, wanted.items, default, optional=optional, kind="configmap")
    if (held := source.secret) is not None:
        optional = bool(held.optional)
        entries = secret_data(around, space, held.name, optional=optional)
        return _picked(entries, held.items, default, optional=optional, kind="secret")
    return {}


def _files(pod: Pod, volume: Volume, around: Surroundings) -> dict[str, tuple[bytes, int]] | None:
    """Contents of a volume by path; None for one that starts empty and stays writable."""
    space = pod.metadata.namespace

    def mode_of(mode: int | None) -> int:
        return DEFAULT_FILE_MODE if mode is None else mode

    if (downward := volume.downwardAPI) is not None:
        return _downward(pod, downward.items, mode_of(downward.defaultMode), around.node)
    if (config := volume.configMap) is not None:
        optional = bool(config.optional)
        entries = config_map_data(around, space, config.name, optional=optional)
        default = mode_of(config.defaultMode)
        return _picked(entries, config.items, default, optional=optional, kind="configmap")
    if (secret := volume.secret) is not None:
        optional = bool(secret.optional)
        entries = secret_data(around, space, secret.secretName, optional=optional)
        default = mode_of(secret.defaultMode)
        return _picked(entries, secret.items, default, optional=optional, kind="secret")
    if (projected := volume.projected) is not None:
        files: dict[str, tuple[bytes, int]] = {}
        for source in projected.sources:
            files |= _source(pod, source, mode_of(projected.defaultMode), around)
        return files
    return None


def pod_volumes(pod: Pod, around: Surroundings) -> tuple[PodVolume, ...]:
    """The directories to make for a pod, with their files. Raises `ConfigError`.

    With ``fsGroup`` they belong to that group and hand it on.
    """
    security = pod.spec.securityContext
    group = None if security is None else security.fsGroup
    mode = DIRECTORY_MODE if group is None else DIRECTORY_MODE | 0o2000
    made: list[PodVolume] = []
    for volume in pod.spec.volumes:
        if volume_type(volume) not in _OWN_DIRECTORY:
            continue
        files = _files(pod, volume, around)
        empty = volume.emptyDir
        memory = empty is not None and empty.medium == "Memory"
        made.append(
            PodVolume(
                name=volume.name,
                mode=mode,
                gid=group or 0,
                memory=memory,
                size_limit=(
                    _memory_size(pod, around.node, empty.sizeLimit)
                    if empty is not None and memory
                    else None
                ),
                files=() if files is None else _projected(files, group),
            )
        )
    return tuple(made)


# --- what is mounted


def _expand_path(expression: str, variables: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        found = variables.get(match[1])
        if not found:
            raise ConfigError(f"missing value for {match[1]}")
        return found

    return _EXPRESSION.sub(value, expression)


def _sub_path(mount: VolumeMount, variables: Mapping[str, str]) -> str:
    path = _expand_path(mount.subPathExpr, variables) if mount.subPathExpr else mount.subPath
    if path.startswith("/"):
        raise ConfigError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise ConfigError(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def _mount(volume: Volume, mount: VolumeMount, variables: Mapping[str, str]) -> Mount:
    sub_path = _sub_path(mount, variables)
    if mount.recursiveReadOnly == "Enabled":
        raise ConfigError(
            f'volume "{volume.name}" requested recursive read-only mode,'
            " but it is not supported by the runtime"
        )
    propagation = "private"
    if mount.mountPropagation == "HostToContainer":
        propagation = "rslave"
    elif mount.mountPropagation == "Bidirectional":
        propagation = "rshared"
    if (host := volume.hostPath) is not None:
        creates = _CREATES.get(host.type, "")
        return Mount(
            container_path=mount.mountPath,
            host_path=host.path,
            host_path_create=(
                "Directory" if creates == "Directory" else ("File" if creates else "")
            ),
            sub_path=sub_path,
            read_only=bool(mount.readOnly),
            propagation=propagation,
        )
    fixed = volume_type(volume) != "emptyDir"
    return Mount(
        container_path=mount.mountPath,
        volume=volume.name,
        sub_path=sub_path,
        read_only=bool(mount.readOnly) or fixed,
        propagation=propagation,
    )


def container_mounts(
    pod: Pod, container: Container, variables: Mapping[str, str]
) -> tuple[Mount, ...]:
    """The container's mounts in order. ``variables`` are its final environment.

    Raises `ConfigError`. Image volumes are left out (see `unsupported`); a container that mounts
    another volume we cannot make is refused rather than run on a directory that is not its data.
    """
    by_name = {volume.name: volume for volume in pod.spec.volumes}
    mounts: list[Mount] = []
    for mount in container.volumeMounts:
        volume = by_name.get(mount.name)
        if volume is None:
            raise ConfigError(
                f'cannot find volume "{mount.name}" to mount into container "{container.name}"'
            )
        kind = volume_type(volume)
        if kind == "image":
            continue
        if kind != "hostPath" and kind not in _OWN_DIRECTORY:
            raise ConfigError(
                f'volume "{mount.name}" of type {kind} is not supported:'
                f' container "{container.name}" cannot mount it'
            )
        mounts.append(_mount(volume, mount, variables))
    return tuple(mounts)


def host_path_checks(pod: Pod) -> tuple[tuple[str, str, str], ...]:
    """(volume, path, type) of the host paths that must exist, and be of that type, before the
    pod's sandbox is made."""
    return tuple(
        (volume.name, volume.hostPath.path, volume.hostPath.type)
        for volume in pod.spec.volumes
        if volume.hostPath is not None
        and volume.hostPath.type not in ("", "DirectoryOrCreate", "FileOrCreate")
    )
