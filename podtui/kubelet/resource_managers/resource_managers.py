"""The resource managers of the node: admission, placement of containers, state files.

Each pod is allocated devices, exclusive CPUs and NUMA memory when it is admitted, and keeps them
until it has stopped, also over restarts of the kubelet (kubelet.md §13.7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, field

from podtui.api.cpus import CpuMap, CpuSet, CpuUser, format_cpu_set, parse_cpu_set
from podtui.api.pod_resources import GUARANTEED, pod_requests, qos_class
from podtui.api.quantity import parse_quantity
from podtui.api.v1 import Container, Pod, PodStatus
from podtui.clock import Clock
from podtui.errors import EngineError, PodtuiError
from podtui.kubelet.config import KubeletConfig
from podtui.kubelet.kubelet_metrics import TOPOLOGY_ERRORS, TOPOLOGY_REQUESTS
from podtui.kubelet.resource_managers.cpu_manager import (
    CpuManager,
    CpuState,
    cpu_policy_options,
    parse_bool,
    reserved_cpus,
)
from podtui.kubelet.resource_managers.cpu_topology import (
    NO_CPUS,
    MachineTopology,
)
from podtui.kubelet.resource_managers.device_checkpoint import CHECKPOINT, DEVICE_PLUGINS
from podtui.kubelet.resource_managers.device_manager import (
    ContainerDevices,
    DeviceError,
    DeviceManager,
)
from podtui.kubelet.resource_managers.memory_manager import (
    Block,
    MemoryManager,
    MemoryState,
    MemoryTable,
    NumaState,
    Reserved,
)
from podtui.kubelet.resource_managers.topology_manager import (
    AllocationError,
    Hint,
    HintProvider,
    TopologyManager,
)
from podtui.kubelet.types import NodeView
from podtui.private_files import read_private, write_private
from podtui.runtime.protocol import Resources, Runtime

_LOG = logging.getLogger(__name__)
CPU_STATE_FILE: Final = "cpu_manager_state"
MEMORY_STATE_FILE: Final = "memory_manager_state"
MOST_NUMA_NODES: Final = 8
"""The most NUMA nodes that can be aligned, unless ``max-allowable-numa-nodes`` is larger."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The CPUs and NUMA nodes of a container, in the format of cpusets; empty means all.

    ``exclusive``: no other container shares the CPUs, so no CPU quota is set.
    """

    cpus: str = ""
    mems: str = ""
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container to keep on its CPUs."""

    uid: str
    name: str
    id: str


