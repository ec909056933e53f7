"""Check and create paths on the engine's host, without direct access to it.

The host's root is mounted into a helper, and paths below it are inspected through the engine.
Links are followed here, because the engine would resolve an absolute link inside the helper.
kubelet.md §10.2.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import secrets
import stat
from typing import Any, Final, Literal

from podtui.errors import EngineError
from podtui.runtime.docker.archives import PathStat, upload
from podtui.runtime.docker.errors import Refused, engine_error
from podtui.runtime.docker.helper_container import HelperContainers
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.paths import ResolvedPath, path_inspector, walk
from podtui.runtime.docker.pause import POD_DIRECTORY
from podtui.runtime.docker.storage import TarEntry
from podtui.runtime.protocol import HostPathKind

_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_KINDS: Final = {
    stat.S_IFDIR: HostPathKind.DIRECTORY,
    stat.S_IFREG: HostPathKind.FILE,
    stat.S_IFSOCK: HostPathKind.SOCKET,
    stat.S_IFCHR: HostPathKind.CHAR_DEVICE,
    stat.S_IFBLK: HostPathKind.BLOCK_DEVICE,
}


class HostFiles:
    def __init__(self, connection: Connection, helpers: HelperContainers) -> None:
        self._connection = connection
        self._helpers = helpers

    async def kind(self, path: str, create: Literal["", "Directory", "File"] = "") -> HostPathKind:
        """Return the kind of file at the path, after creating a missing one as ``create`` says.
        Raises `EngineError`, also if the parent directory of a missing file is missing."""
        link = self._connection.link
        if link.info.local:
            near = await asyncio.to_thread(local_kind, path)
            if near is not None:
                return near
        try:
            resolved = await self._inspect_remote(link, path)
            if resolved.stat is not None or not create:
                return _kind(resolved.stat)
            await self._make(link, path, resolved, create)
        except Refused as error:
            raise engine_error(error) from error
        return HostPathKind(create)

    async def _inspect_remote(self, link: Link, path: str) -> ResolvedPath:
        # A random name that no link of the host contains: the engine reports targets from inside.
        top = f"/host-{secrets.token_hex(8)}"
        async with self._helpers.create(mounts=[_bind("/", top, read_only=True)]) as helper:
            return await walk(path_inspector(link, helper, top), path)

    async def _make(
        self, link: Link, path: str, resolved: ResolvedPath, create: Literal["Directory", "File"]
    ) -> None:
        """Create the missing part of ``path`` below its deepest existing directory."""
        if create == "File" and len(resolved.missing) > 1:
            raise EngineError(f"open {path}: no such file or directory")
        names = [posixpath.join(*resolved.missing[: n + 1]) for n in range(len(resolved.missing))]
        entries = [TarEntry(name, _DIRECTORY_MODE) for name in names]
        if create == "File":
            entries = [TarEntry(names[0], _FILE_MODE, content=b"")]
        async with self._helpers.create(mounts=[_bind(resolved.path, POD_DIRECTORY)]) as helper:
            await upload(link, helper, entries)


def local_kind(path: str) -> HostPathKind | None:
    """Return the kind of file on this machine; None if uncertain, because the engine may see paths
    that are not visible here."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return None
    return _KINDS.get(stat.S_IFMT(mode))


def _kind(stat: PathStat | None) -> HostPathKind:
    if stat is None:
        return HostPathKind.MISSING
    if stat.kind is None:
        raise EngineError(
            "only recognise file, directory, socket, block device and character device"
        )
    return stat.kind


def _bind(source: str, target: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}
