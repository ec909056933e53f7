"""Copy files between this machine and containers.

This uses ``tar`` in the container, which sees the mounts like the container's processes do. Without
``tar``, or if the container is stopped, the agent's file endpoint copies through the engine. A
cluster has no such endpoint.

Archives from a container are not trusted: nothing is written outside the destination, and links and
devices are skipped.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import shutil
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

from podtui.api.names import GROUP_VERSION
from podtui.client.connection import HttpConnection
from podtui.client.exec_sessions import exec_session
from podtui.client.protocol import NO_END_OF_INPUT, CopyResult, ExecQuery, RemoteSession
from podtui.errors import ApiError, PodtuiError, without_group

_PIECE: Final = 256 * 1024
_MISSING: Final = (126, 127)
"""The exit codes of a missing command."""
_MISSING_WORDS: Final = ("container not found", "executable file not found")
"""Error texts of servers for a stopped container, and of container runtimes for a missing
command."""
_LONGEST_COMPLAINT: Final = 2000
_SILENT_SECONDS: Final = 120.0
_MOST_MEMBERS: Final = 1_000_000
_OWN_MODE: Final = 0o600
"""The permissions that the owner of an unpacked file always gets."""


class Copying:
    """Copies files of one container; an empty name selects the only container of the pod.
    ``endpoint`` means that the server has a file endpoint."""

    def __init__(
        self,
        connection: HttpConnection,
        namespace: str,
        pod: str,
        container: str,
        *,
        endpoint: bool = True,
    ) -> None:
        self._connection = connection
        self._endpoint = endpoint
        self._namespace = namespace
        self._pod = pod
        self._container = container
        self._files = (
            f"/apis/{GROUP_VERSION}/namespaces/{quote(namespace, safe='')}"
            f"/pods/{quote(pod, safe='')}/files"
        )

    async def out(self, path: str, destination: Path) -> CopyResult:
        """See `podtui.client.protocol.SessionClient.copy_from`."""
        path = _absolute(path)
        name = posixpath.basename(path) or "."
        with _spooled() as spool:
            if not await self._tar_out(path, name, spool):
                spool.seek(0)
                spool.truncate()
                await self._fetch(path, spool)
            spool.seek(0)
            return await asyncio.to_thread(_unpack_into, spool, name, destination)

    async def into(self, source: Path, path: str) -> CopyResult:
        """See `podtui.client.protocol.SessionClient.copy_to`."""
        requested = _absolute(path)
        if path.endswith("/") or await self._is_directory(requested):
            directory, name = requested, _name_of(source)
        else:
            directory, name = posixpath.split(requested)
        with _spooled() as spool:
            copied = await asyncio.to_thread(pack, source, name, spool)
            spool.seek(0)
            if not await self._tar_into(directory, spool):
                spool.seek(0)
                await self._send(directory, spool)
        return copied

    # --- with commands

    async def _tar_out(self, path: str, name: str, spool: IO[bytes]) -> bool:
        """Return False if tar is not available."""
        command = ("tar", "cf", "-", "-C", posixpath.dirname(path), "--", name)
        code, complaint, size = await self._run(command, None, spool)
        if code in _MISSING:
            return False
        # If a file changes while tar reads it, tar exits with 1 but the archive is complete.
        if code and not (code == 1 and size > 0 and "changed" in complaint):
            raise PodtuiError(complaint or f"tar ended with status {code}")
        return True

    async def _tar_into(self, directory: str, spool: IO[bytes]) -> bool:
        command = ("tar", "xf", "-", "-C", directory)
        code, complaint, _ = await self._run(command, spool, None)
        if code in _MISSING:
            return False
        if code:
            raise PodtuiError(complaint or f"tar ended with status {code}")
        return True

    async def _is_directory(self, path: str) -> bool:
        code, _, _ = await self._run(("test", "-d", path), None, None)
        if code not in _MISSING:
            return code == 0
        self._need_endpoint()
        try:
            async with self._connection.stream("GET", self._files, self._params(f"{path}/.")):
                return True
        except ApiError as error:
            if error.code == 404:
                return False
            raise

    async def _run(
        self, command: tuple[str, ...], given: IO[bytes] | None, taken: IO[bytes] | None
    ) -> tuple[int, str, int]:
        """Return the exit code, the error output, and the number of bytes received. In a stopped
        container, all commands count as missing."""
        query = ExecQuery(container=self._container, command=command, stdin=given is not None)
        complaint, size = b"", 0
        try:
            async with exec_session(self._connection, self._namespace, self._pod, query) as session:
                if given is not None and not session.can_end_input:
                    raise PodtuiError(f"cannot copy into a container: {NO_END_OF_INPUT}")
                with without_group():
                    async with asyncio.TaskGroup() as group:
                        feeding = group.create_task(_feed(session, given))
                        async for stream, data in session.output():
                            if stream == "stderr":
                                complaint = (complaint + data)[:_LONGEST_COMPLAINT]
                            elif taken is not None:
                                size += len(data)
                                await _write_to_spool(taken, data)
                        feeding.cancel()
                code = session.exit_code()
        except ApiError as error:
            # A cluster answers 500, podtui's agent 400.
            if error.code in (400, 500) and any(hint in str(error) for hint in _MISSING_WORDS):
                return _MISSING[1], str(error), 0
            raise
        return code, complaint.decode(errors="replace").strip(), size

    # --- with the agent's endpoint

    def _need_endpoint(self) -> None:
        if not self._endpoint:
            raise PodtuiError(
                "the container is not running, or does not have tar and test, which copying in a"
                " cluster requires"
            )

    async def _fetch(self, path: str, spool: IO[bytes]) -> None:
        self._need_endpoint()
        async with self._connection.stream(
            "GET", self._files, self._params(path), silence=_SILENT_SECONDS
        ) as response:
            while piece := await response.content.read(_PIECE):
                await _write_to_spool(spool, piece)

    async def _send(self, directory: str, spool: IO[bytes]) -> None:
        self._need_endpoint()
        async with self._connection.stream(
            "PUT",
            self._files,
            self._params(directory),
            body=_chunks(spool),
            silence=_SILENT_SECONDS,
        ) as response:
            await response.read()

    def _params(self, path: str) -> dict[str, str]:
        container = {"container": self._container} if self._container else {}
        return {**container, "path": path}


async def _feed(session: RemoteSession, given: IO[bytes] | None) -> None:
    if given is not None:
        async for piece in _chunks(given):
            await session.write(piece)
        await session.end_input()


@contextmanager
def _spooled() -> Generator[IO[bytes]]:
    """Open a temporary file for the data in transit. Raises `PodtuiError` if that fails."""
    try:
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - only the opening may fail here
    except OSError as error:
        raise _spool_error(error) from error
    with spool:
        yield spool


async def _write_to_spool(spool: IO[bytes], data: bytes) -> None:
    try:
        await asyncio.to_thread(spool.write, data)
    except OSError as error:
        raise _spool_error(error) from error


def _spool_error(error: OSError) -> PodtuiError:
    return PodtuiError(f"cannot write a temporary file (TMPDIR): {error.strerror or error}")


async def _chunks(spool: IO[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(spool.read, _PIECE):
        yield piece


def _absolute(path: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise PodtuiError(f"a path in a container must be absolute: {path!r}")
    return posixpath.normpath(path)


def _name_of(source: Path) -> str:
    return source.absolute().name


def _unpack_into(spool: IO[bytes], name: str, destination: Path) -> CopyResult:
    if destination.is_dir() and name != ".":
        destination = destination / name
    return unpack(spool, name, destination)


# --- archives; these functions block


def pack(source: Path, name: str, archive: IO[bytes]) -> CopyResult:
    """Write a complete archive of a file or directory under ``name``. Sockets and devices are
    skipped. Raises `PodtuiError`."""
    files = size = skipped = 0

    def portable(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        nonlocal files, size, skipped
        if not (member.isfile() or member.isdir() or member.issym()):
            skipped += 1
            return None
        files += not member.isdir()
        size += member.size
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    try:
        with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
            tar.add(source, arcname=name, filter=portable)
    except OSError as error:
        raise PodtuiError(f"cannot read {error.filename or source}: {error.strerror}") from error
    return CopyResult(files=files, bytes=size, skipped=skipped)


def unpack(archive: IO[bytes], root: str, destination: Path) -> CopyResult:
    """Write the members at and below ``root`` to ``destination``.

    All names are checked before anything is written. Raises `PodtuiError` for an archive that is
    malformed or has other names.
    """
    try:
        with tarfile.open(fileobj=archive, mode="r:") as tar:
            targets = _targets(tar, root, destination)
            return _write_members(tar, targets)
    except tarfile.TarError as error:
        raise PodtuiError(f"the archive from the container is malformed: {error}") from error
    except OSError as error:
        where = error.filename or destination
        raise PodtuiError(f"cannot write {where}: {error.strerror or error}") from error


def _targets(
    tar: tarfile.TarFile, root: str, destination: Path
) -> list[tuple[tarfile.TarInfo, Path]]:
    targets: list[tuple[tarfile.TarInfo, Path]] = []
    for member in tar:
        if len(targets) >= _MOST_MEMBERS:
            raise PodtuiError(f"more than {_MOST_MEMBERS} files")
        targets.append((member, destination.joinpath(*below(member.name, root))))
    if not targets:
        raise PodtuiError("the archive from the container is empty")
    return targets


def below(name: str, root: str) -> tuple[str, ...]:
    """Return the parts of a member's name below ``root``. Raises `PodtuiError` if it is not
    below."""
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    start = tuple(part for part in root.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts or "\0" in name or parts[: len(start)] != start:
        raise PodtuiError(f"the archive contains {name!r}, which is outside of {root!r}: refused")
    return parts[len(start) :]


def _opener(mode: int) -> Callable[[str, int], int]:
    """Return a function that creates a file with the permissions of an archive, less those of the
    umask. A file that exists keeps its permissions."""
    return lambda path, flags: os.open(path, flags, mode & 0o777 | _OWN_MODE)


def _write_members(tar: tarfile.TarFile, targets: list[tuple[tarfile.TarInfo, Path]]) -> CopyResult:
    files = size = skipped = 0
    for member, target in targets:
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            continue
        content = tar.extractfile(member) if member.isfile() else None
        if content is None:
            skipped += 1
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with content, open(target, "wb", opener=_opener(member.mode)) as file:
            shutil.copyfileobj(content, file)
        files += 1
        size += member.size
    return CopyResult(files=files, bytes=size, skipped=skipped)
