"""Pod sandboxes and their storage on the engine."""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from podtui.api import names
from podtui.errors import EngineConflict, EngineError, EngineNotFound, EngineUnavailable
from podtui.runtime.docker.answers import label_filter, labelled, labels_of
from podtui.runtime.docker.archives import stat_path, upload
from podtui.runtime.docker.errors import Refused, engine_error, translate_errors
from podtui.runtime.docker.identity import (
    NONCE_LABEL,
    PLACES_LABEL,
    holder_name,
    instant,
    sandbox_labels,
    sandbox_name,
    volume_name,
)
from podtui.runtime.docker.inspection import is_routable, sandbox_status, sandbox_store
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.pause import PAUSE_VERSION, POD_DIRECTORY, SPARE_FILES
from podtui.runtime.docker.payload import holder_payload, host_dns, sandbox_payload
from podtui.runtime.docker.removal import Ownership, remove_container, stop_container
from podtui.runtime.docker.sdk import DockerClient, Missing
from podtui.runtime.docker.storage import (
    Layout,
    SandboxStore,
    compute_layout,
    entries_of,
    first_places,
    in_memory,
    is_held,
    read_places,
    signs_of_filling,
)
from podtui.runtime.protocol import (
    NO_USER_NAMESPACES,
    NamespaceMode,
    PodVolume,
    SandboxConfig,
    SandboxStatus,
    Started,
    no_runtime,
)

_log = logging.getLogger(__name__)
START_SECONDS: Final = 120.0
_PAGE: Final = 4096
_PAUSE_GRACE: Final = 2
_HOLDER: Final = "holder"
_MISCOUNTED: Final = "volume has active mounts"


