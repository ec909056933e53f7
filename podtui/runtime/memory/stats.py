"""Plausible usage of simulated containers and sandboxes, a function of id and time."""

from __future__ import annotations

import zlib
from datetime import datetime
from typing import Final

from podtui.runtime.memory.cells import ContainerCell, SandboxCell
from podtui.runtime.protocol import (
    ContainerStats,
    NetworkInterfaceUsage,
    SandboxStats,
)

MEBIBYTE: Final = 1 << 20
_KIBIBYTE: Final = 1 << 10
_LAYER_MOST: Final = 16 * MEBIBYTE


def container_stats(cell: ContainerCell, now: datetime, elapsed: float) -> ContainerStats:
    """0.1 to 5 % of a core, a few KiB from and to disk each second; ``elapsed`` in seconds since
    its start."""
    seed, elapsed = _seed(cell.record.id), max(elapsed, 0.0)
    rate = 1_000_000 + seed % 49_000_000
    ceiling = cell.config.resources.memory or 256 * MEBIBYTE
    memory = min(ceiling * 3 // 4, 2 * MEBIBYTE + seed % (30 * MEBIBYTE))
    variation = (seed + int(elapsed)) % 64 * 4096
    return ContainerStats(
        timestamp=now,
        cpu=int(elapsed * rate),
        memory=max(4096, memory - variation),
        read=int(elapsed * (seed % (8 * _KIBIBYTE))),
        written=int(elapsed * _written_each_second(seed)),
    )


def sandbox_stats(cell: SandboxCell, now: datetime) -> SandboxStats:
    """Some KiB each second, on one interface."""
    seed = _seed(cell.record.id)
    elapsed = max(0.0, (now - cell.record.created_at).total_seconds())
    card = NetworkInterfaceUsage(
        name="eth0",
        received=int(elapsed * (seed % (64 * _KIBIBYTE))),
        sent=int(elapsed * (seed % (16 * _KIBIBYTE))),
    )
    return SandboxStats(timestamp=now, interfaces=(card,))


def layer_size(cell: ContainerCell, elapsed: float) -> int:
    """Grow with the bytes written, and start again at zero now and then."""
    written = max(elapsed, 0.0) * _written_each_second(_seed(cell.record.id))
    return int(written / 4) % _LAYER_MOST


def _written_each_second(seed: int) -> int:
    return seed % (32 * _KIBIBYTE)


def _seed(identity: str) -> int:
    return zlib.crc32(identity.encode())
