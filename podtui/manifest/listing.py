"""The folder on disk: one look at its names, one read of a file. Blocking; called in threads."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.manifest.document import MAX_BYTES
from podtui.manifest.ignore import ignore_reason, is_hidden

_SUBFOLDER: Final = "a folder; subfolders are not read"
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


@dataclass(frozen=True, slots=True)
class Stamp:
    """What changes when a file does, its rights included."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Listed:
    """One name: with a stamp it is to be read, with a reason it is ignored."""

    name: str
    stamp: Stamp | None = None
    ignored: str = ""
    link: bool = False
    """A symbolic link: what it leads to may change without a word about its name."""


@dataclass(frozen=True, slots=True)
class FolderStamp:
    """Which folder it is, and when a name in it changed last."""

    device: int
    inode: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The names at one moment; ``error`` is why there are none to be had.

    ``asked`` are the names that were looked for; None means all.
    """

    files: Mapping[str, Listed] = field(default_factory=dict[str, Listed])
    hidden: frozenset[str] = frozenset()
    folder: FolderStamp | None = None
    single: bool = False
    """The path is one file, not a folder."""
    error: str = ""
    asked: frozenset[str] | None = None


def shown_path(path: str) -> str:
    """A path as text that can be stored and shown: bytes that are not UTF-8 escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _stamp(info: os.stat_result) -> Stamp:
    return Stamp(info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)


def _kind(mode: int) -> str:
    return f"{_KINDS.get(stat.S_IFMT(mode), 'not a regular file')}; only regular files are read"


def folder_stamp(path: str) -> FolderStamp | None:
    """The path's stamp, None when nothing is there."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return FolderStamp(info.st_dev, info.st_ino, info.st_mtime_ns)


def list_path(path: str, *, strict: bool = False) -> Listing:
    """What is at ``path``: a folder's entries sorted by name, or the one file that it is."""
    try:
        info = os.stat(path)
        folder = FolderStamp(info.st_dev, info.st_ino, info.st_mtime_ns)
        if stat.S_ISREG(info.st_mode):
            name = os.path.basename(path)
            return Listing({name: Listed(name, _stamp(info))}, folder=folder, single=True)
        if not stat.S_ISDIR(info.st_mode):
            return Listing(error=f"{shown_path(path)} is not a directory or file")
        names = os.listdir(path)
    except OSError as error:
        return Listing(error=f"{shown_path(path)}: {error.strerror or error}")
    hidden = frozenset(filter(is_hidden, names))
    files = _files(path, sorted(name for name in names if name not in hidden), strict=strict)
    return Listing(files, hidden, folder)


def list_names(path: str, names: Collection[str], *, strict: bool = False) -> Listing:
    """What of ``names`` is in the folder at ``path``; what `list_path` says if it is none."""
    try:
        info = os.stat(path)
    except OSError:
        return list_path(path, strict=strict)
    if not stat.S_ISDIR(info.st_mode):
        return list_path(path, strict=strict)
    folder = FolderStamp(info.st_dev, info.st_ino, info.st_mtime_ns)
    hidden = frozenset(name for name in names if is_hidden(name))
    found = frozenset(name for name in hidden if os.path.lexists(os.path.join(path, name)))
    files = _files(path, sorted(name for name in names if name not in hidden), strict=strict)
    return Listing(files, found, folder, asked=frozenset(names))


def _files(folder: str, names: list[str], *, strict: bool) -> dict[str, Listed]:
    listed = [_look(folder, name, strict=strict) for name in names]
    return {one.name: one for one in listed if one is not None}


def _look(folder: str, name: str, *, strict: bool) -> Listed | None:
    """One entry; None when it is gone already."""
    path = os.path.join(folder, name)
    link = False
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            link = True
            info = os.stat(path)
    except FileNotFoundError:
        return Listed(name, ignored="a link to nothing", link=True) if link else None
    except OSError as error:
        why = f"cannot be looked at: {error.strerror or error}"
        return Listed(name, ignored=why, link=link)
    reason = ignore_reason(name, strict=strict)
    if stat.S_ISDIR(info.st_mode):
        reason = _SUBFOLDER
    elif not stat.S_ISREG(info.st_mode):
        reason = _kind(info.st_mode)
    return Listed(name, None if reason else _stamp(info), reason, link)


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, at most one more than are accepted, and its stamp when they were read.

    ``complete``: whoever wrote it is known to be done; ``open``: somebody is known not to be.
    """

    data: bytes
    stamp: Stamp
    complete: bool
    open: bool


def _has_writer(handle: int) -> bool | None:
    """Whether somebody has the file open for writing; None where the system does not tell."""
    try:
        # A lease is granted only if not. Who opens the file in this instant is told of it by a
        # signal to us, which must not be the deadly default one.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return None
    return False


def read_file(path: str) -> Content:
    """Read a file. Raises OSError, also for what is no regular file (any more)."""
    # Without O_NONBLOCK a pipe that took the file's place would hold the thread.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(handle, "rb") as file:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(0, "not a regular file")
        writer = _has_writer(handle)
        data = file.read(MAX_BYTES + 1)
        after = os.fstat(handle)
    # A rename stamps the inode and not the content.
    done = writer is False or (writer is None and before.st_ctime_ns > before.st_mtime_ns)
    return Content(data, _stamp(after), done and _stamp(before) == _stamp(after), writer is True)
