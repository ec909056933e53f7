"""Usage of containers and node, computed only when somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import psutil

from podtui.api.local import ContainerMetrics, NodeMetrics, PodMetrics
from podtui.api.v1 import ObjectMeta
from podtui.clock import Clock
from podtui.errors import EngineError
from podtui.kubelet.link import EngineLink
from podtui.kubelet.pod_cache import PodCache
from podtui.kubelet.timestamps import rfc3339
from podtui.kubelet.usage_history import SPACING, UsageHistory
from podtui.runtime.protocol import ContainerStats, Runtime

CACHED_FOR: Final = 2.0
"""Seconds for which the last figures are good enough."""
_NANO: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Sample:
    cpu: int
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """``cpu`` in nanoseconds since boot, ``memory`` the working set in bytes."""

    cpu: int
    memory: int


def read_node_usage() -> NodeUsage:
    """This machine's, from its own books. Blocks for some milliseconds."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    memory = psutil.virtual_memory()
    return NodeUsage(int((sum(times[:8]) - idle) * _NANO), memory.total - memory.available)


class Metrics:
    """Rates come from the difference to the sample before; the first time, from the start."""

    def __init__(
        self, runtime: Runtime, cache: PodCache, link: EngineLink, clock: Clock, node_name: str
    ) -> None:
        self._runtime = runtime
        self._cache = cache
        self._link = link
        self._clock = clock
        self._node_name = node_name
        self.history = UsageHistory()
        self._samples: dict[str, _Sample] = {}
        self._pods: tuple[PodMetrics, ...] = ()
        self._pods_at: float | None = None
        self._stats: tuple[ContainerStats, ...] = ()
        self._node: tuple[NodeUsage, float] | None = None
        self._node_metrics: NodeMetrics | None = None
        self._lock = asyncio.Lock()

    async def pods(self) -> tuple[PodMetrics, ...]:
        """Raises `EngineUnavailable`."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._pods_at is None or now - self._pods_at >= CACHED_FOR:
                window = CACHED_FOR if self._pods_at is None else now - self._pods_at
                self._stats = await self._runtime.stats()
                self._pods = self._from_stats(window)
                self._pods_at = now
            return self._pods

    async def run(self) -> None:
        """Endless: keep the history of an engine on this machine, where a look costs little. Of
        others there is what somebody happened to ask for."""
        while True:
            await self._link.wait_ready()
            here = self._link.info is not None and self._link.info.local
            if here and any(observed.containers for observed in self._cache):
                try:
                    await self.pods()
                except EngineError as error:
                    self._link.suspect(error)
            self.history.keep(lambda uid: self._cache.get(uid) is not None)
            await self._clock.sleep(SPACING)

    def _from_stats(self, window: float) -> tuple[PodMetrics, ...]:
        by_pod: dict[str, list[ContainerMetrics]] = {}
        samples: dict[str, _Sample] = {}
        points: list[tuple[str, str, float, int]] = []
        for stats in self._stats:
            samples[stats.id] = _Sample(stats.cpu, stats.timestamp)
            rate = self._rate(stats)
            points.append((stats.pod_uid, stats.name, rate * 1000, stats.memory))
            usage = {"cpu": _cores(rate), "memory": str(stats.memory)}
            by_pod.setdefault(stats.pod_uid, []).append(
                ContainerMetrics(name=stats.name, usage=usage)
            )
        self._samples = samples
        self.history.take(self._clock.now().timestamp(), points)
        stamp = rfc3339(self._clock.now())
        found: list[PodMetrics] = []
        for uid, containers in by_pod.items():
            observed = self._cache.get(uid)
            if observed is not None:
                meta = ObjectMeta(name=observed.name, namespace=observed.namespace)
                found.append(
                    PodMetrics(
                        metadata=meta,
                        timestamp=stamp,
                        window=f"{window:.3f}s",
                        containers=tuple(sorted(containers, key=lambda c: c.name)),
                    )
                )
        return tuple(found)

    def _rate(self, stats: ContainerStats) -> float:
        """Cores in use."""
        before = self._samples.get(stats.id)
        if before is None:
            observed = self._cache.get(stats.pod_uid)
            containers = () if observed is None else observed.containers
            started = next((c.started_at for c in containers if c.id == stats.id), None)
            before = _Sample(0, started or stats.timestamp)
        elapsed = (stats.timestamp - before.timestamp).total_seconds()
        return max(0.0, (stats.cpu - before.cpu) / _NANO / elapsed) if elapsed > 0 else 0.0

    async def node(self) -> NodeMetrics | None:
        """The engine's machine where that is this one; else the sum over its containers."""
        info = self._link.info
        if info is None:
            return None
        if not info.local:
            return await self._node_from_pods()
        now = self._clock.monotonic()
        if self._node is not None and now - self._node[1] < CACHED_FOR:
            return self._node_metrics
        usage = await asyncio.to_thread(read_node_usage)
        before, self._node = self._node, (usage, now)
        if before is None:
            self._node_metrics = self._node_of(0.0, usage.memory, CACHED_FOR)
        else:
            window = max(1e-3, now - before[1])
            rate = (usage.cpu - before[0].cpu) / _NANO / window
            self._node_metrics = self._node_of(rate, usage.memory, window)
        return self._node_metrics

    async def _node_from_pods(self) -> NodeMetrics:
        pods = await self.pods()
        cores = sum(_from_cores(c.usage["cpu"]) for pod in pods for c in pod.containers)
        memory = sum(stats.memory for stats in self._stats)
        return self._node_of(cores, memory, CACHED_FOR)

    def _node_of(self, cores: float, memory: int, window: float) -> NodeMetrics:
        usage: Mapping[str, str] = {"cpu": _cores(cores), "memory": str(memory)}
        return NodeMetrics(
            metadata=ObjectMeta(name=self._node_name),
            timestamp=rfc3339(self._clock.now()),
            window=f"{window:.3f}s",
            usage=dict(usage),
        )


def _cores(rate: float) -> str:
    return f"{round(max(0.0, rate) * _NANO)}n"


def _from_cores(text: str) -> float:
    return int(text.removesuffix("n")) / _NANO
