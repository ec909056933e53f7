"""Read and replace manifest files. All functions block.

Files are replaced atomically: a reader of the folder never sees a partial file.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.errors import PodtuiError

TRASH: Final = ".trash"

_STAMP: Final = "%Y%m%dT%H%M%S.%fZ"

_NAME: Final = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)~(.+)", re.DOTALL)


_ESCAPED_BYTE: Final = re.compile(r"\\x[89a-f][0-9a-f]")
"""A byte of a name that is not UTF-8 text, as the records of the agent show it."""


MAX_BYTES = 10 * 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NO_LINKS = frozenset({errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""Errors if the file system has no hard links, or the kernel forbids links to others' files."""


class ManifestFileError(PodtuiError):
    """Raised if a manifest cannot be read or written; the text is shown to the user."""


class ManifestChanged(ManifestFileError):
    """Raised if the file has changed since it was read."""


class Rewrite(Struct, frozen=True):
    """A change of a file's text; ``what`` is a short description."""

    path: Path
    before: bytes
    after: bytes
    what: str


def require_text_path(path: Path) -> None:
    """Raise `ManifestFileError` if the file cannot be found because its path is not UTF-8 text:
    records contain such a path with escaped bytes.
    """
    if _ESCAPED_BYTE.search(str(path)) and not os.path.lexists(path):
        raise ManifestFileError(f"the path of {path.name} is not UTF-8 text; rename the file first")


def read_manifest_file(path: Path) -> bytes:
    """Return the file's content. Raises `ManifestFileError`."""
    require_text_path(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ManifestFileError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ManifestFileError(f"{path.name} is larger than {MAX_BYTES} bytes")
    return data


def write_manifest_file(path: Path, data: bytes, *, expected: bytes | None) -> None:
    """Replace the file's content with a rename; mode and owner are kept.

    ``expected`` is the content that the file must still have. None means that the file must not
    exist; a missing folder is then created. For a symbolic link, its target is replaced. Raises
    `ManifestChanged`, `ManifestFileError`.
    """
    if expected is not None:
        require_text_path(path)
    target = Path(os.path.realpath(path))
    try:
        status = None if expected is None else os.stat(target)
        if expected is None:
            target.parent.mkdir(parents=True, exist_ok=True)
        # The name tells the reader of the folder that this manifest is being replaced.
        name = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        handle = os.open(name, _NEW, 0o666 if status is None else 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                if status is not None:
                    _copy_mode_and_owner(file.fileno(), status)
                file.flush()
                os.fsync(file.fileno())
            _refuse_changed(target, expected)
            if expected is None:
                move_without_overwrite(name, target)
            else:
                os.rename(name, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)
    except FileExistsError as error:
        raise ManifestChanged(f"{path.name} already exists") from error
    except FileNotFoundError as error:
        raise ManifestChanged(f"{path.name} no longer exists") from error
    except OSError as error:
        raise ManifestFileError(f"{path.name} cannot be written: {error.strerror}") from error


def move_without_overwrite(source: Path, target: Path) -> None:
    """Move a file without overwriting. Raises OSError; `FileExistsError` if the target exists."""
    try:
        # Use a link because a rename would overwrite an existing target.
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.rename(source, target)
    else:
        os.unlink(source)


def _copy_mode_and_owner(handle: int, status: os.stat_result) -> None:
    current = os.fstat(handle)
    if (current.st_uid, current.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(handle, status.st_uid, status.st_gid)
    os.fchmod(handle, stat.S_IMODE(status.st_mode))


def _refuse_changed(path: Path, expected: bytes | None) -> None:
    if expected is not None and read_manifest_file(path) != expected:
        raise ManifestChanged(f"{path.name} was changed by another program in the meantime")


class TrashedFile(Struct, frozen=True):
    """One file in the trash: its path, its original path and the time of deletion."""

    path: Path
    origin: Path
    moment: datetime


def move_to_trash(path: Path, moment: datetime) -> TrashedFile:
    """Move a file to the trash of its folder. Raises `ManifestFileError`."""
    trash = path.parent / TRASH
    stamp = moment.astimezone(UTC).strftime(_STAMP)
    target = trash / f"{stamp}~{path.name}"
    try:
        trash.mkdir(mode=0o700, exist_ok=True)
        if os.path.lexists(target):
            raise FileExistsError(0, "a file with that name is already in the trash")
        os.rename(path, target)
    except OSError as error:
        raise ManifestFileError(
            f"{path.name} cannot be moved to {TRASH}: {error.strerror}"
        ) from error
    return TrashedFile(target, path, moment)


def restore_file(trashed: TrashedFile) -> None:
    """Move a file from the trash to its original path. Raises `ManifestFileError`, also if a file
    of that name exists.
    """
    try:
        move_without_overwrite(trashed.path, trashed.origin)
    except FileExistsError as error:
        raise ManifestFileError(f"{trashed.origin.name} exists again") from error
    except FileNotFoundError as error:
        raise ManifestFileError(f"{trashed.origin.name} is no longer in the trash") from error
    except OSError as error:
        raise ManifestFileError(
            f"{trashed.origin.name} cannot be restored: {error.strerror}"
        ) from error


def trashed_files(folder: Path) -> list[TrashedFile]:
    """Return the files in the trash of a folder, the newest first. Raises `ManifestFileError`."""
    trash = folder / TRASH
    try:
        names = os.listdir(trash)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ManifestFileError(f"{trash} cannot be read: {error.strerror}") from error
    files: list[TrashedFile] = []
    for name in names:
        match = _NAME.fullmatch(name)
        moment = _parse_stamp(match[1]) if match is not None else None
        if match is not None and moment is not None:
            files.append(TrashedFile(trash / name, folder / match[2], moment))
    return sorted(files, key=lambda file: file.path.name, reverse=True)


def _parse_stamp(stamp: str) -> datetime | None:
    """Parse the time in a file name; None if it is invalid, because podtui did not write it."""
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
