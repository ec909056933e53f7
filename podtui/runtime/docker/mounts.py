"""The mounts of containers, as the engine's API spells them: pure (reference §10.3)."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from podtui.runtime.docker.abilities import Abilities
from podtui.runtime.protocol import ContainerConfig, Mount

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a mount shows: an engine volume, or a path of the engine's host.

    ``must_exist`` tells that a missing path is an error and not to be made.
    """

    volume: str = ""
    path: str = ""
    must_exist: bool = False


def volume_mount(name: str, target: str, *, read_only: bool = False) -> Json:
    """Of an engine volume that is there already."""
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
    """Put a container's mounts into its host configuration.

    ``files`` has, by their place in the container, the engine's paths of files made for it.
    """
    mounts: list[Json] = []
    binds: list[str] = []
    for mount in config.mounts:
        source = sources[mount]
        # Only a bind of the newer form can say how far read-only goes.
        graded = mount.read_only and abilities.recursive_read_only
        if source.volume:
            mounts.append(
                volume_mount(source.volume, mount.container_path, read_only=mount.read_only)
            )
        elif graded or source.must_exist or ":" in source.path + mount.container_path:
            mounts.append(_bind(source, mount, graded=graded))
        else:
            # Only this older form has every engine make what is missing.
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
        # Private is the default; said aloud, the engine refuses it for paths under its own root.
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
    """Of a mount of the host's; a sub-path stays inside. Raises ValueError."""
    path = posixpath.normpath(mount.host_path)
    if mount.sub_path:
        sub = posixpath.normpath("/" + mount.sub_path)
        if ".." in mount.sub_path.split("/"):
            raise ValueError(f"{mount.sub_path} leads out of its volume")
        path = posixpath.join(path, sub.lstrip("/"))
    return Source(path=path, must_exist=mount.host_path_create == "File")
