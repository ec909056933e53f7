"""Files that only their owner may read, replaced as a whole."""

from __future__ import annotations

import fcntl
import logging
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_LARGEST: Final = 1 << 20


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically. Its mode is 0600 from the start, whatever the umask is."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def read_private(path: Path) -> bytes | None:
    """Read a file, or return None if it does not exist. Removes the access of others, with a
    warning. Raises OSError, also for a link in place of the file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & 0o077:
            log.warning("%s was accessible to other users: its mode is 0600 now", path)
            os.fchmod(descriptor, 0o600)
        return file.read(_LARGEST)


@contextmanager
def locked(directory: Path) -> Generator[None]:
    """Create the directory with mode 0700, and hold its lock. Blocks while another process has
    it."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(directory, 0o700)
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
