"""Read a tar archive as a stream from the engine, with only a piece of it in memory."""

from __future__ import annotations

import asyncio
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from podtui.errors import EngineError

BLOCK: Final = tarfile.BLOCKSIZE
_CHUNK: Final = 64 * 1024
_LONGEST_HEADER: Final = 1 << 20
_ZEROS: Final = bytes(BLOCK)


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
        told: dict[str, str] = {}
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
            told |= _extension(info.type, content[: info.size])
        try:
            size = int(told.get("size", info.size)) if info.isreg() else 0
            mtime = int(float(told.get("mtime", info.mtime)))
        except ValueError as error:
            raise _broken() from error
        self._left = _whole_blocks(size)
        return Member(
            name=told.get("path", info.name).strip("/"),
            type=info.type,
            link=told.get("linkpath", info.linkname),
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


_EXTENSIONS: Final = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def _extension(kind: bytes, content: bytes) -> dict[str, str]:
    """Parse an extended header for the next member, with PAX keywords."""
    if kind == tarfile.GNUTYPE_LONGNAME:
        return {"path": _text(content.rstrip(b"\0"))}
    if kind == tarfile.GNUTYPE_LONGLINK:
        return {"linkpath": _text(content.rstrip(b"\0"))}
    found: dict[str, str] = {}
    while kind == tarfile.XHDTYPE and content:
        length, _, _ = content.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(content):
            raise _broken()
        record, content = content[len(length) + 1 : int(length)], content[int(length) :]
        key, _, value = record.rstrip(b"\n").partition(b"=")
        found[_text(key)] = _text(value)
    return found


def _whole_blocks(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _broken() -> EngineError:
    return EngineError("the engine sent a broken archive")
