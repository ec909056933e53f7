"""Safely read files of the engine on this machine that containers may have replaced."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO, Final

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def open_below(folder: str, path: str) -> BinaryIO:
    """Open a regular file below a folder. Does not follow links and does not block on pipes. Raises
    OSError for these and any other kind of file."""
    directory = os.open(folder, _FLAGS | os.O_DIRECTORY)
    try:
        *parents, name = path.split("/")
        for parent in parents:
            inner = os.open(parent, _FLAGS | os.O_DIRECTORY, dir_fd=directory)
            os.close(directory)
            directory = inner
        file = os.open(name, _FLAGS, dir_fd=directory)
    finally:
        os.close(directory)
    opened = os.fdopen(file, "rb")
    if not stat.S_ISREG(os.fstat(file).st_mode):
        opened.close()
        raise OSError(errno.EINVAL, "not a regular file", path)
    return opened
