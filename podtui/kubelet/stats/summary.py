"""Convert the samples of a pod to the format of ``/stats/summary``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from podtui.api.summary import (
    ContainerSummary,
    CPUStats,
    FsStats,
    InterfaceStats,
    MemoryStats,
    NetworkStats,
    PodReference,
    PodSummary,
    VolumeSummary,
)
from podtui.api.times import rfc3339
from podtui.kubelet.stats.layer_sizes import LayerSize
from podtui.kubelet.stats.samples import ContainerSample
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import SandboxStats


@dataclass(frozen=True, slots=True)
class PodSample:
    """The samples of one pod. ``cores_of`` returns the cores in use by container name, None if
    unknown; ``size_of`` returns a container's disk usage by its id."""

    pod: ObservedPod
    containers: Sequence[ContainerSample]
    network: SandboxStats | None
    volumes: tuple[VolumeSummary, ...]
    cores_of: Callable[[str], float | None]
    size_of: Callable[[str], LayerSize]


def pod_summary(sample: PodSample) -> PodSummary:
    """Return the summary of a pod with at least one running container."""
    pod, counters = sample.pod, [container.stats for container in sample.containers]
    time = rfc3339(max(stats.timestamp for stats in counters))
    containers = tuple(
        _container(sample, container)
        for container in sorted(sample.containers, key=lambda sample: sample.container.name)
    )
    sandbox = pod.sandboxes[0] if pod.sandboxes else None
    rates = [container.cpu.usageNanoCores for container in containers if container.cpu is not None]
    return PodSummary(
        podRef=PodReference(name=pod.name, namespace=pod.namespace, uid=pod.uid),
        startTime=None if sandbox is None else rfc3339(sandbox.created_at),
        containers=containers,
        cpu=CPUStats(
            time=time,
            usageNanoCores=_sum(rates),
            usageCoreNanoSeconds=sum(stats.cpu for stats in counters),
        ),
        memory=MemoryStats(time=time, workingSetBytes=sum(stats.memory for stats in counters)),
        network=_network(sample.network),
        volume=sample.volumes,
        ephemeralStorage=_storage(
            time, [sample.size_of(one.container.id).total for one in sample.containers]
        ),
    )


def _container(sample: PodSample, measured: ContainerSample) -> ContainerSummary:
    stats, container = measured.stats, measured.container
    time, started = rfc3339(stats.timestamp), container.started_at
    size, cores = sample.size_of(container.id), sample.cores_of(container.name)
    return ContainerSummary(
        name=container.name,
        startTime=None if started is None else rfc3339(started),
        cpu=CPUStats(
            time=time,
            usageNanoCores=None if cores is None else round(cores * 1e9),
            usageCoreNanoSeconds=stats.cpu,
        ),
        memory=MemoryStats(time=time, workingSetBytes=stats.memory),
        rootfs=_storage(time, [size.layer]),
        logs=_storage(time, [size.logs]),
    )


def _storage(time: str, sizes: Iterable[int | None]) -> FsStats | None:
    used = _sum(sizes)
    return None if used is None else FsStats(time=time, usedBytes=used)


def _sum(values: Iterable[int | None]) -> int | None:
    measured = [value for value in values if value is not None]
    return sum(measured) if measured else None


def _network(stats: SandboxStats | None) -> NetworkStats | None:
    if stats is None or not stats.interfaces:
        return None
    interfaces = tuple(
        InterfaceStats(
            name=interface.name,
            rxBytes=interface.received,
            rxErrors=interface.receive_errors,
            txBytes=interface.sent,
            txErrors=interface.send_errors,
        )
        for interface in stats.interfaces
    )
    first = interfaces[0]
    return NetworkStats(
        time=rfc3339(stats.timestamp),
        name=first.name,
        rxBytes=first.rxBytes,
        rxErrors=first.rxErrors,
        txBytes=first.txBytes,
        txErrors=first.txErrors,
        interfaces=interfaces,
    )
