"""The CPUs and NUMA nodes of a machine, as Linux reports them in sysfs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from podtui.api.cpus import CpuSet, parse_cpu_set
from podtui.errors import PodtuiError

SYSFS: Final = Path("/sys/devices/system")
NO_CPUS: Final[CpuSet] = frozenset()


@dataclass(frozen=True, slots=True)
class Cpu:
    """The location of one logical CPU. ``core`` is the lowest CPU of the physical core, ``cache``
    the last-level cache."""

    core: int
    socket: int
    numa: int
    cache: int


@dataclass(frozen=True)
class CpuTopology:
    """The online CPUs by number. Selections take the CPUs to search in; None stands for all."""

    cpus: Mapping[int, Cpu]

    @cached_property
    def all(self) -> CpuSet:
        return frozenset(self.cpus)

    @cached_property
    def numa_nodes(self) -> CpuSet:
        return frozenset(cpu.numa for cpu in self.cpus.values())

    @cached_property
    def sockets(self) -> CpuSet:
        return frozenset(cpu.socket for cpu in self.cpus.values())

    @cached_property
    def _cores(self) -> int:
        return len({cpu.core for cpu in self.cpus.values()})

    @property
    def cpus_per_core(self) -> int:
        return len(self.cpus) // max(self._cores, 1)

    @property
    def cpus_per_socket(self) -> int:
        return len(self.cpus) // max(len(self.sockets), 1)

    @property
    def cpus_per_cache(self) -> int:
        return len(self.cpus) // max(len({cpu.cache for cpu in self.cpus.values()}), 1)

    def in_cores(self, cores: Collection[int], among: CpuSet | None = None) -> CpuSet:
        return self._select(among, lambda cpu: cpu.core in cores)

    def in_sockets(self, sockets: Collection[int], among: CpuSet | None = None) -> CpuSet:
        return self._select(among, lambda cpu: cpu.socket in sockets)

    def in_numa(self, nodes: Collection[int], among: CpuSet | None = None) -> CpuSet:
        return self._select(among, lambda cpu: cpu.numa in nodes)

    def in_caches(self, caches: Collection[int], among: CpuSet | None = None) -> CpuSet:
        return self._select(among, lambda cpu: cpu.cache in caches)

    def _select(self, among: CpuSet | None, matches: Callable[[Cpu], bool]) -> CpuSet:
        cpus = self.cpus
        return frozenset(
            number for number in (cpus if among is None else among) if matches(cpus[number])
        )


@dataclass(frozen=True, slots=True)
class NumaNode:
    """The memory of one NUMA node, in bytes. ``hugepages`` are the preallocated bytes by resource
    name (``hugepages-2Mi``); ``distances`` are the relative distances to all nodes, in order."""

    id: int
    memory: int
    hugepages: Mapping[str, int] = field(default_factory=dict[str, int])
    distances: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineTopology:
    cpus: CpuTopology
    numa: tuple[NumaNode, ...]


def read_machine_topology(sysfs: Path = SYSFS) -> MachineTopology:
    """Read the topology of this machine. Blocks. Raises `PodtuiError` if sysfs does not have it."""
    try:
        numa_of: dict[int, int] = {}
        nodes: list[NumaNode] = []
        for path in _numbered(sysfs / "node", "node"):
            number = int(path.name.removeprefix("node"))
            numa_of |= dict.fromkeys(parse_cpu_set((path / "cpulist").read_text()), number)
            nodes.append(_numa_node(number, path))
        cpus = {
            number: _cpu(number, sysfs / "cpu" / f"cpu{number}", numa_of.get(number, 0))
            for number in parse_cpu_set((sysfs / "cpu" / "online").read_text())
        }
    except (OSError, ValueError) as error:
        raise PodtuiError(f"cannot read the CPU topology from {sysfs}: {error}") from error
    return MachineTopology(CpuTopology(cpus), tuple(nodes))


def _numbered(folder: Path, prefix: str) -> list[Path]:
    paths = [path for path in folder.glob(f"{prefix}*") if path.name.removeprefix(prefix).isdigit()]
    return sorted(paths, key=lambda path: int(path.name.removeprefix(prefix)))


def _cpu(number: int, path: Path, numa: int) -> Cpu:
    topology = path / "topology"
    siblings = parse_cpu_set((topology / "thread_siblings_list").read_text())
    socket = max(int((topology / "physical_package_id").read_text()), 0)
    caches = [cache for cache in _numbered(path / "cache", "index") if _level(cache) == 3]
    cache = int((caches[0] / "id").read_text()) if caches else socket
    return Cpu(core=min(siblings | {number}), socket=socket, numa=numa, cache=cache)


def _level(cache: Path) -> int:
    try:
        return int((cache / "level").read_text()) if (cache / "id").exists() else 0
    except FileNotFoundError:
        return 0


def _numa_node(number: int, path: Path) -> NumaNode:
    memory = 0
    for line in (path / "meminfo").read_text().splitlines():
        tokens = line.split()
        if len(tokens) >= 4 and tokens[2] == "MemTotal:":
            memory = int(tokens[3]) * 1024
    pages: dict[str, int] = {}
    for pool in sorted((path / "hugepages").glob("hugepages-*kB")):
        size = int(pool.name.removeprefix("hugepages-").removesuffix("kB")) * 1024
        count = int((pool / "nr_hugepages").read_text())
        pages[f"hugepages-{_binary(size)}"] = count * size
    distances = tuple(int(word) for word in (path / "distance").read_text().split())
    return NumaNode(number, memory, pages, distances)


def _binary(size: int) -> str:
    for exponent, suffix in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size % (1 << exponent) == 0:
            return f"{size >> exponent}{suffix}"
    return str(size)
