"""Resolve the links in paths of a container or sandbox.

Sub-paths are resolved here, link by link, because the engine would follow links in a bind source
out of the volume. Between this check and the engine's mount, a container that shares the volume
could still replace a directory by a link: the API cannot mount an already resolved path.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from podtui.errors import EngineError
from podtui.runtime.docker.archives import PathStat, stat_path
from podtui.runtime.docker.link import Link
from podtui.runtime.docker.storage import TarEntry
from podtui.runtime.protocol import HostPathKind

_MOST_LINKS: Final = 40
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

PathInspector = Callable[[str], Awaitable[PathStat | None]]
"""Inspects an absolute path without following a link at its end."""


class Escapes(ValueError):
    """A path leads out of its allowed directory."""


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A resolved path: ``path`` exists and has no links, ``missing`` are the names below it that do
    not exist. ``stat`` describes the complete path, None if a part is missing."""

    path: str
    stat: PathStat | None
    missing: tuple[str, ...] = ()


async def walk(inspect: PathInspector, path: str, *, confined: bool = False) -> ResolvedPath:
    """Resolve the links of a path from the root ``/``, as the kernel does.

    The parent of the root is the root. A path below a non-directory counts as missing. Raises
    `EngineError` for too many links. With ``confined``, raises `Escapes` for those and for paths
    above the root.
    """
    waiting = path.split("/")[::-1]
    done: list[str] = []
    current = await inspect("/")
    links = 0
    while waiting:
        part = waiting.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if confined and not done:
                raise Escapes(path)
            del done[-1:]
            current = await inspect("/" + "/".join(done))
            continue
        in_directory = current is not None and current.kind is HostPathKind.DIRECTORY
        stat = await inspect("/" + "/".join([*done, part])) if in_directory else None
        if stat is None:
            rest = tuple(name for name in [part, *waiting[::-1]] if name not in ("", "."))
            return ResolvedPath("/" + "/".join(done), None, rest)
        if not stat.target:
            done.append(part)
            current = stat
            continue
        links += 1
        if links > _MOST_LINKS:
            if confined:
                raise Escapes(path)
            raise EngineError(f"{path}: too many levels of symbolic links")
        if stat.target.startswith("/"):
            done.clear()
            current = await inspect("/")
        waiting += stat.target.split("/")[::-1]
    return ResolvedPath("/" + "/".join(done), current)


def path_inspector(
    link: Link, container_id: str, top: str, *, confined: bool = False
) -> PathInspector:
    """Return a function that inspects paths relative to the directory ``top`` of a container.

    Engines may report a link's target already resolved, from the container's root. A target below
    ``top`` is then made relative to ``top``. Other targets are returned unchanged, or raise
    `Escapes` if ``confined``.
    """

    async def inspect(path: str) -> PathStat | None:
        stat = await stat_path(link, container_id, posixpath.normpath(top + path))
        if stat is None or not stat.target.startswith("/"):
            return stat
        if stat.target == top or stat.target.startswith(top + "/"):
            return replace(stat, target=stat.target.removeprefix(top) or "/")
        if confined:
            raise Escapes(path)
        return stat

    return inspect


async def resolve(
    link: Link, container_id: str, base: str, sub_path: str, gid: int = 0
) -> tuple[str, tuple[TarEntry, ...]]:
    """Resolve ``sub_path`` below the directory ``base``. Returns the path relative to ``base``
    without links, and the directories to create for it (relative to the root of the container's
    paths), with the mode of ``base``. Below a directory with the setgid bit they get the group
    ``gid``: not every engine reports the directory's own. Raises `Escapes`, `Refused`."""
    inspect = path_inspector(link, container_id, base, confined=True)
    resolved = await walk(inspect, sub_path, confined=True)
    if ".." in resolved.missing:
        raise Escapes(sub_path)
    path = resolved.path
    missing: list[TarEntry] = []
    if resolved.missing:
        top, parent = await inspect("/"), await inspect(path)
        mode = top.mode if top else 0o755
        inherits = parent is not None and bool(parent.mode & stat.S_ISGID)
        for name in resolved.missing:
            path = posixpath.join(path, name)
            missing.append(TarEntry(base + path, mode, gid=gid if inherits else 0))
            inherits = bool(mode & stat.S_ISGID)
    return path.lstrip("/"), tuple(missing)


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
