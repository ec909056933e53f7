"""Reading the end of a termination message file (reference §7.7).

From the engine's own path where that is on this machine and readable, else over the API. The file
is the container's to write: nothing about it is believed.
"""

from __future__ import annotations

import errno
import os
from typing import Final

from podtui.runtime.docker.archives import read_tail
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.local_files import open_below
from podtui.runtime.docker.pause import POD_DIRECTORY

_UNREACHABLE: Final = (errno.EACCES, errno.EPERM, errno.ENOENT)


async def read_termination(
    link: Link, sandbox_id: str, mountpoint: str, path: str, limit: int
) -> bytes:
    """The last ``limit`` bytes; empty where there is no file. Raises `Refused`."""
    if link.info.local and mountpoint:
        found = local_tail(mountpoint, path, limit)
        if found is not None:
            return found
    return await read_tail(link, sandbox_id, f"{POD_DIRECTORY}/{path}", limit) or b""


def local_tail(mountpoint: str, path: str, limit: int) -> bytes | None:
    """From the local file; None when it can't be had so. Follows no link, opens no device."""
    try:
        with open_below(mountpoint, path) as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), limit, max(0, size - limit))
    except OSError as error:
        # What is there and is not as we made it is not worth another look.
        return None if error.errno in _UNREACHABLE else b""
