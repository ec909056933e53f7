"""Blocking file access for the folder, called in threads: list the names, read a file; and which
names are manifests (kubelet.md §1.1, departure 2)."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from podtui.manifest.document import MAX_BYTES

_EDITOR_FILES: Final = (
    ("*~", "an editor's backup"),
    ("*.bak", "a backup"),
    ("*.swp", "an editor's swap file"),
    ("*.swx", "an editor's swap file"),
    ("#*#", "an editor's autosave"),
    ("*.tmp", "a temporary file"),
    ("4913", "an editor's test file"),
)


def is_hidden(name: str) -> bool:
    """Return whether the name is hidden; a kubelet never reads hidden files."""
    return name.startswith(".")


def ignore_reason(name: str, *, strict: bool = False) -> str:
    """Return why a file of this name is not read; empty if it is. ``strict`` reads all but
    hidden."""
    if is_hidden(name):
        return "its name begins with a dot"
    if not strict:
        for pattern, reason in _EDITOR_FILES:
            if fnmatchcase(name, pattern):
                return reason
    return ""


def edit_signs(name: str) -> frozenset[str]:
    """Return the names of the backup, temporary and lock files that editors create beside a
    file."""
    return frozenset({f"{name}~", f"{name}.bak", f"{name}.tmp", f"#{name}#", f".#{name}", "4913"})


def being_edited(name: str, others: Iterable[str]) -> bool:
    """Return whether such a file beside it shows that an editor is saving this file.

    Editors replace a file via a backup or temporary file, and for a moment the file itself is
    missing.
    """
    signs, start = edit_signs(name), f".{name}"
    return any(other in signs or other.startswith(start) for other in others)


_SUBFOLDER: Final = "a folder; a subfolder is read only if it has a kustomization.yaml"
KUSTOMIZATIONS: Final = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_MOST_STAMPED: Final = 5_000
"""A tree with more entries is compared by the first ones only."""
_KINDS: Final = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a character device",
    stat.S_IFBLK: "a block device",
}


@dataclass(frozen=True, slots=True)
class Stamp:
    """The file attributes that change with a file, including its permissions."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int


@dataclass(frozen=True, slots=True)
class Listed:
    """One name: it has a stamp if it is to be read, or a reason if it is ignored."""

    name: str
    stamp: Stamp | None = None
    ignored: str = ""
    link: bool = False
    """A symbolic link: its target may change without an event for its name."""
    rendered: bool = False
    """A kustomization: the one of the folder itself, or a subfolder with one."""
    folder: bool = False
    """A subfolder: what is in it may change without an event for its name."""


@dataclass(frozen=True, slots=True)
class FolderStamp:
    """Identifies the folder, and the last change of a name in it."""

    device: int
    inode: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The names at one moment; ``error`` is the reason if they cannot be listed.

    ``checked`` are the names that were checked; None means all.
    """

    files: Mapping[str, Listed] = field(default_factory=dict[str, Listed])
    hidden: frozenset[str] = frozenset()
    folder: FolderStamp | None = None
    single: bool = False
    """The path is a single file, not a folder."""
    error: str = ""
    checked: frozenset[str] | None = None


def shown_path(path: str) -> str:
    """Return a path as text for storage and display: bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _stamp(info: os.stat_result) -> Stamp:
    return Stamp(info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino)


def kustomization_in(folder: str) -> str:
    """Return the name of the kustomization in a folder; empty if there is none."""
    return next((n for n in KUSTOMIZATIONS if os.path.isfile(os.path.join(folder, n))), "")


