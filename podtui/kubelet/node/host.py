"""The engine's machine, if that is this one: facts, eviction signals, listening sockets.

Every call here blocks for milliseconds.
"""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import psutil

from podtui.api.thresholds import (
    IMAGEFS,
    IMAGEFS_INODES,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
)
from podtui.kubelet.resource_managers.cpu_topology import MachineTopology, read_machine_topology

_LOG = logging.getLogger(__name__)
_EVERY: Final = ("::", "0.0.0.0", "*")
_HUGE_PAGES: Final = "/sys/kernel/mm/hugepages"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Facts that stay the same while the machine runs; empty if unknown."""

    hostname: str = ""
    ips: tuple[str, ...] = ()
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    huge_pages: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes by page size (``2Mi``); 0 for a size that the kernel supports but has no pages of."""


class Host(Protocol):
    """The kubelet's interface to its machine; called from threads."""

    @property
    def kernel_log(self) -> str:
        """The path of the kernel log."""
        ...

    def facts(self) -> HostFacts: ...

    def topology(self) -> MachineTopology:
        """Raises `PodtuiError` if the machine does not report it."""
        ...

    def disk(self, path: str) -> Disk | None:
        """Return the file system that holds a path; None if it cannot be read."""
        ...

    def signals(self, engine_root: str, root_dir: str) -> Observations: ...

    def listeners(self) -> tuple[Listener, ...]:
        """Return the programs that listen on ports of the machine, as far as they can be
        determined."""
        ...


class LocalHost:
    kernel_log = "/dev/kmsg"

    def facts(self) -> HostFacts:
        machine_id = read_text("/etc/machine-id").strip()
        return HostFacts(
            hostname=socket.gethostname(),
            ips=_primary_ips(),
            machine_id=machine_id,
            # Without firmware that provides an id, use the machine id.
            system_uuid=read_text("/sys/class/dmi/id/product_uuid").strip() or machine_id,
            boot_id=read_text("/proc/sys/kernel/random/boot_id").strip(),
            huge_pages=huge_pages(_HUGE_PAGES),
        )

    def topology(self) -> MachineTopology:
        return read_machine_topology()

    def disk(self, path: str) -> Disk | None:
        return read_disk(path)

    def signals(self, engine_root: str, root_dir: str) -> Observations:
        return read_signals(engine_root, root_dir)

    def listeners(self) -> tuple[Listener, ...]:
        return read_listeners()


def huge_pages(folder: str) -> dict[str, int]:
    """Read the kernel's folder of ``hugepages-NNNkB`` entries; empty if there is none."""
    pages: dict[str, int] = {}
    for path in sorted(Path(folder).glob("hugepages-*kB")):
        size = re.fullmatch(r"hugepages-([0-9]+)kB", path.name)
        count = read_text(str(path / "nr_hugepages")).strip()
        if size is not None and count.isdigit():
            kilobytes = int(size[1])
            pages[_size_name(kilobytes)] = int(count) * kilobytes * 1024
    return pages


def _size_name(kilobytes: int) -> str:
    for unit, factor in (("Gi", 1 << 20), ("Mi", 1 << 10)):
        if kilobytes % factor == 0:
            return f"{kilobytes // factor}{unit}"
    return f"{kilobytes}Ki"


def _primary_ips() -> tuple[str, ...]:
    """Return the source addresses of packets to outside networks; sends nothing."""
    addresses: list[str] = []
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                addresses.append(str(probe.getsockname()[0]))
        except OSError:
            continue
    return tuple(addresses) or ("127.0.0.1",)


# --- signals (kubelet.md §14.2)


@dataclass(frozen=True, slots=True)
class Observation:
    """Amounts in bytes, inodes or processes."""

    available: int
    capacity: int


Observations = Mapping[str, Observation]
"""Observations by signal; a signal that cannot be observed is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A file system. ``inodes`` is 0 if it has no inode limit; ``device`` identifies the file
    system."""

    capacity: int = 0
    available: int = 0
    inodes: int = 0
    inodes_free: int = 0
    device: int = 0


