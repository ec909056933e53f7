"""CPU and memory counters of containers: from the API's answer, or from cgroup files.

The files are the fast path for an engine on this machine; a container whose files are not where
they are expected is asked for over the API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from podtui.runtime.docker.client import mapping

CGROUPS: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Usage:
    """``cpu`` in cumulative nanoseconds, ``memory`` the working set in bytes."""

    cpu: int
    memory: int


def from_answer(stats: Mapping[str, Any]) -> Usage:
    """From ``/containers/ID/stats``; reference: working set = usage - inactive file cache."""
    cpu: Mapping[str, Any] = mapping(mapping(stats, "cpu_stats"), "cpu_usage")
    memory: Mapping[str, Any] = mapping(stats, "memory_stats")
    detail: Mapping[str, Any] = mapping(memory, "stats")
    inactive = detail.get("total_inactive_file", detail.get("inactive_file", 0))
    used = int(memory.get("usage") or 0)
    return Usage(int(cpu.get("total_usage") or 0), max(0, used - int(inactive or 0)))


class CgroupFiles:
    """Reads the counters of an engine's containers on this machine."""

    def __init__(self, version: int, driver: str, engine: str, top: Path = CGROUPS) -> None:
        self._top = top
        self._version = version
        if engine == "podman":
            groups = ("machine.slice/libpod-{id}.scope", "libpod_parent/libpod-{id}")
        else:
            groups = ("system.slice/docker-{id}.scope", "docker/{id}")
        self._groups = groups if driver == "systemd" else groups[::-1]

    def read(self, container_id: str) -> Usage | None:
        """None where the files are not to be read."""
        for group in self._groups:
            name = group.format(id=container_id)
            try:
                return self._modern(name) if self._version == 2 else self._split(name)
            except (OSError, ValueError, KeyError):
                continue
        return None

    def _modern(self, group: str) -> Usage:
        folder = self._top / group
        cpu = _table((folder / "cpu.stat").read_text())["usage_usec"] * 1000
        used = int((folder / "memory.current").read_text())
        inactive = _table((folder / "memory.stat").read_text()).get("inactive_file", 0)
        return Usage(cpu, max(0, used - inactive))

    def _split(self, group: str) -> Usage:
        cpu = int((self._top / "cpuacct" / group / "cpuacct.usage").read_text())
        memory = self._top / "memory" / group
        used = int((memory / "memory.usage_in_bytes").read_text())
        inactive = _table((memory / "memory.stat").read_text()).get("total_inactive_file", 0)
        return Usage(cpu, max(0, used - inactive))


def _table(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in text.splitlines())}