def tree_stamp(folder: str) -> Stamp:
    """Return a stamp that changes with any file below a folder."""
    mtime = ctime = size = count = 0
    pending = [folder]
    while pending and count < _MOST_STAMPED:
        try:
            entries = sorted(os.scandir(pending.pop()), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if is_hidden(entry.name):
                continue
            try:
                info = entry.stat()
                is_folder = entry.is_dir(follow_symlinks=False)
            except OSError:
                continue
            if is_folder:
                pending.append(entry.path)
            count += 1
            mtime, ctime = max(mtime, info.st_mtime_ns), max(ctime, info.st_ctime_ns)
            size += info.st_size
    return Stamp(mtime, ctime, size, count)


def _kind(mode: int) -> str:
    return f"{_KINDS.get(stat.S_IFMT(mode), 'not a regular file')}; only regular files are read"


def folder_stamp(path: str) -> FolderStamp | None:
    """Return the path's stamp; None if it does not exist."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return FolderStamp(info.st_dev, info.st_ino, info.st_mtime_ns)


def list_path(path: str, *, strict: bool = False) -> Listing:
    """List ``path``: the entries of a folder sorted by name, or the single file itself."""
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
    """Check only ``names`` in the folder at ``path``; fall back to `list_path` if it is not a
    folder."""
    try:
        info = os.stat(path)
    except OSError:
        return list_path(path, strict=strict)
    if not stat.S_ISDIR(info.st_mode):
        return list_path(path, strict=strict)
    folder = FolderStamp(info.st_dev, info.st_ino, info.st_mtime_ns)
    hidden = frozenset(name for name in names if is_hidden(name))
    existing = frozenset(name for name in hidden if os.path.lexists(os.path.join(path, name)))
    files = _files(path, sorted(name for name in names if name not in hidden), strict=strict)
    return Listing(files, existing, folder, checked=frozenset(names))


def _files(folder: str, names: list[str], *, strict: bool) -> dict[str, Listed]:
    listed = [_inspect(folder, name, strict=strict) for name in names]
    return {entry.name: entry for entry in listed if entry is not None}


def _inspect(folder: str, name: str, *, strict: bool) -> Listed | None:
    """Return one entry; None if it no longer exists."""
    path = os.path.join(folder, name)
    link = False
    try:
        info = os.lstat(path)
        if stat.S_ISLNK(info.st_mode):
            link = True
            info = os.stat(path)
    except FileNotFoundError:
        return Listed(name, ignored="a broken link", link=True) if link else None
    except OSError as error:
        why = f"cannot be read: {error.strerror or error}"
        return Listed(name, ignored=why, link=link)
    reason = ignore_reason(name, strict=strict)
    if stat.S_ISDIR(info.st_mode):
        if not strict and not reason and kustomization_in(path):
            return Listed(name, tree_stamp(folder), link=link, rendered=True, folder=True)
        return Listed(name, ignored=reason or _SUBFOLDER, link=link, folder=True)
    if name in KUSTOMIZATIONS and not strict and stat.S_ISREG(info.st_mode):
        return Listed(name, tree_stamp(folder), link=link, rendered=True)
    if not stat.S_ISREG(info.st_mode):
        reason = _kind(info.st_mode)
    return Listed(name, None if reason else _stamp(info), reason, link)


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file's content, truncated one byte above the size limit, and its stamp when it was
    read.

    ``complete``: its writer is known to have finished; ``open``: a writer is known to have it
    open.
    """

    data: bytes
    stamp: Stamp
    complete: bool
    open: bool


def _has_writer(handle: int) -> bool | None:
    """Return whether the file is open for writing; None if the system cannot tell."""
    try:
        # A lease is granted only if there is no writer. If a process opens the file at this moment,
        # the kernel sends us a signal: SIGURG, because the default one would kill us.
        fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(handle, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return None
    return False


def read_file(path: str) -> FileContent:
    """Read a file. Raises OSError, also if it is not, or no longer, a regular file."""
    # Without O_NONBLOCK, a named pipe that replaced the file would block the thread.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(handle, "rb") as file:
        before = os.fstat(handle)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(0, "not a regular file")
        writer = _has_writer(handle)
        data = file.read(MAX_BYTES + 1)
        after = os.fstat(handle)
    # A rename changes the inode's ctime, but not the content's mtime.
    done = writer is False or (writer is None and before.st_ctime_ns > before.st_mtime_ns)
    return FileContent(
        data, _stamp(after), done and _stamp(before) == _stamp(after), writer is True
    )
