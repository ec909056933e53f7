"""The CPU manager's static policy: exclusive CPUs for containers of Guaranteed pods.

A container that requests whole CPUs gets them for itself; all others share the rest (kubelet.md
§13.7; `policy_static.go` of the kubelet, v1.36). Pod-level resources get no exclusive CPUs, as in a
kubelet without the feature gate ``PodLevelResourceManagers``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from podtui.api.cpus import CpuSet, format_cpu_set
from podtui.api.pod_resources import GUARANTEED, qos_class
from podtui.api.pods import is_sidecar
from podtui.api.quantity import parse_quantity
from podtui.api.v1 import Container, Pod
from podtui.errors import PodtuiError
from podtui.kubelet.kubelet_metrics import CPU_ERRORS, CPU_REQUESTS
from podtui.kubelet.resource_managers.cpu_assignment import (
    NotEnoughCpus,
    take_distributed,
    take_packed,
)
from podtui.kubelet.resource_managers.cpu_topology import (
    NO_CPUS,
    CpuTopology,
)
from podtui.kubelet.resource_managers.topology_manager import (
    AllocationError,
    Hint,
    Hints,
    Nodes,
    numa_sets,
)

SMT_ERROR: Final = "SMTAlignmentError"
_CONFLICTS: Final = (
    ("full-pcpus-only", "distribute-cpus-across-cores"),
    ("distribute-cpus-across-numa", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-cores"),
    ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
)


@dataclass(frozen=True, slots=True)
class CpuPolicyOptions:
    """The ``cpuManagerPolicyOptions``, by the kubelet's names with underscores."""

    full_pcpus_only: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncorecache: bool = False


def cpu_policy_options(options: Mapping[str, str]) -> CpuPolicyOptions:
    """Read the options. Raises `PodtuiError` with the kubelet's texts."""
    names = {name.replace("_", "-") for name in CpuPolicyOptions.__slots__}
    values: dict[str, bool] = {}
    for name, text in options.items():
        if name not in names:
            raise PodtuiError(f'unknown CPU Manager Policy option: "{name}"')
        values[name] = parse_bool(name, text)
    for option, other in _CONFLICTS:
        if values.get(option) and values.get(other):
            raise PodtuiError(
                f"static policy options {option} and {other} can not be used at the same time"
            )
    return CpuPolicyOptions(**{name.replace("-", "_"): value for name, value in values.items()})


def parse_bool(name: str, text: str) -> bool:
    """Parse a boolean as Go's `strconv.ParseBool`. Raises `PodtuiError`."""
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise PodtuiError(
        f'bad value for option "{name}": strconv.ParseBool: parsing "{text}": invalid syntax'
    )


@dataclass(slots=True)
class CpuState:
    """The shared CPUs, and the exclusive ones by pod UID and container."""

    shared: CpuSet = NO_CPUS
    exclusive: dict[str, dict[str, CpuSet]] = field(default_factory=dict[str, dict[str, CpuSet]])


