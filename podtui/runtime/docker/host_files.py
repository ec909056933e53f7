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
import shutil
import stat
from collections.abc import Iterator
from typing import Any, Final, Literal

from podtui.errors import EngineError
from podtui.runtime.docker.archives import PathStat, archive_of, stat_path, upload
from podtui.runtime.docker.errors import Refused, engine_error
from podtui.runtime.docker.helper_container import HelperContainers
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.paths import ResolvedPath, path_inspector, walk
from podtui.runtime.docker.pause import PAUSE_PROGRAM, POD_DIRECTORY
from podtui.runtime.docker.payload import nfs_mount
from podtui.runtime.docker.storage import TarEntry
from podtui.runtime.protocol import HostPathKind, NfsShare

_DIRECTORY_MODE: Final = 0o755
_SHARED_MODE: Final = 0o777
_FILE_MODE: Final = 0o644
_MOST_ARGUMENTS: Final = 64 * 1024
"""Bytes of the arguments of one process; Linux allows more."""
_MOUNT_SECONDS: Final = 120.0
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

    async def kind(
        self, path: str, create: Literal["", "Directory", "File"] = "", *, shared: bool = False
    ) -> HostPathKind:
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
            await self._make(link, path, resolved, create, shared=shared)
        except Refused as error:
            raise engine_error(error) from error
        return HostPathKind(create)

    async def _inspect_remote(self, link: Link, path: str) -> ResolvedPath:
        # A random name that no link of the host contains: the engine reports targets from inside.
        top = f"/host-{secrets.token_hex(8)}"
        async with self._helpers.create(mounts=[_bind("/", top, read_only=True)]) as helper:
            return await walk(path_inspector(link, helper, top), path)

    async def _make(
        self,
        link: Link,
        path: str,
        resolved: ResolvedPath,
        create: Literal["Directory", "File"],
        *,
        shared: bool,
    ) -> None:
        """Create the missing part of ``path`` below its deepest existing directory."""
        if create == "File" and len(resolved.missing) > 1:
            raise EngineError(f"open {path}: no such file or directory")
        names = [posixpath.join(*resolved.missing[: n + 1]) for n in range(len(resolved.missing))]
        last = _SHARED_MODE if shared else _DIRECTORY_MODE
        entries = [*(TarEntry(name, _DIRECTORY_MODE) for name in names[:-1])]
        entries.append(TarEntry(names[-1], last))
        if create == "File":
            entries = [TarEntry(names[0], _FILE_MODE, content=b"")]
        async with self._helpers.create(mounts=[_bind(resolved.path, POD_DIRECTORY)]) as helper:
            await upload(link, helper, entries)

    async def check_nfs(self, share: NfsShare) -> None:
        """See `podtui.runtime.protocol.Runtime.check_nfs`. The engine mounts volumes when a
        container starts."""
        link = self._connection.link
        mounts = [nfs_mount(share, POD_DIRECTORY)]
        try:
            async with self._helpers.create(mounts=mounts) as helper:
                await link.calls.run(lambda client: client.start(helper), timeout=_MOUNT_SECONDS)
        except Refused as error:
            raise engine_error(error) from error

    async def remove_directory(self, path: str) -> None:
        """See `podtui.runtime.protocol.Runtime.remove_host_directory`. What this process may not
        remove is removed by helpers, as the engine's user."""
        link = self._connection.link
        if link.info.local and await asyncio.to_thread(remove_local, path):
            return
        parent, name = posixpath.split(path)
        top = posixpath.join(POD_DIRECTORY, name)
        mounts = [_bind(parent, POD_DIRECTORY)]
        try:
            async with self._helpers.create(mounts=mounts) as helper:
                if await stat_path(link, helper, top) is None:
                    return
                async with archive_of(link, helper, top) as archive:
                    names = [member.name.rstrip("/") async for member in archive.members()]
            # A directory follows what is in it. A renaming to the same name changes nothing; the
            # program requires one.
            for batch in batches([posixpath.join(POD_DIRECTORY, each) for each in names[::-1]]):
                await self._helpers.run([PAUSE_PROGRAM, top, top, *batch], mounts=mounts)
        except Refused as error:
            raise engine_error(error) from error


def remove_local(path: str) -> bool:
    """Remove a directory of this machine. Return whether it is gone now; False also if it was never
    visible here."""
    try:
        shutil.rmtree(path)
    except OSError:
        return False
    return True


def batches(paths: list[str]) -> Iterator[list[str]]:
    """Divide arguments into lists that fit into a command line."""
    batch: list[str] = []
    size = 0
    for path in paths:
        size += len(path.encode()) + 1
        if size > _MOST_ARGUMENTS:
            yield batch
            batch, size = [], len(path.encode()) + 1
        batch.append(path)
    if batch:
        yield batch


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
