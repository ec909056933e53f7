"""The files of the simulated machine and of its containers: pod volumes, and private files."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from podtui.errors import EngineError, EngineNotFound
from podtui.runtime.protocol import ContainerConfig, HostPathKind, PodVolume

DATA: Final = "..data"
"""The symlink to the version that a volume's projected files have now (kubelet.md §10.2)."""
_MOST_LINKS: Final = 8
_STANDARD: Final = frozenset({"/", "/etc", "/home", "/opt", "/root", "/tmp", "/usr", "/var"})
"""Directories of every simulated image, even if they are empty."""
_MOST_BYTES: Final = 64 << 20
_PIECE: Final = 64 * 1024
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


@dataclass(frozen=True, slots=True)
class Tree:
    """A directory: contents by relative path, with the symlinks in it."""

    contents: dict[str, bytes]
    links: dict[str, str]

    def read(self, path: str) -> bytes | None:
        """Return None if there is no such file."""
        return self.contents.get(self.resolved(path))

    def resolved(self, path: str) -> str:
        """Follow the symlinks of a path as far as they stay inside the tree."""
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
    """The volumes of a pod. They outlive its sandboxes."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._filled: dict[str, str] = {}
        """Volume → the image that it holds."""

    def prepare(self, volumes: Iterable[PodVolume]) -> None:
        """Create missing volumes, keep existing ones, and write the given files."""
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
        """Replace the projected files of a volume and keep its other files. Raises KeyError."""
        tree = self._trees[volume.name]
        for path in [p for p in tree.contents if p.startswith("..")]:
            del tree.contents[path]
        for path in [p for p, t in tree.links.items() if p == DATA or t.startswith(DATA + "/")]:
            del tree.links[path]
        self.prepare((volume,))

    def read(self, name: str, path: str) -> bytes | None:
        """Return None if the volume has no such file. Raises KeyError."""
        return self._trees[name].read(posixpath.normpath(path))

    def size(self, name: str) -> int:
        """Return the bytes of the volume's files. Raises KeyError."""
        return sum(map(len, self._trees[name].contents.values()))

    def fill(self, name: str, image_id: str, files: Mapping[str, bytes]) -> None:
        """Copy an image's files in, unless it already has them. Raises KeyError."""
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
    """The files of one container. A relative path starts at the working directory."""

    def __init__(self, config: ContainerConfig, volumes: PodVolumes, host: Tree) -> None:
        self._workdir = config.working_dir or "/"
        mounts = [_Mounted("/", new_tree(), "", config.security.read_only_rootfs)]
        for mount in config.mounts:
            at = posixpath.normpath(mount.container_path)
            if mount.volume:
                tree = volumes.tree(mount.volume) or new_tree()
                mounts.append(_Mounted(at, tree, mount.sub_path, mount.read_only))
            else:
                nfs = mount.nfs
                top = mount.host_path if nfs is None else f"/nfs/{nfs.server}{nfs.path}"
                prefix = posixpath.join(top, mount.sub_path).lstrip("/")
                mounts.append(_Mounted(at, host, prefix, mount.read_only))
        if config.termination_message_path:
            at = posixpath.normpath(config.termination_message_path)
            file_tree = new_tree()
            file_tree.contents[""] = b""
            mounts.append(_Mounted(at, file_tree, "", read_only=False))
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
        raise AssertionError("the root directory contains every path")

    def read(self, path: str) -> bytes | None:
        """Return None if there is no such file."""
        mounted, relative = self._resolve(path)
        return mounted.tree.read(relative)

    def exists(self, path: str) -> bool:
        mounted, relative = self._resolve(path)
        if self.read(path) is not None or not relative or relative == mounted.prefix.strip("/"):
            return True
        resolved = mounted.tree.resolved(relative)
        return any(name.startswith(resolved + "/") for name in mounted.tree.contents)

    def is_directory(self, path: str) -> bool:
        return self.exists(path) and self.read(path) is None

    def write(self, path: str, content: bytes) -> bool:
        """Return False if the mount is read-only."""
        mounted, relative = self._resolve(path)
        if not mounted.read_only:
            mounted.tree.contents[relative] = content
        return not mounted.read_only

    def names(self, path: str) -> list[str]:
        """List a directory."""
        mounted, relative = self._resolve(path)
        resolved = mounted.tree.resolved(relative)
        prefix = resolved + "/" if resolved else ""
        every = [*mounted.tree.contents, *mounted.tree.links]
        return sorted({n.removeprefix(prefix).split("/")[0] for n in every if n.startswith(prefix)})


def _follow(links: dict[str, str], path: str) -> str | None:
    """Replace the first symlink in a path; None if there is none."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        target = links.get("/".join(parts[:count]))
        if target is not None:
            parent = "/".join(parts[: count - 1])
            return posixpath.normpath(posixpath.join(parent, target, *parts[count:]))
    return None


# --- archives


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
            raise EngineError(f"a simulated container accepts at most {_MOST_BYTES} bytes")
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
        for entry in files.names(path):
            yield from _walk(files, posixpath.join(path, entry), f"{name}/{entry}")


class SimulatedHost:
    """A few files of any Linux, and those that containers write; ``tree`` has their contents."""

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
        kind = self._kinds.get(path)
        if kind is not None:
            return kind
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

    def remove_directory(self, path: str) -> None:
        path = posixpath.normpath(path)
        for child in [each for each in self._kinds if f"{each}/".startswith(f"{path}/")]:
            del self._kinds[child]
        inside = path.lstrip("/") + "/"
        for name in [each for each in self.tree.contents if each.startswith(inside)]:
            del self.tree.contents[name]

    def _make_parents(self, path: str) -> None:
        while path != "/":
            path = posixpath.dirname(path)
            if self.kind(path) is HostPathKind.MISSING:
                self._kinds[path] = HostPathKind.DIRECTORY
