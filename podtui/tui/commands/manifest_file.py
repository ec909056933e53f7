"""Read and replace manifest files. All functions block.

Files are replaced atomically: a reader of the folder never sees a partial file.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from podtui.errors import PodtuiError

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


def read_manifest_file(path: Path) -> bytes:
    """Return the file's content. Raises `ManifestFileError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ManifestFileError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ManifestFileError(f"{path.name} has more than the {MAX_BYTES} bytes that are read")
    return data


def write_manifest_file(path: Path, data: bytes, *, expected: bytes | None) -> None:
    """Replace the file's content with a rename; mode and owner are kept.

    ``expected`` is the content that the file must still have. None means that the file must not
    exist; a missing folder is then created. For a symbolic link, its target is replaced. Raises
    `ManifestChanged`, `ManifestFileError`.
    """
    target = Path(os.path.realpath(path))
    try:
        kept = None if expected is None else os.stat(target)
        if expected is None:
            target.parent.mkdir(parents=True, exist_ok=True)
        # The name tells the reader of the folder that this manifest is being replaced.
        name = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        handle = os.open(name, _NEW, 0o666 if kept is None else 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                if kept is not None:
                    _dress(file.fileno(), kept)
                file.flush()
                os.fsync(file.fileno())
            _refuse_changed(target, expected)
            if expected is None:
                put_new(name, target)
            else:
                os.rename(name, target)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)
    except FileExistsError as error:
        raise ManifestChanged(f"there is a {path.name} already") from error
    except FileNotFoundError as error:
        raise ManifestChanged(f"{path.name} is gone") from error
    except OSError as error:
        raise ManifestFileError(f"{path.name} cannot be written: {error.strerror}") from error


def put_new(source: Path, target: Path) -> None:
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


def _dress(handle: int, kept: os.stat_result) -> None:
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) != (kept.st_uid, kept.st_gid):
        os.fchown(handle, kept.st_uid, kept.st_gid)
    os.fchmod(handle, stat.S_IMODE(kept.st_mode))


def _refuse_changed(path: Path, expected: bytes | None) -> None:
    if expected is not None and read_manifest_file(path) != expected:
        raise ManifestChanged(f"{path.name} was changed by somebody else meanwhile")
