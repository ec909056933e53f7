"""The memory manager's static policy: memory of Guaranteed pods on given NUMA nodes.

The manager counts the allocated memory and huge pages of each NUMA node. A container is confined to
its nodes by ``cpuset.mems`` (kubelet.md §13.7; `memorymanager/policy_static.go` of the kubelet,
v1.36). Pod-level resources get no NUMA nodes, as in a kubelet without the feature gate
``PodLevelResourceManagers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.api.pod_resources import GUARANTEED, qos_class
from podtui.api.pods import is_sidecar
from podtui.api.quantity import parse_quantity
from podtui.api.v1 import Container, Pod
from podtui.errors import PodtuiError
from podtui.kubelet.kubelet_metrics import MEMORY_ERRORS, MEMORY_REQUESTS
from podtui.kubelet.resource_managers.cpu_manager import has_pod_level_resources
from podtui.kubelet.resource_managers.cpu_topology import NumaNode
from podtui.kubelet.resource_managers.topology_manager import (
    AllocationError,
    Hint,
    Hints,
    Nodes,
    is_narrower,
    numa_sets,
)

Amounts = Mapping[str, int]
"""Bytes by resource: ``memory`` and ``hugepages-SIZE``."""
Reserved = Mapping[int, Amounts]
"""``reservedMemory``, by NUMA node."""
NO_DEFAULT: Final = (
    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is "
    "available"
)


@dataclass(slots=True)
class MemoryTable:
    """The bytes of one resource on one NUMA node."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    free: int


