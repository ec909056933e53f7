"""The layout of a pod's volumes in its engine volume, and the tar files that fill them.

A pod has one engine volume, mounted in its sandbox at `POD_DIRECTORY`. It contains ``v/NN``, spare
directories, and ``t/NN``, spare termination files, both from the image; ``volumes/NAME``,
directories for volumes that no spare fits; ``t/…``, further termination files; and ``whole``, a
marker file, for engines that do not fill volumes. Each memory volume is a separate tmpfs engine
volume, mounted at ``volumes/NAME`` in the sandbox.

Engines unmount a tmpfs, which loses its content, as soon as no running container uses it. The
memory of a pod (`is_held`) is therefore also mounted in a holder: a container that runs as long as
the pod exists, over new sandboxes. It ends with an engine that ends its containers.
"""

from __future__ import annotations

import io
import json
import posixpath
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from podtui.runtime.docker.pause import SPARE_DIRECTORIES
from podtui.runtime.protocol import PodVolume, VolumeFile

DATA: Final = "..data"
"""The link to the directory with the current version of projected files."""
MEMORY_PREFIX: Final = "memory:"
WHOLE: Final = "whole"
"""The marker file, uploaded last to a new pod volume that the engine does not fill."""
_FOLDERS: Final = ("t", "v", "volumes")
"""The top-level directories of a pod's volume, sorted by name."""
_SPARE_MODE: Final = 0o777
_FOLDER_MODE: Final = 0o755
_WHOLE_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class TarEntry:
    """One entry of a tar: a directory, a file (``content``) or a symlink (``target``)."""

    path: str
    mode: int
    uid: int = 0
    gid: int = 0
    content: bytes | None = None
    target: str = ""


def tar_of(entries: Iterable[TarEntry], modified: float) -> bytes:
    """``modified`` is the modification time of all entries, in Unix seconds."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry.path)
            info.mode, info.uid, info.gid = entry.mode, entry.uid, entry.gid
            info.mtime = modified
            if entry.target:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.content)
            tar.addfile(info, io.BytesIO(entry.content or b""))
        end = buffer.tell() + 2 * tarfile.BLOCKSIZE
    # No padding to a full record: Podman hangs up at the end mark and may fail on further bytes.
    return buffer.getvalue()[:end]


def entries_of(volume: PodVolume, base: str) -> Iterator[TarEntry]:
    """Yield the volume's directory at ``base`` and its files, parents before children."""
    yield TarEntry(base, volume.mode, volume.uid, volume.gid)
    yield from files_of(volume, base)


def files_of(volume: PodVolume, base: str) -> Iterator[TarEntry]:
    """Yield the volume's files; their directories inherit the set-group-ID bit of the volume."""
    folder = _FOLDER_MODE | volume.mode & stat.S_ISGID
    made = {""}
    for file in volume.files:
        parent = posixpath.dirname(file.path)
        missing: list[str] = []
        while parent not in made:
            made.add(parent)
            missing.append(parent)
            parent = posixpath.dirname(parent)
        for directory in reversed(missing):
            yield TarEntry(f"{base}/{directory}", folder, volume.uid, volume.gid)
        if file.path == DATA and file.target not in made:
            made.add(file.target)
            # A version without files is a directory too.
            yield TarEntry(f"{base}/{file.target}", folder, volume.uid, volume.gid)
        path = f"{base}/{file.path}"
        content = None if file.target else file.content
        yield TarEntry(path, file.mode, file.uid, file.gid, content, file.target)


@dataclass(frozen=True, slots=True)
class Layout:
    """The location of each volume: ``places`` maps its name to a path in the pod's engine volume,
    or to `MEMORY_PREFIX` and the name of an engine volume."""

    places: Mapping[str, str]
    uploads: tuple[TarEntry, ...]
    """Entries to upload before the sandbox starts; empty if the image's spares suffice."""
    memory: tuple[PodVolume, ...]


def signs_of_filling(layout: Layout, *, by_engine: bool) -> tuple[str, ...]:
    """Return paths that exist in a pod's volume only if it was filled completely.

    The engine copies the image's files one by one, Docker 20.10 in the order of their names. If it
    is killed or its disk is full, it stops halfway. It never copies into a volume that is not
    empty.
    """
    if not by_engine:
        return (WHOLE,)
    return (
        *(location for location in layout.places.values() if location in SPARE_DIRECTORIES),
        _FOLDERS[-1],
    )