def memory_left(meminfo: str) -> Observation | None:
    """Parse ``/proc/meminfo``: available memory is the capacity less the working set. The working
    set is the used memory less the inactive file cache."""
    kilobytes: dict[str, int] = {}
    for line in meminfo.splitlines():
        name, _, rest = line.partition(":")
        tokens = rest.split()
        if tokens and tokens[0].isdigit():
            kilobytes[name] = int(tokens[0])
    total, free = kilobytes.get("MemTotal"), kilobytes.get("MemFree")
    if total is None or free is None:
        return None
    working_set = max(total - free - kilobytes.get("Inactive(file)", 0), 0)
    return Observation((total - working_set) * 1024, total * 1024)


def processes_left(loadavg: str, pid_max: str, threads_max: str) -> Observation | None:
    """Parse ``/proc/loadavg`` and the kernel's two process limits; the lower limit counts."""
    tokens = loadavg.split()
    limits = [int(text) for text in (pid_max.strip(), threads_max.strip()) if text.isdigit()]
    running = tokens[3].rpartition("/")[2] if len(tokens) > 3 else ""
    if not limits or not running.isdigit():
        return None
    return Observation(max(min(limits) - int(running), 0), min(limits))


def read_disk(path: str) -> Disk | None:
    """Return the file system that holds ``path``; None if it cannot be read. May block."""
    try:
        file_system, device = os.statvfs(path), os.stat(path).st_dev
    except OSError:
        return None
    return Disk(
        capacity=file_system.f_blocks * file_system.f_frsize,
        available=file_system.f_bavail * file_system.f_frsize,
        inodes=file_system.f_files,
        inodes_free=file_system.f_ffree,
        device=device,
    )


def disk_signals(available: str, inodes: str, disk: Disk | None) -> dict[str, Observation]:
    """Return the two signals of one file system under the given names."""
    signals: dict[str, Observation] = {}
    if disk is not None and disk.capacity:
        signals[available] = Observation(disk.available, disk.capacity)
        if disk.inodes:
            signals[inodes] = Observation(disk.inodes_free, disk.inodes)
    return signals


def read_signals(engine_root: str, root_dir: str) -> Observations:
    """Read the signals of this machine. ``imagefs`` is the file system of the engine's root
    directory, which holds images, volumes and logs; ``nodefs`` that of podtui's root directory with
    its records. May block."""
    signals = {
        **disk_signals(NODEFS, NODEFS_INODES, read_disk(root_dir)),
        **disk_signals(IMAGEFS, IMAGEFS_INODES, read_disk(engine_root)),
    }
    memory = memory_left(read_text("/proc/meminfo"))
    if memory is not None:
        signals[MEMORY] = memory
    processes = processes_left(
        read_text("/proc/loadavg"),
        read_text("/proc/sys/kernel/pid_max"),
        read_text("/proc/sys/kernel/threads-max"),
    )
    if processes is not None:
        signals[PIDS] = processes
    return signals


def read_text(path: str) -> str:
    """Read a small text file of the machine; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


# --- listening sockets


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A listening socket. ``protocol`` is ``TCP`` or ``UDP``; ``ip`` is empty for all addresses.
    ``process`` is empty and ``pid`` is None if unknown, as for other users' programs."""

    protocol: str
    ip: str
    port: int
    process: str = ""
    pid: int | None = None


def read_listeners() -> tuple[Listener, ...]:
    """List the listening sockets; empty if they cannot be read. Blocks for some tens of
    milliseconds."""
    try:
        connections: list[Any] = psutil.net_connections(kind="inet")
    except (psutil.Error, OSError) as error:
        _LOG.info("cannot read which programs listen on the ports of the machine: %s", error)
        return ()
    listeners: list[Listener] = []
    names: dict[int | None, str] = {}
    for connection in connections:
        udp = connection.type == socket.SOCK_DGRAM
        if not connection.laddr or (
            connection.raddr if udp else connection.status != psutil.CONN_LISTEN
        ):
            continue
        if connection.pid not in names:
            names[connection.pid] = _name_of(connection.pid)
        ip = "" if connection.laddr.ip in _EVERY else str(connection.laddr.ip)
        listeners.append(
            Listener(
                protocol="UDP" if udp else "TCP",
                ip=ip,
                port=int(connection.laddr.port),
                process=names[connection.pid],
                pid=connection.pid,
            )
        )
    return tuple(listeners)


def _name_of(pid: int | None) -> str:
    if pid is None:
        return ""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        # The process has ended, or is not visible to this user.
        return ""
