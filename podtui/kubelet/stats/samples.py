"""Counters of running containers and of pods' networks, with the pods that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podtui.kubelet.types import ObservedContainer, ObservedPod
from podtui.runtime.protocol import (
    ContainerState,
    ContainerStats,
    Runtime,
    SandboxState,
    SandboxStats,
)


@dataclass(frozen=True, slots=True)
class ContainerSample:
    pod: ObservedPod
    container: ObservedContainer
    stats: ContainerStats


@dataclass(frozen=True, slots=True)
class NetworkSample:
    pod: ObservedPod
    sandbox_id: str
    stats: SandboxStats


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSamples:
    """The samples of one scan. ``node_cpu`` is in seconds since boot, ``node_memory`` in bytes,
    both of ``node_time``; None if unknown."""

    containers: Sequence[ContainerSample] = ()
    networks: Sequence[NetworkSample] = ()
    node_cpu: float | None = None
    node_memory: int | None = None
    node_time: float | None = None
    failed: bool = False


async def sample_containers(
    runtime: Runtime, pods: Iterable[ObservedPod]
) -> tuple[ContainerSample, ...]:
    """Read the counters of the pods' running containers. Raises `EngineError`."""
    running = {
        container.id: (pod, container)
        for pod in pods
        for container in pod.containers
        if container.state is ContainerState.RUNNING
    }
    stats = await runtime.stats(running)
    return tuple(
        ContainerSample(*running[identity], counters) for identity, counters in stats.items()
    )


async def sample_networks(
    runtime: Runtime, pods: Iterable[ObservedPod]
) -> tuple[NetworkSample, ...]:
    """Read the counters of the pods' own networks. Raises `EngineError`."""
    ready = {
        sandbox.id: pod
        for pod in pods
        for sandbox in pod.sandboxes
        if sandbox.state is SandboxState.READY and not sandbox.host_network
    }
    stats = await runtime.sandbox_stats(ready)
    return tuple(
        NetworkSample(ready[identity], identity, counters) for identity, counters in stats.items()
    )