class ResourceManagers:
    """With the default policies (``none``) it only allocates devices, and checks that there is no
    state of other policies.

    ``containers`` returns the running containers. ``topology`` reads the machine's topology and
    blocks. ``on_change`` is called after allocations have changed. ``on_capacity`` and
    ``on_health`` are those of `DeviceManager`.
    """

    def __init__(
        self,
        *,
        runtime: Runtime,
        clock: Clock,
        config: KubeletConfig,
        containers: Callable[[], Iterable[RunningContainer]],
        topology: Callable[[], MachineTopology],
        on_change: Callable[[], None] = lambda: None,
        on_capacity: Callable[[], None] = lambda: None,
        on_health: Callable[[Collection[str]], None] = lambda uids: None,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._config = config
        self._containers = containers
        self._read_topology = topology
        self._on_change = on_change
        self._topology: TopologyManager | None = None
        self.cpus: CpuManager | None = None
        self.memory: MemoryManager | None = None
        self._root = Path(config.root_dir) if config.root_dir else None
        self._placed: dict[str, CpuSet] = {}
        self._changed = asyncio.Event()
        self._checkpoint: Path | None = None
        if config.plugin_dir:
            self._checkpoint = Path(config.plugin_dir, DEVICE_PLUGINS, CHECKPOINT)
        self.devices = DeviceManager(
            clock=clock,
            is_running=self._is_running,
            write=self._write_checkpoint,
            on_change=self._changed.set,
            on_capacity=on_capacity,
            on_health=on_health,
        )
        self.without_checkpoint = False
        """True if no earlier kubelet on this machine had device plugins."""

    @property
    def _enabled(self) -> bool:
        config = self._config
        return (
            config.cpu_manager_policy != "none"
            or config.memory_manager_policy != "None"
            or config.topology_manager_policy != "none"
        )

    def _is_running(self, uid: str, container: str) -> bool:
        return any((each.uid, each.name) == (uid, container) for each in self._containers())

    async def load(self) -> None:
        """Read the topology and the state files. Raises `PodtuiError` for settings that do not fit
        the machine or the state, with the kubelet's texts.

        A state file of another policy is such an error: running containers would stay on the CPUs
        that it gave them.
        """
        await asyncio.to_thread(self._check_policies)
        if self._enabled:
            await asyncio.to_thread(self._load)
            await self._save()
        else:
            self._topology = TopologyManager("none", self._config.topology_manager_scope, ())
        await self._load_devices()

    async def _load_devices(self) -> None:
        """Restore the allocated devices. Without their checkpoint the kubelet runs all the same, as
        the kubelet does."""
        if self._checkpoint is None:
            return
        try:
            content = await asyncio.to_thread(read_private, self._checkpoint)
            self.without_checkpoint = content is None
            if content is not None:
                self.devices.restore(content)
        except (OSError, PodtuiError) as error:
            _LOG.error("allocated devices are not restored from %s: %s", self._checkpoint, error)

    async def _write_checkpoint(self, content: bytes) -> None:
        if self._checkpoint is not None:
            await asyncio.to_thread(_write_files, [(self._checkpoint, content)])

    def _check_policies(self) -> None:
        self._read(CPU_STATE_FILE, "CPU", self._config.cpu_manager_policy, _CpuFile)
        self._read(MEMORY_STATE_FILE, "memory", self._config.memory_manager_policy, _MemoryFile)

    def _load(self) -> None:
        config = self._config
        machine = self._read_topology()
        self._topology = topology_manager(config, machine)
        self.devices.set_machine(node.id for node in machine.numa)
        if config.cpu_manager_policy == "static":
            options = cpu_policy_options(config.cpu_manager_policy_options)
            specific = parse_cpu_set(config.reserved_system_cpus)
            milli = len(specific) * 1000 or _reserved(config, "cpu")
            reserved = reserved_cpus(machine.cpus, milli, specific, options)
            if options.align_by_socket and self._topology.policy == "single-numa-node":
                raise PodtuiError(
                    "Topolgy manager single-numa-node policy is incompatible with CPUManager "
                    "align-by-socket policy option"
                )
            state = self._read(CPU_STATE_FILE, "CPU", "static", _CpuFile)
            try:
                self.cpus = CpuManager(
                    machine.cpus,
                    reserved=reserved,
                    options=options,
                    state=None if state is None else state.state(),
                )
            except (PodtuiError, ValueError) as error:
                raise self._bad_state("CPU", CPU_STATE_FILE, str(error)) from error
        if config.memory_manager_policy == "Static":
            reserved_memory = reserved_memory_of(config, machine)
            state = self._read(MEMORY_STATE_FILE, "memory", "Static", _MemoryFile)
            try:
                self.memory = MemoryManager(
                    machine.numa,
                    reserved=reserved_memory,
                    state=None if state is None else state.state(),
                )
            except (PodtuiError, ValueError) as error:
                raise self._bad_state("memory", MEMORY_STATE_FILE, str(error)) from error

    def disable(self) -> bool:
        """Stop placing containers. Return True if a policy was in effect."""
        active = self._topology is not None and self._enabled
        self._topology = self.cpus = self.memory = None
        return active

    # --- pods

    async def admit(self, pod: Pod) -> AllocationError | None:
        """Allocate the pod's resources, unless it has them. Return the error if they cannot be
        allocated; then the pod has none."""
        if self._topology is None:
            return None
        self._changed.set()
        TOPOLOGY_REQUESTS.inc()
        providers = self._providers()
        try:
            for container, affinity in self._topology.affinities(pod, [self.devices, *providers]):
                await self._allocate_devices(pod, container, affinity)
                for provider in providers:
                    provider.allocate(pod, container, affinity)
        except AllocationError as error:
            return self._failed(pod, error)
        return None

    def readmit(self, pod: Pod) -> AllocationError | None:
        """Allocate CPUs and memory for a pod that starts over. It gets devices when its containers
        start. Return the error if there is one; then the pod has none."""
        if self._topology is None:
            return None
        self._changed.set()
        TOPOLOGY_REQUESTS.inc()
        try:
            self._topology.admit(pod, self._providers())
        except AllocationError as error:
            return self._failed(pod, error)
        return None

    async def _allocate_devices(self, pod: Pod, container: Container, affinity: Hint) -> None:
        try:
            await self.devices.allocate(pod, container, affinity)
        except DeviceError as error:
            raise AllocationError(str(error)) from error

    def _failed(self, pod: Pod, error: AllocationError) -> AllocationError:
        if self._topology is not None and self._topology.policy != "none":
            TOPOLOGY_ERRORS.inc()
        self._release(pod.metadata.uid)
        return error

    async def prepare_devices(self, pod: Pod, container: Container) -> ContainerDevices:
        """Return what the container needs for its devices. Raises `DeviceError`."""
        if self._topology is None:
            return ContainerDevices()
        return await self.devices.prepare(pod, container)

    def show_devices(self, pod: Pod, status: PodStatus) -> PodStatus:
        """Return the status with the health of the containers' devices."""
        if not self._config.gate("ResourceHealthStatus", True):
            return status
        return self.devices.show_health(pod, status)

    def node_view(self, pod: Pod, view: NodeView) -> NodeView:
        """Return the view of the node for a pod. If the pod has devices, the node has at least
        those that are allocated, even if their plugin is not back yet."""
        allocatable = view.resources.allocatable
        counts = self.devices.allocated_counts(pod.metadata.uid)
        least = {name: max(count, allocatable.get(name, 0)) for name, count in counts.items()}
        if not least:
            return view
        resources = replace(view.resources, allocatable={**allocatable, **least})
        return replace(view, resources=resources)

    def release(self, uid: str) -> None:
        """Release the resources of a pod that has stopped."""
        if self._topology is not None:
            self._release(uid)
            self._changed.set()

    def keep_only(self, uids: Collection[str]) -> None:
        """Release the resources of all other pods."""
        allocated: set[str] = set(self.devices.uids())
        if self.cpus is not None:
            allocated |= self.cpus.state.exclusive.keys()
        if self.memory is not None:
            allocated |= self.memory.state.blocks.keys()
        for uid in allocated.difference(uids):
            self.release(uid)

    def resize_problem(self, pod: Pod, allocated: Pod) -> str:
        """Return why the node's policies do not allow a resize; empty if they do."""
        if qos_class(pod) != GUARANTEED:
            return ""
        policies = (
            ("cpu", "CPU Manager", "static", self._config.cpu_manager_policy),
            ("memory", "Memory Manager", "Static", self._config.memory_manager_policy),
        )
        new, old = pod_requests(pod), pod_requests(allocated)
        for resource, manager, static, policy in policies:
            if policy == static and new.get(resource) != old.get(resource):
                return (
                    f"Resize is infeasible for Guaranteed Pods alongside {manager} policy "
                    f'"{static}"'
                )
        return ""

    def placement(self, pod: Pod, container: Container) -> Placement:
        """Return where a container is to run."""
        uid = pod.metadata.uid
        cpus = exclusive = NO_CPUS
        mems: frozenset[int] = frozenset()
        if self.cpus is not None:
            cpus = self.cpus.cpus(uid, container.name)
            exclusive = self.cpus.exclusive(uid, container.name)
        if self.memory is not None:
            mems = self.memory.numa_nodes(uid, container.name)
        return Placement(format_cpu_set(cpus), format_cpu_set(mems), bool(exclusive))

    def _providers(self) -> list[HintProvider]:
        return [manager for manager in (self.cpus, self.memory) if manager is not None]

    def _release(self, uid: str) -> None:
        for provider in (self.devices, self.cpus, self.memory):
            if provider is not None:
                provider.release(uid)

    def cpu_map(self, pod_name: Callable[[str], str]) -> CpuMap | None:
        """Return the map of the CPUs; None without a CPU manager. ``pod_name`` returns
        ``namespace/name`` for a UID."""
        if self.cpus is None:
            return None
        cores: dict[int, dict[int, list[int]]] = {}
        for number, cpu in sorted(self.cpus.topology.cpus.items()):
            cores.setdefault(cpu.numa, {}).setdefault(cpu.core, []).append(number)
        users = [
            CpuUser(pod=pod_name(uid), container=name, cpus=tuple(sorted(cpus)))
            for uid, containers in self.cpus.state.exclusive.items()
            for name, cpus in containers.items()
        ]
        return CpuMap(
            nodes={node: tuple(map(tuple, each.values())) for node, each in cores.items()},
            reserved=tuple(sorted(self.cpus.reserved)),
            users=tuple(sorted(users, key=lambda user: user.cpus)),
        )

    # --- reconciliation

    async def run(self) -> None:
        """Save changes, and keep the running containers on their CPUs: those without exclusive CPUs
        leave the CPUs that another container got. Runs forever.

        A crash before a change is saved does no harm: the pod is allocated again at the next start,
        and its containers are moved.
        """
        while True:
            if self.cpus is None:
                await self._changed.wait()
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._config.cpu_manager_reconcile_period):
                        await self._changed.wait()
            if self._changed.is_set():
                self._changed.clear()
                self._on_change()
                await self._save()
                await self.devices.save()
            await self.reconcile()

    async def reconcile(self) -> None:
        """Update each running container whose CPUs have changed."""
        manager = self.cpus
        if manager is None:
            return
        running = list(self._containers())
        for container in running:
            wanted = manager.cpus(container.uid, container.name)
            if not wanted or self._placed.get(container.id) == wanted:
                continue
            resources = Resources(cpuset_cpus=format_cpu_set(wanted))
            try:
                await self._runtime.update_container(container.id, resources)
            except EngineError as error:
                _LOG.warning("the CPUs of container %s are not set: %s", container.name, error)
                continue
            self._placed[container.id] = wanted
        ids = {container.id for container in running}
        self._placed = {id: cpus for id, cpus in self._placed.items() if id in ids}

    # --- state files

    def _read(self, name: str, manager: str, policy: str, kind: type[_File]) -> _File | None:
        if self._root is None:
            return None
        try:
            data = read_private(self._root / name)
            if data is None:
                return None
            state = msgspec.json.decode(data, type=kind)
        except (OSError, ValueError, RecursionError) as error:
            raise self._bad_state(manager, name, str(error)) from error
        if state.policyName != policy:
            raise self._bad_state(
                manager,
                name,
                f'configured policy "{policy}" differs from state checkpoint policy '
                f'"{state.policyName}"',
            )
        return state

    def _bad_state(self, manager: str, name: str, problem: str) -> PodtuiError:
        path = (self._root or Path()) / name
        return PodtuiError(
            f"could not restore state from checkpoint: {problem}, please drain this node and "
            f'delete the {manager} manager checkpoint file "{path}" before restarting Kubelet'
        )

    async def _save(self) -> None:
        await asyncio.to_thread(_write_files, self._files())

    def _files(self) -> list[tuple[Path, bytes]]:
        files: list[tuple[Path, bytes]] = []
        if self._root is not None and self.cpus is not None:
            content = _CpuFile.of(self.cpus.state)
            files.append((self._root / CPU_STATE_FILE, msgspec.json.encode(content)))
        if self._root is not None and self.memory is not None:
            file = _MemoryFile.of(self.memory.state)
            files.append((self._root / MEMORY_STATE_FILE, msgspec.json.encode(file)))
        return files


