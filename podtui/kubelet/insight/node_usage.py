"""Resource usage of the engine's machine, if that is this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import psutil

from podtui.clock import Clock
from podtui.kubelet.node.signals import Disk, read_disk

_NANO: Final = 1_000_000_000
ReadDisk = Callable[[str], Disk | None]


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """``cpu`` in nanoseconds since boot; ``memory`` is the working set in bytes."""

    cpu: int
    memory: int


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """``cores`` in use over the last ``window`` seconds, None at the first reading. ``memory`` and
    ``storage`` in bytes; ``storage`` is that of the file system with the engine's images, volumes
    and logs, None if unknown."""

    cores: float | None
    memory: int
    storage: int | None
    window: float


def read_node_usage() -> NodeUsage:
    """Read the usage of this machine. Blocks for some milliseconds."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    memory = psutil.virtual_memory()
    return NodeUsage(int((sum(times[:8]) - idle) * _NANO), memory.total - memory.available)


class NodeReader:
    """Reads the usage at most every ``least`` seconds."""

    def __init__(self, clock: Clock, least: float, disk: ReadDisk = read_disk) -> None:
        self._clock = clock
        self._least = least
        self._disk = disk
        self._last: tuple[NodeUsage, float] | None = None
        self._figures: NodeFigures | None = None

    async def figures(self, engine_root: str) -> NodeFigures:
        """Return the current usage. ``engine_root`` is the engine's root directory."""
        now = self._clock.monotonic()
        before = self._last
        if self._figures is not None and before is not None and now - before[1] < self._least:
            return self._figures
        usage, disk = await asyncio.to_thread(self._look, engine_root)
        window, cores = self._least, None
        if before is not None:
            window = max(1e-3, now - before[1])
            cores = max(0.0, (usage.cpu - before[0].cpu) / _NANO / window)
        storage = None if disk is None else disk.capacity - disk.available
        self._last = (usage, now)
        self._figures = NodeFigures(cores, usage.memory, storage, window)
        return self._figures

    def _look(self, engine_root: str) -> tuple[NodeUsage, Disk | None]:
        return read_node_usage(), self._disk(engine_root or "/")
