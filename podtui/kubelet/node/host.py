"""Information about the engine's machine, if that is this one. Every call here blocks for
milliseconds."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from podtui.kubelet.node.listeners import Listener, read_listeners
from podtui.kubelet.node.signals import Disk, Observations, read_disk, read_signals, read_text

_HUGE_PAGES: Final = "/sys/kernel/mm/hugepages"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Facts that stay the same while the machine runs; empty if unknown."""

    hostname: str = ""
    ips: tuple[str, ...] = ()
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    os_image: str = ""
    huge_pages: Mapping[str, int] = field(default_factory=dict[str, int])
    """Bytes by page size (``2Mi``); 0 for a size that the kernel supports but has no pages of."""


class Host(Protocol):
    """The kubelet's interface to its machine; called from threads."""

    @property
    def kernel_log(self) -> str:
        """The path of the kernel log."""
        ...

    def facts(self) -> HostFacts: ...

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
            os_image=_os_image(),
            huge_pages=huge_pages(_HUGE_PAGES),
        )

    def disk(self, path: str) -> Disk | None:
        return read_disk(path)

    def signals(self, engine_root: str, root_dir: str) -> Observations:
        return read_signals(engine_root, root_dir)

    def listeners(self) -> tuple[Listener, ...]:
        return read_listeners()


def huge_pages(folder: str) -> dict[str, int]:
    """Read the kernel's folder of ``hugepages-NNNkB`` entries; empty if there is none."""
    found: dict[str, int] = {}
    for path in sorted(Path(folder).glob("hugepages-*kB")):
        size = re.fullmatch(r"hugepages-([0-9]+)kB", path.name)
        count = read_text(str(path / "nr_hugepages")).strip()
        if size is not None and count.isdigit():
            kilobytes = int(size[1])
            found[_size_name(kilobytes)] = int(count) * kilobytes * 1024
    return found


def _size_name(kilobytes: int) -> str:
    for unit, factor in (("Gi", 1 << 20), ("Mi", 1 << 10)):
        if kilobytes % factor == 0:
            return f"{kilobytes // factor}{unit}"
    return f"{kilobytes}Ki"


def _primary_ips() -> tuple[str, ...]:
    """Return the source addresses of packets to outside networks; sends nothing."""
    found: list[str] = []
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                found.append(str(probe.getsockname()[0]))
        except OSError:
            continue
    return tuple(found) or ("127.0.0.1",)


def _os_image() -> str:
    for line in read_text("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip("\"'")
    return ""
