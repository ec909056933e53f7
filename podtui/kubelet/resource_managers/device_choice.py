"""Choices of devices: pure functions (kubelet.md §13.7; `topology_hints.go` and
`devicesToAllocate` of the kubelet's devicemanager, v1.36).

Where the kubelet takes any device of a set, the one with the lowest id is taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import NamedTuple

from podtui.kubelet.resource_managers.device_api import Device
from podtui.kubelet.resource_managers.topology_manager import Hint, Nodes, numa_sets

Devices = Mapping[str, Device]
"""Devices of one resource by id."""


class Grouped(NamedTuple):
    """Available devices by their relation to a set of NUMA nodes."""

    aligned: frozenset[str]
    unaligned: frozenset[str]
    without_nodes: frozenset[str]


def has_topology(devices: Devices) -> bool:
    return any(device.numa_nodes for device in devices.values())


def group_by_affinity(devices: Devices, available: Set[str], nodes: Nodes | None) -> Grouped:
    """Divide the available devices. Without ``nodes``, and for a resource without topology, all
    count as those without NUMA nodes."""
    if nodes is None or not has_topology(devices):
        return Grouped(frozenset(), frozenset(), frozenset(available))
    without = frozenset(id for id in available if not nodes_of(devices, id))
    aligned = frozenset(id for id in available if nodes_of(devices, id) & nodes)
    return Grouped(aligned, frozenset(available) - aligned - without, without)


def nodes_of(devices: Devices, id: str) -> frozenset[int]:
    device = devices.get(id)
    return frozenset() if device is None else device.numa_nodes


def take(chosen: frozenset[str], candidates: Collection[str], count: int) -> frozenset[str]:
    """Add candidates to the chosen devices, until these are ``count``."""
    free = sorted(set(candidates) - chosen)
    return chosen | frozenset(free[: max(0, count - len(chosen))])


def take_in_order(
    chosen: frozenset[str], groups: Collection[Collection[str]], count: int
) -> frozenset[str]:
    for group in groups:
        chosen = take(chosen, group, count)
    return chosen


def device_hints(
    devices: Devices,
    available: Set[str],
    reusable: Set[str],
    requested: int,
    machine: Collection[int],
) -> list[Hint]:
    """Return the sets of NUMA nodes that have enough available devices. Those of the least size
    that could ever have enough are preferred. ``machine`` are the NUMA nodes of the machine."""
    numa = {node for device in devices.values() for node in device.numa_nodes} & set(machine)
    numa = numa or set(machine)
    least = len(numa)
    able: list[Nodes] = []
    for nodes in numa_sets(numa):
        if sum(bool(device.numa_nodes & nodes) for device in devices.values()) >= requested:
            least = min(least, len(nodes))
        # A set that leaves out a device to reuse is no candidate.
        kept = [nodes_of(devices, id) for id in reusable if nodes_of(devices, id)]
        if not all(own & nodes for own in kept):
            continue
        fitting = sum(bool(nodes_of(devices, id) & nodes) for id in available)
        if len(kept) + fitting >= requested:
            able.append(nodes)
    return [Hint(nodes, len(nodes) == least) for nodes in able]
