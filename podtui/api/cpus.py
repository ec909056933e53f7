"""Sets of CPUs, and the map of the node's CPUs that the kubelet publishes in an annotation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from podtui.api.v1 import Struct

CPUS: Final = "podtui.dev/cpus"
"""The annotation of a node with a CPU manager; its value is an encoded `CpuMap`."""


CpuSet = frozenset[int]


def parse_cpu_set(text: str) -> CpuSet:
    """Parse a list such as ``0-3,8``. Raises ValueError."""
    cpus: set[int] = set()
    for part in filter(None, (piece.strip() for piece in text.strip().split(","))):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if low < 0 or high < low:
            raise ValueError(f"invalid range {part!r}")
        cpus.update(range(low, high + 1))
    return frozenset(cpus)


def format_cpu_set(cpus: Iterable[int]) -> str:
    """Format a set as Linux and the kubelet do: ``0-3,8``."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


class CpuUser(Struct, frozen=True, kw_only=True):
    """A container with exclusive CPUs. ``pod`` is ``namespace/name``."""

    pod: str
    container: str
    cpus: tuple[int, ...]


class CpuMap(Struct, frozen=True, kw_only=True):
    """``nodes`` are the NUMA nodes with their cores, each with its CPUs. Reserved CPUs are never
    exclusive."""

    nodes: dict[int, tuple[tuple[int, ...], ...]]
    reserved: tuple[int, ...] = ()
    users: tuple[CpuUser, ...] = ()


def encode_cpu_map(cpu_map: CpuMap) -> str:
    return msgspec.json.encode(cpu_map).decode()


def decode_cpu_map(text: str) -> CpuMap | None:
    """Decode the annotation; None if it is invalid: the node may have another kubelet."""
    try:
        return msgspec.json.decode(text, type=CpuMap)
    except msgspec.MsgspecError:
        return None
