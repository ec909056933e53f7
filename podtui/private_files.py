"""The files of a root directory: only for their owner, without following links.

No other user can put a link into the directory while podtui uses it: `check_root` refuses a
directory that others may write. Links from before are not followed, because files are opened with
O_NOFOLLOW and directories are checked first.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import pwd
import shlex
import stat
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from podtui.errors import PodtuiError

log = logging.getLogger(__name__)

MAX_BYTES: Final = 64 << 20
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class RootDenied(PodtuiError):
    """Raised when podtui may not, or must not, use a root directory. The text names the remedy."""


def permission_denied(root: Path) -> RootDenied:
    return RootDenied(
        f"{root}: permission denied; run podtui as the owner of this root directory, or use"
        " another one with --root-dir"
    )


def check_root(root: Path) -> None:
    """Raise `RootDenied` unless the directory belongs to this user and no other may write to it;
    FileNotFoundError if there is none."""
    try:
        info = os.stat(root)
    except PermissionError as error:
        raise permission_denied(root) from error
    quoted = shlex.quote(str(root))
    if not stat.S_ISDIR(info.st_mode):
        raise RootDenied(f"{root} is not a directory; use another one with --root-dir")
    if info.st_uid != os.geteuid():
        raise RootDenied(
            f"{root} belongs to {_user(info.st_uid)}; run podtui as the owner of this root"
            " directory, or use another one with --root-dir"
        )
    if info.st_mode & _OTHERS_WRITE:
        raise RootDenied(
            f"{root} is writable by other users (mode {stat.S_IMODE(info.st_mode):04o}); run"
            f" 'chmod go-w {quoted}', or use another root directory with --root-dir"
        )


def prepare_root(root: Path) -> None:
    """Create the directory, accessible only to its owner, if there is none. Raises `RootDenied`
    unless `check_root` accepts it and no link is in it, and OSError."""
    root.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.mkdir(root, 0o700)
    except FileExistsError:
        check_root(root)
    for directory in (root, root / "pki", root / "logs"):
        with suppress(FileNotFoundError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise RootDenied(_link_text(Path(entry.path)))


def make_directory(path: Path) -> None:
    """Create a directory of the root directory with mode 0700, or remove the write access of others
    from an existing one. Raises OSError, also for a link in place of it."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            raise _link_error(path) from None
        if not stat.S_ISDIR(info.st_mode):
            raise
        if info.st_mode & _OTHERS_WRITE:
            os.chmod(path, stat.S_IMODE(info.st_mode) & ~_OTHERS_WRITE)


def open_private(path: Path, flags: int) -> int:
    """Open a file, with mode 0600 if it is created. Raises OSError, also for a link in place of the
    file."""
    try:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _link_error(path) from error
        raise


def write_private(path: Path, data: bytes) -> None:
    """Replace a file atomically. Its mode is 0600 from the start, under any umask."""
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
    """Read a file of at most `MAX_BYTES`, or return None if it does not exist. Removes the access
    of others, with a warning. Raises OSError, also for a link in place of the file."""
    try:
        descriptor = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        if os.fstat(descriptor).st_mode & 0o077:
            log.warning("%s was accessible to other users: its mode is 0600 now", path)
            os.fchmod(descriptor, 0o600)
        return file.read(MAX_BYTES)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of this file, which is created if it does not exist. Blocks while another
    process has it. Raises OSError."""
    descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _link_error(path: Path) -> OSError:
    return OSError(errno.ELOOP, _link_text(path))


def _link_text(path: Path) -> str:
    return f"{path} is a symbolic link, which podtui does not follow; remove it"


def _user(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"
