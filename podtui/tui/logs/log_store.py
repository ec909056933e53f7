"""Runs of bytes on disk, written once, read often, in files that have no name.

The files are unlinked as soon as they are open: nobody else can read them, and nothing is left
behind however the program ends.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from typing import Final

from msgspec import Struct

SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""Disk is given back a segment at a time."""


class Place(Struct, frozen=True):
    """Where a run of bytes lies; ``segment`` counts up and is never reused."""

    segment: int
    offset: int
    size: int


class RunStore:
    """Append-only segments. Nothing is opened before the first write."""

    def __init__(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._segment_bytes = segment_bytes
        self._files: dict[int, int] = {}
        self._newest = -1
        self._used = 0
        # A view may go without being closed: with a test that fails, with the process.
        weakref.finalize(self, _close, self._files)

    def write(self, data: bytes) -> Place:
        """Raises OSError when the disk takes no more; then nothing is kept of ``data``."""
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
        """Raises OSError."""
        data = os.pread(self._files[place.segment], place.size, place.offset)
        if len(data) != place.size:
            raise OSError(f"{len(data)} of {place.size} bytes could be read")
        return data

    def copy(self) -> RunStore:
        """Another hold on the same runs, to read from in a thread; `clear` lets go of it."""
        other = RunStore(self._segment_bytes)
        other._files.update({number: os.dup(file) for number, file in self._files.items()})
        return other

    def drop_before(self, segment: int) -> None:
        """Give back the disk of every segment before this one."""
        for old in [number for number in self._files if number < segment]:
            os.close(self._files.pop(old))

    def clear(self) -> None:
        """Give back all of it."""
        _close(self._files)


def _close(files: dict[int, int]) -> None:
    while files:
        os.close(files.popitem()[1])


def _nameless() -> int:
    """A file without a name, for the owner alone, where large files belong: ``$TMPDIR``, or
    ``/var/tmp``, which is seldom a piece of memory as ``/tmp`` may be."""
    folder = None
    if not os.environ.get("TMPDIR") and os.access("/var/tmp", os.W_OK | os.X_OK):
        folder = "/var/tmp"
    descriptor, path = tempfile.mkstemp(prefix="podtui-log-", dir=folder)
    os.unlink(path)
    return descriptor