class CpuManager:
    """Implements `HintProvider` for CPUs.

    ``reserved`` are never given away. ``state`` is what an earlier run of the kubelet allocated.
    Raises `PodtuiError` if the state does not belong to this topology and reservation.
    """

    def __init__(
        self,
        topology: CpuTopology,
        *,
        reserved: CpuSet,
        options: CpuPolicyOptions,
        state: CpuState | None = None,
    ) -> None:
        self.state = state or CpuState()
        self.topology = topology
        self.reserved = reserved
        self._options = options
        cores = {topology.cpus[cpu].core for cpu in reserved}
        self._reserved_cores = topology.in_cores(cores)
        # CPUs of init containers of the pod that is being admitted, for its next containers.
        self._reusable: tuple[str, CpuSet] = ("", NO_CPUS)
        self._check_state()

    def cpus(self, uid: str, container: str) -> CpuSet:
        """Return the exclusive CPUs of a container, else the shared ones."""
        return self.exclusive(uid, container) or self.state.shared

    def exclusive(self, uid: str, container: str) -> CpuSet:
        return self.state.exclusive.get(uid, {}).get(container, NO_CPUS)

    # --- HintProvider

    def hints(self, pod: Pod, container: Container) -> Hints:
        requested = exclusive_cpus(pod, container)
        if not requested:
            return {}
        allocated = self.exclusive(pod.metadata.uid, container.name)
        if allocated:
            same = len(allocated) == requested
            return {"cpu": self._cpu_hints(allocated, NO_CPUS, requested) if same else []}
        return {"cpu": self._cpu_hints(self._available, self._reusable_of(pod), requested)}

    def pod_hints(self, pod: Pod) -> Hints:
        requested = pod_exclusive_cpus(pod)
        if not requested:
            return {}
        assigned = NO_CPUS
        for container in (*pod.spec.initContainers, *pod.spec.containers):
            allocated = self.exclusive(pod.metadata.uid, container.name)
            if allocated and len(allocated) != exclusive_cpus(pod, container):
                return {"cpu": []}
            assigned |= allocated
        if len(assigned) == requested:
            return {"cpu": self._cpu_hints(assigned, NO_CPUS, requested)}
        reusable = self._reusable_of(pod) | assigned
        return {"cpu": self._cpu_hints(self._available, reusable, requested)}

    @CPU_ERRORS.count_exceptions(AllocationError)
    def allocate(self, pod: Pod, container: Container, affinity: Hint) -> None:
        requested = exclusive_cpus(pod, container)
        if not requested:
            return
        CPU_REQUESTS.inc()
        self._check_smt(requested)
        uid = pod.metadata.uid
        cpus = self.exclusive(uid, container.name)
        if not cpus:
            try:
                cpus = self._take(requested, affinity.nodes, self._reusable_of(pod))
            except NotEnoughCpus as error:
                raise AllocationError(str(error)) from error
            self.state.shared -= cpus
            self.state.exclusive.setdefault(uid, {})[container.name] = cpus
        reusable = self._reusable_of(pod)
        once = container in pod.spec.initContainers and not is_sidecar(container)
        self._reusable = (uid, reusable | cpus if once else reusable - cpus)

    def release(self, uid: str) -> None:
        """Give the CPUs of a pod back to the shared ones."""
        for cpus in self.state.exclusive.pop(uid, {}).values():
            self.state.shared |= cpus

    # --- choice

    @property
    def _available(self) -> CpuSet:
        return self.state.shared - self.reserved

    def _reusable_of(self, pod: Pod) -> CpuSet:
        uid, cpus = self._reusable
        return cpus if uid == pod.metadata.uid else NO_CPUS

    def _take(self, count: int, nodes: Nodes | None, reusable: CpuSet) -> CpuSet:
        free = self._available | reusable
        aligned = NO_CPUS
        if nodes is not None:
            of_nodes = self._aligned(nodes, free)
            aligned = self._choose(of_nodes, min(count, len(of_nodes)))
        return aligned | self._choose(free - aligned, count - len(aligned))

    def _aligned(self, nodes: Nodes, free: CpuSet) -> CpuSet:
        topology = self.topology
        if self._options.align_by_socket:
            sockets = {topology.cpus[cpu].socket for cpu in topology.in_numa(nodes)}
            return topology.in_sockets(sockets, free)
        return topology.in_numa(nodes, free)

    def _choose(self, free: CpuSet, count: int) -> CpuSet:
        return choose_cpus(self.topology, free, count, self._options)

    def _check_smt(self, requested: int) -> None:
        if not self._options.full_pcpus_only:
            return
        per_core = self.topology.cpus_per_core
        if requested % per_core:
            raise AllocationError(
                f"SMT Alignment Error: requested {requested} cpus not multiple cpus per core = "
                f"{per_core}",
                SMT_ERROR,
            )
        available = len(self.state.shared - self._reserved_cores)
        if requested > available:
            raise AllocationError(
                "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = "
                f"{available}, requested CPUs = {requested}, CPUs per core = {per_core}",
                SMT_ERROR,
            )

    def _cpu_hints(self, available: CpuSet, reusable: CpuSet, requested: int) -> list[Hint]:
        topology = self.topology
        least = len(topology.numa_nodes)
        able: list[Nodes] = []
        for nodes in numa_sets(topology.numa_nodes):
            if len(topology.in_numa(nodes)) >= requested:
                least = min(least, len(nodes))
            enough = len(reusable) + len(topology.in_numa(nodes, available)) >= requested
            if enough and topology.in_numa(nodes, reusable) == reusable:
                able.append(nodes)
        return [Hint(nodes, self._is_preferred(nodes, least)) for nodes in able]

    def _is_preferred(self, nodes: Nodes, least: int) -> bool:
        topology = self.topology
        if self._options.align_by_socket:
            per_socket = len(topology.numa_nodes) // len(topology.sockets)
            sockets = {topology.cpus[cpu].socket for cpu in topology.in_numa(nodes)}
            if per_socket and len(sockets) == -(-least // per_socket):
                return True
        return len(nodes) == least

    # --- state

    def _check_state(self) -> None:
        state, reserved = self.state, self.reserved
        every = self.topology.all
        usable = every - reserved if self._options.strict_cpu_reservation else every
        if not state.shared:
            if state.exclusive:
                raise PodtuiError("default cpuset cannot be empty")
            state.shared = usable
            return
        shared = format_cpu_set(state.shared)
        if self._options.strict_cpu_reservation:
            if reserved & state.shared:
                both = format_cpu_set(reserved & state.shared)
                raise PodtuiError(
                    f'some of strictly reserved cpus: "{both}" are present in defaultCpuSet: '
                    f'"{shared}"'
                )
        elif not reserved <= state.shared:
            raise PodtuiError(
                f'not all reserved cpus: "{format_cpu_set(reserved)}" are present in '
                f'defaultCpuSet: "{shared}"'
            )
        assigned = state.shared
        for uid, containers in state.exclusive.items():
            for name, cpus in containers.items():
                if cpus & state.shared:
                    raise PodtuiError(
                        f'pod: {uid}, container: {name} cpuset: "{format_cpu_set(cpus)}" overlaps '
                        f'with default cpuset "{shared}"'
                    )
                assigned |= cpus
        if assigned != usable:
            raise PodtuiError(
                f'current set of available CPUs "{format_cpu_set(usable)}" doesn\'t match with '
                f'CPUs in state "{format_cpu_set(assigned)}"'
            )


def choose_cpus(
    topology: CpuTopology, free: CpuSet, count: int, options: CpuPolicyOptions
) -> CpuSet:
    """Return ``count`` of the free CPUs. Raises `NotEnoughCpus`."""
    spread = options.distribute_cpus_across_cores
    if options.distribute_cpus_across_numa:
        group = topology.cpus_per_core if options.full_pcpus_only else 1
        return take_distributed(topology, free, count, group=group, spread_cores=spread)
    align = options.prefer_align_cpus_by_uncorecache
    return take_packed(topology, free, count, spread_cores=spread, align_caches=align)


def reserved_cpus(
    topology: CpuTopology, milli: int, specific: CpuSet, options: CpuPolicyOptions
) -> CpuSet:
    """Return the CPUs that are never exclusive: the given ones, or those of the lowest cores for a
    reservation in millicores. Raises `PodtuiError` with the kubelet's texts."""
    if milli <= 0:
        raise PodtuiError(
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be "
            "greater than zero"
        )
    count = len(specific) or math.ceil(milli / 1000)
    try:
        reserved = specific or choose_cpus(topology, topology.all, count, options)
    except NotEnoughCpus:
        reserved = NO_CPUS
    if len(reserved) != count or not reserved <= topology.all:
        raise PodtuiError(
            "[cpumanager] unable to reserve the required amount of CPUs (size of "
            f"{format_cpu_set(reserved & topology.all)} did not equal {count})"
        )
    return reserved


def exclusive_cpus(pod: Pod, container: Container) -> int:
    """Return how many exclusive CPUs a container gets: those of an integral request in a
    Guaranteed pod without pod-level resources, else 0."""
    text = container.resources.requests.get("cpu")
    if text is None or qos_class(pod) != GUARANTEED or has_pod_level_resources(pod):
        return 0
    whole, part = divmod(parse_quantity(text).milli_value(), 1000)
    return 0 if part else whole


def has_pod_level_resources(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and bool(resources.requests or resources.limits)


def pod_exclusive_cpus(pod: Pod) -> int:
    """Return how many exclusive CPUs the containers of a pod need at the same time."""
    peak = sidecars = 0
    for container in pod.spec.initContainers:
        count = exclusive_cpus(pod, container)
        if is_sidecar(container):
            sidecars += count
        else:
            peak = max(peak, sidecars + count)
    return max(
        peak, sidecars + sum(exclusive_cpus(pod, container) for container in pod.spec.containers)
    )
