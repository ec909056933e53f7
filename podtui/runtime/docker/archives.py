"""Inspect, read and write files of containers and sandboxes through the engine's archive API.

A tar archive is read as a stream, with only a piece of it in memory.
"""

from __future__ import annotations

import asyncio
import base64
import json
import stat
import tarfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from urllib.parse import quote

from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.docker.errors import Refused, engine_error, translate_errors
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.pause import POD_DIRECTORY
from podtui.runtime.docker.storage import TarEntry, tar_of
from podtui.runtime.docker.wire import pieces
from podtui.runtime.protocol import HostPathKind

_LINK_BIT: Final = 1 << 27
_SETGID_BIT: Final = 1 << 22
_STICKY_BIT: Final = 1 << 20
_KINDS: Final = {
    0: HostPathKind.FILE,
    1 << 31: HostPathKind.DIRECTORY,
    1 << 24: HostPathKind.SOCKET,
    1 << 26: HostPathKind.BLOCK_DEVICE,
    1 << 26 | 1 << 21: HostPathKind.CHAR_DEVICE,
}
"""By the type bits of Go's file mode."""
_TYPE: Final = 1 << 31 | 1 << 27 | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
_STAT_HEADER: Final = "X-Docker-Container-Path-Stat"
BLOCK: Final = tarfile.BLOCKSIZE
_CHUNK: Final = 64 * 1024
_LONGEST_HEADER: Final = 1 << 20
_ZEROS: Final = bytes(BLOCK)
_EXTENSIONS: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_STAT_SECONDS: Final = 30.0
_READ_SECONDS: Final = 30.0
_SILENT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class PathStat:
    mode: int
    """The permission bits, the setgid and the sticky bit."""
    kind: HostPathKind | None
    """None for a symlink, a named pipe and any other kind without an enum member."""
    target: str = ""
    """The target of a symlink, empty for other kinds."""


def _read_stat(header: str | None) -> PathStat | None:
    if not header:
        return None
    answer: dict[str, Any] = json.loads(base64.b64decode(header))
    mode = int(answer["mode"])
    return PathStat(
        mode & 0o777
        | (stat.S_ISGID if mode & _SETGID_BIT else 0)
        | (stat.S_ISVTX if mode & _STICKY_BIT else 0),
        _KINDS.get(mode & _TYPE),
        str(answer["linkTarget"]) if mode & _LINK_BIT else "",
    )


async def stat_path(link: Link, container_id: str, path: str) -> PathStat | None:
    """Inspect ``path`` without following a link at its end; None if it is missing. Raises
    `Refused`."""
    try:
        async with link.wire.open(
            "HEAD",
            _path(container_id),
            query={"path": path},
            total=_STAT_SECONDS,
        ) as response:
            return _read_stat(response.headers.get(_STAT_HEADER))
    except Refused as error:
        if error.status != 404:
            raise
        return None


@asynccontextmanager
async def read_files(
    link: Link, container_id: str, path: str
) -> AsyncGenerator[AsyncIterator[bytes]]:
    """See `podtui.runtime.protocol.Runtime.read_files`."""
    async with AsyncExitStack() as stack:
        with translate_errors():
            response = await stack.enter_async_context(
                link.wire.open(
                    "GET", _path(container_id), query={"path": path}, idle=_SILENT_SECONDS
                )
            )
        path_stat = _read_stat(response.headers.get(_STAT_HEADER))
        if path.endswith(("/", "/.")) and path_stat and path_stat.kind is HostPathKind.FILE:
            # Podman returns the file here, unlike Docker.
            raise EngineNotFound(f"{path}: not a directory")
        yield pieces(response)


async def write_files(
    link: Link, container_id: str, directory: str, content: AsyncIterator[bytes]
) -> None:
    """See `podtui.runtime.protocol.Runtime.write_files`."""
    if link.is_podman:
        # Podman creates a missing directory, and accepts a file in place of one.
        with translate_errors():
            path_stat = await stat_path(link, container_id, directory)
        if path_stat is None or path_stat.kind is HostPathKind.FILE:
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
        raise engine_error(error) from error


