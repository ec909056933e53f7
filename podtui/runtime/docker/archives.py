"""Files of containers and sandboxes, read through the engine's archive call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

from podtui.runtime.docker.errors import Refused
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.tar_stream import Member, TarStream

_READ_SECONDS: Final = 30.0


@asynccontextmanager
async def archive_of(link: Link, container_id: str, path: str) -> AsyncGenerator[TarStream]:
    """What is at a path, and below it; names begin with the path's last part. Raises `Refused`."""
    async with link.wire.open(
        "GET",
        f"/containers/{quote(container_id, safe='')}/archive",
        query={"path": path},
        total=_READ_SECONDS,
    ) as response:
        yield TarStream(response.content)


async def read_head(link: Link, container_id: str, path: str, limit: int) -> bytes | None:
    """At most the first ``limit`` bytes of a regular file; None where there is none at that very
    path, links not followed. Raises `Refused`."""
    return await _read(link, container_id, path, lambda archive, it: archive.head(it, limit))


async def read_tail(link: Link, container_id: str, path: str, limit: int) -> bytes | None:
    """At most the last ``limit`` bytes, otherwise as `read_head`."""
    return await _read(link, container_id, path, lambda archive, it: archive.tail(it, limit))


async def _read(
    link: Link,
    container_id: str,
    path: str,
    take: Callable[[TarStream, Member], Awaitable[bytes]],
) -> bytes | None:
    try:
        async with archive_of(link, container_id, path) as archive:
            async for member in archive.members():
                return await take(archive, member) if member.is_file else None
    except Refused as error:
        if error.status != 404:
            raise
    return None
