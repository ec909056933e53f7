"""Check the type of a host path before its pod is created (reference §10.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from podtui.runtime.protocol import HostPathKind

_WANTED: Final[Mapping[str, tuple[HostPathKind, str]]] = {
    "Directory": (HostPathKind.DIRECTORY, "a directory"),
    "DirectoryOrCreate": (HostPathKind.DIRECTORY, "a directory"),
    "File": (HostPathKind.FILE, "a file"),
    "FileOrCreate": (HostPathKind.FILE, "a file"),
    "Socket": (HostPathKind.SOCKET, "a socket file"),
    "CharDevice": (HostPathKind.CHAR_DEVICE, "a character device"),
    "BlockDevice": (HostPathKind.BLOCK_DEVICE, "a block device"),
}
_CREATED: Final[Mapping[str, Literal["Directory", "File"]]] = {
    "DirectoryOrCreate": "Directory",
    "FileOrCreate": "File",
}


def created_as(kind: str) -> Literal["", "Directory", "File"]:
    """Return the kind of file to create at a missing path of this ``hostPath.type``; empty for
    none."""
    return _CREATED.get(kind, "")


def host_path_problem(path: str, kind: str, found: HostPathKind) -> str:
    """Return the kubelet's error message if the path is not of the type that ``hostPath.type``
    requires; empty if it is."""
    wanted, words = _WANTED[kind]
    return "" if found is wanted else f"hostPath type check failed: {path} is not {words}"
