"""The mounts of a container (kubelet.md §10.3)."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Final, Literal

from podtui.api.v1 import Container, Pod, Volume, VolumeMount
from podtui.kubelet.types import ConfigError
from podtui.kubelet.volumes.pod_volumes import OWN_DIRECTORY, created_as, nfs_share, volume_type
from podtui.runtime.protocol import Mount
from podtui.text.expansion import expand_by

Propagation = Literal["private", "rslave", "rshared"]
_PROPAGATIONS: Final[Mapping[str, Propagation]] = {
    "HostToContainer": "rslave",
    "Bidirectional": "rshared",
}
_WRITABLE: Final = ("emptyDir", "hostPath", "nfs")


def container_mounts(
    pod: Pod,
    container: Container,
    variables: Mapping[str, str],
    *,
    recursive_read_only: bool = False,
) -> tuple[Mount, ...]:
    """Return the container's mounts in order.

    ``variables`` are its final environment; ``recursive_read_only``: the engine supports such
    mounts. Raises `ConfigError`.

    The engine adds its own ``/etc/hosts`` unless a mount has exactly this path.
    """
    volumes = {
        volume.name: volume
        for volume in pod.spec.volumes
        if volume_type(volume) in (*OWN_DIRECTORY, "hostPath", "nfs")
    }
    security = pod.spec.securityContext
    group = None if security is None else security.fsGroup
    mounts: list[Mount] = []
    for mount in container.volumeMounts:
        volume = volumes.get(mount.name)
        if volume is None:
            raise ConfigError(
                f'cannot find volume "{mount.name}" to mount into container "{container.name}"'
            )
        mounts.append(_mount(volume, mount, variables, recursive_read_only, group or 0))
    return tuple(mounts)


def sub_path_failure(container: Container, container_path: str) -> str:
    """Return the kubelet's message for a mount whose sub-path leads out of its volume.

    It is vague on purpose.
    """
    at = (mount.name for mount in container.volumeMounts if _mount_path(mount) == container_path)
    name = next(at, container_path)
    return f'failed to prepare subPath for volumeMount "{name}" of container "{container.name}"'


def is_recursive_read_only(mount: VolumeMount, *, supported: bool) -> bool:
    """Return True if everything below the mount is read-only, too. Raises `ConfigError`."""
    mode = mount.recursiveReadOnly
    if mode in ("", "Disabled"):
        return False
    problem = f'volume "{mount.name}" requested recursive read-only mode, but it is'
    if not mount.readOnly:
        raise ConfigError(f"{problem} not read-only")
    if mount.mountPropagation not in ("", "None"):
        raise ConfigError(f'{problem} not compatible with propagation "{mount.mountPropagation}"')
    if mode == "Enabled" and not supported:
        raise ConfigError(f"{problem} not supported by the runtime")
    return supported


def _mount(
    volume: Volume,
    mount: VolumeMount,
    variables: Mapping[str, str],
    recursive_read_only: bool,
    gid: int,
) -> Mount:
    sub_path = _sub_path(mount, variables)
    try:
        recursive = is_recursive_read_only(mount, supported=recursive_read_only)
    except ConfigError as error:
        raise ConfigError(f"failed to resolve recursive read-only mode: {error}") from error
    host, share = volume.hostPath, nfs_share(volume)
    own = host is None and share is None
    return Mount(
        container_path=_mount_path(mount),
        volume=volume.name if own else "",
        nfs=share,
        host_path="" if host is None else host.path,
        host_path_create="" if host is None else created_as(host.type),
        sub_path=sub_path,
        gid=gid if sub_path and own else 0,
        read_only=bool(mount.readOnly) or volume_type(volume) not in _WRITABLE,
        recursive_read_only=recursive,
        propagation=_PROPAGATIONS.get(mount.mountPropagation, "private"),
    )


def _mount_path(mount: VolumeMount) -> str:
    return posixpath.join("/", mount.mountPath)


def _sub_path(mount: VolumeMount, variables: Mapping[str, str]) -> str:
    path = mount.subPath
    if mount.subPathExpr:
        path = _expanded(mount.subPathExpr, variables)
    if path.startswith("/"):
        raise ConfigError(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise ConfigError(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def _expanded(expression: str, variables: Mapping[str, str]) -> str:
    missing: set[str] = set()

    def value(name: str) -> str:
        value = variables.get(name, "")
        if not value:
            missing.add(name)
        return value

    path = expand_by(expression, value)
    if missing:
        raise ConfigError(f"missing value for {', '.join(sorted(missing))}")
    return path
