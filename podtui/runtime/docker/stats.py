"""Usage counters of containers and sandboxes, from the API or from the kernel's files.

The files are the fast path for an engine on this machine. The API is used for containers whose
files are not at the expected paths.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from podtui.api import names
from podtui.clock import Clock
from podtui.errors import without_group
from podtui.runtime.docker.answers import label_filter, labelled, mapping
from podtui.runtime.docker.errors import Refused, engine_error, parsing
from podtui.runtime.docker.link import Connection, Link
from podtui.runtime.protocol import ContainerStats, EngineInfo, NetworkInterfaceUsage, SandboxStats

CGROUPS: Final = Path("/sys/fs/cgroup")
PROC: Final = Path("/proc")
_BLOCK_FILES: Final = (
    "blkio.throttle.io_service_bytes_recursive",
    "blkio.bfq.io_service_bytes_recursive",
    "blkio.throttle.io_service_bytes",
)
_LOOPBACK: Final = "lo"
Disk = tuple[int, int]
"""Bytes read and written since the start."""
_CALL_SECONDS: Final = 30.0
_SIZE_SECONDS: Final = 300.0
_AT_ONCE: Final = 8
_NO_TIME: Final = "0001-01-01T"
T = TypeVar("T")


class Stats:
    """``root`` is the value of our root label."""

    def __init__(self, connection: Connection, root: str, clock: Clock) -> None:
        self._connection = connection
        self._root = root
        self._clock = clock
        self._files: tuple[EngineInfo, KernelFiles] | None = None

    async def containers(self, ids: Collection[str]) -> Mapping[str, ContainerStats]:
        """Return no stats if the engine does not count usage. Raises `EngineError`, like all
        methods here."""
        link = self._connection.link
        if not link.able.usage:
            return {}
        version = link.info.cgroup_version
        usages = await self._each(
            link, ids, KernelFiles.usage, lambda answer: from_answer(answer, version)
        )
        now = self._clock.now()
        return {
            identity: ContainerStats(
                timestamp=now,
                cpu=usage.cpu,
                memory=usage.memory,
                read=None if usage.disk is None else usage.disk[0],
                written=None if usage.disk is None else usage.disk[1],
            )
            for identity, usage in usages.items()
        }

    async def sandboxes(self, ids: Collection[str]) -> Mapping[str, SandboxStats]:
        link = self._connection.link
        interfaces = await self._each(link, ids, KernelFiles.interfaces, interfaces_of)
        now = self._clock.now()
        return {
            identity: SandboxStats(timestamp=now, interfaces=reported)
            for identity, reported in interfaces.items()
        }

    async def layers(self) -> Mapping[str, int]:
        """Get all sizes in one call, because the engine walks through the containers' files."""
        link = self._connection.link
        wanted = {names.ROOT_LABEL: self._root, names.DOCKER_TYPE: names.DOCKER_TYPE_CONTAINER}
        query = {"size": "true", "filters": json.dumps({"label": label_filter(wanted)})}
        try:
            reported = await link.wire.send(
                "GET", "/containers/json", query=query, total=_SIZE_SECONDS
            )
        except Refused as error:
            raise engine_error(error) from error
        # The engine omits the size, or reports -1, if its storage driver cannot measure it.
        with parsing("sizes"):
            sizes = {
                str(entry["Id"]): int(entry.get("SizeRw") or 0)
                for entry in labelled(reported, wanted)
            }
        return {identity: size for identity, size in sizes.items() if size >= 0}

    async def _each(
        self,
        link: Link,
        ids: Collection[str],
        read: Callable[[KernelFiles, str], T | None],
        parse: Callable[[Mapping[str, Any]], T],
    ) -> dict[str, T]:
        """Return the counters of those that run, by id: from local files if available, else from
        the API."""
        results: dict[str, T] = {}
        if link.info.local and ids:
            results = await asyncio.to_thread(self._read_all, link.info, tuple(ids), read)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def ask(identity: str) -> None:
            async with slots:
                answer = await _query(link, identity)
            if answer is not None:
                results[identity] = parse(answer)

        with without_group():
            async with asyncio.TaskGroup() as group:
                for identity in ids:
                    if identity not in results:
                        group.create_task(ask(identity), name=f"stats {identity[:12]}")
        return results

    def _read_all(
        self, info: EngineInfo, ids: Sequence[str], read: Callable[[KernelFiles, str], T | None]
    ) -> dict[str, T]:
        """Runs in a thread."""
        if self._files is None or self._files[0] != info:
            files = KernelFiles(info.cgroup_version, info.cgroup_driver, info.name)
            self._files = (info, files)
        files = self._files[1]
        every = ((identity, read(files, identity)) for identity in ids)
        return {identity: result for identity, result in every if result is not None}


