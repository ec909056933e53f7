"""Plan how to replace the projected files of a volume while they are read. Pure functions.

This follows the kubelet's AtomicWriter (reference §10.2): write a directory with the new version,
switch ``..data`` to it atomically, then remove all files of the old version.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from podtui.runtime.docker.storage import DATA, Entry, files_of
from podtui.runtime.protocol import PodVolume, VolumeFile

_NEXT: Final = "..data_tmp"
_LINK_MODE: Final = 0o777

Listing = Mapping[str, str]
"""Relative path of each file and directory in a volume → a link's target, else empty."""


@dataclass(frozen=True, slots=True)
class Update:
    """The steps in order: upload ``uploads``, rename ``turn`` (from, to), which may rename a path
    to itself, then remove ``gone`` one after the other."""

    uploads: tuple[Entry, ...]
    turn: tuple[str, str]
    gone: tuple[str, ...]


def listing_of(files: Iterable[VolumeFile]) -> Listing:
    """Return the listing of a volume that was created with these files."""
    found: dict[str, str] = {}
    for file in files:
        parent = posixpath.dirname(file.path)
        while parent and parent not in found:
            found[parent] = ""
            parent = posixpath.dirname(parent)
        found[file.path] = file.target
        if file.path == DATA:
            found.setdefault(file.target, "")
    return found


def plan(volume: PodVolume, base: str, there: Listing) -> Update | None:
    """Plan the update of the volume at ``base`` with content ``there``, so that it has exactly its
    projected files. Other files are kept. None if nothing has to change."""
    wanted = listing_of(volume.files)
    version = wanted[DATA]
    turned = there.get(DATA) == version

    def missing(path: str) -> bool:
        if path.partition("/")[0] == version:
            return not turned
        return path != DATA and there.get(path) != wanted[path]

    every = files_of(volume, base)
    uploads = [entry for entry in every if missing(entry.path.removeprefix(base + "/"))]
    if not turned:
        uploads.append(Entry(f"{base}/{_NEXT}", _LINK_MODE, target=version))
    stale = [path for path in there if _stale(path, there[path], wanted, version)]
    if not uploads and not stale:
        return None
    stale.sort(key=lambda path: path.count("/"), reverse=True)
    return Update(
        uploads=tuple(uploads),
        turn=(f"{base}/{DATA if turned else _NEXT}", f"{base}/{DATA}"),
        gone=tuple(f"{base}/{path}" for path in stale),
    )


def _stale(path: str, target: str, wanted: Listing, version: str) -> bool:
    top = path.partition("/")[0]
    if top.startswith(".."):
        return top not in (DATA, version)
    return target.startswith(DATA + "/") and path not in wanted