@dataclass(slots=True)
class NumaState:
    """``cells`` are the NUMA nodes that are allocated together with this one, itself included."""

    tables: dict[str, MemoryTable]
    cells: Nodes
    assignments: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of one resource that a container may use on NUMA nodes."""

    nodes: Nodes
    resource: str
    size: int


@dataclass(slots=True)
class MemoryState:
    """The NUMA nodes by number, and the blocks by pod UID and container."""

    numa: dict[int, NumaState] = field(default_factory=dict[int, NumaState])
    blocks: dict[str, dict[str, list[Block]]] = field(
        default_factory=dict[str, dict[str, list[Block]]]
    )


class MemoryManager:
    """Implements `HintProvider` for memory and huge pages.

    ``state`` is what an earlier run of the kubelet allocated. Raises `PodtuiError` if the state
    does not belong to this machine and reservation.
    """

    def __init__(
        self, numa: Iterable[NumaNode], *, reserved: Reserved, state: MemoryState | None = None
    ) -> None:
        self.state = state or MemoryState()
        self._numa = tuple(numa)
        self._reserved = reserved
        # Bytes of init containers of the pod that is being admitted, for its next containers.
        self._reusable: dict[tuple[Nodes, str], int] = {}
        self._reusable_of = ""
        if sum(amounts.get("memory", 0) for amounts in reserved.values()) <= 0:
            raise PodtuiError("[memorymanager] you should specify the system reserved memory")
        self._check_state()

    def numa_nodes(self, uid: str, container: str) -> Nodes:
        """Return the NUMA nodes of a container's memory; empty for all."""
        blocks = self.state.blocks.get(uid, {}).get(container, [])
        return Nodes().union(*(block.nodes for block in blocks))

    # --- HintProvider

    def hints(self, pod: Pod, container: Container) -> Hints:
        if not _is_managed(pod):
            return {}
        requested = memory_requests(container)
        blocks = self._blocks(pod, container)
        if blocks is not None:
            return _hints_of_existing(blocks, requested)
        return self._calculate(pod, requested)

    def pod_hints(self, pod: Pod) -> Hints:
        requested = pod_memory_requests(pod) if _is_managed(pod) else {}
        if not requested:
            return {}
        for container in (*pod.spec.initContainers, *pod.spec.containers):
            blocks = self._blocks(pod, container)
            if blocks is not None:
                return _hints_of_existing(blocks, requested)
        return self._calculate(pod, requested)

    @MEMORY_ERRORS.count_exceptions(AllocationError)
    def allocate(self, pod: Pod, container: Container, affinity: Hint) -> None:
        if not _is_managed(pod):
            return
        MEMORY_REQUESTS.inc()
        blocks = self._blocks(pod, container)
        if blocks is not None:
            self._update_reusable(pod, container, blocks)
            return
        requested = memory_requests(container)
        nodes = self._choose(pod, requested, affinity)
        blocks = [Block(nodes, resource, size) for resource, size in requested.items()]
        for block in blocks:
            reusable = self._reusable_bytes(pod, nodes, block.resource)
            self._reserve(self.state.numa, block, max(block.size - reusable, 0))
        self._update_reusable(pod, container, blocks)
        self.state.blocks.setdefault(pod.metadata.uid, {})[container.name] = blocks
        self._shrink_init_containers(pod, container, blocks)

    def release(self, uid: str) -> None:
        """Give back the memory of a pod."""
        for blocks in self.state.blocks.pop(uid, {}).values():
            for block in blocks:
                self._free(block)

    # --- choice

    def _blocks(self, pod: Pod, container: Container) -> list[Block] | None:
        return self.state.blocks.get(pod.metadata.uid, {}).get(container.name)

    def _choose(self, pod: Pod, requested: Amounts, affinity: Hint) -> Nodes:
        preferred, nodes = affinity.preferred, affinity.nodes
        if nodes is None:
            hints = self._calculate(pod, requested)
            if not hints:
                raise AllocationError(NO_DEFAULT)
            best = _best(hints.get("memory", ()))
            if preferred and not best.preferred:
                raise AllocationError("[memorymanager] failed to find the default preferred hint")
            preferred, nodes = best.preferred, best.nodes or Nodes()
        if not self._have_free(nodes, requested):
            hints = self._calculate(pod, requested)
            wider = [hint for hint in hints.get("memory", ()) if hint.nodes and nodes <= hint.nodes]
            if not wider:
                raise AllocationError(
                    "[memorymanager] failed to find NUMA nodes to extend the current topology hint"
                )
            best = _best(wider)
            if preferred and not best.preferred:
                raise AllocationError("[memorymanager] failed to find the extended preferred hint")
            nodes = best.nodes or Nodes()
        if len(nodes) > 1 and any(self._is_taken_otherwise(node, nodes) for node in nodes):
            raise AllocationError("[memorymanager] preferred hint violates NUMA node allocation")
        return nodes

    def _is_taken_otherwise(self, node: int, nodes: Nodes) -> bool:
        """Return True if a node has allocations that are not for just these nodes."""
        state = self.state.numa[node]
        return state.assignments > 0 and (len(state.cells) == 1 or state.cells != nodes)

    def _have_free(self, nodes: Nodes, requested: Amounts) -> bool:
        return all(self._sum(nodes, name, "free") >= size for name, size in requested.items())

    def _sum(self, nodes: Nodes, resource: str, column: str) -> int:
        tables = (self.state.numa[node].tables.get(resource) for node in nodes)
        return sum(getattr(table, column) for table in tables if table is not None)

    def _calculate(self, pod: Pod, requested: Amounts) -> Hints:
        least = len(self.state.numa)
        able: list[Nodes] = []
        for nodes in numa_sets(self.state.numa):
            if any(
                self._sum(nodes, name, "allocatable") < size for name, size in requested.items()
            ):
                continue
            least = min(least, len(nodes))
            if self._are_compatible(nodes) and all(
                self._sum(nodes, name, "free") + self._reusable_bytes(pod, nodes, name) >= size
                for name, size in requested.items()
            ):
                able.append(nodes)
        hints = [Hint(nodes, len(nodes) == least) for nodes in able]
        return dict.fromkeys(requested, hints) if hints else {}

    def _are_compatible(self, nodes: Nodes) -> bool:
        """Return True if no other allocation combines these nodes in another way."""
        if len(nodes) == 1:
            return all(len(self.state.numa[node].cells) == 1 for node in nodes)
        return not any(self._is_taken_otherwise(node, nodes) for node in nodes)

    # --- counting

    @staticmethod
    def _reserve(numa: Mapping[int, NumaState], block: Block, size: int) -> None:
        for node in sorted(block.nodes):
            state = numa[node]
            state.assignments += 1
            state.cells = block.nodes
            table = state.tables.get(block.resource)
            if table is not None:
                part = min(size, table.free)
                table.reserved += part
                table.free -= part
                size -= part

    def _free(self, block: Block) -> None:
        size = block.size
        for node in sorted(block.nodes):
            state = self.state.numa[node]
            state.assignments -= 1
            if state.assignments == 0:
                state.cells = frozenset((node,))
            table = state.tables.get(block.resource)
            if table is not None:
                part = min(size, table.reserved)
                table.reserved -= part
                table.free += part
                size -= part

    def _reusable_bytes(self, pod: Pod, nodes: Nodes, resource: str) -> int:
        if self._reusable_of != pod.metadata.uid:
            return 0
        return self._reusable.get((nodes, resource), 0)

    def _update_reusable(self, pod: Pod, container: Container, blocks: Iterable[Block]) -> None:
        if self._reusable_of != pod.metadata.uid:
            self._reusable_of, self._reusable = pod.metadata.uid, {}
        once = container in pod.spec.initContainers and not is_sidecar(container)
        for block in blocks:
            key = (block.nodes, block.resource)
            size = self._reusable.get(key, 0)
            self._reusable[key] = max(size, block.size) if once else max(size - block.size, 0)

    def _shrink_init_containers(
        self, pod: Pod, container: Container, blocks: Iterable[Block]
    ) -> None:
        """Count memory once that an earlier init container and this container share."""
        of_pod = self.state.blocks[pod.metadata.uid]
        for block in blocks:
            left = block.size
            for earlier in pod.spec.initContainers:
                if earlier.name == container.name or not left:
                    break
                if is_sidecar(earlier):
                    continue
                kept: list[Block] = []
                for allocated in of_pod.get(earlier.name, []):
                    shared = 0
                    if (allocated.resource, allocated.nodes) == (block.resource, block.nodes):
                        shared = min(allocated.size, left)
                    left -= shared
                    kept.append(Block(allocated.nodes, allocated.resource, allocated.size - shared))
                if earlier.name in of_pod:
                    of_pod[earlier.name] = kept

    # --- state

    def _machine(self) -> dict[int, NumaState]:
        """Return the state without allocations."""
        states: dict[int, NumaState] = {}
        for node in self._numa:
            reserved = self._reserved.get(node.id, {})
            tables = {
                name: _table(total, reserved.get(name, 0), total)
                for name, total in node.hugepages.items()
            }
            usable = node.memory - sum(node.hugepages.values())
            tables["memory"] = _table(node.memory, reserved.get("memory", 0), usable)
            states[node.id] = NumaState(tables, frozenset((node.id,)))
        return states

    def _check_state(self) -> None:
        expected = self._machine()
        state = self.state
        if not state.numa:
            if state.blocks:
                raise PodtuiError(
                    "[memorymanager] machine state can not be empty when it has memory assignments"
                )
            state.numa = expected
            return
        for uid, containers in state.blocks.items():
            for name, blocks in containers.items():
                for block in blocks:
                    where = f"[memorymanager] (pod: {uid}, container: {name}) the memory assignment"
                    if not block.nodes <= expected.keys():
                        raise PodtuiError(f"{where} uses the NUMA that does not exist")
                    if any(block.resource not in expected[number].tables for number in block.nodes):
                        raise PodtuiError(f"{where} uses memory resource that does not exist")
                    self._reserve(expected, block, block.size)
        if not _are_equal(state.numa, expected):
            raise PodtuiError(
                "[memorymanager] the expected machine state is different from the real one"
            )


