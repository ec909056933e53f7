"""Choose CPUs for a container by topology, as the kubelet's static CPU manager does.

Whole sockets and NUMA nodes are taken first, then whole cores, then single CPUs, each time those
with the fewest free CPUs (`takeByTopologyNUMAPacked` and `takeByTopologyNUMADistributed` of the
kubelet's `cpu_assignment.go`, v1.36). The functions are pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

from podtui.api.cpus import CpuSet
from podtui.kubelet.resource_managers.cpu_topology import CpuTopology


class NotEnoughCpus(Exception):
    """Its text is the kubelet's."""


def take_packed(
    topology: CpuTopology,
    available: CpuSet,
    count: int,
    *,
    spread_cores: bool = False,
    align_caches: bool = False,
) -> CpuSet:
    """Return ``count`` of the available CPUs on as few NUMA nodes, sockets and cores as possible.

    ``spread_cores`` takes no whole cores (``distribute-cpus-across-cores``); ``align_caches``
    prefers CPUs of one last-level cache (``prefer-align-cpus-by-uncorecache``). Raises
    `NotEnoughCpus`.
    """
    search = _Search(topology, available, count, spread_cores)
    search.check()
    if search.numa_first:
        steps = [search.take_numa_nodes, search.take_sockets]
    else:
        steps = [search.take_sockets, search.take_numa_nodes]
    if align_caches:
        steps.append(search.take_caches)
    if not spread_cores:
        steps.append(search.take_cores)
    for step in (*steps, search.take_single_cpus):
        if search.needed < 1:
            break
        step()
    return search.taken


def take_distributed(
    topology: CpuTopology,
    available: CpuSet,
    count: int,
    *,
    group: int = 1,
    spread_cores: bool = False,
) -> CpuSet:
    """Return ``count`` CPUs, in groups of ``group``, evenly over the fewest NUMA nodes that suffice
    (``distribute-cpus-across-numa``); packed if they cannot be distributed. Raises `NotEnoughCpus`.
    """
    if count % group:
        return take_packed(topology, available, count, spread_cores=spread_cores)
    search = _Search(topology, available, count, spread_cores)
    search.check()
    if search.needed < 1:
        return search.taken
    for size in search.numa_nodes_needed(group):
        best = _best_distribution(search, size, count, group)
        if best is None:
            continue
        share = count // size // group * group
        for node in best.nodes:
            search.take(_part(search, node, share, spread_cores))
        rest = count - share * size
        while rest > 0:
            for node in best.remainder:
                if rest and len(search.in_numa(node)) >= group:
                    search.take(_part(search, node, group, spread_cores))
                    rest -= group
        return search.taken
    return take_packed(topology, available, count, spread_cores=spread_cores)


def _part(search: _Search, node: int, count: int, spread_cores: bool) -> CpuSet:
    return take_packed(search.topology, search.in_numa(node), count, spread_cores=spread_cores)


