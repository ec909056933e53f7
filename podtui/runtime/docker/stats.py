"""Usage of all our containers and sandboxes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from podtui.api import names
from podtui.clock import Clock
from podtui.errors import EngineError
from podtui.runtime.docker.client import Json, label_filter, labelled
from podtui.runtime.docker.errors import Refused, meaning, meant, understood
from podtui.runtime.docker.identity import on_host_network
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.docker.usage import KernelFiles, from_answer, interfaces_of
from podtui.runtime.protocol import ContainerStats, EngineInfo, SandboxStats

_CALL_SECONDS: Final = 30.0
_SIZE_SECONDS: Final = 300.0
_AT_ONCE: Final = 8
T = TypeVar("T")


class Stats:
    """``root`` is the value of our root label."""

    def __init__(self, connection: Connection, root: str, clock: Clock) -> None:
        self._connection = connection
        self._root = root
        self._clock = clock
        self._files: tuple[EngineInfo, KernelFiles] | None = None

    async def containers(self) -> tuple[ContainerStats, ...]:
        """Return no stats if the engine does not count usage. Raises `EngineError`, like all
        methods here."""
        link = self._connection.link
        if not link.able.usage:
            return ()
        running = await self._running(link, names.DOCKER_TYPE_CONTAINER)
        version = link.info.cgroup_version

        found = await self._each(
            link, running, KernelFiles.usage, lambda told: from_answer(told, version)
        )
        now = self._clock.now()
        return tuple(
            ContainerStats(
                id=identity,
                name=entry["Labels"].get(names.CONTAINER_NAME, ""),
                pod_uid=entry["Labels"].get(names.POD_UID, ""),
                timestamp=now,
                cpu=usage.cpu,
                memory=usage.memory,
                read=None if usage.disk is None else usage.disk[0],
                written=None if usage.disk is None else usage.disk[1],
            )
            for identity, entry in running.items()
            if (usage := found.get(identity)) is not None
        )

    async def sandboxes(self) -> tuple[SandboxStats, ...]:
        link = self._connection.link
        running = await self._running(link, names.DOCKER_TYPE_SANDBOX)
        of_host = {identity for identity, entry in running.items() if on_host_network(entry)}
        own = {identity: entry for identity, entry in running.items() if identity not in of_host}
        found = await self._each(link, own, KernelFiles.interfaces, interfaces_of)
        now = self._clock.now()
        return tuple(
            SandboxStats(
                id=identity,
                pod_uid=entry["Labels"].get(names.POD_UID, ""),
                timestamp=now,
                interfaces=found.get(identity),
                host_network=identity in of_host,
            )
            for identity, entry in running.items()
        )

    async def layers(self) -> Mapping[str, int]:
        """Get all sizes in one call, because the engine walks through the containers' files."""
        link = self._connection.link
        filters = _label_filters(self._root, names.DOCKER_TYPE_CONTAINER)
        query = {"size": "true", "filters": filters}
        try:
            told = await link.wire.send("GET", "/containers/json", query=query, total=_SIZE_SECONDS)
        except Refused as error:
            raise meaning(error) from error
        wanted = _labels(self._root, names.DOCKER_TYPE_CONTAINER)
        # The engine omits the size, or reports -1, if its storage driver cannot measure it.
        with understood("sizes"):
            sizes = {str(one["Id"]): int(one.get("SizeRw") or 0) for one in labelled(told, wanted)}
        return {identity: size for identity, size in sizes.items() if size >= 0}

    async def _running(self, link: Link, kind: str) -> dict[str, Json]:
        """Return running containers of a kind, by id."""
        wanted = _labels(self._root, kind)
        labels = label_filter(wanted)
        with meant():
            found = await link.calls.run(
                lambda client: client.containers(filters={"label": labels})
            )
        with understood("the list of containers"):
            return {str(entry["Id"]): entry for entry in labelled(found, wanted)}

    async def _each(
        self,
        link: Link,
        wanted: Mapping[str, Json],
        read: Callable[[KernelFiles, str], T | None],
        understand: Callable[[Mapping[str, Any]], T | None],
    ) -> dict[str, T]:
        """Return results by id: from local files if available, else from the API."""
        found: dict[str, T] = {}
        if link.info.local and wanted:
            found = await asyncio.to_thread(self._read_all, link.info, tuple(wanted), read)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def ask(identity: str) -> None:
            async with slots:
                answer = await _asked(link, identity)
            if answer is not None and (told := understand(answer)) is not None:
                found[identity] = told

        try:
            async with asyncio.TaskGroup() as group:
                for identity in wanted:
                    if identity not in found:
                        group.create_task(ask(identity), name=f"stats {identity[:12]}")
        except* EngineError as errors:
            raise errors.exceptions[0] from errors
        return found

    def _read_all(
        self, info: EngineInfo, ids: Sequence[str], read: Callable[[KernelFiles, str], T | None]
    ) -> dict[str, T]:
        """Runs in a thread."""
        if self._files is None or self._files[0] != info:
            files = KernelFiles(info.cgroup_version, info.cgroup_driver, info.name)
            self._files = (info, files)
        files = self._files[1]
        every = ((identity, read(files, identity)) for identity in ids)
        return {identity: one for identity, one in every if one is not None}


async def _asked(link: Link, container_id: str) -> Mapping[str, Any] | None:
    """Return None if the container has stopped meanwhile."""
    path = f"/containers/{container_id}/stats"
    query = {"stream": "0", "one-shot": "1"}
    try:
        answer = await link.wire.send("GET", path, query=query, total=_CALL_SECONDS)
    except Refused as error:
        if error.status in (404, 409):
            return None
        raise meaning(error) from error
    return answer or None


def _labels(root: str, kind: str) -> Mapping[str, str]:
    return {names.ROOT_LABEL: root, names.DOCKER_TYPE: kind}


def _label_filters(root: str, kind: str) -> str:
    return json.dumps({"label": label_filter(_labels(root, kind))})
