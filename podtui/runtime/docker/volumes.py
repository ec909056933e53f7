"""A pod's volumes while its containers run: projected files replaced, files of theirs read."""

from __future__ import annotations

import posixpath
from typing import Final

from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.docker.carriers import Carriers
from podtui.runtime.docker.client import Client
from podtui.runtime.docker.errors import Refused, meaning, meant
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.paths import STAT_HEADER, Escapes, read_stat, resolve
from podtui.runtime.docker.pause import PAUSE_PROGRAM, PAUSE_VERSION, POD_DIRECTORY
from podtui.runtime.docker.projection import Listing, Update, listing_of, plan
from podtui.runtime.docker.sandboxes import Sandboxes, upload
from podtui.runtime.docker.storage import MEMORY_PREFIX, SandboxStore
from podtui.runtime.docker.tar_stream import TarStream
from podtui.runtime.docker.watching import Watching
from podtui.runtime.protocol import HostPathKind, PodVolume

_READ_SECONDS: Final = 30.0
_TURN_SECONDS: Final = 30.0
_TURN_OUTPUT: Final = 1024


class Volumes:
    """Files in the volumes of sandboxes."""

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
        """What is in a volume, which may be a tmpfs. Raises `Refused`."""
        query = {"path": posixpath.join(POD_DIRECTORY, place)}
        found: dict[str, str] = {}
        async with self._connection.link.wire.open(
            "GET", f"/containers/{sandbox_id}/archive", query=query, total=_READ_SECONDS
        ) as response:
            async for member in TarStream(response.content).members():
                # Below the volume's own name.
                found[member.name.partition("/")[2]] = member.link
        found.pop("", None)
        return found

    async def _carry_out(self, sandbox_id: str, store: SandboxStore, update: Update) -> None:
        if store.pause_version != PAUSE_VERSION:
            raise EngineError(
                "the pod's sandbox is of another version of podtui, which can't replace files in"
                " one step: they stay as they are until the sandbox is made anew"
            )
        await upload(self._connection.link, sandbox_id, update.uploads)
        paths = [posixpath.join(POD_DIRECTORY, path) for path in (*update.turn, *update.gone)]
        done = await self._watching.exec(
            sandbox_id, [PAUSE_PROGRAM, *paths], timeout=_TURN_SECONDS, limit=_TURN_OUTPUT
        )
        if done.exit_code != 0:
            raise EngineError(f"can't replace the files at {update.turn[1]}: {done.exit_code}")

    async def read(self, sandbox_id: str, volume: str, path: str, limit: int) -> bytes | None:
        link = self._connection.link
        store = await self._sandboxes.store(sandbox_id)
        base = posixpath.join(POD_DIRECTORY, self._place(store, volume))
        try:
            real, missing = await resolve(link, sandbox_id, base, path)
            if missing:
                return None
            query = {"path": posixpath.join(base, real)}
            async with link.wire.open(
                "GET", f"/containers/{sandbox_id}/archive", query=query, total=_READ_SECONDS
            ) as response:
                found = read_stat(response.headers.get(STAT_HEADER))
                if found is None or found.kind is not HostPathKind.FILE:
                    return None
                archive = TarStream(response.content)
                async for member in archive.members():
                    return await archive.head(member, limit) if member.is_file else None
                return None
        except Escapes:
            return None
        except Refused as error:
            if error.status == 404:
                return None
            raise meaning(error) from error

    async def fill(self, sandbox_id: str, volume: str, image_id: str) -> None:
        link = self._connection.link
        store = await self._sandboxes.store(sandbox_id)
        place = self._place(store, volume)
        path = posixpath.join(POD_DIRECTORY, place)
        with meant():
            async with self._carriers.carrier(image=image_id) as carrier:

                def copy(client: Client) -> None:
                    content = b"".join(client.export(carrier))
                    client.put_archive(sandbox_id, path, content)

                await link.calls.run(copy)

    def _place(self, store: SandboxStore, volume: str) -> str:
        """Where a volume is in its sandbox, below `POD_DIRECTORY`. Raises `EngineNotFound`."""
        place = store.places.get(volume)
        if place is None:
            raise EngineNotFound(f'the sandbox has no volume "{volume}"')
        return f"volumes/{volume}" if place.startswith(MEMORY_PREFIX) else place
