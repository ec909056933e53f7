"""Facts about this machine for the node's record. Everything here blocks for milliseconds."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What does not change while the machine runs; empty where the machine does not tell."""

    hostname: str = ""
    ips: tuple[str, ...] = ()
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    os_image: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUsage:
    """What is left, in bytes and in processes; disk figures are of the engine's root."""

    memory_available: int = 0
    disk_capacity: int = 0
    disk_available: int = 0


def read_host_facts() -> HostFacts:
    return HostFacts(
        hostname=socket.gethostname(),
        ips=_primary_ips(),
        machine_id=_read("/etc/machine-id"),
        system_uuid=_read("/sys/class/dmi/id/product_uuid"),
        boot_id=_read("/proc/sys/kernel/random/boot_id"),
        os_image=_os_image(),
    )


def read_host_usage(engine_root: str) -> HostUsage:
    """``engine_root`` may be unreadable or elsewhere; then the root file system stands for it."""
    memory = psutil.virtual_memory()
    for path in (engine_root, "/"):
        if not path:
            continue
        try:
            disk = psutil.disk_usage(path)
        except OSError:
            continue
        return HostUsage(
            memory_available=memory.available,
            disk_capacity=disk.total,
            disk_available=disk.free,
        )
    return HostUsage(memory_available=memory.available)


def _primary_ips() -> tuple[str, ...]:
    """The address that a packet to elsewhere would leave with; nothing is sent."""
    found: list[str] = []
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                found.append(str(probe.getsockname()[0]))
        except OSError:
            continue
    return tuple(found) or ("127.0.0.1",)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _os_image() -> str:
    for line in _read("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip("\"'")
    return ""