# --- settings


def topology_manager(config: KubeletConfig, machine: MachineTopology) -> TopologyManager:
    """Return the manager for the settings. Raises `PodtuiError` with the kubelet's texts."""
    most, closest = MOST_NUMA_NODES, False
    for name, text in config.topology_manager_policy_options.items():
        if name == "prefer-closest-numa-nodes":
            closest = parse_bool(name, text)
        elif name == "max-allowable-numa-nodes":
            most = _most_numa_nodes(name, text)
        else:
            raise PodtuiError(f'unknown Topology Manager Policy option: "{name}"')
    if config.topology_manager_policy != "none" and len(machine.numa) > most:
        raise PodtuiError(f"unsupported on machines with more than {most} NUMA Nodes")
    return TopologyManager(
        policy=config.topology_manager_policy,
        scope=config.topology_manager_scope,
        numa=machine.numa,
        prefer_closest=closest,
    )


def _most_numa_nodes(name: str, text: str) -> int:
    try:
        most = int(text)
    except ValueError as error:
        raise PodtuiError(f'unable to convert policy option to integer "{name}": {text}') from error
    if most < MOST_NUMA_NODES:
        raise PodtuiError(
            f'the minimum value of "{name}" should not be less than {MOST_NUMA_NODES}'
        )
    return most


