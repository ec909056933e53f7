"""The hosts file shared by a pod's containers, stored in the pod's volume (kubelet.md §11.1).

The file is written in place if it is on this machine and writable. Otherwise the API replaces it by
a new file, and existing containers keep the old one.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from podtui.runtime.docker.link import Link
from podtui.runtime.docker.sandboxes import upload
from podtui.runtime.docker.storage import Entry

HOSTS_FILE: Final = "hosts"
"""Relative to the pod's volume."""
_MODE: Final = 0o644
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


async def write_hosts(link: Link, sandbox_id: str, mountpoint: str, content: bytes) -> None:
    """Raises `Refused`."""
    if link.info.local and await asyncio.to_thread(write_here, mountpoint, content):
        return
    await upload(link, sandbox_id, [Entry(HOSTS_FILE, _MODE, content=content)])


def write_here(mountpoint: str, content: bytes) -> bool:
    """Return False if the engine's directory is not accessible."""
    try:
        folder = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        file = os.open(HOSTS_FILE, _FLAGS, _MODE, dir_fd=folder)
        with os.fdopen(file, "wb") as stream:
            # The container's root user; with user remapping it is another user here.
            owner = os.fstat(folder)
            os.fchown(file, owner.st_uid, owner.st_gid)
            os.fchmod(file, _MODE)
            stream.write(content)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
