"""Pack files of this machine into tar archives, and unpack archives. All functions block.

Archives from a container are not trusted: nothing is written outside the destination, and links and
devices are skipped.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path
from typing import IO, Final

from podtui.client.protocol import CopyResult
from podtui.errors import PodtuiError

_MOST_MEMBERS: Final = 1_000_000
_OWN_MODE: Final = 0o600


def pack(source: Path, name: str, archive: IO[bytes]) -> CopyResult:
    """Write a complete archive of a file or directory under ``name``. Sockets and devices are
    skipped. Raises `PodtuiError`."""
    files = size = skipped = 0

    def taken(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal files, size, skipped
        if not (member.isfile() or member.isdir() or member.issym()):
            skipped += 1
            return None
        files += not member.isdir()
        size += member.size
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    try:
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            tar.add(source, arcname=name, filter=taken)
    except OSError as error:
        raise PodtuiError(f"cannot read {error.filename or source}: {error.strerror}") from error
    return CopyResult(files=files, bytes=size, skipped=skipped)


def unpack(archive: IO[bytes], root: str, destination: Path) -> CopyResult:
    """Write the members at and below ``root`` to ``destination``.

    All names are checked before anything is written. Raises `PodtuiError` for an archive that is
    malformed or has other names.
    """
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            targets = _targets(tar, root, destination)
            return _written(tar, targets)
    except tarfile.TarError as error:
        raise PodtuiError(f"the archive from the container is broken: {error}") from error
    except OSError as error:
        where = error.filename or destination
        raise PodtuiError(f"cannot write {where}: {error.strerror or error}") from error


def _targets(
    tar: tarfile.TarFile, root: str, destination: Path
) -> list[tuple[tarfile.TarInfo, Path]]:
    found: list[tuple[tarfile.TarInfo, Path]] = []
    for member in tar:
        if len(found) >= _MOST_MEMBERS:
            raise PodtuiError(f"more than {_MOST_MEMBERS} files")
        found.append((member, destination.joinpath(*below(member.name, root))))
    if not found:
        raise PodtuiError("the archive from the container is empty")
    return found


def below(name: str, root: str) -> tuple[str, ...]:
    """Return the parts of a member's name below ``root``. Raises `PodtuiError` if it is not
    below."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    start = tuple(part for part in root.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts or "\0" in name or parts[: len(start)] != start:
        raise PodtuiError(f"the archive names {name!r}, which is not part of {root!r}: refused")
    return parts[len(start) :]


def _written(tar: tarfile.TarFile, targets: list[tuple[tarfile.TarInfo, Path]]) -> CopyResult:
    files = size = skipped = 0
    for member, target in targets:
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        content = tar.extractfile(member) if member.isfile() else None
        if content is None:
            skipped += 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with content, open(target, "wb") as file:
            shutil.copyfileobj(content, file)
            os.fchmod(file.fileno(), member.mode & 0o777 | _OWN_MODE)
        files += 1
        size += member.size
    return CopyResult(files=files, bytes=size, skipped=skipped)
