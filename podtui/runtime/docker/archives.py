"""Read and write files of containers and sandboxes through the engine's archive API."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final
from urllib.parse import quote

from podtui.errors import EngineNotFound
from podtui.runtime.docker.errors import Refused, meaning, meant
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.paths import STAT_HEADER, read_stat, stat_path
from podtui.runtime.docker.tar_stream import Member, TarStream
from podtui.runtime.docker.wire import pieces
from podtui.runtime.protocol import HostPathKind

_READ_SECONDS: Final = 30.0
_SILENT_SECONDS: Final = 60.0


@asynccontextmanager
async def archive_of(link: Link, container_id: str, path: str) -> AsyncGenerator[TarStream]:
    """Read the tree at a path. Member names begin with the last part of the path. Raises
    `Refused`."""
    async with link.wire.open(
        "GET",
        _path(container_id),
        query={"path": path},
        total=_READ_SECONDS,
    ) as response:
        yield TarStream(response.content)


@asynccontextmanager
async def read_files(
    link: Link, container_id: str, path: str
) -> AsyncGenerator[AsyncIterator[bytes]]:
    """See `podtui.runtime.protocol.Runtime.read_files`."""
    async with AsyncExitStack() as stack:
        with meant():
            response = await stack.enter_async_context(
                link.wire.open(
                    "GET", _path(container_id), query={"path": path}, idle=_SILENT_SECONDS
                )
            )
        found = read_stat(response.headers.get(STAT_HEADER))
        if path.endswith(("/", "/.")) and found and found.kind is HostPathKind.FILE:
            # Podman returns the file here, unlike Docker.
            raise EngineNotFound(f"{path}: not a directory")
        yield pieces(response)


async def write_files(
    link: Link, container_id: str, directory: str, content: AsyncIterator[bytes]
) -> None:
    """See `podtui.runtime.protocol.Runtime.write_files`."""
    if link.is_podman:
        # Podman creates a missing directory, and accepts a file in place of one.
        with meant():
            found = await stat_path(link, container_id, directory)
        if found is None or found.kind is HostPathKind.FILE:
            raise EngineNotFound(f"{directory}: no such directory in the container")
    try:
        async with link.wire.open(
            "PUT",
            _path(container_id),
            query={"path": directory, "noOverwriteDirNonDir": "1"},
            content=content,
            headers={"Content-Type": "application/x-tar"},
            idle=_SILENT_SECONDS,
        ) as response:
            await response.read()
    except Refused as error:
        if error.status == 404 or "not a directory" in error.text:
            raise EngineNotFound(error.text) from error
        raise meaning(error) from error


def _path(container_id: str) -> str:
    return f"/containers/{quote(container_id, safe='')}/archive"


async def read_head(link: Link, container_id: str, path: str, limit: int) -> bytes | None:
    """Return at most the first ``limit`` bytes of a regular file; None if there is none at exactly
    this path (links are not followed). Raises `Refused`."""
    return await _read(link, container_id, path, lambda archive, it: archive.head(it, limit))


async def read_tail(link: Link, container_id: str, path: str, limit: int) -> bytes | None:
    """Return at most the last ``limit`` bytes, otherwise like `read_head`."""
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
