"""Rules for volumeMounts and volumeDevices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from podtui.api.v1 import Volume, VolumeMount
from podtui.manifest.validation import formats
from podtui.manifest.validation.context import AnyContainer
from podtui.manifest.validation.errors import (
    Errors,
    forbidden,
    invalid,
    not_found,
    not_supported,
    reported_at,
    required,
)

NO_PROPAGATION: Final = "may only be specified when mountPropagation is None or not specified"
PROPAGATIONS: Final = ("Bidirectional", "HostToContainer", "None")
RECURSIVE_READ_ONLY: Final = ("Disabled", "Enabled", "IfPossible")


def mounts(container: AnyContainer, volumes: Mapping[str, Volume], path: str) -> Errors:
    devices = {device.name: device.devicePath for device in container.volumeDevices}
    taken: set[str] = set()
    for index, mount in enumerate(container.volumeMounts):
        here = f"{path}[{index}]"
        if not mount.name:
            yield required(f"{here}.name")
        if mount.name not in volumes:
            yield not_found(f"{here}.name", mount.name, volumes)
        if not mount.mountPath:
            yield required(f"{here}.mountPath")
        if mount.mountPath in taken:
            yield invalid(f"{here}.mountPath", mount.mountPath, "must be unique")
        taken.add(mount.mountPath)
        if mount.name in devices:
            yield invalid(f"{here}.name", mount.name, "must not already exist in volumeDevices")
        if mount.mountPath in devices.values():
            yield invalid(
                f"{here}.mountPath",
                mount.mountPath,
                "must not already exist as a path in volumeDevices",
            )
        if mount.subPath and mount.subPathExpr:
            yield invalid(
                f"{here}.subPathExpr",
                mount.subPathExpr,
                "subPathExpr and subPath are mutually exclusive",
            )
        # The API server omits the index in these paths.
        yield from reported_at(_options(mount, container, here), here, path)


def _options(mount: VolumeMount, container: AnyContainer, path: str) -> Errors:
    if mount.subPath:
        yield from formats.descending(mount.subPath, f"{path}.subPath")
    if mount.subPathExpr:
        yield from formats.descending(mount.subPathExpr, f"{path}.subPathExpr")
    if mount.mountPropagation:
        yield from _propagation(mount.mountPropagation, container, f"{path}.mountPropagation")
    yield from _recursive_read_only(mount, f"{path}.recursiveReadOnly")


def _propagation(mode: str, container: AnyContainer, path: str) -> Errors:
    if mode not in PROPAGATIONS:
        yield not_supported(path, mode, PROPAGATIONS)
    context = container.securityContext
    if mode == "Bidirectional" and not (context is not None and context.privileged):
        yield forbidden(
            path, "Bidirectional mount propagation is available only to privileged containers"
        )


def _recursive_read_only(mount: VolumeMount, path: str) -> Errors:
    if mount.recursiveReadOnly in ("", "Disabled"):
        return
    if mount.recursiveReadOnly not in RECURSIVE_READ_ONLY:
        yield not_supported(path, mount.recursiveReadOnly, RECURSIVE_READ_ONLY)
        return
    if not mount.readOnly:
        yield forbidden(path, "may only be specified when readOnly is true")
    if mount.mountPropagation not in ("", "None"):
        yield forbidden(path, NO_PROPAGATION)


def devices(container: AnyContainer, volumes: Mapping[str, Volume], path: str) -> Errors:
    mounted = {mount.name: mount.mountPath for mount in container.volumeMounts}
    names: set[str] = set()
    places: set[str] = set()
    for index, device in enumerate(container.volumeDevices):
        name, device_path = f"{path}[{index}].name", f"{path}[{index}].devicePath"
        volume = volumes.get(device.name)
        if not device.name:
            yield required(name)
        if device.name in names:
            yield invalid(name, device.name, "must be unique")
        if volume is None:
            yield not_found(name, device.name, volumes)
        elif volume.persistentVolumeClaim is None and volume.ephemeral is None:
            yield invalid(
                name,
                device.name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral"
                " for block mode",
            )
        if not device.devicePath:
            yield required(device_path)
        if device.devicePath in places:
            yield invalid(device_path, device.devicePath, "must be unique")
        if ".." in device.devicePath.split("/"):
            yield invalid(device_path, device.devicePath, "can not contain backsteps ('..')")
        else:
            places.add(device.devicePath)
        if device.name in mounted:
            yield invalid(name, device.name, "must not already exist in volumeMounts")
        if device.devicePath in mounted.values():
            yield invalid(
                device_path, device.devicePath, "must not already exist as a path in volumeMounts"
            )
        if device.name:
            names.add(device.name)