def _table(total: int, reserved: int, usable: int) -> MemoryTable:
    allocatable = usable - reserved
    return MemoryTable(total, reserved, allocatable, 0, allocatable)


def _are_equal(states: Mapping[int, NumaState], other: Mapping[int, NumaState]) -> bool:
    """Compare states by groups of NUMA nodes: inside a group, the order of allocations decides
    which node has how much."""
    if states.keys() != other.keys():
        return False
    for node, state in states.items():
        expected = other[node]
        if (state.assignments, state.cells) != (expected.assignments, expected.cells):
            return False
        if state.tables.keys() != expected.tables.keys():
            return False
        for name, table in state.tables.items():
            same = expected.tables[name]
            fixed = (table.total, table.system_reserved, table.allocatable)
            if fixed != (same.total, same.system_reserved, same.allocatable):
                return False
            for column in ("free", "reserved"):
                sums = [
                    sum(getattr(each[cell].tables[name], column) for cell in state.cells)
                    for each in (states, other)
                ]
                if sums[0] != sums[1]:
                    return False
    return True


def _is_managed(pod: Pod) -> bool:
    return qos_class(pod) == GUARANTEED and not has_pod_level_resources(pod)


def _is_memory(resource: str) -> bool:
    return resource == "memory" or resource.startswith("hugepages-")


def memory_requests(container: Container) -> dict[str, int]:
    """Return the requested bytes of memory and huge pages."""
    requests = container.resources.requests
    return {
        name: parse_quantity(text).value() for name, text in requests.items() if _is_memory(name)
    }


def pod_memory_requests(pod: Pod) -> dict[str, int]:
    """Return the bytes that the containers of a pod need at the same time."""
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in pod.spec.initContainers:
        for name, size in memory_requests(container).items():
            if is_sidecar(container):
                sidecars[name] = sidecars.get(name, 0) + size
            else:
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + size)
    total: dict[str, int] = {}
    for container in pod.spec.containers:
        for name, size in memory_requests(container).items():
            total[name] = total.get(name, 0) + size
    return {
        name: max(size + sidecars.get(name, 0), peak.get(name, 0)) for name, size in total.items()
    }


def _hints_of_existing(blocks: Iterable[Block], requested: Amounts) -> Hints:
    """Return the hints of an existing allocation; none if it is not for this request."""
    by_resource = {block.resource: block for block in blocks}
    if {name: block.size for name, block in by_resource.items()} != dict(requested):
        return {}
    return {name: [Hint(block.nodes, True)] for name, block in by_resource.items()}


def _best(hints: Iterable[Hint]) -> Hint:
    best = Hint(None, False)
    for hint in hints:
        if best.nodes is None or hint.nodes is None:
            best = hint
        elif hint.preferred != best.preferred:
            best = hint if hint.preferred else best
        elif is_narrower(hint.nodes, best.nodes):
            best = hint
    return best
