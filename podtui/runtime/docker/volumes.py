"""The volumes of a running pod: replace projected files, read files, fill image volumes."""

from __future__ import annotations

import posixpath
from typing import Final

from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.docker.archives import archive_of, read_head
from podtui.runtime.docker.carriers import Carriers
from podtui.runtime.docker.errors import meant
from podtui.runtime.docker.filling import copy_image
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.paths import Escapes, resolve, stat_path
from podtui.runtime.docker.pause import PAUSE_PROGRAM, PAUSE_VERSION, POD_DIRECTORY
from podtui.runtime.docker.projection import Listing, Update, listing_of, plan
from podtui.runtime.docker.sandboxes import Sandboxes, upload
from podtui.runtime.docker.storage import MEMORY_PREFIX, Entry, SandboxStore
from podtui.runtime.docker.watching import Watching
from podtui.runtime.protocol import PodVolume

_TURN_SECONDS: Final = 30.0
_TURN_OUTPUT: Final = 1024
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
        carriers: Carriers,
        watching: Watching,
    ) -> None:
        self._connection = connection
        self._watching = watching
        self._sandboxes = sandboxes
        self._carriers = carriers

    async def write(self, sandbox_id: str, volume: PodVolume) -> None:
        store = await self._sandboxes.store(sandbox_id)
        place = self._place(store, volume.name)
        known = store.written.pop(volume.name, None)
        if known != volume.files:
            with meant():
                there = (
                    await self._listing(sandbox_id, place) if known is None else listing_of(known)
                )
                update = plan(volume, place, there)
                if update is not None:
                    await self._carry_out(sandbox_id, store, update)
        store.written[volume.name] = volume.files

    async def _listing(self, sandbox_id: str, place: str) -> Listing:
        """List the content of a volume, which may be a tmpfs. Raises `Refused`."""
        link = self._connection.link
        found: dict[str, str] = {}
        async with archive_of(link, sandbox_id, posixpath.join(POD_DIRECTORY, place)) as archive:
            async for member in archive.members():
                # Relative to the volume's own name.
                found[member.name.partition("/")[2]] = member.link
        found.pop("", None)
        return found

    async def _carry_out(self, sandbox_id: str, store: SandboxStore, update: Update) -> None:
        if store.pause_version != PAUSE_VERSION:
            raise EngineError(
                "the pod's sandbox is of another version of podtui, which can't replace files in"
                " one step: they stay as they are until the sandbox is recreated"
            )
        await upload(self._connection.link, sandbox_id, update.uploads)
        paths = [posixpath.join(POD_DIRECTORY, path) for path in (*update.turn, *update.gone)]
        done = await self._watching.exec(
            sandbox_id, [PAUSE_PROGRAM, *paths], timeout=_TURN_SECONDS, limit=_TURN_OUTPUT
        )
        if done.exit_code != 0:
            raise EngineError(f"can't replace the files at {update.turn[1]}: {done.exit_code}")

    async def read(self, sandbox_id: str, volume: str, path: str, limit: int) -> bytes | None:
        store = await self._sandboxes.store(sandbox_id)
        base = posixpath.join(POD_DIRECTORY, self._place(store, volume))
        link = self._connection.link
        with meant():
            try:
                real, missing = await resolve(link, sandbox_id, base, path)
            except Escapes:
                return None
            if missing:
                return None
            return await read_head(link, sandbox_id, posixpath.join(base, real), limit)

    async def fill(self, sandbox_id: str, volume: str, image_id: str) -> None:
        store = await self._sandboxes.store(sandbox_id)
        place = self._place(store, volume)
        if store.filled.get(volume) == image_id:
            return
        link = self._connection.link
        mark = f"{_MARKS}/{volume}"
        with meant():
            said = await read_head(link, sandbox_id, f"{POD_DIRECTORY}/{mark}", _LONGEST_MARK)
            state, _, image = (said or b"").decode(errors="replace").partition(" ")
            if (state, image) != (_FILLED, image_id):
                if image and image != image_id:
                    await self._empty(sandbox_id, store, place)
                await upload(link, sandbox_id, _mark(volume, f"{_FILLING} {image_id}"))
                await copy_image(link, self._carriers, image_id, sandbox_id, place)
                await upload(link, sandbox_id, _mark(volume, f"{_FILLED} {image_id}"))
        store.filled[volume] = image_id

    async def _empty(self, sandbox_id: str, store: SandboxStore, place: str) -> None:
        """Remove and recreate a volume's directory. Raises `Refused`."""
        link = self._connection.link
        path = posixpath.join(POD_DIRECTORY, place)
        top = await stat_path(link, sandbox_id, path)
        # Uploading a file over a directory removes the directory with its content.
        await self._carry_out(
            sandbox_id, store, Update((Entry(place, 0, content=b""),), (place, place), (place,))
        )
        await upload(link, sandbox_id, [Entry(place, top.mode if top else _FOLDER_MODE)])

    def _place(self, store: SandboxStore, volume: str) -> str:
        """Return the path of a volume in its sandbox, below `POD_DIRECTORY`. Raises
        `EngineNotFound`."""
        place = store.places.get(volume)
        if place is None:
            raise EngineNotFound(f'the sandbox has no volume "{volume}"')
        return f"volumes/{volume}" if place.startswith(MEMORY_PREFIX) else place


def _mark(volume: str, text: str) -> list[Entry]:
    """Return a marker file, stored outside the volumes so that no container sees it."""
    content = text.encode()
    return [Entry(_MARKS, _FOLDER_MODE), Entry(f"{_MARKS}/{volume}", _FILE_MODE, content=content)]
