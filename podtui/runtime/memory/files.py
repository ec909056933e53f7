"""The files of simulated containers: pod volumes that are shared, and a private rest."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from podtui.runtime.protocol import ContainerConfig, PodVolume


@dataclass(frozen=True, slots=True)
class _Tree:
    """A directory: contents by relative path, with the symlinks in it."""

    contents: dict[str, bytes]
    links: dict[str, str]


def new_tree() -> _Tree:
    return _Tree({}, {})


class PodVolumes:
    """One pod's volumes; they outlive its sandboxes."""

    def __init__(self) -> None:
        self._trees: dict[str, _Tree] = {}

    def prepare(self, volumes: Iterable[PodVolume]) -> None:
        """Make what is missing, keep what is there, and write the given files over it."""
        for volume in volumes:
            tree = self._trees.setdefault(volume.name, new_tree())
            for file in volume.files:
                if file.target:
                    tree.links[file.path] = file.target
                else:
                    tree.contents[file.path] = file.content

    def tree(self, name: str) -> _Tree | None:
        return self._trees.get(name)


@dataclass(frozen=True, slots=True)
class _Mounted:
    at: str
    tree: _Tree
    prefix: str
    read_only: bool


class ContainerFiles:
    """What a container sees. Paths are absolute; relative ones hang off the working directory."""

    def __init__(self, config: ContainerConfig, volumes: PodVolumes, host: _Tree) -> None:
        self._workdir = config.working_dir or "/"
        mounts = [_Mounted("/", new_tree(), "", config.security.read_only_rootfs)]
        for mount in config.mounts:
            at = posixpath.normpath(mount.container_path)
            if mount.volume:
                tree = volumes.tree(mount.volume) or new_tree()
                mounts.append(_Mounted(at, tree, mount.sub_path, mount.read_only))
            else:
                prefix = posixpath.join(mount.host_path, mount.sub_path).lstrip("/")
                mounts.append(_Mounted(at, host, prefix, mount.read_only))
        if config.termination_message_path:
            at = posixpath.normpath(config.termination_message_path)
            own = new_tree()
            own.contents[""] = b""
            mounts.append(_Mounted(at, own, "", read_only=False))
        mounts.sort(key=lambda mounted: len(mounted.at), reverse=True)
        self._mounts = mounts

    def _resolve(self, path: str) -> tuple[_Mounted, str]:
        full = posixpath.normpath(posixpath.join(self._workdir, path))
        for mounted in self._mounts:
            inside = mounted.at == "/" or full == mounted.at or full.startswith(mounted.at + "/")
            if inside:
                relative = full.removeprefix(mounted.at).lstrip("/")
                joined = "/".join(part for part in (mounted.prefix.strip("/"), relative) if part)
                return mounted, joined
        raise AssertionError("the root directory holds every path")

    def read(self, path: str) -> bytes | None:
        """None when there is no such file."""
        mounted, relative = self._resolve(path)
        for _ in range(8):
            if relative in mounted.tree.contents:
                return mounted.tree.contents[relative]
            followed = _follow(mounted.tree.links, relative)
            if followed is None:
                return None
            relative = followed
        return None

    def exists(self, path: str) -> bool:
        mounted, relative = self._resolve(path)
        if self.read(path) is not None or not relative or relative == mounted.prefix.strip("/"):
            return True
        return any(name.startswith(relative + "/") for name in mounted.tree.contents)

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and self.read(path) is None

    def write(self, path: str, content: bytes, *, append: bool = False) -> bool:
        """False when the place is read-only."""
        mounted, relative = self._resolve(path)
        if mounted.read_only:
            return False
        before = mounted.tree.contents.get(relative, b"") if append else b""
        mounted.tree.contents[relative] = before + content
        return True

    def remove(self, path: str) -> bool:
        """False when there is no such file, or the place is read-only."""
        mounted, relative = self._resolve(path)
        return not mounted.read_only and mounted.tree.contents.pop(relative, None) is not None

    def names(self, path: str) -> list[str]:
        """What is directly in a directory, sorted."""
        mounted, relative = self._resolve(path)
        prefix = relative + "/" if relative else ""
        every = [*mounted.tree.contents, *mounted.tree.links]
        return sorted({n.removeprefix(prefix).split("/")[0] for n in every if n.startswith(prefix)})


def _follow(links: dict[str, str], path: str) -> str | None:
    """``path`` with its first symlink replaced, None when there is none in it."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        target = links.get("/".join(parts[:count]))
        if target is not None:
            parent = "/".join(parts[: count - 1])
            return posixpath.normpath(posixpath.join(parent, target, *parts[count:]))
    return None
