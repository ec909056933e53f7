"""App containers on the engine: create, start, stop, inspect and resize; their termination messages
and hosts file."""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from podtui.api import names
from podtui.errors import (
    ContainerCreateError,
    ContainerStartError,
    EngineError,
    EngineNotFound,
    EngineUnavailable,
    SubPathError,
)
from podtui.runtime.docker.abilities import Fallback, remedy
from podtui.runtime.docker.archives import read_tail, upload
from podtui.runtime.docker.errors import Refused, engine_error, translate_errors
from podtui.runtime.docker.host_files import HostFiles
from podtui.runtime.docker.identity import TERMINATION_LABEL, container_labels, container_name
from podtui.runtime.docker.image_users import ImageAccounts
from podtui.runtime.docker.inspection import container_status, never_ran, start_failure
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.paths import Escapes, open_below, resolve
from podtui.runtime.docker.pause import POD_DIRECTORY
from podtui.runtime.docker.payload import (
    ContainerFiles,
    JoinedSandbox,
    Json,
    LogLimits,
    MountSource,
    container_payload,
    enforced,
    host_path_source,
    update_payload,
)
from podtui.runtime.docker.removal import Ownership, remove_container, short_turn, stop_container
from podtui.runtime.docker.sandboxes import START_SECONDS, Sandboxes
from podtui.runtime.docker.sdk import DockerClient
from podtui.runtime.docker.storage import MEMORY_PREFIX, SandboxStore, TarEntry
from podtui.runtime.protocol import (
    LEAST_MEMORY,
    ContainerConfig,
    ContainerState,
    ContainerStatus,
    Mount,
    Resources,
    SandboxState,
    Started,
)