async def upload(link: Link, container_id: str, entries: Iterable[TarEntry]) -> None:
    """Upload files to the pod's directory of a started or stopped sandbox. They are modified now.
    Raises `Refused`."""
    content = tar_of(entries, link.clock.now().timestamp())
    await link.calls.run(lambda client: client.put_archive(container_id, POD_DIRECTORY, content))


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


def _path(container_id: str) -> str:
    return f"/containers/{quote(container_id, safe='')}/archive"


# --- tar archives as a stream


class ByteStream(Protocol):
    """The body of an HTTP response."""

    async def readexactly(self, n: int) -> bytes:
        """Raises `asyncio.IncompleteReadError` at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """One archive member. ``header`` has its header blocks, including extended headers."""

    name: str
    """Relative, without leading or trailing slashes."""
    type: bytes
    """A type constant of `tarfile`: ``REGTYPE``, ``DIRTYPE`` …"""
    link: str
    size: int
    """Size of the content in bytes; the archive pads it to whole blocks."""
    mode: int
    mtime: int
    """Unix time, whole seconds."""
    header: bytes

    @property
    def is_file(self) -> bool:
        return self.type in (tarfile.REGTYPE, tarfile.AREGTYPE)


class TarStream:
    """Reads an archive. Every method raises `EngineError` if it is malformed or truncated."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._left = 0
        """Unread bytes of the current member's content, in whole blocks."""

    async def members(self) -> AsyncIterator[Member]:
        """Yield the members in order; unread content is skipped."""
        while (member := await self._next()) is not None:
            yield member

    async def content(self) -> AsyncIterator[bytes]:
        """Yield the current member's content in pieces, padded to whole blocks."""
        while self._left:
            piece = await self._read(min(self._left, _CHUNK))
            self._left -= len(piece)
            yield piece

    async def head(self, member: Member, limit: int) -> bytes:
        """Return at most the first ``limit`` bytes of the current member's content."""
        return await self._take(min(member.size, limit))

    async def tail(self, member: Member, limit: int) -> bytes:
        """Return at most the last ``limit`` bytes of the current member's content."""
        await self._pass(max(0, member.size - limit))
        return await self._take(min(member.size, limit))

    async def _next(self) -> Member | None:
        await self._pass(self._left)
        raw = bytearray()
        reported: dict[str, str] = {}
        while True:
            block = await self._read(BLOCK)
            if block == _ZEROS:
                return None
            try:
                info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise _broken() from error
            raw += block
            if info.type not in _EXTENSIONS:
                break
            if info.size > _LONGEST_HEADER:
                raise _broken()
            content = await self._read(_whole_blocks(info.size))
            raw += content
            reported |= _extension(info.type, content[: info.size])
        try:
            size = int(reported.get("size", info.size)) if info.isreg() else 0
            mtime = int(float(reported.get("mtime", info.mtime)))
        except ValueError as error:
            raise _broken() from error
        self._left = _whole_blocks(size)
        return Member(
            name=reported.get("path", info.name).strip("/"),
            type=info.type,
            link=reported.get("linkpath", info.linkname),
            size=size,
            mode=info.mode,
            mtime=mtime,
            header=bytes(raw),
        )

    async def _take(self, size: int) -> bytes:
        self._left -= size
        return await self._read(size)

    async def _pass(self, size: int) -> None:
        while size:
            size -= len(await self._take(min(size, _CHUNK)))

    async def _read(self, size: int) -> bytes:
        try:
            return await self._stream.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise _broken() from error


def _extension(kind: bytes, content: bytes) -> dict[str, str]:
    """Parse an extended header for the next member, with PAX keywords."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        return {"path": _text(content.rstrip(b"\0"))}
    if kind == tarfile.GNUTYPE_LONGLINK:
        return {"linkpath": _text(content.rstrip(b"\0"))}
    records: dict[str, str] = {}
    while kind == tarfile.XHDTYPE and content:
        length, _, _ = content.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(content):
            raise _broken()
        record, content = content[len(length) + 1 : int(length)], content[int(length) :]
        key, _, value = record.rstrip(b"\n").partition(b"=")
        records[_text(key)] = _text(value)
    return records


def _whole_blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _broken() -> EngineError:
    return EngineError("the engine sent a malformed archive")
