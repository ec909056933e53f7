"""The volumes of a running pod: replace projected files, read files, fill image volumes.

Projected files are replaced while they are read, as the kubelet's AtomicWriter does (kubelet.md
§10.2): write a directory with the new version, switch ``..data`` to it atomically, then remove all
files of the old version. An image volume is filled from a container that was created from the image
and never started: its exported files are streamed into the sandbox's volume. The archive keeps
owners and modes; only members that the engine added to the container are left out.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import tarfile
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.docker.archives import (
    BLOCK,
    Member,
    TarStream,
    archive_of,
    read_head,
    stat_path,
    upload,
)
from podtui.runtime.docker.errors import translate_errors
from podtui.runtime.docker.helper_container import HelperContainers
from podtui.runtime.docker.identity import instant
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.paths import Escapes, resolve
from podtui.runtime.docker.pause import PAUSE_PROGRAM, PAUSE_VERSION, POD_DIRECTORY
from podtui.runtime.docker.sandboxes import Sandboxes
from podtui.runtime.docker.sessions import Execs
from podtui.runtime.docker.storage import DATA, MEMORY_PREFIX, SandboxStore, TarEntry, files_of
from podtui.runtime.protocol import PodVolume, VolumeFile

_NEXT: Final = "..data_tmp"
_LINK_MODE: Final = 0o777
_END: Final = bytes(2 * BLOCK)
_STALLED_SECONDS: Final = 60.0
_FILL_SECONDS: Final = 1800.0
_DEVICES: Final = (tarfile.CHRTYPE, tarfile.BLKTYPE)
# Files that engines add to a container's own layer before its first start. The engine may also have
# created their parent directories.
_ADDED: Final = frozenset(
    """.dockerenv dev/console dev/pts dev/shm etc/hostname etc/hosts etc/mtab etc/resolv.conf proc
    sys""".split()
)
_ADDED_BELOW: Final = frozenset({"dev", "etc"})
_SWITCH_SECONDS: Final = 30.0
_SWITCH_OUTPUT: Final = 1024
_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_MARKS: Final = "images"
"""The folder of marker files with the image that a volume is, or was being, filled from."""
_FILLING: Final = "filling"
_FILLED: Final = "filled"
_LONGEST_MARK: Final = 256


class Volumes:
    def __init__(
        self,
        connection: Connection,
        sandboxes: Sandboxes,
        helpers: HelperContainers,
        execs: Execs,
    ) -> None:
        self._connection = connection
        self._execs = execs
        self._sandboxes = sandboxes
        self._helpers = helpers

    async def write(self, sandbox_id: str, volume: PodVolume) -> None:
        store = await self._sandboxes.store(sandbox_id)
        location = self._place(store, volume.name)
        written = store.written.pop(volume.name, None)
        if written != volume.files:
            with translate_errors():
                present = (
                    await self._listing(sandbox_id, location)
                    if written is None
                    else listing_of(written)
                )
                update = plan(volume, location, present)
                if update is not None:
                    await self._apply_update(sandbox_id, store, update)
        store.written[volume.name] = volume.files

    async def _listing(self, sandbox_id: str, location: str) -> Listing:
        """List the content of a volume, which may be a tmpfs. Raises `Refused`."""
        link = self._connection.link
        listing: dict[str, str] = {}
        async with archive_of(link, sandbox_id, posixpath.join(POD_DIRECTORY, location)) as archive:
            async for member in archive.members():
                # Relative to the volume's own name.
                listing[member.name.partition("/")[2]] = member.link
        listing.pop("", None)
        return listing

    async def _apply_update(self, sandbox_id: str, store: SandboxStore, update: Update) -> None:
        if store.pause_version != PAUSE_VERSION:
            raise EngineError(
                "the pod's sandbox was created by another version of podtui, which can't replace"
                " files atomically: they are not updated until the sandbox is recreated"
            )
        await upload(self._connection.link, sandbox_id, update.uploads)
        paths = [posixpath.join(POD_DIRECTORY, path) for path in (*update.switch, *update.gone)]
        done = await self._execs.run(
            sandbox_id, [PAUSE_PROGRAM, *paths], timeout=_SWITCH_SECONDS, limit=_SWITCH_OUTPUT
        )
        if done.exit_code != 0:
            raise EngineError(f"can't replace the files at {update.switch[1]}: {done.exit_code}")

    async def read(self, sandbox_id: str, volume: str, path: str, limit: int) -> bytes | None:
        store = await self._sandboxes.store(sandbox_id)
        base = posixpath.join(POD_DIRECTORY, self._place(store, volume))
        link = self._connection.link
        with translate_errors():
            try:
                real, missing = await resolve(link, sandbox_id, base, path)
            except Escapes:
                return None
            if missing:
                return None
            return await read_head(link, sandbox_id, posixpath.join(base, real), limit)

    async def size(self, sandbox_id: str, volume: str, limit: int) -> int:
        store = await self._sandboxes.store(sandbox_id)
        location = self._place(store, volume)
        link = self._connection.link
        if link.info.local and store.mountpoint and store.places[volume] == location:
            path = posixpath.join(store.mountpoint, location)
            size = await asyncio.to_thread(size_on_disk, path, limit)
            if size is not None:
                return size
        size = 0
        with translate_errors():
            path = posixpath.join(POD_DIRECTORY, location)
            async with archive_of(link, sandbox_id, path) as archive:
                async for member in archive.members():
                    size += -(-member.size // BLOCK) * BLOCK
                    if size > limit:
                        break
        return size

    async def fill(self, sandbox_id: str, volume: str, image_id: str) -> None:
        store = await self._sandboxes.store(sandbox_id)
        location = self._place(store, volume)
        if store.filled.get(volume) == image_id:
            return
        link = self._connection.link
        mark = f"{_MARKS}/{volume}"
        with translate_errors():
            mark_content = await read_head(
                link, sandbox_id, f"{POD_DIRECTORY}/{mark}", _LONGEST_MARK
            )
            state, _, image = (mark_content or b"").decode(errors="replace").partition(" ")
            if (state, image) != (_FILLED, image_id):
                if image and image != image_id:
                    await self._empty(sandbox_id, store, location)
                await upload(link, sandbox_id, _mark(volume, f"{_FILLING} {image_id}"))
                await copy_image(link, self._helpers, image_id, sandbox_id, location)
                await upload(link, sandbox_id, _mark(volume, f"{_FILLED} {image_id}"))
        store.filled[volume] = image_id

    async def _empty(self, sandbox_id: str, store: SandboxStore, location: str) -> None:
        """Remove and recreate a volume's directory. Raises `Refused`."""
        link = self._connection.link
        path = posixpath.join(POD_DIRECTORY, location)
        top = await stat_path(link, sandbox_id, path)
        # Uploading a file over a directory removes the directory with its content.
        await self._apply_update(
            sandbox_id,
            store,
            Update((TarEntry(location, 0, content=b""),), (location, location), (location,)),
        )
        await upload(link, sandbox_id, [TarEntry(location, top.mode if top else _FOLDER_MODE)])

    def _place(self, store: SandboxStore, volume: str) -> str:
        """Return the path of a volume in its sandbox, below `POD_DIRECTORY`. Raises
        `EngineNotFound`."""
        location = store.places.get(volume)
        if location is None:
            raise EngineNotFound(f'the sandbox has no volume "{volume}"')
        return f"volumes/{volume}" if location.startswith(MEMORY_PREFIX) else location