_TERMINATION_MODE = 0o666
_UPDATE_SECONDS = 30.0
_UNREACHABLE: Final = (errno.EACCES, errno.EPERM, errno.ENOENT)
HOSTS_FILE: Final = "hosts"
"""Relative to the pod's volume."""
_HOSTS_MODE: Final = 0o644
_HOSTS_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class Containers:
    """``root`` is the value of our root label, ``root_dir`` the root directory's path."""

    def __init__(
        self,
        connection: Connection,
        sandboxes: Sandboxes,
        ownership: Ownership,
        host_files: HostFiles,
        accounts: ImageAccounts,
        *,
        root: str,
        root_dir: str,
        logs: LogLimits,
    ) -> None:
        self._connection = connection
        self._sandboxes = sandboxes
        self._ownership = ownership
        self._host_files = host_files
        self._accounts = accounts
        self._root = root
        self._root_dir = root_dir
        self._logs = logs
        self._waiting: dict[str, tuple[str, Json]] = {}
        """Containers created but not started, with the name and payload to create them again."""
        self._failures: dict[str, str] = {}
        """The reasons of failed starts: Podman does not store them."""
        self._terminations: dict[str, tuple[str, str]] = {}
        """Container id → sandbox id and the path of the termination file in the pod's volume."""

    async def status(self, container_id: str) -> ContainerStatus:
        inspection = await self._ownership.inspect(container_id)
        status = container_status(inspection)
        held = status.resources and enforced(status.resources, self._connection.link.able)
        status = replace(status, resources=held, user=await self._accounts.user_of(inspection))
        failure = self._failures.get(container_id)
        if failure is None or status.record.state is not ContainerState.CREATED:
            return status
        return never_ran(status, failure)

    async def create(self, sandbox_id: str, config: ContainerConfig) -> Started:
        link = self._connection.link
        store = await self._sandboxes.store(sandbox_id)
        for mount in config.mounts:
            if mount.recursive_read_only and not link.able.recursive_read_only:
                raise ContainerCreateError(
                    f"{mount.container_path}: the engine has no recursive read-only mounts"
                )
            if mount.nfs is not None and mount.sub_path and not link.able.volume_sub_paths:
                raise ContainerCreateError(
                    f"{mount.container_path}: the engine can't mount a subPath of an NFS volume;"
                    " Docker can since version 26"
                )
        if config.cdi_devices and not link.able.cdi:
            raise ContainerCreateError(
                f"{', '.join(config.cdi_devices)}: the engine has no CDI devices; Docker has them"
                " since version 25"
            )
        try:
            sources = {
                mount: await self._source(link, sandbox_id, store, mount)
                for mount in config.mounts
                if mount.nfs is None
            }
            termination = await self._termination_file(link, sandbox_id, store, config)
            hosts = ""
            if config.hosts and store.mountpoint:
                hosts = posixpath.join(store.mountpoint, HOSTS_FILE)
                await write_hosts(link, sandbox_id, store.mountpoint, config.hosts)
            profile = await self._seccomp_profile(config)
            payload, warnings = container_payload(
                config,
                JoinedSandbox(
                    id=sandbox_id,
                    host_ipc=store.host_ipc,
                    # Podman reports the same name for all its runtimes.
                    runtime="" if link.is_podman else store.runtime,
                    hostname=store.hostname if link.is_podman else "",
                    # The OCI runtimes of rootless Podman may not join the host's network namespace.
                    host_dns=store.host_dns if link.is_podman and link.info.rootless else None,
                ),
                ContainerFiles(
                    sources=sources,
                    termination=posixpath.join(store.mountpoint, termination)
                    if termination
                    else "",
                    hosts=hosts,
                ),
                labels=container_labels(config, self._root, sandbox_id, termination),
                abilities=link.able,
                logs=self._logs,
                seccomp_profile=profile,
            )
            identity = await _create(link, payload, container_name(config))
        except Refused as error:
            raise _create_error(error) from error
        self._ownership.add(identity)
        self._waiting[identity] = (container_name(config), payload)
        if termination:
            self._terminations[identity] = (sandbox_id, termination)
        return Started(id=identity, warnings=warnings)

    async def start(self, container_id: str) -> Started:
        link = self._connection.link
        if container_id not in self._waiting:
            status = await self.status(container_id)
            if status.record.state is ContainerState.RUNNING:
                return Started(id=container_id)
            if status.record.state is not ContainerState.CREATED:
                raise ContainerStartError(f"container {container_id[:12]} was already started once")
        waiting = self._waiting.pop(container_id, None)
        if link.is_podman and waiting is not None:
            await self._require_sandbox(waiting[1])
        used: list[Fallback] = []
        while True:
            try:
                await self._start(link, container_id)
                break
            except Refused as error:
                if error.status == 404 and f"No such container: {container_id}" in error.text:
                    raise EngineNotFound(error.text) from error
                remedied = waiting and remedy(error.text, waiting[1]["HostConfig"])
                if waiting is None or not remedied:
                    self._failures[container_id] = error.text
                    raise ContainerStartError(start_failure(error.text)) from error
            fallback, host = remedied
            used.append(fallback)
            name, payload = waiting[0], waiting[1] | {"HostConfig": host}
            waiting = (name, payload)
            container_id = await self._recreate(link, container_id, name, payload)
        for fallback in used:
            self._connection.use_fallback(fallback)
        return Started(id=container_id, warnings=tuple(fallback.text for fallback in used))

    async def _require_sandbox(self, payload: Json) -> None:
        """Check the sandbox first: Podman would start a stopped one together with the container."""
        sandbox_id = str(payload["Labels"][names.SANDBOX_ID])
        status = await self._sandboxes.status(sandbox_id)
        if status.record.state is not SandboxState.READY:
            raise ContainerStartError(f"the sandbox {sandbox_id[:12]} is not running")

    async def _start(self, link: Link, container_id: str) -> None:
        async with self._connection.container_starts:
            await link.calls.run(lambda client: client.start(container_id), timeout=START_SECONDS)

    async def _recreate(self, link: Link, container_id: str, name: str, payload: Json) -> str:
        """Recreate a container with another payload, and return its new id."""
        termination = self._terminations.get(container_id)
        await self.remove(container_id)
        try:
            identity = await _create(link, payload, name)
        except Refused as error:
            raise ContainerStartError(error.text) from error
        self._ownership.add(identity)
        if termination is not None:
            self._terminations[identity] = termination
        return identity

    async def update(self, container_id: str, wanted: Resources) -> None:
        await self._ownership.check(container_id)
        link = self._connection.link
        if 0 < wanted.memory < LEAST_MEMORY:
            raise EngineError(
                f"Minimum memory limit allowed is {LEAST_MEMORY >> 20}MB, not {wanted.memory} bytes"
            )
        if not link.able.resize:
            raise EngineError("the engine can't change the limits of a running container")
        path = f"/containers/{container_id}/update"
        body = update_payload(wanted, link.able)
        with translate_errors():
            await link.wire.send("POST", path, body=body, total=_UPDATE_SECONDS)

    async def stop(self, container_id: str, grace: float) -> None:
        try:
            await self._ownership.check(container_id)
        except EngineNotFound:
            return
        async with short_turn(self._connection.stops):
            await stop_container(self._connection.link, container_id, grace)

    async def remove(self, container_id: str) -> None:
        try:
            await self._ownership.check(container_id)
        except EngineNotFound:
            return
        await remove_container(self._connection.link, container_id)
        self._ownership.forget(container_id)
        self._waiting.pop(container_id, None)
        self._failures.pop(container_id, None)
        self._terminations.pop(container_id, None)

    async def termination_message(self, container_id: str, limit: int) -> bytes:
        link = self._connection.link
        termination = self._terminations.get(container_id)
        if termination is None:
            inspection = await self._ownership.inspect(container_id)
            labels: Mapping[str, str] = inspection["Config"]["Labels"]
            termination = (labels[names.SANDBOX_ID], labels.get(TERMINATION_LABEL, ""))
            self._terminations[container_id] = termination
        sandbox_id, path = termination
        if not path or limit <= 0:
            return b""
        try:
            store = await self._sandboxes.store(sandbox_id)
        except EngineNotFound:
            return b""
        with translate_errors():
            return await read_termination(link, sandbox_id, store.mountpoint, path, limit)

    # --- preparations for a new container

    async def _source(
        self, link: Link, sandbox_id: str, store: SandboxStore, mount: Mount
    ) -> MountSource:
        if not mount.volume:
            try:
                source = host_path_source(mount)
            except ValueError as error:
                raise ContainerCreateError(str(error)) from error
            if mount.host_path_create == "File":
                await self._make_file(source.path)
            return source
        location = store.places.get(mount.volume)
        if location is None or not store.mountpoint:
            raise ContainerCreateError(f'the sandbox has no volume "{mount.volume}"')
        memory = location.removeprefix(MEMORY_PREFIX) if location.startswith(MEMORY_PREFIX) else ""
        if not mount.sub_path:
            if memory:
                return MountSource(volume=memory)
            return MountSource(path=posixpath.join(store.mountpoint, location), must_exist=True)
        if memory:
            location = f"volumes/{mount.volume}"
        try:
            path, missing = await resolve(
                link,
                sandbox_id,
                posixpath.join(POD_DIRECTORY, location),
                mount.sub_path,
                mount.gid,
            )
        except Escapes as error:
            text = f"subPath {error} is outside of its volume"
            raise SubPathError(text, mount.container_path) from error
        if missing:
            here = POD_DIRECTORY + "/"
            entries = [replace(entry, path=entry.path.removeprefix(here)) for entry in missing]
            await upload(link, sandbox_id, entries)
        base = posixpath.join(store.mountpoint, location)
        if memory:
            inspection = await link.calls.run(lambda client: client.inspect_volume(memory))
            base = str(inspection["Mountpoint"])
        return MountSource(path=posixpath.join(base, path), must_exist=True)

    async def _make_file(self, path: str) -> None:
        try:
            await self._host_files.kind(path, "File")
        except EngineUnavailable:
            raise
        except EngineError as error:
            raise ContainerCreateError(str(error)) from error

    async def _termination_file(
        self, link: Link, sandbox_id: str, store: SandboxStore, config: ContainerConfig
    ) -> str:
        """Return the path of an unused file in the pod's volume; empty if none is requested or
        possible."""
        if not config.termination_message_path or not store.mountpoint:
            return ""
        spare = store.take_spare()
        if spare is not None:
            return spare
        path = f"t/{secrets.token_hex(8)}"
        await upload(link, sandbox_id, [TarEntry(path, _TERMINATION_MODE, content=b"")])
        return path

    async def _seccomp_profile(self, config: ContainerConfig) -> str | None:
        """Return the profile's content for Docker, or its path for Podman."""
        wanted = config.security.seccomp
        if not wanted.startswith("localhost/"):
            return None
        path = Path(self._root_dir, "seccomp", wanted.removeprefix("localhost/"))
        try:
            content = await asyncio.to_thread(path.read_text)
        except (OSError, ValueError) as error:
            raise ContainerCreateError(f"can't read the seccomp profile {path}: {error}") from error
        return str(path) if self._connection.link.is_podman else content


