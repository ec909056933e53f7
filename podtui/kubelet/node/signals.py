"""The kubelet's eviction signals: available memory, disk and processes of a machine (reference
§14.2)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from podtui.api.thresholds import (
    IMAGEFS,
    IMAGEFS_INODES,
    MEMORY,
    NODEFS,
    NODEFS_INODES,
    PIDS,
)


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
        words = rest.split()
        if words and words[0].isdigit():
            kilobytes[name] = int(words[0])
    total, free = kilobytes.get("MemTotal"), kilobytes.get("MemFree")
    if total is None or free is None:
        return None
    working_set = max(total - free - kilobytes.get("Inactive(file)", 0), 0)
    return Observation((total - working_set) * 1024, total * 1024)


def processes_left(loadavg: str, pid_max: str, threads_max: str) -> Observation | None:
    """Parse ``/proc/loadavg`` and the kernel's two process limits; the lower limit counts."""
    words = loadavg.split()
    limits = [int(text) for text in (pid_max.strip(), threads_max.strip()) if text.isdigit()]
    running = words[3].rpartition("/")[2] if len(words) > 3 else ""
    if not limits or not running.isdigit():
        return None
    return Observation(max(min(limits) - int(running), 0), min(limits))


def read_disk(path: str) -> Disk | None:
    """Return the file system that holds ``path``; None if it cannot be read. May block."""
    try:
        found, device = os.statvfs(path), os.stat(path).st_dev
    except OSError:
        return None
    return Disk(
        capacity=found.f_blocks * found.f_frsize,
        available=found.f_bavail * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
        device=device,
    )


def disk_signals(available: str, inodes: str, disk: Disk | None) -> dict[str, Observation]:
    """Return the two signals of one file system under the given names."""
    found: dict[str, Observation] = {}
    if disk is not None and disk.capacity:
        found[available] = Observation(disk.available, disk.capacity)
        if disk.inodes:
            found[inodes] = Observation(disk.inodes_free, disk.inodes)
    return found


def read_signals(engine_root: str, root_dir: str) -> Observations:
    """Read the signals of this machine. ``imagefs`` is the file system of the engine's root
    directory, which holds images, volumes and logs; ``nodefs`` that of podtui's root directory with
    its records. May block."""
    found = {
        **disk_signals(NODEFS, NODEFS_INODES, read_disk(root_dir)),
        **disk_signals(IMAGEFS, IMAGEFS_INODES, read_disk(engine_root)),
    }
    memory = memory_left(read_text("/proc/meminfo"))
    if memory is not None:
        found[MEMORY] = memory
    processes = processes_left(
        read_text("/proc/loadavg"),
        read_text("/proc/sys/kernel/pid_max"),
        read_text("/proc/sys/kernel/threads-max"),
    )
    if processes is not None:
        found[PIDS] = processes
    return found


def read_text(path: str) -> str:
    """Read a small text file of the machine; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