def _mark(volume: str, text: str) -> list[TarEntry]:
    """Return a marker file, stored outside the volumes so that no container sees it."""
    content = text.encode()
    return [
        TarEntry(_MARKS, _FOLDER_MODE),
        TarEntry(f"{_MARKS}/{volume}", _FILE_MODE, content=content),
    ]


def size_on_disk(path: str, limit: int) -> int | None:
    """Return the bytes that the files below a directory occupy; counting stops above ``limit``.
    None if the directory cannot be read."""
    size, counted = 0, set[tuple[int, int]]()
    pending = [path]
    while pending and size <= limit:
        directory = pending.pop()
        try:
            with os.scandir(directory) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):
                        stat = entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(entry.path)
                        if (stat.st_dev, stat.st_ino) not in counted:
                            size += stat.st_blocks * BLOCK
                        if stat.st_nlink > 1:
                            counted.add((stat.st_dev, stat.st_ino))
        except (FileNotFoundError, NotADirectoryError):
            if directory == path:
                return None
            # A container removed it meanwhile.
        except OSError:
            return None
    return size


# --- projected files


Listing = Mapping[str, str]
"""Relative path of each file and directory in a volume → a link's target, else empty."""


@dataclass(frozen=True, slots=True)
class Update:
    """The steps in order: upload ``uploads``, rename ``switch`` (from, to), which may rename a path
    to itself, then remove ``gone`` one after the other."""

    uploads: tuple[TarEntry, ...]
    switch: tuple[str, str]
    gone: tuple[str, ...]


