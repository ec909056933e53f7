"""Manifests put in place whole: nobody who reads the folder sees half of one. All here blocks."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from podtui.errors import PodtuiError

MAX_BYTES = 10 * 1024 * 1024


class ManifestFileError(PodtuiError):
    """Raised where a manifest cannot be read or written; the text is for the user."""


class ManifestChanged(ManifestFileError):
    """Raised where the file is not what it was when it was read."""


def read_manifest_file(path: Path) -> bytes:
    """The file's content. Raises `ManifestFileError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ManifestFileError(f"{path.name} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise ManifestFileError(f"{path.name} has more than the {MAX_BYTES} bytes that are read")
    return data


def write_manifest_file(path: Path, data: bytes, *, expected: bytes | None) -> None:
    """Make ``data`` the file's content by a rename; mode and owner stay.

    ``expected`` is the content that it must have until then, None for a file that must not be
    there. A link is followed: what it leads to is replaced. Raises `ManifestChanged`,
    `ManifestFileError`.
    """
    target = Path(os.path.realpath(path))
    try:
        kept = None if expected is None else os.stat(target)
        # The name says to the folder's reader that somebody has the manifest in hand.
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                _dress(file.fileno(), kept)
                file.flush()
                os.fsync(file.fileno())
            _refuse_changed(target, expected)
            if expected is None:
                os.link(name, target)
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


def _dress(handle: int, kept: os.stat_result | None) -> None:
    if kept is None:
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(handle, 0o666 & ~umask)
        return
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) != (kept.st_uid, kept.st_gid):
        os.fchown(handle, kept.st_uid, kept.st_gid)
    os.fchmod(handle, stat.S_IMODE(kept.st_mode))


def _refuse_changed(path: Path, expected: bytes | None) -> None:
    if expected is not None and read_manifest_file(path) != expected:
        raise ManifestChanged(f"{path.name} was changed by somebody else meanwhile")
