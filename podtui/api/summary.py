"""Types of ``/stats/summary``, the kubelet's report of the usage of a node and its pods.

From ``k8s.io/kubelet/pkg/apis/stats/v1alpha1``; fields that podtui does not measure are left out.
"""

from __future__ import annotations

from msgspec import field, structs

from podtui.api.v1 import Struct, Time


class CPUStats(Struct, frozen=True, kw_only=True):
    """``usageNanoCores`` is the current rate; ``usageCoreNanoSeconds`` is the total since the
    start."""

    time: Time
    usageNanoCores: int | None = None
    usageCoreNanoSeconds: int | None = None


class MemoryStats(Struct, frozen=True, kw_only=True):
    time: Time
    workingSetBytes: int | None = None


class InterfaceStats(Struct, frozen=True, kw_only=True):
    """Bytes and errors since the interface was created."""

    name: str
    rxBytes: int | None = None
    rxErrors: int | None = None
    txBytes: int | None = None
    txErrors: int | None = None


class NetworkStats(Struct, frozen=True, kw_only=True):
    """The figures of the default interface, and those of every interface."""

    time: Time
    name: str = ""
    rxBytes: int | None = None
    rxErrors: int | None = None
    txBytes: int | None = None
    txErrors: int | None = None
    interfaces: tuple[InterfaceStats, ...] = ()


class FsStats(Struct, frozen=True, kw_only=True):
    time: Time
    availableBytes: int | None = None
    capacityBytes: int | None = None
    usedBytes: int | None = None


class ClaimReference(Struct, frozen=True, kw_only=True):
    name: str
    namespace: str


class VolumeSummary(FsStats, frozen=True, kw_only=True):
    """A volume of a pod; ``pvcRef`` is its claim."""

    inodesFree: int | None = None
    inodes: int | None = None
    inodesUsed: int | None = None
    name: str
    pvcRef: ClaimReference | None = None


class ContainerSummary(Struct, frozen=True, kw_only=True):
    """``rootfs`` is the writable layer."""

    name: str
    startTime: Time | None = None
    cpu: CPUStats | None = None
    memory: MemoryStats | None = None
    rootfs: FsStats | None = None
    logs: FsStats | None = None


class PodReference(Struct, frozen=True, kw_only=True):
    name: str
    namespace: str
    uid: str


class PodSummary(Struct, frozen=True, kw_only=True):
    podRef: PodReference
    startTime: Time | None = None
    containers: tuple[ContainerSummary, ...] = ()
    cpu: CPUStats | None = None
    memory: MemoryStats | None = None
    network: NetworkStats | None = None
    volume: tuple[VolumeSummary, ...] = ()
    ephemeralStorage: FsStats | None = field(name="ephemeral-storage", default=None)


class NodeSummary(Struct, frozen=True, kw_only=True):
    """``fs`` is the file system that holds the engine's images, volumes and logs."""

    nodeName: str
    cpu: CPUStats | None = None
    memory: MemoryStats | None = None
    fs: FsStats | None = None


class Summary(Struct, frozen=True, kw_only=True):
    node: NodeSummary
    pods: tuple[PodSummary, ...] = ()


def only_cpu_and_memory(summary: Summary) -> Summary:
    """Return the summary as ``only_cpu_and_memory=true`` asks for it."""
    pods = tuple(
        structs.replace(
            pod,
            network=None,
            volume=(),
            ephemeralStorage=None,
            containers=tuple(structs.replace(c, rootfs=None, logs=None) for c in pod.containers),
        )
        for pod in summary.pods
    )
    return Summary(node=structs.replace(summary.node, fs=None), pods=pods)
