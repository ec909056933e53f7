"""The trash: deleted manifests in a hidden folder beside the others, which no kubelet reads. All
functions block.

A file's name in the trash contains the time of deletion: ``20261121T140501.123456Z~web.yaml``.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from podtui.tui.commands.manifest_file import ManifestFileError, put_new

TRASH: Final = ".trash"
_STAMP: Final = "%Y%m%dT%H%M%S.%fZ"
_NAME: Final = re.compile(r"(\d{8}T\d{6}\.\d{6}Z)~(.+)", re.DOTALL)


class Trashed(Struct, frozen=True):
    """One file in the trash: its path, its original path and the time of deletion."""

    path: Path
    origin: Path
    moment: datetime


def throw_away(path: Path, moment: datetime) -> Trashed:
    """Move a file to the trash of its folder. Raises `ManifestFileError`."""
    trash = path.parent / TRASH
    stamp = moment.astimezone(UTC).strftime(_STAMP)
    kept = trash / f"{stamp}~{path.name}"
    try:
        trash.mkdir(mode=0o700, exist_ok=True)
        if os.path.lexists(kept):
            raise FileExistsError(0, "there is such a file in the trash already")
        os.rename(path, kept)
    except OSError as error:
        raise ManifestFileError(
            f"{path.name} cannot be moved to {TRASH}: {error.strerror}"
        ) from error
    return Trashed(kept, path, moment)


def bring_back(trashed: Trashed) -> None:
    """Move a file from the trash to its original path. Raises `ManifestFileError`, also if a file
    of that name exists.
    """
    try:
        put_new(trashed.path, trashed.origin)
    except FileExistsError as error:
        raise ManifestFileError(f"there is another {trashed.origin.name} by now") from error
    except FileNotFoundError as error:
        raise ManifestFileError(f"{trashed.origin.name} is no longer in the trash") from error
    except OSError as error:
        raise ManifestFileError(
            f"{trashed.origin.name} cannot be brought back: {error.strerror}"
        ) from error


def trashed_files(folder: Path) -> list[Trashed]:
    """Return the files in the trash of a folder, the newest first. Raises `ManifestFileError`."""
    trash = folder / TRASH
    try:
        names = os.listdir(trash)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ManifestFileError(f"{trash} cannot be read: {error.strerror}") from error
    found: list[Trashed] = []
    for name in names:
        match = _NAME.fullmatch(name)
        moment = _moment(match[1]) if match is not None else None
        if match is not None and moment is not None:
            found.append(Trashed(trash / name, folder / match[2], moment))
    return sorted(found, key=lambda one: one.path.name, reverse=True)


def _moment(stamp: str) -> datetime | None:
    """Parse the time in a file name; None if it is invalid, because podtui did not write it."""
    try:
        return datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