def in_memory(volume: PodVolume) -> bool:
    """Return whether the volume is a separate engine volume backed by memory pages, not by a
    disk."""
    return volume.memory or volume.huge_pages > 0


def is_held(volume: PodVolume) -> bool:
    """Return whether the volume's content exists only in memory: projected files are written again
    for each sandbox."""
    return in_memory(volume) and not volume.files


def _plain(volume: PodVolume) -> bool:
    return (
        not in_memory(volume) and volume.mode == _SPARE_MODE and volume.uid == 0 and volume.gid == 0
    )


def first_places(volumes: Iterable[PodVolume]) -> dict[str, str]:
    """Assign spare directories to the plain volumes of a new pod, as far as they suffice."""
    plain = [volume.name for volume in volumes if _plain(volume)]
    return dict(zip(plain, SPARE_DIRECTORIES, strict=False))


def compute_layout(
    volumes: Iterable[PodVolume],
    spares: Mapping[str, str],
    *,
    fresh: bool,
    filled: bool,
    memory_volume: Mapping[str, str],
) -> Layout:
    """Compute the layout of a pod's volumes.

    ``spares`` is the result of `first_places` for the new pod and never changes. ``fresh`` means
    that no container has used the volume yet, ``filled`` that the engine copies the image's spares
    into it. ``memory_volume`` has the names of the tmpfs engine volumes.
    """
    places: dict[str, str] = {}
    uploads: list[TarEntry] = []
    if fresh and not filled:
        uploads += [TarEntry(name, _FOLDER_MODE) for name in _FOLDERS]
    memory: list[PodVolume] = []
    for volume in volumes:
        if in_memory(volume):
            places[volume.name] = MEMORY_PREFIX + memory_volume[volume.name]
            memory.append(volume)
            continue
        location = spares.get(volume.name) or f"volumes/{volume.name}"
        places[volume.name] = location
        if volume.name in spares and filled and _plain(volume):
            uploads += files_of(volume, location)
        elif volume.name in spares and not fresh and not volume.files:
            # Created by an earlier attempt; the containers may have changed it since.
            continue
        else:
            uploads += entries_of(volume, location)
    if fresh and not filled:
        uploads.append(TarEntry(WHOLE, _WHOLE_MODE, content=b""))
    return Layout(places, tuple(uploads), tuple(memory))


@dataclass(slots=True)
class SandboxStore:
    """The storage of a sandbox. ``mountpoint`` is the engine's path of the pod's volume.

    ``spare_files`` are the termination files that no container uses yet. Only the instance that
    created the sandbox knows that they are unused.
    """

    mountpoint: str
    places: Mapping[str, str]
    host_ipc: bool = False
    runtime: str = ""
    """The OCI runtime; empty for the engine's default."""
    hostname: str = ""
    host_dns: Mapping[str, Any] | None = None
    """The engine's DNS options of a host-network sandbox; None for other sandboxes."""
    spare_files: list[str] = field(default_factory=list[str])
    pause_version: str = ""
    """The version of the pause program in the sandbox."""
    written: dict[str, tuple[VolumeFile, ...]] = field(
        default_factory=dict[str, tuple[VolumeFile, ...]]
    )
    """The files of volumes that are known to contain exactly these."""
    filled: dict[str, str] = field(default_factory=dict[str, str])
    """The filled image volumes, with the image that they were filled from."""

    def take_spare(self) -> str | None:
        return self.spare_files.pop(0) if self.spare_files else None


def read_places(label: str | None) -> dict[str, str]:
    """Parse the places label; empty if it is missing or malformed."""
    try:
        places: object = json.loads(label or "{}")
    except ValueError:
        return {}
    if not isinstance(places, dict):
        return {}
    return {str(k): str(v) for k, v in places.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def inside(base: str, path: str) -> str:
    """Return ``base/path`` without ``..``. Raises ValueError if it would leave ``base``."""
    joined = posixpath.normpath(posixpath.join(base, path))
    if joined != base and not joined.startswith(base.rstrip("/") + "/"):
        raise ValueError(f"{path} is outside of its volume")
    return joined
