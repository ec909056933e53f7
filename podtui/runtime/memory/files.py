"""The files of simulated containers: pod volumes that are shared, and a private rest."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from podtui.runtime.protocol import ContainerConfig, PodVolume

DATA: Final = "..data"
"""The symlink to the version that a volume's projected files have now (reference §10.2)."""
_MOST_LINKS: Final = 8


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory: contents by relative path, with the symlinks in it."""

    contents: dict[str, bytes]
    links: dict[str, str]

    def read(self, path: str) -> bytes | None:
        """None when there is no such file."""
        return self.contents.get(self.real(path))

    def real(self, path: str) -> str:
        """The path with its symlinks followed, as far as they lead somewhere inside the tree."""
        for _ in range(_MOST_LINKS):
            if path in self.contents:
                break
            followed = _follow(self.links, path)
            if followed is None:
                break
            path = followed
        return path


def new_tree() -> Tree:
    return Tree({}, {})


class PodVolumes:
    """One pod's volumes; they outlive its sandboxes."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._filled: dict[str, str] = {}
        """Volume → the image that it holds."""

    def prepare(self, volumes: Iterable[PodVolume]) -> None:
        """Make what is missing, keep what is there, and write the given files over it."""
        for volume in volumes:
            tree = self._trees.setdefault(volume.name, new_tree())
            for file in volume.files:
                if file.target:
                    tree.links[file.path] = file.target
                else:
                    tree.contents[file.path] = file.content

    def tree(self, name: str) -> Tree | None:
        return self._trees.get(name)

    def project(self, volume: PodVolume) -> None:
        """Replace the projected files; others in the volume stay. Raises KeyError."""
        tree = self._trees[volume.name]
        for path in [p for p in tree.contents if p.startswith("..")]:
            del tree.contents[path]
        for path in [p for p, t in tree.links.items() if p == DATA or t.startswith(DATA + "/")]:
            del tree.links[path]
        self.prepare((volume,))

    def read(self, name: str, path: str) -> bytes | None:
        """None where there is no such file in the volume. Raises KeyError."""
        return self._trees[name].read(posixpath.normpath(path))

    def fill(self, name: str, image_id: str, files: Mapping[str, bytes]) -> None:
        """Put an image's files in, unless they are. Raises KeyError."""
        tree = self._trees[name]
        if self._filled.get(name) != image_id:
            tree.contents.clear()
            tree.contents.update(files)
            self._filled[name] = image_id


@dataclass(frozen=True, slots=True)
class _Mounted:
    at: str
    tree: Tree
    prefix: str
    read_only: bool


class ContainerFiles:
    """What a container sees. Paths are absolute; relative ones hang off the working directory."""

    def __init__(self, config: ContainerConfig, volumes: PodVolumes, host: Tree) -> None:
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
        if config.hosts:
            hosts = new_tree()
            hosts.contents[""] = config.hosts
            mounts.append(_Mounted("/etc/hosts", hosts, "", read_only=False))
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
        return mounted.tree.read(relative)

    def exists(self, path: str) -> bool:
        mounted, relative = self._resolve(path)
        if self.read(path) is not None or not relative or relative == mounted.prefix.strip("/"):
            return True
        real = mounted.tree.real(relative)
        return any(name.startswith(real + "/") for name in mounted.tree.contents)

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
        real = mounted.tree.real(relative)
        prefix = real + "/" if real else ""
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
