"""A machine with plenty of resources by default."""

from __future__ import annotations

from podtui.kubelet.node.host import Disk, HostFacts, Listener, Observation
from podtui.kubelet.resource_managers.cpu_topology import (
    Cpu,
    CpuTopology,
    MachineTopology,
    NumaNode,
)

ENGINE_ROOT = "/engine"
GI = 1 << 30
CAPACITY = 100 * GI


class FakeHost:
    """A fake `podtui.kubelet.node.host.Host`. Tests may change ``seen`` and ``disks``."""

    kernel_log = "/nowhere/kmsg"

    def __init__(self) -> None:
        self.boot_id = "boot-1"
        self.huge_pages: dict[str, int] = {}
        self.seen: dict[str, Observation] = {
            "memory.available": Observation(30 * GI, 32 * GI),
            "nodefs.available": Observation(90 * GI, CAPACITY),
            "imagefs.available": Observation(90 * GI, CAPACITY),
            "imagefs.inodesFree": Observation(900, 1000),
            "pid.available": Observation(900, 1000),
        }
        self.disks: dict[str, Disk] = {}
        self.available = 90 * GI
        self.listening: tuple[Listener, ...] = ()

    def facts(self) -> HostFacts:
        return HostFacts(boot_id=self.boot_id, huge_pages=self.huge_pages)

    def topology(self) -> MachineTopology:
        """Two NUMA nodes with two cores of two threads each: CPUs 0-3 and 4-7."""
        cpus = {n: Cpu(core=n - n % 2, socket=n // 4, numa=n // 4, cache=n // 4) for n in range(8)}
        nodes = tuple(NumaNode(n, 16 * GI, {}, (10, 20) if n == 0 else (20, 10)) for n in (0, 1))
        return MachineTopology(CpuTopology(cpus), nodes)

    def disk(self, path: str) -> Disk | None:
        known = Disk(capacity=CAPACITY, available=self.available, device=1)
        return self.disks.get(path, known)

    def signals(self, engine_root: str, root_dir: str) -> dict[str, Observation]:
        return dict(self.seen)

    def listeners(self) -> tuple[Listener, ...]:
        return self.listening
