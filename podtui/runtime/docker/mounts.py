"""Translate container mounts into the engine's API format (kubelet.md §10.3). Pure functions."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtui.runtime.docker.capabilities import Abilities
from podtui.runtime.protocol import ContainerConfig, Mount

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a mount: an engine volume, or a path on the engine's host.

    With ``must_exist``, a missing path is an error; otherwise the engine creates it.
    """

    volume: str = ""
    path: str = ""
    must_exist: bool = False


def volume_mount(name: str, target: str, *, read_only: bool = False) -> Json:
    """Mount an existing engine volume."""
    return {
        "Type": "volume",
        "Source": name,
        "Target": target,
        "ReadOnly": read_only,
        "VolumeOptions": {"NoCopy": True},
    }


def add_mounts(
    host: Json,
    config: ContainerConfig,
    sources: Mapping[Mount, Source],
    files: Mapping[str, str],
    abilities: Abilities,
) -> None:
    """Add a container's mounts to its host configuration.

    ``files`` maps paths in the container to the engine's paths of the files created for it.
    """
    mounts: list[Json] = []
    binds: list[str] = []
    for mount in config.mounts:
        source = sources[mount]
        # Only the newer API (Mounts) can limit how deep read-only applies.
        graded = mount.read_only and abilities.recursive_read_only
        if source.volume:
            mounts.append(
                volume_mount(source.volume, mount.container_path, read_only=mount.read_only)
            )
        elif graded or source.must_exist or ":" in source.path + mount.container_path:
            mounts.append(_bind(source, mount, graded=graded))
        else:
            # Only the older API (Binds) makes every engine create a missing path.
            options = ["ro"] if mount.read_only else ["rw"]
            if mount.propagation != "private":
                options.append(mount.propagation)
            binds.append(f"{source.path}:{mount.container_path}:{','.join(options)}")
    mounts += [
        {"Type": "bind", "Source": source, "Target": target}
        for target, source in files.items()
        if source
    ]
    if mounts:
        host["Mounts"] = mounts
    if binds:
        host["Binds"] = binds


def _bind(source: Source, mount: Mount, *, graded: bool) -> Json:
    bind: Json = {
        "Type": "bind",
        "Source": source.path,
        "Target": mount.container_path,
        "ReadOnly": mount.read_only,
    }
    options: Json = {}
    if mount.propagation != "private":
        # Private is the default. Set explicitly, the engine refuses paths below its own root.
        options["Propagation"] = mount.propagation
    if graded:
        recursive = mount.recursive_read_only
        options["ReadOnlyForceRecursive" if recursive else "ReadOnlyNonRecursive"] = True
        if not source.must_exist:
            options["CreateMountpoint"] = True
    if options:
        bind["BindOptions"] = options
    return bind


def host_path_source(mount: Mount) -> Source:
    """Return the source of a hostPath mount. Raises ValueError if the sub-path leaves it."""
    path = posixpath.normpath(mount.host_path)
    if mount.sub_path:
        sub = posixpath.normpath("/" + mount.sub_path)
        if ".." in mount.sub_path.split("/"):
            raise ValueError(f"{mount.sub_path} leads out of its volume")
        path = posixpath.join(path, sub.lstrip("/"))
    return Source(path=path, must_exist=mount.host_path_create == "File")
