"""A pod's volumes while its containers run: projected files replaced, files of theirs read."""

from __future__ import annotations

import posixpath
from typing import Final

from podtui.errors import EngineNotFound
from podtui.runtime.docker.carriers import Carriers
from podtui.runtime.docker.client import Client
from podtui.runtime.docker.errors import Refused, meaning, meant
from podtui.runtime.docker.link import Connection
from podtui.runtime.docker.paths import STAT_HEADER, Escapes, read_stat, resolve
from podtui.runtime.docker.pause import POD_DIRECTORY
from podtui.runtime.docker.sandboxes import Sandboxes, upload
from podtui.runtime.docker.storage import MEMORY_PREFIX, files_of
from podtui.runtime.docker.termination import head_of_tar
from podtui.runtime.protocol import HostPathKind, PodVolume

_READ_SECONDS: Final = 30.0


class Volumes:
    """Files in the volumes of sandboxes."""

    def __init__(self, connection: Connection, sandboxes: Sandboxes, carriers: Carriers) -> None:
        self._connection = connection
        self._sandboxes = sandboxes
        self._carriers = carriers

    async def write(self, sandbox_id: str, volume: PodVolume) -> None:
        place = await self.place(sandbox_id, volume.name)
        with meant():
            await upload(self._connection.link, sandbox_id, files_of(volume, place))

    async def read(self, sandbox_id: str, volume: str, path: str, limit: int) -> bytes | None:
        link = self._connection.link
        base = posixpath.join(POD_DIRECTORY, await self.place(sandbox_id, volume))
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
                return await head_of_tar(response.content, limit)
        except Escapes:
            return None
        except Refused as error:
            if error.status == 404:
                return None
            raise meaning(error) from error

    async def fill(self, sandbox_id: str, volume: str, image_id: str) -> None:
        link = self._connection.link
        place = await self.place(sandbox_id, volume)
        path = posixpath.join(POD_DIRECTORY, place)
        with meant():
            async with self._carriers.carrier(image=image_id) as carrier:

                def copy(client: Client) -> None:
                    content = b"".join(client.export(carrier))
                    client.put_archive(sandbox_id, path, content)

                await link.calls.run(copy)

    async def place(self, sandbox_id: str, volume: str) -> str:
        """Where a volume is in the sandbox, below `POD_DIRECTORY`. Raises `EngineNotFound`."""
        store = await self._sandboxes.store(sandbox_id)
        place = store.places.get(volume)
        if place is None:
            raise EngineNotFound(f'the sandbox has no volume "{volume}"')
        return f"volumes/{volume}" if place.startswith(MEMORY_PREFIX) else place