def _reserved(config: KubeletConfig, resource: str) -> int:
    """Return ``systemReserved`` and ``kubeReserved`` of a resource: millicores or bytes."""
    texts = (each.get(resource) for each in (config.system_reserved, config.kube_reserved))
    quantities = [parse_quantity(text) for text in texts if text is not None]
    return sum(
        quantity.milli_value() if resource == "cpu" else quantity.value() for quantity in quantities
    )


def reserved_memory_of(config: KubeletConfig, machine: MachineTopology) -> Reserved:
    """Return ``reservedMemory`` in bytes. Raises `PodtuiError` unless its sum by resource is what
    ``systemReserved``, ``kubeReserved`` and ``evictionHard`` reserve, as the kubelet demands."""
    by_node: dict[int, dict[str, int]] = {}
    for node, limits in config.reserved_memory:
        if node not in {numa.id for numa in machine.numa}:
            raise PodtuiError(
                f"the reserved memory configuration references a NUMA node {node} that does not "
                "exist on this machine"
            )
        by_node[node] = {name: parse_quantity(text).value() for name, text in limits.items()}
    resources = {"memory"} | {name for limits in by_node.values() for name in limits}
    for resource in sorted(resources):
        total = sum(limits.get(resource, 0) for limits in by_node.values())
        expected = _reserved(config, resource)
        if resource == "memory":
            expected += _eviction_memory(config, machine)
        if total != expected:
            raise PodtuiError(
                f'the total amount "{total}" of type "{resource}" is not equal to the value '
                f'"{expected}" determined by Node Allocatable feature'
            )
    return by_node


