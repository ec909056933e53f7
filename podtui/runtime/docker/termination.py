"""Read the end of a termination message file (kubelet.md §7.7).

It is read from the engine's own path if that is on this machine and readable, else over the API.
The container can write the file, so nothing about it is trusted.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from podtui.runtime.docker.archives import read_tail
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.paths import open_below
from podtui.runtime.docker.pause import POD_DIRECTORY

_UNREACHABLE: Final = (errno.EACCES, errno.EPERM, errno.ENOENT)


async def read_termination(
    link: Link, sandbox_id: str, mountpoint: str, path: str, limit: int
) -> bytes:
    """Return the last ``limit`` bytes; empty if there is no file. Raises `Refused`."""
    if link.info.local and mountpoint:
        found = local_tail(mountpoint, path, limit)
        if found is not None:
            return found
    return await read_tail(link, sandbox_id, f"{POD_DIRECTORY}/{path}", limit) or b""


def local_tail(mountpoint: str, path: str, limit: int) -> bytes | None:
    """Read the local file; None if it is not accessible. Follows no link and opens no device."""
    try:
        with open_below(mountpoint, path) as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), limit, max(0, size - limit))
    except OSError as error:
        # If the file was replaced by something else, the API would not help either.
        return None if error.errno in _UNREACHABLE else b""