async def _query(link: Link, container_id: str) -> Mapping[str, Any] | None:
    """Return None if the container does not run."""
    path = f"/containers/{container_id}/stats"
    query = {"stream": "0", "one-shot": "1"}
    try:
        answer = await link.wire.send("GET", path, query=query, total=_CALL_SECONDS)
    except Refused as error:
        if error.status in (404, 409):
            return None
        raise engine_error(error) from error
    # Docker answers for a stopped container too, with zeros and without a time.
    stopped = not answer or str(answer.get("read", "")).startswith(_NO_TIME)
    return None if stopped else answer


# --- counters of the API


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """``cpu`` in cumulative nanoseconds, ``memory`` the working set in bytes, ``disk`` None if it
    is not counted."""

    cpu: int
    memory: int
    disk: Disk | None = None


@parsing("usage")
def from_answer(stats: Mapping[str, Any], cgroup_version: int = 2) -> ContainerUsage:
    """Parse ``/containers/ID/stats``. The working set is the usage less the inactive file cache."""
    cpu: Mapping[str, Any] = mapping(mapping(stats, "cpu_stats"), "cpu_usage")
    memory: Mapping[str, Any] = mapping(stats, "memory_stats")
    detail: Mapping[str, Any] = mapping(memory, "stats")
    inactive = detail.get("total_inactive_file", detail.get("inactive_file", 0))
    used = int(memory.get("usage") or 0)
    return ContainerUsage(
        int(cpu.get("total_usage") or 0),
        max(0, used - int(inactive or 0)),
        _disk_of(mapping(stats, "blkio_stats"), cgroup_version),
    )


def _disk_of(reported: Mapping[str, Any], cgroup_version: int) -> Disk | None:
    """Return None if unknown. With cgroup v1, no entries may mean no disk usage or no counting."""
    name = "io_service_bytes_recursive"
    entries = cast("list[dict[str, Any]]", reported.get(name) or [])
    if name not in reported or (cgroup_version == 1 and not entries):
        return None
    sums = {"read": 0, "write": 0}
    for entry in entries:
        word = str(entry.get("op", "")).lower()
        if word in sums:
            sums[word] += int(entry.get("value") or 0)
    return sums["read"], sums["write"]


@parsing("usage")
def interfaces_of(stats: Mapping[str, Any]) -> tuple[NetworkInterfaceUsage, ...] | None:
    """Return the interfaces in a stats response; None if it has no network data."""
    networks = cast("Mapping[str, Mapping[str, Any]] | None", stats.get("networks"))
    if networks is None:
        return None
    return tuple(
        NetworkInterfaceUsage(
            name=name,
            received=int(counters.get("rx_bytes") or 0),
            sent=int(counters.get("tx_bytes") or 0),
            receive_errors=int(counters.get("rx_errors") or 0),
            send_errors=int(counters.get("tx_errors") or 0),
        )
        for name, counters in sorted(networks.items())
        if name != _LOOPBACK
    )


# --- counters of the kernel's files


def parse_net_dev(text: str) -> tuple[NetworkInterfaceUsage, ...]:
    """Parse ``/proc/PID/net/dev``. Raises ValueError, IndexError if it is malformed."""
    interfaces: list[NetworkInterfaceUsage] = []
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        fields = rest.split()
        if (name := name.strip()) != _LOOPBACK:
            interfaces.append(
                NetworkInterfaceUsage(
                    name=name,
                    received=int(fields[0]),
                    sent=int(fields[8]),
                    receive_errors=int(fields[2]),
                    send_errors=int(fields[10]),
                )
            )
    return tuple(sorted(interfaces, key=lambda interface: interface.name))


def parse_blkio(text: str) -> Disk | None:
    """Parse a cgroup v1 file with lines ``MAJOR:MINOR Read BYTES``; None if it lists no disk."""
    lines = [tokens for line in text.splitlines() if len(tokens := line.split()) == 3]
    return (_sum(lines, "Read"), _sum(lines, "Write")) if lines else None


def _sum(lines: Iterable[list[str]], word: str) -> int:
    return sum(int(tokens[2]) for tokens in lines if tokens[1] == word)


def parse_io_stat(text: str) -> Disk:
    """Parse ``io.stat`` of cgroup v2, with lines ``MAJOR:MINOR rbytes=… wbytes=… …``."""
    pairs = [word.partition("=") for line in text.splitlines() for word in line.split()[1:]]
    read = sum(int(value) for key, _, value in pairs if key == "rbytes")
    return read, sum(int(value) for key, _, value in pairs if key == "wbytes")