class _Search:
    """The free CPUs, and those taken so far."""

    def __init__(
        self, topology: CpuTopology, available: CpuSet, count: int, spread_cores: bool
    ) -> None:
        self.topology = topology
        self.needed = count
        self.taken: CpuSet = frozenset()
        # The larger unit is taken first. Usually a socket has several NUMA nodes, but a node can
        # also span several sockets.
        self.numa_first = len(topology.sockets) >= len(topology.numa_nodes)
        self._free = available & topology.all
        self._available = len(available)
        self._spread_cores = spread_cores

    def check(self) -> None:
        """Raises `NotEnoughCpus`."""
        if self.needed > len(self._free):
            raise NotEnoughCpus(
                "not enough cpus available to satisfy request: "
                f"requested={self.needed}, available={self._available}"
            )

    def take(self, cpus: CpuSet) -> None:
        self.taken |= cpus
        self._free -= cpus
        self.needed -= len(cpus)

    def in_numa(self, *nodes: int) -> CpuSet:
        """Return the free CPUs of NUMA nodes."""
        return self.topology.in_numa(nodes, self._free)

    # --- steps

    def take_numa_nodes(self) -> None:
        whole = self.topology.in_numa
        nodes = [n for n in self.sorted_numa() if len(self.in_numa(n)) == len(whole((n,)))]
        self._take_whole(whole((node,)) for node in nodes)

    def take_sockets(self) -> None:
        topology = self.topology
        free = [
            socket
            for socket in self._sorted_sockets()
            if len(topology.in_sockets((socket,), self._free)) == topology.cpus_per_socket
        ]
        self._take_whole(topology.in_sockets((socket,)) for socket in free)

    def take_cores(self) -> None:
        topology = self.topology
        free = [
            core
            for core in self._sorted_cores()
            if len(topology.in_cores((core,), self._free)) == topology.cpus_per_core
        ]
        self._take_whole(topology.in_cores((core,)) for core in free)

    def take_caches(self) -> None:
        topology = self.topology
        for cache in self._sorted_caches():
            if self.needed >= topology.cpus_per_cache:
                whole = topology.in_caches
                free = [
                    cache
                    for cache in self._sorted_caches()
                    if len(whole((cache,), self._free)) == len(whole((cache,)))
                ]
                self._take_whole(whole((cache,)) for cache in free)
            if self.needed < 1:
                return
            self._take_part_of_cache(cache)
            if self.needed < 1:
                return

    def take_single_cpus(self) -> None:
        for cpu in self._sorted_cpus():
            self.take(frozenset((cpu,)))
            if self.needed < 1:
                return

    def _take_whole(self, units: Iterable[CpuSet]) -> None:
        for unit in list(units):
            if self.needed >= len(unit):
                self.take(unit)

    def _take_part_of_cache(self, cache: int) -> None:
        """Take all that is still needed from one cache, or nothing."""
        topology = self.topology
        per_core = topology.cpus_per_core
        free = topology.in_caches((cache,), self._free)
        cores = sorted({topology.cpus[cpu].core for cpu in free})[: -(-self.needed // per_core)]
        cpus = sorted(topology.in_cores(cores, self._free))
        # Whole cores hold an even number: of the last core, one CPU stays free.
        if self.needed % 2 and per_core > 1 and len(cpus) > self.needed:
            cpus = cpus[:-1]
        if len(cpus) == self.needed:
            self.take(frozenset(cpus))

    # --- orders: fewest free CPUs first, then by number

    def sorted_numa(self) -> list[int]:
        if self.numa_first:
            nodes = {self.topology.cpus[cpu].numa for cpu in self._free}
            return self._by_free(nodes, lambda node: self.in_numa(node))
        return [
            node
            for socket in self._sorted_sockets()
            for node in self._by_free(
                {self.topology.cpus[cpu].numa for cpu in self._in_socket(socket)},
                lambda node: self.in_numa(node),
            )
        ]

    def _sorted_sockets(self) -> list[int]:
        cpus = self.topology.cpus
        if not self.numa_first:
            return self._by_free({cpus[cpu].socket for cpu in self._free}, self._in_socket)
        return [
            socket
            for node in self.sorted_numa()
            for socket in self._by_free(
                {cpus[cpu].socket for cpu in self.in_numa(node)}, self._in_socket
            )
        ]

    def _sorted_cores(self) -> list[int]:
        groups = (
            map(self._in_socket, self._sorted_sockets())
            if self.numa_first
            else map(self.in_numa, self.sorted_numa())
        )
        return [
            core
            for cpus in groups
            for core in self._by_free(
                {self.topology.cpus[cpu].core for cpu in cpus},
                lambda core: self.topology.in_cores((core,), self._free),
            )
        ]

    def _sorted_caches(self) -> list[int]:
        return [
            cache
            for node in self.sorted_numa()
            for cache in self._by_free(
                {self.topology.cpus[cpu].cache for cpu in self.in_numa(node)},
                lambda cache: self.topology.in_caches((cache,), self._free),
            )
        ]

    def _sorted_cpus(self) -> list[int]:
        if self._spread_cores:
            groups = map(self._in_socket, self._sorted_sockets())
        else:
            in_cores = self.topology.in_cores
            groups = (in_cores((core,), self._free) for core in self._sorted_cores())
        return [cpu for group in groups for cpu in sorted(group)]

    def _in_socket(self, socket: int) -> CpuSet:
        return self.topology.in_sockets((socket,), self._free)

    def _by_free(self, ids: Iterable[int], free: Callable[[int], CpuSet]) -> list[int]:
        return sorted(ids, key=lambda id_: (len(free(id_)), id_))

    def numa_nodes_needed(self, group: int) -> range:
        """Return the numbers of NUMA nodes to try."""
        topology = self.topology
        groups = (len(topology.cpus) - 1) // group + 1
        per_node = (groups - 1) // len(topology.numa_nodes) + 1
        needed = (self.needed - 1) // group + 1
        available = len({topology.cpus[cpu].numa for cpu in self._free})
        # At least the nodes that suffice if all of their CPUs are free; at most one for each group,
        # and none without free CPUs.
        return range((needed - 1) // per_node + 1, min(needed, available) + 1)


class _Distribution(NamedTuple):
    nodes: tuple[int, ...]
    remainder: tuple[int, ...]
    """The nodes that also give the CPUs that cannot be distributed evenly."""


def _best_distribution(search: _Search, size: int, count: int, group: int) -> _Distribution | None:
    """Return the ``size`` NUMA nodes after which the free CPUs are most evenly distributed."""
    nodes = search.sorted_numa()
    best: _Distribution | None = None
    best_balance = math.inf
    share = count // size // group * group
    for combo in combinations(nodes, size):
        # No other combination can be more even than this one.
        if best_balance == 0:
            break
        free = {node: len(search.in_numa(node)) for node in nodes}
        if (
            sum(free[node] for node in combo) < count
            or sum(free[node] // group for node in combo) * group < count
            or any(free[node] < share for node in combo)
        ):
            continue
        for node in combo:
            free[node] -= share
        balance, remainder = _best_remainder(free, combo, count - share * size, group)
        if balance < best_balance:
            best_balance, best = balance, _Distribution(combo, remainder)
    return best


def _best_remainder(
    free: dict[int, int], combo: Sequence[int], rest: int, group: int
) -> tuple[float, tuple[int, ...]]:
    if rest == 0:
        return _deviation(free.values()), ()
    best: tuple[float, tuple[int, ...]] = (math.inf, ())
    able = [node for node in combo if free[node] >= group]
    for size in range(len(able), 0, -1):
        for subset in combinations(able, size):
            if sum(free[node] // group for node in subset) * group < rest:
                continue
            left, missing = dict(free), rest
            # One group from each node in turn, as `take_distributed` takes them.
            while missing > 0:
                for node in subset:
                    if missing and left[node] >= group:
                        left[node] -= group
                        missing -= group
            balance = _deviation(left.values())
            if balance < best[0]:
                best = (balance, subset)
    return best


def _deviation(values: Iterable[int]) -> float:
    """Return the standard deviation, rounded to three places in both steps as the kubelet does."""
    numbers = list(values)
    mean = _round(sum(numbers) / len(numbers))
    return _round(math.sqrt(sum((number - mean) ** 2 for number in numbers) / len(numbers)))


def _round(value: float) -> float:
    return math.floor(value * 1000 + 0.5) / 1000