class Sandboxes:
    """``root`` is the value of our root label, ``root_dir`` the directory's path."""

    def __init__(
        self, connection: Connection, root: str, root_dir: str, ownership: Ownership
    ) -> None:
        self._connection = connection
        self._root = root
        # A path may contain bytes that are not valid text.
        self._root_dir = os.fsencode(root_dir).decode(errors="replace")
        self._ownership = ownership
        self._stores: dict[str, SandboxStore] = {}
        self._emptied: set[str] = set()
        """UIDs of pods whose memory the engine freed, until a sandbox reports it."""

    async def store(self, sandbox_id: str) -> SandboxStore:
        """Return the storage of a sandbox, from the cache or the engine. Raises
        `EngineNotFound`."""
        store = self._stores.get(sandbox_id)
        if store is None:
            inspection = await self._ownership.inspect(sandbox_id)
            store = self._stores.setdefault(sandbox_id, sandbox_store(inspection, PLACES_LABEL))
        return store

    async def status(self, sandbox_id: str) -> SandboxStatus:
        inspection = await self._ownership.inspect(sandbox_id)
        info = self._connection.link.info
        routable = info.routable_pods and is_routable(inspection, source_address)
        status = sandbox_status(inspection)
        enterable = info.local and status.pid is not None and is_enterable(status.pid)
        return replace(status, routable=routable, enterable=enterable)

    async def _check_runtime(self, handler: str) -> None:
        """Raises `EngineError` if the engine does not have this runtime."""
        if not handler or handler in self._connection.link.info.runtimes:
            return
        runtimes = (await self._connection.read_info()).runtimes
        if handler not in runtimes:
            raise EngineError(no_runtime(handler, runtimes))

    async def run(self, config: SandboxConfig) -> Started:
        link = self._connection.link
        if not config.host_users and not link.info.user_namespaces:
            raise EngineError(NO_USER_NAMESPACES)
        await self._check_runtime(config.runtime_handler)
        if not link.able.memory_files:
            volumes = (
                replace(volume, memory=False) if volume.files else volume
                for volume in config.volumes
            )
            config = replace(config, volumes=tuple(volumes))
        nonce = secrets.token_hex(8)
        memory = {
            volume.name: volume_name(self._root, config.uid, volume.name)
            for volume in config.volumes
            if in_memory(volume)
        }
        volume = volume_name(self._root, config.uid)
        done = False
        try:
            started = await self._run(link, config, nonce, volume, memory)
            done = True
        except Refused as error:
            if error.status == 409 and "already in use" in error.text:
                owner = await self._foreign_owner(link, sandbox_name(config))
                if owner:
                    raise EngineConflict(f"{error.text} It belongs to {owner}.") from error
            raise engine_error(error) from error
        finally:
            if not done:
                containers = (sandbox_name(config), holder_name(self._root, config.uid))
                await self._undo(link, containers, nonce, (*memory.values(), volume))
        return started

    async def _foreign_owner(self, link: Link, name: str) -> str:
        """Describe the owner of the sandbox with that name; empty if it is ours or unknown."""

        def find(client: DockerClient) -> str:
            try:
                labels = labels_of(client.inspect_container(name)["Config"])
            except Missing:
                return ""
            root = labels.get(names.ROOT_LABEL, "")
            if root in ("", self._root):
                return ""
            root_dir = labels.get(names.ROOT_DIR_LABEL, "")
            return f"the agent of the root directory {root_dir}" if root_dir else "another agent"

        return await link.calls.run(find)

    async def _run(
        self,
        link: Link,
        config: SandboxConfig,
        nonce: str,
        volume: str,
        memory: Mapping[str, str],
    ) -> Started:
        pod_volume = await self._make_volume(
            link, volume, config.uid, nonce, first_places(config.volumes)
        )
        for item in config.volumes:
            if item.name in memory:
                await self._make_volume(link, memory[item.name], config.uid, nonce, {}, item)
        held = {item.name: memory[item.name] for item in config.volumes if is_held(item)}
        volume_labels = labels_of(pod_volume)
        fresh = volume_labels.get(NONCE_LABEL) == nonce
        layout_of = partial(
            compute_layout,
            config.volumes,
            read_places(volume_labels.get(PLACES_LABEL)),
            memory_volume=memory,
        )
        layout = layout_of(fresh=fresh, filled=fresh and link.fills_volumes)
        labels = {
            **sandbox_labels(config, self._root, layout.places),
            names.ROOT_DIR_LABEL: self._root_dir,
            NONCE_LABEL: nonce,
        }
        payload = sandbox_payload(
            config, image=link.pause_id, labels=labels, volume=volume, memory=memory
        )
        identity = await self._create(link, payload, sandbox_name(config))
        if held and await self._hold(link, config.uid, nonce, held):
            self._emptied.add(config.uid)
        if not fresh and not await _is_filled(link, identity, layout):
            layout = layout_of(fresh=True, filled=False)
        if layout.uploads:
            await upload(link, identity, layout.uploads)
        async with self._connection.sandbox_starts:
            await link.calls.run(lambda client: client.start(identity), timeout=START_SECONDS)
        await self._fill_memory(link, identity, layout)
        self._stores[identity] = SandboxStore(
            mountpoint=str(pod_volume["Mountpoint"]),
            places=layout.places,
            host_ipc=config.ipc is NamespaceMode.NODE,
            runtime=config.runtime_handler,
            hostname=str(payload.get("Hostname", "")),
            host_dns=host_dns(payload["HostConfig"]),
            spare_files=list(SPARE_FILES) if fresh and link.fills_volumes else [],
            pause_version=PAUSE_VERSION,
            written={
                volume.name: volume.files
                for volume in config.volumes
                if fresh or volume.name in memory
            },
        )
        self._ownership.add(identity)
        if config.uid not in self._emptied:
            return Started(id=identity)
        self._emptied.remove(config.uid)
        text = "the engine ended all containers of the pod, which emptied its volumes in memory: "
        return Started(id=identity, warnings=(text + ", ".join(held),))

    async def _hold(self, link: Link, uid: str, nonce: str, held: Mapping[str, str]) -> bool:
        """Let the pod's holder run. Return whether it had ended, which emptied the volumes.
        ``held`` maps volumes to their engine volumes."""
        name = holder_name(self._root, uid)
        payload = holder_payload(
            image=link.pause_id,
            labels={
                names.ROOT_LABEL: self._root,
                names.POD_UID: uid,
                names.DOCKER_TYPE: _HOLDER,
                NONCE_LABEL: nonce,
            },
            volumes=held,
        )

        def hold(client: DockerClient) -> bool:
            ended = False
            try:
                state = client.inspect_container(name)["State"]
                if state["Running"]:
                    return False
                ended = instant(state.get("StartedAt")) is not None
            except Missing:
                client.create_container_from_config(payload, name)
            client.start(name)
            return ended

        async with self._connection.sandbox_starts:
            return await link.calls.run(hold, timeout=START_SECONDS)

    async def _make_volume(
        self,
        link: Link,
        name: str,
        uid: str,
        nonce: str,
        places: Mapping[str, str],
        memory: PodVolume | None = None,
    ) -> dict[str, Any]:
        """Create an engine volume, or return the existing one with that name."""
        labels = {
            names.ROOT_LABEL: self._root,
            names.POD_UID: uid,
            NONCE_LABEL: nonce,
            PLACES_LABEL: json.dumps(dict(places), separators=(",", ":")),
        }
        options = memory and page_options(memory, podman=link.is_podman)

        def make(client: DockerClient) -> dict[str, Any]:
            return client.create_volume(name, driver="local", driver_opts=options, labels=labels)

        return await link.calls.run(make)

    async def _create(self, link: Link, payload: dict[str, Any], name: str) -> str:
        def create(client: DockerClient) -> str:
            payload["Image"] = link.pause_id
            return str(client.create_container_from_config(payload, name)["Id"])

        try:
            return await link.calls.run(create)
        except Refused as error:
            if error.status != 404:
                raise
            # The sandbox image was removed after we connected.
            await link.ensure_pause()
            return await link.calls.run(create)

    async def _fill_memory(self, link: Link, identity: str, layout: Layout) -> None:
        """Upload the files of tmpfs volumes, which are only mounted while the sandbox runs."""
        # The directory, too: an engine that remaps users mounts it as the host's root.
        entries = [
            entry
            for volume in layout.memory
            if volume.files
            for entry in entries_of(volume, f"volumes/{volume.name}")
        ]
        if entries:
            await upload(link, identity, entries)

    async def _undo(
        self, link: Link, containers: Iterable[str], nonce: str, volumes: Iterable[str]
    ) -> None:
        """Remove only the objects that this attempt created."""

        def undo(client: DockerClient) -> None:
            for name in containers:
                try:
                    container = client.inspect_container(name)
                    if labels_of(container["Config"]).get(NONCE_LABEL) == nonce:
                        client.remove_container(name, force=True)
                except Missing:
                    continue
            for volume in volumes:
                try:
                    if labels_of(client.inspect_volume(volume)).get(NONCE_LABEL) == nonce:
                        client.remove_volume(volume)
                except Missing:
                    continue

        try:
            await link.calls.run(undo)
        except EngineError as error:
            _log.warning("cannot remove the failed %s: %s", " ".join(containers), error)

    async def stop(self, sandbox_id: str) -> None:
        link = self._connection.link
        try:
            await self._ownership.check(sandbox_id)
        except EngineNotFound:
            return
        for identity in await self._inside(link, sandbox_id, all=False):
            await stop_container(link, identity, 0)
        async with self._connection.removals:
            await stop_container(link, sandbox_id, _PAUSE_GRACE)

    async def remove(self, sandbox_id: str) -> None:
        link = self._connection.link
        self._stores.pop(sandbox_id, None)
        try:
            await self._ownership.check(sandbox_id)
        except EngineNotFound:
            return
        await self._remove_all(link, await self._inside(link, sandbox_id, all=True))
        async with self._connection.removals:
            await remove_container(link, sandbox_id)
        self._ownership.forget(sandbox_id)

    async def _remove_all(self, link: Link, containers: list[str]) -> None:
        """Retry in rounds: Podman keeps a container while another one uses its PID namespace."""
        while containers:
            left: list[str] = []
            for identity in containers:
                try:
                    await remove_container(link, identity)
                except EngineUnavailable:
                    raise
                except EngineError:
                    left.append(identity)
                    if len(left) == len(containers):
                        raise
                else:
                    self._ownership.forget(identity)
            containers = left

    async def _inside(self, link: Link, sandbox_id: str, *, all: bool) -> list[str]:
        """Return the ids of the running or of all containers in a sandbox."""
        wanted = {names.ROOT_LABEL: self._root, names.SANDBOX_ID: sandbox_id}

        def find(client: DockerClient) -> list[str]:
            entries = client.containers(all=all, filters={"label": label_filter(wanted)})
            return [str(entry["Id"]) for entry in labelled(entries, wanted)]

        with translate_errors():
            return await link.calls.run(find)

    async def remove_pod_data(self, pod_uid: str) -> None:
        link = self._connection.link
        wanted = {names.ROOT_LABEL: self._root, names.POD_UID: pod_uid}
        self._emptied.discard(pod_uid)

        def find(client: DockerClient) -> list[str]:
            volumes = client.volumes(filters={"label": label_filter(wanted)}).get("Volumes") or ()
            return [str(volume["Name"]) for volume in labelled(volumes, wanted)]

        with translate_errors():
            volumes = await link.calls.run(find)
            if volumes and volumes != [volume_name(self._root, pod_uid)]:
                await remove_container(link, holder_name(self._root, pod_uid))
            for name in volumes:
                await self._remove_volume(link, name)

    async def _remove_volume(self, link: Link, name: str) -> None:
        try:
            await link.calls.run(lambda client: client.remove_volume(name))
        except Refused as error:
            if _MISCOUNTED in error.text:
                # Docker with live-restore, until its next restart. The pod ends without that:
                # `pod_data` still reports the volume, so that its removal is tried again.
                _log.info("the engine keeps a volume of a pod that is gone: %s", error.text)
            elif error.status != 404:
                raise

    async def pod_data(self) -> tuple[str, ...]:
        wanted = [f"{names.ROOT_LABEL}={self._root}"]

        def find(client: DockerClient) -> tuple[str, ...]:
            volumes = client.volumes(filters={"label": wanted}).get("Volumes") or ()
            uids = {labels_of(volume).get(names.POD_UID) for volume in volumes}
            return tuple(sorted(str(uid) for uid in uids if uid))

        with translate_errors():
            return await self._connection.link.calls.run(find)


