"""Linux's own watch of a folder: a file that can be read when something changed in it.

The library for all systems, `watchfiles`, sleeps and looks, 125 times a second to be as quick; this
costs nothing while nothing happens. See inotify(7).
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Final, NamedTuple

IN_MODIFY: Final = 0x2
IN_ATTRIB: Final = 0x4
IN_MOVED_FROM: Final = 0x40
IN_MOVED_TO: Final = 0x80
IN_CREATE: Final = 0x100
IN_DELETE: Final = 0x200
IN_DELETE_SELF: Final = 0x400
IN_MOVE_SELF: Final = 0x800
IN_UNMOUNT: Final = 0x2000
IN_Q_OVERFLOW: Final = 0x4000
IN_IGNORED: Final = 0x8000
_ONLY_FOLDERS: Final = 0x01000000
_WANTED: Final = (
    IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE
    | IN_DELETE_SELF | IN_MOVE_SELF
)  # fmt: skip
_HEAD: Final = struct.Struct("iIII")
"""Watch, mask, cookie, and how long the name behind it is."""
_MOST: Final = 1 << 16
IS_HERE: Final = sys.platform == "linux"


class Said(NamedTuple):
    """``name`` is empty where the folder itself is meant."""

    mask: int
    name: str


class Inotify:
    """What is said of the folder at ``path``, not of folders in it. Raises OSError."""

    def __init__(self, path: str) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self.fileno: int = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fileno < 0:
            raise _error(path)
        if library.inotify_add_watch(self.fileno, os.fsencode(path), _WANTED | _ONLY_FOLDERS) < 0:
            error = _error(path)
            self.close()
            raise error

    def read(self) -> list[Said]:
        """What was said since the last time; does not wait. Raises OSError."""
        try:
            return parsed(os.read(self.fileno, _MOST))
        except BlockingIOError:
            return []

    def close(self) -> None:
        os.close(self.fileno)


def parsed(data: bytes) -> list[Said]:
    """Events as the kernel writes them, one behind the other."""
    found: list[Said] = []
    at = 0
    while at < len(data):
        _, mask, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = data[at : at + length].partition(b"\0")[0]
        found.append(Said(mask, os.fsdecode(name)))
        at += length
    return found


def _error(path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)