class KernelFiles:
    """Reads the counters of an engine's containers on this machine. Every call blocks for a
    fraction of a millisecond."""

    def __init__(
        self, version: int, driver: str, engine: str, top: Path = CGROUPS, proc: Path = PROC
    ) -> None:
        self._top, self._proc = str(top), str(proc)
        self._version = version
        if engine == "podman":
            groups = ("machine.slice/libpod-{id}.scope", "libpod_parent/libpod-{id}")
        else:
            groups = ("system.slice/docker-{id}.scope", "docker/{id}")
        self._groups = groups if driver == "systemd" else groups[::-1]
        self._block_file = "" if version == 2 else self._counting_file()

    def usage(self, container_id: str) -> ContainerUsage | None:
        """Return None if the files are not readable."""
        for group in self._groups:
            name = group.format(id=container_id)
            try:
                return self._usage_v2(name) if self._version == 2 else self._usage_v1(name)
            except (OSError, ValueError, KeyError):
                continue
        return None

    def interfaces(self, sandbox_id: str) -> tuple[NetworkInterfaceUsage, ...] | None:
        """Return the interfaces of the first process's network; None if they are not readable."""
        for group in self._groups:
            name = group.format(id=sandbox_id)
            try:
                for pid in self._processes(name):
                    return parse_net_dev(_read(f"{self._proc}/{pid}/net/dev"))
            except (OSError, ValueError, IndexError):
                continue
        return None

    def _usage_v2(self, group: str) -> ContainerUsage:
        folder = f"{self._top}/{group}"
        cpu = _counter(_read(f"{folder}/cpu.stat"), "usage_usec") * 1000
        used = int(_read(f"{folder}/memory.current"))
        inactive = _counter(_read(f"{folder}/memory.stat"), "inactive_file", 0)
        try:
            disk: Disk | None = parse_io_stat(_read(f"{folder}/io.stat"))
        except OSError:
            # Without the io controller, use the counters of the processes.
            disk = self._of_processes(group)
        return ContainerUsage(cpu, max(0, used - inactive), disk)

    def _usage_v1(self, group: str) -> ContainerUsage:
        cpu = int(_read(f"{self._top}/cpuacct/{group}/cpuacct.usage"))
        memory = f"{self._top}/memory/{group}"
        used = int(_read(f"{memory}/memory.usage_in_bytes"))
        inactive = _counter(_read(f"{memory}/memory.stat"), "total_inactive_file", 0)
        if self._block_file:
            file = f"{self._top}/blkio/{group}/{self._block_file}"
            disk: Disk | None = parse_blkio(_read(file)) or (0, 0)
        else:
            disk = self._of_processes(group)
        return ContainerUsage(cpu, max(0, used - inactive), disk)

    def _counting_file(self) -> str:
        """Return the cgroup v1 file that counts disk usage; empty for none, as on kernels that
        count only where limits are set."""
        for name in _BLOCK_FILES:
            try:
                if parse_blkio(_read(f"{self._top}/blkio/{name}")) is not None:
                    return name
            except (OSError, ValueError):
                continue
        return ""

    def _processes(self, group: str) -> list[str]:
        """Return the process ids of a group as seen from here, usually the oldest first."""
        folder = "" if self._version == 2 else "/cpuacct"
        pids = _read(f"{self._top}{folder}/{group}/cgroup.procs").split()
        return [pid for pid in pids if pid != "0"]

    def _of_processes(self, group: str) -> Disk | None:
        """Sum the disk usage of a group's processes. It includes exited children: a process
        inherits the counters of the children that it waits for."""
        read = written = 0
        try:
            for pid in self._processes(group):
                reported = self._io_of(pid)
                read += reported[0]
                written += reported[1]
        except (OSError, ValueError, KeyError):
            return None
        return read, written

    def _io_of(self, pid: str) -> Disk:
        try:
            reported = _read(f"{self._proc}/{pid}/io")
        except (FileNotFoundError, ProcessLookupError):
            # The process has exited; its parent has inherited the counters.
            return 0, 0
        table = dict(line.split(": ") for line in reported.splitlines())
        return int(table["read_bytes"]), int(table["write_bytes"])


def _read(path: str) -> str:
    # Half the time of `open`, for hundreds of files every ten seconds.
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while part := os.read(file, 1 << 16):
            content += part
    finally:
        os.close(file)
    return content.decode("ascii", "replace")


def _counter(text: str, name: str, default: int | None = None) -> int:
    """Return a counter of a file with lines ``NAME NUMBER``. Raises KeyError if it has none and
    there is no default."""
    # Not by lines: memory.stat has 40, and is read for each container.
    _, found, rest = f"\n{text}".partition(f"\n{name} ")
    if found:
        return int(rest.partition("\n")[0])
    if default is None:
        raise KeyError(name)
    return default