def _eviction_memory(config: KubeletConfig, machine: MachineTopology) -> int:
    text = config.eviction_hard.get("memory.available", "0")
    if text.endswith("%"):
        return int(sum(node.memory for node in machine.numa) * float(text[:-1]) / 100)
    return parse_quantity(text).value()


# --- the kubelet's checkpoint format, without a checksum


class _CpuFile(Struct):
    policyName: str
    defaultCpuSet: str
    entries: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])

    @classmethod
    def of(cls, state: CpuState) -> _CpuFile:
        entries = {
            uid: {name: format_cpu_set(cpus) for name, cpus in containers.items()}
            for uid, containers in state.exclusive.items()
        }
        return cls("static", format_cpu_set(state.shared), entries)

    def state(self) -> CpuState:
        """Raises ValueError."""
        exclusive = {
            uid: {name: parse_cpu_set(text) for name, text in containers.items()}
            for uid, containers in self.entries.items()
        }
        return CpuState(parse_cpu_set(self.defaultCpuSet), exclusive)


class _TableFile(Struct):
    total: int
    systemReserved: int
    allocatable: int
    reserved: int
    free: int


class _NumaFile(Struct):
    numberOfAssignments: int
    memoryMap: dict[str, _TableFile]
    cells: list[int]


class _BlockFile(Struct):
    numaAffinity: list[int]
    type: str
    size: int


class _MemoryFile(Struct):
    policyName: str
    machineState: dict[int, _NumaFile]
    entries: dict[str, dict[str, list[_BlockFile]]] = field(
        default_factory=dict[str, dict[str, list[_BlockFile]]]
    )

    @classmethod
    def of(cls, state: MemoryState) -> _MemoryFile:
        machine = {
            number: _NumaFile(
                node.assignments,
                {
                    name: _TableFile(
                        table.total,
                        table.system_reserved,
                        table.allocatable,
                        table.reserved,
                        table.free,
                    )
                    for name, table in node.tables.items()
                },
                sorted(node.cells),
            )
            for number, node in state.numa.items()
        }
        entries = {
            uid: {
                name: [
                    _BlockFile(sorted(block.nodes), block.resource, block.size) for block in blocks
                ]
                for name, blocks in containers.items()
            }
            for uid, containers in state.blocks.items()
        }
        return cls("Static", machine, entries)

    def state(self) -> MemoryState:
        numa = {
            number: NumaState(
                {
                    name: MemoryTable(
                        table.total,
                        table.systemReserved,
                        table.allocatable,
                        table.reserved,
                        table.free,
                    )
                    for name, table in node.memoryMap.items()
                },
                frozenset(node.cells),
                node.numberOfAssignments,
            )
            for number, node in self.machineState.items()
        }
        blocks = {
            uid: {
                name: [
                    Block(frozenset(block.numaAffinity), block.type, block.size) for block in each
                ]
                for name, each in containers.items()
            }
            for uid, containers in self.entries.items()
        }
        return MemoryState(numa, blocks)


_File = TypeVar("_File", _CpuFile, _MemoryFile)


def _write_files(files: Iterable[tuple[Path, bytes]]) -> None:
    """Replace the files atomically. Blocks."""
    for path, data in files:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, data)
        except OSError as error:
            _LOG.warning("cannot write %s: %s", path, error)