async def _create(link: Link, payload: Json, name: str) -> str:
    def create(client: DockerClient) -> str:
        made: dict[str, Any] = client.create_container_from_config(payload, name)
        return str(made["Id"])

    return await link.calls.run(create)


def _create_error(error: Refused) -> EngineError:
    translated = engine_error(error)
    return translated if type(translated) is not EngineError else ContainerCreateError(error.text)


async def read_termination(
    link: Link, sandbox_id: str, mountpoint: str, path: str, limit: int
) -> bytes:
    """Return the last ``limit`` bytes of a termination message file (kubelet.md §7.7); empty if
    there is none. Raises `Refused`.

    It is read from the engine's own path if that is on this machine and readable, else over the
    API. The container can write the file, so nothing about it is trusted.
    """
    if link.info.local and mountpoint:
        tail = local_tail(mountpoint, path, limit)
        if tail is not None:
            return tail
    return await read_tail(link, sandbox_id, f"{POD_DIRECTORY}/{path}", limit) or b""


def local_tail(mountpoint: str, path: str, limit: int) -> bytes | None:
    """Read the local file; None if it is not accessible. Follows no link and opens no device."""
    try:
        with open_below(mountpoint, path) as file:
            size = os.fstat(file.fileno()).st_size
            return os.pread(file.fileno(), limit, max(0, size - limit))
    except OSError as error:
        # If the file was replaced by something else, the API would not help either.
        return None if error.errno in _UNREACHABLE else b""


async def write_hosts(link: Link, sandbox_id: str, mountpoint: str, content: bytes) -> None:
    """Write the hosts file that a pod's containers share (kubelet.md §11.1). Raises `Refused`.

    The file is written in place if it is on this machine and writable. Otherwise the API replaces
    it by a new file, and existing containers keep the old one.
    """
    if link.info.local and await asyncio.to_thread(write_here, mountpoint, content):
        return
    await upload(link, sandbox_id, [TarEntry(HOSTS_FILE, _HOSTS_MODE, content=content)])


def write_here(mountpoint: str, content: bytes) -> bool:
    """Return False if the engine's directory is not accessible."""
    try:
        folder = os.open(mountpoint, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        file = os.open(HOSTS_FILE, _HOSTS_FLAGS, _HOSTS_MODE, dir_fd=folder)
        with os.fdopen(file, "wb") as stream:
            # The container's root user; with user remapping it is another user here.
            owner = os.fstat(folder)
            os.fchown(file, owner.st_uid, owner.st_gid)
            os.fchmod(file, _HOSTS_MODE)
            stream.write(content)
    except OSError:
        return False
    finally:
        os.close(folder)
    return True
