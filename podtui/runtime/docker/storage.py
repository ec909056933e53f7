"""Where a pod's volumes lie in its engine volume, and the tar files that fill them.

A pod has one engine volume, mounted in its sandbox at `POD_DIRECTORY`:
``v/NN`` spare directories and ``t/NN`` spare termination files, from the image; ``volumes/NAME``
directories that no spare fits; ``t/…`` further termination files; ``whole``, a mark, where the
engine fills no volumes. A volume in memory is a tmpfs engine volume of its own, mounted at
``volumes/NAME`` in the sandbox.
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

from podtui.runtime.docker.pause import SPARE_DIRECTORIES, SPARE_FILES
from podtui.runtime.protocol import PodVolume, VolumeFile

DATA: Final = "..data"
"""In a volume with projected files, the link to the directory with the version that holds."""
MEMORY_PREFIX: Final = "memory:"
WHOLE: Final = "whole"
"""In a pod's volume that the engine does not fill: the last thing that is uploaded to a new one."""
_FOLDERS: Final = ("t", "v", "volumes")
"""At the top of a pod's volume, in the order of their names."""
_SPARE_MODE: Final = 0o777
_FOLDER_MODE: Final = 0o755
_WHOLE_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a tar: a directory, a file (``content``) or a symlink (``target``)."""

    path: str
    mode: int
    uid: int = 0
    gid: int = 0
    content: bytes | None = None
    target: str = ""


def tar_of(entries: Iterable[Entry]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry.path)
            info.mode, info.uid, info.gid = entry.mode, entry.uid, entry.gid
            if entry.target:
                info.type, info.linkname = tarfile.SYMTYPE, entry.target
            elif entry.content is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.content)
            tar.addfile(info, io.BytesIO(entry.content or b""))
        end = buffer.tell() + 2 * tarfile.BLOCKSIZE
    # No padding to a whole record: Podman hangs up at the end mark and may fail on what follows.
    return buffer.getvalue()[:end]


def entries_of(volume: PodVolume, base: str) -> Iterator[Entry]:
    """A volume's own directory at ``base`` and its files, parents before children."""
    yield Entry(base, volume.mode, volume.uid, volume.gid)
    yield from files_of(volume, base)


def files_of(volume: PodVolume, base: str) -> Iterator[Entry]:
    """Its files, in directories that hand their group on where the volume's own does."""
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
            yield Entry(f"{base}/{directory}", folder, volume.uid, volume.gid)
        if file.path == DATA and file.target not in made:
            made.add(file.target)
            # The version of no files at all is a directory too.
            yield Entry(f"{base}/{file.target}", folder, volume.uid, volume.gid)
        path = f"{base}/{file.path}"
        content = None if file.target else file.content
        yield Entry(path, file.mode, file.uid, file.gid, content, file.target)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where each volume is: ``places`` maps its name to a path in the pod's engine volume, or to
    `MEMORY_PREFIX` and an engine volume's name."""

    places: Mapping[str, str]
    uploads: tuple[Entry, ...]
    """What to make before the sandbox starts; empty when the image's spares do."""
    memory: tuple[PodVolume, ...]


def signs_of_filling(layout: Layout, *, by_engine: bool) -> tuple[str, ...]:
    """Paths that are in a pod's volume once it was filled completely.

    An engine copies the image's files one by one, Docker 20.10 in the order of their names. When
    it is killed or its disk is full, it stops in the middle, and it copies nothing into a volume
    that is not empty.
    """
    if not by_engine:
        return (WHOLE,)
    return (
        *(place for place in layout.places.values() if place in SPARE_DIRECTORIES),
        _FOLDERS[-1],
    )


def in_memory(volume: PodVolume) -> bool:
    """Whether it is an engine volume of its own, of pages instead of a disk's blocks."""
    return volume.memory or volume.huge_pages > 0


def _plain(volume: PodVolume) -> bool:
    return (
        not in_memory(volume) and volume.mode == _SPARE_MODE and volume.uid == 0 and volume.gid == 0
    )


def first_places(volumes: Iterable[PodVolume]) -> dict[str, str]:
    """Which spare directory each plain volume of a new pod gets, as long as there are any."""
    plain = [volume.name for volume in volumes if _plain(volume)]
    return dict(zip(plain, SPARE_DIRECTORIES, strict=False))


def lay_out(
    volumes: Iterable[PodVolume],
    spares: Mapping[str, str],
    *,
    fresh: bool,
    filled: bool,
    memory_volume: Mapping[str, str],
) -> Layout:
    """``spares`` is what `first_places` gave when the pod was new, and is kept. ``fresh`` tells
    that no container used the volume yet, ``filled`` that the image's spares will be in it;
    ``memory_volume`` names the tmpfs volumes."""
    places: dict[str, str] = {}
    uploads: list[Entry] = []
    if fresh and not filled:
        uploads += [Entry(name, _FOLDER_MODE) for name in _FOLDERS]
    memory: list[PodVolume] = []
    for volume in volumes:
        if in_memory(volume):
            places[volume.name] = MEMORY_PREFIX + memory_volume[volume.name]
            memory.append(volume)
            continue
        place = spares.get(volume.name) or f"volumes/{volume.name}"
        places[volume.name] = place
        if volume.name in spares and filled and _plain(volume):
            uploads += files_of(volume, place)
        elif volume.name in spares and not fresh and not volume.files:
            # Made by an earlier attempt, and the containers' own since then.
            continue
        else:
            uploads += entries_of(volume, place)
    if fresh and not filled:
        uploads.append(Entry(WHOLE, _WHOLE_MODE, content=b""))
    return Layout(places, tuple(uploads), tuple(memory))


@dataclass(slots=True)
class SandboxStore:
    """What is known of a sandbox's storage: ``mountpoint`` is the engine's path of its volume.

    ``spare_files`` are the termination files that no container has got yet; only the instance that
    made the sandbox knows that they are fresh.
    """

    mountpoint: str
    places: Mapping[str, str]
    host_ipc: bool = False
    hostname: str = ""
    host_dns: Mapping[str, Any] | None = None
    """The engine's DNS options of a sandbox on the host's network; None for other sandboxes."""
    spare_files: list[str] = field(default_factory=list[str])
    pause_version: str = ""
    """Of the program in the sandbox."""
    written: dict[str, tuple[VolumeFile, ...]] = field(
        default_factory=dict[str, tuple[VolumeFile, ...]]
    )
    """What volumes hold, where it is known that they hold that and nothing else."""
    filled: dict[str, str] = field(default_factory=dict[str, str])
    """Volumes that have been filled, and the image that they were filled from."""

    def take_spare(self) -> str | None:
        return self.spare_files.pop(0) if self.spare_files else None


def new_spares() -> list[str]:
    return list(SPARE_FILES)


def read_places(label: str | None) -> dict[str, str]:
    """The places that a label tells; none when it is missing or broken."""
    try:
        found: object = json.loads(label or "{}")
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {str(k): str(v) for k, v in found.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def inside(base: str, path: str) -> str:
    """``base/path`` without ``..``. Raises ValueError when it would leave ``base``."""
    joined = posixpath.normpath(posixpath.join(base, path))
    if joined != base and not joined.startswith(base.rstrip("/") + "/"):
        raise ValueError(f"{path} leads out of its volume")
    return joined
