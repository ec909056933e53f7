"""The directories in which CSI volumes are staged and published, with a file for each volume that
lets a later agent unpublish it. All functions block, and raise OSError."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from podtui.kubelet.volumes.csi_volumes import (
    PERSISTENT,
    STAGING,
    VOLUME_DATA,
    VolumeData,
    parse_volume_data,
    pods_directory,
    staging_directory,
    volume_directories,
)
from podtui.private_files import write_private

_MODE: Final = 0o750
_READ_WRITE, _EXECUTE = 0o660, 0o110
_ON_ROOT_MISMATCH: Final = "OnRootMismatch"


def prepare(path: Path, data: bytes, *, mount_point: bool) -> None:
    """Create the directory of a volume, and write its file. ``mount_point``: create ``path`` too,
    which a driver does itself when it publishes a volume."""
    directory = path if mount_point else path.parent
    directory.mkdir(mode=_MODE, parents=True, exist_ok=True)
    write_private(path.parent / VOLUME_DATA, data)


def is_kept(path: Path) -> bool:
    """Return whether the volume has its file: another call may have removed it meanwhile."""
    return (path.parent / VOLUME_DATA).exists()


def remove(path: Path) -> None:
    """Remove the directory of a volume that is not mounted any more. Files in it are never removed:
    they would be the volume's."""
    with suppress(FileNotFoundError):
        try:
            path.rmdir()
        except NotADirectoryError:
            # The place of a device.
            path.unlink()
    with suppress(FileNotFoundError):
        os.unlink(path.parent / VOLUME_DATA)
    with suppress(FileNotFoundError):
        path.parent.rmdir()


def remove_pod(root: Path, uid: str) -> None:
    """Remove the empty directories of a pod."""
    volumes = volume_directories(root, uid)
    pod = pods_directory(root) / uid
    for directory in (*volumes, *(path.parent for path in volumes), pod):
        try:
            directory.rmdir()
        except FileNotFoundError:
            continue
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise


def pods(root: Path) -> tuple[str, ...]:
    """Return the UIDs of the pods with directories of CSI volumes."""
    return tuple(
        path.name
        for path in _entries(pods_directory(root))
        if any(directory.is_dir() for directory in volume_directories(root, path.name))
    )


def published(root: Path, uid: str) -> dict[Path, VolumeData | None]:
    """Return the paths at which volumes of a pod are or were to be published; None for one without
    a file. Raises `podtui.kubelet.plugins.csi_api.CsiError` for a damaged file."""
    return {
        path / name: _data(path)
        for directory, name in volume_directories(root, uid).items()
        for path in _entries(directory)
    }


def staged(root: Path) -> dict[Path, VolumeData]:
    """Return the paths at which volumes are staged."""
    volumes: dict[Path, VolumeData] = {}
    for driver in _entries(staging_directory(root)):
        for path in _entries(driver):
            data = _data(path)
            if data is not None:
                volumes[path / STAGING] = data
    return volumes


def users(root: Path, key: tuple[str, str]) -> frozenset[str]:
    """Return the UIDs of the pods for which a persistent volume is published."""
    return frozenset(
        uid
        for uid in pods(root)
        if any(data is not None and data.key == key for data in published(root, uid).values())
    )


def in_use(root: Path) -> frozenset[tuple[str, str]]:
    """Return the persistent volumes that are staged, or published for a pod."""
    of_pods = (data for uid in pods(root) for data in published(root, uid).values())
    persistent = {data.key for data in of_pods if data is not None and data.mode == PERSISTENT}
    return frozenset(persistent | {data.key for data in staged(root).values()})


def _entries(directory: Path) -> Iterator[Path]:
    with suppress(FileNotFoundError, NotADirectoryError):
        yield from sorted(directory.iterdir())


def _data(directory: Path) -> VolumeData | None:
    path = directory / VOLUME_DATA
    try:
        return parse_volume_data(path.read_bytes(), path)
    except (FileNotFoundError, NotADirectoryError):
        return None


# --- the group of the files


def set_group(path: Path, group: int, *, policy: str) -> None:
    """Give all files of a volume to a group, which may read and write them; new files in it belong
    to the group as well. With the policy ``OnRootMismatch``, only if the top directory differs."""
    if policy == _ON_ROOT_MISMATCH and _has_group(path, group):
        return
    # The top directory comes last: it tells whether the change was completed.
    for directory, _, names in os.walk(path, topdown=False):
        for name in names:
            _set_group(os.path.join(directory, name), group)
        _set_group(directory, group)


def _has_group(path: Path, group: int) -> bool:
    info = os.stat(path)
    wanted = _READ_WRITE | _EXECUTE | stat.S_ISGID
    return info.st_gid == group and info.st_mode & wanted == wanted


def _set_group(path: str, group: int) -> None:
    info = os.lstat(path)
    os.chown(path, -1, group, follow_symlinks=False)
    if stat.S_ISLNK(info.st_mode):
        return
    mode = stat.S_IMODE(info.st_mode) | _READ_WRITE
    if stat.S_ISDIR(info.st_mode):
        mode |= _EXECUTE | stat.S_ISGID
    os.chmod(path, mode)