def page_options(volume: PodVolume, *, podman: bool) -> dict[str, str]:
    """Return the options of the engine's local volume driver for a tmpfs or a hugetlbfs."""
    options = [f"mode={volume.mode:o}", f"uid={volume.uid}", f"gid={volume.gid}"]
    if volume.size_limit is not None:
        # Podman treats size as a disk quota and does not pass it to the tmpfs.
        blocks = f"nr_blocks={-(-volume.size_limit // _PAGE)}"
        options.append(blocks if podman else f"size={volume.size_limit}")
    if volume.huge_pages:
        return {
            "type": "hugetlbfs",
            "device": "hugetlbfs",
            "o": ",".join([*options, f"pagesize={volume.huge_pages}"]),
        }
    return {"type": "tmpfs", "device": "tmpfs", "o": ",".join(options)}


def is_enterable(pid: int) -> bool:
    """Return whether this process may enter the namespaces of another one: as root, or as the user
    of a rootless engine."""
    try:
        os.stat(f"/proc/{pid}/ns/user")
    except OSError:
        return False
    return True


def source_address(address: str) -> str:
    """Return this machine's source address for ``address``; empty without a route."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        # Connecting a datagram socket sends nothing; the kernel only looks up the route.
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((address, 9))
            return str(sock.getsockname()[0])
    except OSError:
        return ""


async def _is_filled(link: Link, container_id: str, layout: Layout) -> bool:
    """Return whether an earlier attempt filled the pod's volume completely. Raises `Refused`."""
    for path in signs_of_filling(layout, by_engine=link.fills_volumes):
        if await stat_path(link, container_id, f"{POD_DIRECTORY}/{path}") is None:
            return False
    return True
