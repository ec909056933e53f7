"""Image volumes on an engine without image mounts: the image's files, copied into the volume.

They come out of a container that is made from the image and never started, piece by piece, and go
into the sandbox's volume. The archive goes through as it is, owners, modes and all; only what is
not the image's is left out of it.
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
# What engines put into a container's own layer before it has ever run, and the directories that
# they may have made for it.
_PUT: Final = frozenset(
    """.dockerenv dev/console dev/pts dev/shm etc/hostname etc/hosts etc/mtab etc/resolv.conf proc
    sys""".split()
)
_PUT_BELOW: Final = frozenset({"dev", "etc"})


@dataclass(slots=True)
class ImageMembers:
    """Tells which members of an exported container are the image's: `headers` of each in turn.

    ``created`` is when the container was made, in whole seconds of Unix time: what an image has is
    older.
    """

    created: int
    _held: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Directories that are the image's if something in them is."""

    def headers(self, member: Member) -> bytes:
        """What to pass on before the member's content; empty when it is left out."""
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
    """Put an image's files into the directory ``place`` below `POD_DIRECTORY`, over what is there.
    Raises `Refused`."""
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
