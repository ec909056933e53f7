"""Image volumes on an engine without image mounts: copy the image's files into the volume.

The files are exported from a container that was created from the image and never started, and
streamed into the sandbox's volume. The archive keeps owners and modes; only members that the engine
added to the container are left out.
"""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

from podtui.runtime.docker.carriers import Carriers
from podtui.runtime.docker.identity import instant
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.pause import POD_DIRECTORY
from podtui.runtime.docker.tar_stream import BLOCK, Member, TarStream

_END: Final = bytes(2 * BLOCK)
_STALLED_SECONDS: Final = 60.0
_FILL_SECONDS: Final = 1800.0
_DEVICES: Final = (tarfile.CHRTYPE, tarfile.BLKTYPE)
# Files that engines add to a container's own layer before its first start. The engine may also have
# created their parent directories.
_PUT: Final = frozenset(
    """.dockerenv dev/console dev/pts dev/shm etc/hostname etc/hosts etc/mtab etc/resolv.conf proc
    sys""".split()
)
_PUT_BELOW: Final = frozenset({"dev", "etc"})


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
        if member.type in _DEVICES or (new and member.name in _PUT):
            return b""
        if new and member.name in _PUT_BELOW:
            self._held[member.name] = member.header
            return b""
        return self._held.pop(posixpath.dirname(member.name), b"") + member.header


async def copy_image(
    link: Link, carriers: Carriers, image_id: str, sandbox_id: str, place: str
) -> None:
    """Copy an image's files over the directory ``place`` below `POD_DIRECTORY`. Raises
    `Refused`."""
    async with carriers.carrier(image=image_id) as carrier:
        found = await link.calls.run(lambda client: client.inspect_container(carrier))
        made = instant(found.get("Created"))
        members = ImageMembers(int(made.timestamp()) if made else 0)
        async with link.wire.open(
            "GET", f"/containers/{carrier}/export", idle=_STALLED_SECONDS
        ) as export:
            archive = TarStream(export.content)
            async with link.wire.open(
                "PUT",
                f"/containers/{sandbox_id}/archive",
                query={"path": posixpath.join(POD_DIRECTORY, place)},
                content=_passed_on(archive, members),
                total=_FILL_SECONDS,
            ):
                pass


async def _passed_on(archive: TarStream, members: ImageMembers) -> AsyncGenerator[bytes]:
    async for member in archive.members():
        headers = members.headers(member)
        if headers:
            yield headers
            async for piece in archive.content():
                yield piece
    yield _END
