"""Reading the end of a termination message file (reference §7.7).

From the engine's own path where that is on this machine and readable, else over the API. The file
is the container's to write: nothing about it is believed.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from podtui.runtime.docker.errors import Refused
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.paths import STAT_HEADER, read_stat
from podtui.runtime.docker.pause import POD_DIRECTORY
from podtui.runtime.docker.tar_stream import ByteStream, TarStream

_READ_SECONDS: Final = 30.0
_UNREACHABLE: Final = (errno.EACCES, errno.EPERM, errno.ENOENT)


async def read_termination(
    link: Link, sandbox_id: str, mountpoint: str, path: str, limit: int
) -> bytes:
    """The last ``limit`` bytes; empty where there is no file. Raises `Refused`."""
    if link.info.local and mountpoint:
        found = read_tail(mountpoint, path, limit)
        if found is not None:
            return found
    query = {"path": f"{POD_DIRECTORY}/{path}"}
    try:
        async with link.wire.open(
            "GET", f"/containers/{sandbox_id}/archive", query=query, total=_READ_SECONDS
        ) as response:
            found = read_stat(response.headers.get(STAT_HEADER))
            if found is None or found.target:
                return b""
            return await tail_of_tar(response.content, limit)
    except Refused as error:
        if error.status == 404:
            return b""
        raise


def read_tail(mountpoint: str, path: str, limit: int) -> bytes | None:
    """From the local file; None when it can't be had so. Follows no link, opens no device."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        folder = os.open(mountpoint, flags | os.O_DIRECTORY)
        try:
            *parents, name = path.split("/")
            for parent in parents:
                inner = os.open(parent, flags | os.O_DIRECTORY, dir_fd=folder)
                os.close(folder)
                folder = inner
            file = os.open(name, flags, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                return b""
            return os.pread(file, limit, max(0, about.st_size - limit))
        finally:
            os.close(file)
    except OSError as error:
        # What is there and is not as we made it is not worth another look.
        return None if error.errno in _UNREACHABLE else b""


async def tail_of_tar(stream: ByteStream, limit: int) -> bytes:
    """The last ``limit`` bytes of the first file of a tar, whatever its size; empty where it has
    something else first. Raises `EngineError` when the stream is not a whole tar."""
    archive = TarStream(stream)
    async for member in archive.members():
        return await archive.tail(member, limit) if member.is_file else b""
    return b""