def listing_of(files: Iterable[VolumeFile]) -> Listing:
    """Return the listing of a volume that was created with these files."""
    listing: dict[str, str] = {}
    for file in files:
        parent = posixpath.dirname(file.path)
        while parent and parent not in listing:
            listing[parent] = ""
            parent = posixpath.dirname(parent)
        listing[file.path] = file.target
        if file.path == DATA:
            listing.setdefault(file.target, "")
    return listing


def plan(volume: PodVolume, base: str, present: Listing) -> Update | None:
    """Plan the update of the volume at ``base``, whose content is ``present``, so that it has
    exactly its projected files. Other files are kept. None if nothing has to change."""
    wanted = listing_of(volume.files)
    version = wanted[DATA]
    switched = present.get(DATA) == version

    def missing(path: str) -> bool:
        if path.partition("/")[0] == version:
            return not switched
        return path != DATA and present.get(path) != wanted[path]

    every = files_of(volume, base)
    uploads = [entry for entry in every if missing(entry.path.removeprefix(base + "/"))]
    if not switched:
        uploads.append(TarEntry(f"{base}/{_NEXT}", _LINK_MODE, target=version))
    stale = [path for path in present if _stale(path, present[path], wanted, version)]
    if not uploads and not stale:
        return None
    stale.sort(key=lambda path: path.count("/"), reverse=True)
    return Update(
        uploads=tuple(uploads),
        switch=(f"{base}/{DATA if switched else _NEXT}", f"{base}/{DATA}"),
        gone=tuple(f"{base}/{path}" for path in stale),
    )


def _stale(path: str, target: str, wanted: Listing, version: str) -> bool:
    top = path.partition("/")[0]
    if top.startswith(".."):
        return top not in (DATA, version)
    return target.startswith(DATA + "/") and path not in wanted


# --- image volumes


@dataclass(slots=True)
class ImageMembers:
    """Finds the members of an exported container that belong to the image. Call `headers` for each
    member in order.

    ``created`` is the creation time of the container in whole seconds of Unix time. Files of the
    image are older.
    """

    created: int
    _held: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Parent directories that belong to the image only if one of their other members does."""

    def headers(self, member: Member) -> bytes:
        """Return the headers to forward before the member's content; empty to leave it out."""
        new = member.mtime >= self.created
        if member.type in _DEVICES or (new and member.name in _ADDED):
            return b""
        if new and member.name in _ADDED_BELOW:
            self._held[member.name] = member.header
            return b""
        return self._held.pop(posixpath.dirname(member.name), b"") + member.header


async def copy_image(
    link: Link, helpers: HelperContainers, image_id: str, sandbox_id: str, location: str
) -> None:
    """Copy an image's files over the directory ``location`` below `POD_DIRECTORY`. Raises
    `Refused`."""
    async with helpers.create(image=image_id) as helper:
        inspection = await link.calls.run(lambda client: client.inspect_container(helper))
        created = instant(inspection.get("Created"))
        members = ImageMembers(int(created.timestamp()) if created else 0)
        async with link.wire.open(
            "GET", f"/containers/{helper}/export", idle=_STALLED_SECONDS
        ) as export:
            archive = TarStream(export.content)
            async with link.wire.open(
                "PUT",
                f"/containers/{sandbox_id}/archive",
                query={"path": posixpath.join(POD_DIRECTORY, location)},
                content=_filtered(archive, members),
                total=_FILL_SECONDS,
            ):
                pass


async def _filtered(archive: TarStream, members: ImageMembers) -> AsyncGenerator[bytes]:
    async for member in archive.members():
        headers = members.headers(member)
        if headers:
            yield headers
            async for piece in archive.content():
                yield piece
    yield _END
