"""The files of the simulated machine: a few of any Linux, and those that containers write."""

from __future__ import annotations

import posixpath
from typing import Final, Literal

from podtui.errors import EngineError
from podtui.runtime.memory.files import Tree, new_tree
from podtui.runtime.protocol import HostPathKind

_DIRECTORIES: Final = """/ /dev /etc /home /mnt /opt /proc /root /run /srv /sys /tmp /usr /usr/share
    /var /var/cache /var/lib /var/log /var/run /var/tmp""".split()
_FILES: Final = {
    "etc/hostname": b"simulated\n",
    "etc/hosts": b"127.0.0.1\tlocalhost\n",
    "etc/localtime": b"TZif",
    "etc/os-release": b"ID=simulated\n",
    "etc/resolv.conf": b"nameserver 198.18.0.1\n",
}
_OTHERS: Final = {
    "/dev/null": HostPathKind.CHAR_DEVICE,
    "/dev/loop0": HostPathKind.BLOCK_DEVICE,
    "/run/docker.sock": HostPathKind.SOCKET,
    "/var/run/docker.sock": HostPathKind.SOCKET,
}


class Host:
    """``tree`` has the contents of the files."""

    def __init__(self) -> None:
        self.tree: Tree = new_tree()
        self.tree.contents.update(_FILES)
        self._kinds = dict.fromkeys(_DIRECTORIES, HostPathKind.DIRECTORY) | _OTHERS

    def put(self, path: str, kind: HostPathKind) -> None:
        """Create a path with its parents, or remove it (`HostPathKind.MISSING`)."""
        path = posixpath.normpath(path)
        self.tree.contents.pop(path.lstrip("/"), None)
        self._kinds.pop(path, None)
        if kind is HostPathKind.FILE:
            self.tree.contents[path.lstrip("/")] = b""
        elif kind is not HostPathKind.MISSING:
            self._kinds[path] = kind
        if kind is not HostPathKind.MISSING:
            self._make_parents(path)

    def kind(self, path: str) -> HostPathKind:
        path = posixpath.normpath(path)
        known = self._kinds.get(path)
        if known is not None:
            return known
        inside = path.lstrip("/")
        if inside in self.tree.contents:
            return HostPathKind.FILE
        below = any(name.startswith(inside + "/") for name in self.tree.contents)
        return HostPathKind.DIRECTORY if below else HostPathKind.MISSING

    def make(self, path: str, create: Literal["Directory", "File"]) -> None:
        """Raises `EngineError` for a file without its directory."""
        if create == "Directory":
            self.put(path, HostPathKind.DIRECTORY)
        elif self.kind(posixpath.dirname(posixpath.normpath(path))) is HostPathKind.DIRECTORY:
            self.put(path, HostPathKind.FILE)
        else:
            raise EngineError(f"open {path}: no such file or directory")

    def _make_parents(self, path: str) -> None:
        while path != "/":
            path = posixpath.dirname(path)
            if self.kind(path) is HostPathKind.MISSING:
                self._kinds[path] = HostPathKind.DIRECTORY
