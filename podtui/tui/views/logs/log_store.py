"""An append-only store for byte strings on disk, in files without a name.

The files are unlinked as soon as they are open: no other user can read them, and they disappear
with the process, however it ends.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Final

from msgspec import Struct

SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""Size of a segment; disk space is freed one segment at a time."""


class Place(Struct, frozen=True):
    """The location of a byte string; ``segment`` numbers increase and are never reused."""

    segment: int
    offset: int
    size: int


class RunStore:
    """Append-only segments. The first file is opened by the first write."""

    def __init__(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._segment_bytes = segment_bytes
        self._files: dict[int, int] = {}
        self._newest = -1
        self._used = 0
        # A view may disappear without being closed, for example when a test fails.
        weakref.finalize(self, _close, self._files)

    def write(self, data: bytes) -> Place:
        """Append ``data``. Raises OSError, for example if the disk is full; then ``data`` is not
        stored."""
        if self._newest not in self._files or self._used >= self._segment_bytes:
            descriptor = _nameless()
            self._newest += 1
            self._files[self._newest] = descriptor
            self._used = 0
        descriptor, offset = self._files[self._newest], self._used
        view = memoryview(data)
        done = 0
        while done < len(view):
            done += os.pwrite(descriptor, view[done:], offset + done)
        self._used += done
        return Place(self._newest, offset, done)

    def read(self, place: Place) -> bytes:
        """Return the byte string at ``place``. Raises OSError."""
        data = os.pread(self._files[place.segment], place.size, place.offset)
        if len(data) != place.size:
            raise OSError(f"{len(data)} of {place.size} bytes could be read")
        return data

    def copy(self) -> RunStore:
        """Return a store with duplicated file descriptors, to be read by another thread.

        The caller must release it by `clear`.
        """
        other = RunStore(self._segment_bytes)
        other._files.update({number: os.dup(file) for number, file in self._files.items()})
        return other

    def drop_before(self, segment: int) -> None:
        """Free the disk space of all segments before this one."""
        for old in [number for number in self._files if number < segment]:
            os.close(self._files.pop(old))

    def clear(self) -> None:
        """Free all disk space."""
        _close(self._files)


def _close(files: dict[int, int]) -> None:
    while files:
        os.close(files.popitem()[1])


def _nameless() -> int:
    """Open a file without a name that only the owner can read.

    It is created in ``$TMPDIR`` or ``/var/tmp``: large files fit there, while ``/tmp`` may be a
    tmpfs in memory.
    """
    folder = None
    if not os.environ.get("TMPDIR") and os.access("/var/tmp", os.W_OK | os.X_OK):
        folder = "/var/tmp"
    descriptor, path = tempfile.mkstemp(prefix="podtui-log-", dir=folder)
    os.unlink(path)
    return descriptor
