"""Files of simulated containers as tar archives."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import AsyncIterator, Iterator
from typing import Final

from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.memory.files import ContainerFiles

_STANDARD: Final = frozenset({"/", "/etc", "/home", "/opt", "/root", "/tmp", "/usr", "/var"})
"""Directories that every simulated image has, whether or not something is in them."""
_MOST_BYTES: Final = 64 << 20
_PIECE: Final = 64 * 1024


def packed(files: ContainerFiles, path: str) -> bytes:
    """See `podtui.runtime.protocol.Runtime.read_files`."""
    directory = path.endswith(("/", "/."))
    path = posixpath.normpath(path)
    if not _is_directory(files, path) and (directory or files.read(path) is None):
        raise EngineNotFound(f"Could not find the file {path} in the container")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content in _walk(files, path, posixpath.basename(path) or "."):
            info = tarfile.TarInfo(name)
            info.mode = 0o755 if content is None else 0o644
            info.type = tarfile.DIRTYPE if content is None else tarfile.REGTYPE
            info.size = len(content or b"")
            tar.addfile(info, io.BytesIO(content or b""))
    return buffer.getvalue()


async def pieces(whole: bytes) -> AsyncIterator[bytes]:
    for at in range(0, len(whole), _PIECE):
        yield whole[at : at + _PIECE]


async def unpack(files: ContainerFiles, directory: str, content: AsyncIterator[bytes]) -> None:
    """See `podtui.runtime.protocol.Runtime.write_files`."""
    directory = posixpath.normpath(directory)
    if not _is_directory(files, directory):
        raise EngineNotFound(f"Could not find the directory {directory} in the container")
    buffer = io.BytesIO()
    async for piece in content:
        if buffer.tell() + len(piece) > _MOST_BYTES:
            raise EngineError(f"a simulated container takes no more than {_MOST_BYTES} bytes")
        buffer.write(piece)
    buffer.seek(0)
    try:
        with tarfile.open(fileobj=buffer, mode="r:") as tar:
            for member in tar:
                taken = tar.extractfile(member) if member.isfile() else None
                path = posixpath.normpath(posixpath.join("/", member.name))
                if taken is not None and not files.write(directory + path, taken.read()):
                    raise EngineError(f"{directory} is read-only")
    except tarfile.TarError as error:
        raise EngineError(f"not a tar archive: {error}") from error


def _is_directory(files: ContainerFiles, path: str) -> bool:
    return path in _STANDARD or files.is_directory(path)


def _walk(files: ContainerFiles, path: str, name: str) -> Iterator[tuple[str, bytes | None]]:
    content = files.read(path)
    yield name, content
    if content is None:
        for one in files.names(path):
            yield from _walk(files, posixpath.join(path, one), f"{name}/{one}")
