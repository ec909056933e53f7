"""Resource usage of containers and the node, computed on request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

import psutil

from podtui.api.local import ContainerMetrics, NodeMetrics, PodMetrics
from podtui.api.summary import (
    CPUStats,
    MemoryStats,
    NodeSummary,
    PodSummary,
    Summary,
    VolumeSummary,
)
from podtui.api.times import rfc3339
from podtui.api.v1 import ObjectMeta
from podtui.clock import Clock
from podtui.errors import EngineError
from podtui.kubelet.node.host import Disk, read_disk
from podtui.kubelet.node.link import EngineLink
from podtui.kubelet.pleg.pod_cache import PodCache
from podtui.kubelet.stats.layer_sizes import LayerSizes
from podtui.kubelet.stats.samples import (
    ContainerSample,
    MetricSamples,
    NetworkSample,
    sample_containers,
    sample_networks,
)
from podtui.kubelet.stats.summary import PodSample, pod_summary
from podtui.kubelet.stats.usage_history import (
    NOT_MEASURED,
    SPACING,
    UsageBook,
    UsageHistory,
    UsageRecords,
)
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import ContainerStats, Runtime, SandboxStats

_NANO: Final = 1_000_000_000
ReadDisk = Callable[[str], Disk | None]
LEAST_SECONDS: Final = 0.1
"""Minimum distance of two readings: with less, jitter would cause giant rates."""
CACHED_FOR: Final = 2.0
"""Seconds for which a sample is reused."""
SLICE: Final = 25
"""Number of pods or containers to process before yielding to the event loop."""
_SLACK: Final = 1.0
T = TypeVar("T")


class Metrics:
    """Samples usage and computes rates.

    A rate is the difference to the previous sample; the first CPU rate is the average since the
    container's start.
    """

    def __init__(
        self,
        runtime: Runtime,
        cache: PodCache,
        link: EngineLink,
        clock: Clock,
        node_name: str,
        *,
        table: UsageRecords | None = None,
        disk: ReadDisk = read_disk,
        volumes: Callable[[str], tuple[VolumeSummary, ...]] = lambda uid: (),
    ) -> None:
        self.volumes_of = volumes
        """Returns the usage of the volumes of a pod, by its UID."""
        self._runtime = runtime
        self._cache = cache
        self._link = link
        self._clock = clock
        self._node_name = node_name
        self.history = UsageHistory()
        self.sizes = LayerSizes(runtime, cache, clock)
        self._book = UsageBook(table, self.history, clock)
        self._node_reader = NodeReader(clock, CACHED_FOR, disk)
        self._readings: dict[tuple[str, str], CounterReading] = {}
        self._pods: tuple[PodMetrics, ...] = ()
        self._pods_at: float | None = None
        self._networks_at: float | None = None
        self.containers: tuple[ContainerSample, ...] = ()
        """Container samples of the last scan."""
        self.networks: dict[str, NetworkSample] = {}
        """Network samples of the last scan by pod UID."""
        self._lock = asyncio.Lock()

    # --- pods

    async def pods(self) -> tuple[PodMetrics, ...]:
        """Return the usage of all pods. Raises `EngineUnavailable`."""
        async with self._lock:
            now = self._clock.monotonic()
            if self._pods_at is None or now - self._pods_at >= CACHED_FOR:
                window = CACHED_FOR if self._pods_at is None else now - self._pods_at
                containers = await sample_containers(self._runtime, self._cache)
                networks = await self._sample_networks(now)
                self.containers = containers
                self._pods = await self._take(containers, networks, window)
                self._pods_at = now
                await self._write()
            return self._pods

    async def _sample_networks(self, now: float) -> tuple[NetworkSample, ...]:
        """Sample the networks, or return an empty tuple until the next sample is due. Network usage
        is sampled only as often as the history stores it."""
        if self._networks_at is not None and now - self._networks_at < SPACING - _SLACK:
            return ()
        samples = await sample_networks(self._runtime, self._cache)
        self._networks_at = now
        self.networks = {sample.pod.uid: sample for sample in samples}
        return samples

    async def _take(
        self,
        containers: Sequence[ContainerSample],
        networks: Sequence[NetworkSample],
        window: float,
    ) -> tuple[PodMetrics, ...]:
        """Process the samples in slices and yield to the event loop between them: a thousand pods
        would block it noticeably."""
        at = self._clock.now().timestamp()
        by_pod: dict[str, tuple[ObservedPod, list[ContainerMetrics]]] = {}
        readings: dict[tuple[str, str], CounterReading] = {}
        for part in slices(containers):
            for sample in part:
                _, measured = by_pod.setdefault(sample.pod.uid, (sample.pod, []))
                measured.append(self._container(sample, at, readings))
            await asyncio.sleep(0)
        if networks:
            for part in slices(networks):
                for sample in part:
                    self._network(sample, at, readings)
                await asyncio.sleep(0)
        else:
            kept = {
                (network.sandbox_id, name)
                for network in self.networks.values()
                for name in ("received", "sent")
            }
            readings |= {key: self._readings[key] for key in kept & self._readings.keys()}
        self._readings = readings
        pods: list[PodMetrics] = []
        for part in slices(tuple(by_pod.values())):
            pods += self._pod_metrics(part, window)
            await asyncio.sleep(0)
        return tuple(pods)

    def _container(
        self, sample: ContainerSample, at: float, readings: dict[tuple[str, str], CounterReading]
    ) -> ContainerMetrics:
        stats, container, pod = sample.stats, sample.container, sample.pod
        cores = self._cores(sample, readings)
        read = self._rate(container.id, "read", stats.read, stats, readings)
        written = self._rate(container.id, "written", stats.written, stats, readings)
        storage = self.sizes.of(container.id).total
        measured = (read, written, None if storage is None else float(storage))
        values = [NOT_MEASURED if value is None else value for value in measured]
        key = (pod.namespace, pod.name, container.name)
        self.history.add(at, key, (cores * 1000, stats.memory, *values))
        usage = {"cpu": _nano(cores), "memory": str(stats.memory)}
        return ContainerMetrics(name=container.name, usage=usage)

    def _network(
        self, sample: NetworkSample, at: float, readings: dict[tuple[str, str], CounterReading]
    ) -> None:
        stats = sample.stats
        if stats.interfaces is None:
            return
        sums = {
            "received": sum(interface.received for interface in stats.interfaces),
            "sent": sum(interface.sent for interface in stats.interfaces),
        }
        rates = [self._rate(sample.sandbox_id, n, v, stats, readings) for n, v in sums.items()]
        values = [NOT_MEASURED if value is None else value for value in rates]
        self.history.add(at, (sample.pod.namespace, sample.pod.name), values)

    def _rate(
        self,
        identity: str,
        name: str,
        value: int | None,
        stats: ContainerStats | SandboxStats,
        readings: dict[tuple[str, str], CounterReading],
    ) -> float | None:
        if value is None:
            return None
        now = readings[identity, name] = CounterReading(value, stats.timestamp)
        return rate(self._readings.get((identity, name)), now)

    def _cores(
        self, sample: ContainerSample, readings: dict[tuple[str, str], CounterReading]
    ) -> float:
        stats, key = sample.stats, (sample.container.id, "cpu")
        now = readings[key] = CounterReading(stats.cpu, stats.timestamp)
        before = self._readings.get(key)
        if before is None:
            before = CounterReading(0, sample.container.started_at or stats.timestamp)
        return (rate(before, now) or 0.0) / _NANO

    def _pod_metrics(
        self, pods: Iterable[tuple[ObservedPod, list[ContainerMetrics]]], window: float
    ) -> Iterator[PodMetrics]:
        stamp = rfc3339(self._clock.now())
        for pod, containers in pods:
            yield PodMetrics(
                metadata=ObjectMeta(name=pod.name, namespace=pod.namespace),
                timestamp=stamp,
                window=f"{window:.3f}s",
                containers=tuple(sorted(containers, key=lambda c: c.name)),
            )

    async def summary(self) -> Summary:
        """Return all figures for ``/stats/summary``. Raises `EngineUnavailable`."""
        node, pods = await self.node(), await self.pods()
        cores = {
            (pod.metadata.namespace, pod.metadata.name): {
                container.name: _from_nano(container.usage["cpu"]) for container in pod.containers
            }
            for pod in pods
        }
        by_pod: dict[str, list[ContainerSample]] = {}
        for sample in self.containers:
            by_pod.setdefault(sample.pod.uid, []).append(sample)
        summaries: list[PodSummary] = []
        for part in slices(tuple(by_pod.items())):
            for uid, samples in part:
                pod, network = samples[0].pod, self.networks.get(uid)
                sample = PodSample(
                    pod,
                    samples,
                    None if network is None else network.stats,
                    self.volumes_of(uid),
                    cores.get((pod.namespace, pod.name), {}).get,
                    self.sizes.of,
                )
                summaries.append(pod_summary(sample))
            await asyncio.sleep(0)
        return Summary(node=self._node_summary(node), pods=tuple(summaries))

    async def measured(self) -> MetricSamples:
        """Return the samples for ``/metrics/resource`` and ``/metrics/cadvisor``."""
        failed = False
        try:
            await self.pods()
        except EngineError as error:
            self._link.suspect(error)
            failed = True
        local = self._link.info is not None and self._link.info.local
        node = await asyncio.to_thread(read_node_usage) if local else None
        return MetricSamples(
            containers=self.containers,
            networks=tuple(self.networks.values()),
            node_cpu=None if node is None else node.cpu / _NANO,
            node_memory=None if node is None else node.memory,
            node_time=self._clock.now().timestamp(),
            failed=failed,
        )

    def _node_summary(self, node: NodeMetrics | None) -> NodeSummary:
        if node is None:
            return NodeSummary(nodeName=self._node_name)
        cores, time = _from_nano(node.usage["cpu"]), node.timestamp
        return NodeSummary(
            nodeName=self._node_name,
            cpu=CPUStats(time=time, usageNanoCores=round(cores * _NANO)),
            memory=MemoryStats(time=time, workingSetBytes=int(node.usage["memory"])),
        )

    # --- history

    async def run(self) -> None:
        """Record the usage history. Runs forever. Only an engine on this machine is sampled
        periodically, where this is cheap; for others the history has only the samples that clients
        requested."""
        await self._book.load()
        while True:
            await self._link.wait_ready()
            here = self._link.info is not None and self._link.info.local
            await self._sample(here=here)
            names = {(observed.namespace, observed.name) for observed in self._cache}
            now = self._clock.now().timestamp()
            self.history.keep(names, now)
            await self._clock.sleep(SPACING)

    async def _sample(self, *, here: bool) -> None:
        busy = any(observed.containers for observed in self._cache)
        try:
            if here:
                await self.node()
            if here and busy:
                await self.pods()
            else:
                await self._write()
            if busy and (here or self._requested_lately()):
                running = (sample.container.id for sample in self.containers)
                await self.sizes.measure(running, local=here)
        except EngineError as error:
            self._link.suspect(error)

    async def _write(self) -> None:
        await self._book.write(self.history.drain())

    def _requested_lately(self) -> bool:
        at = self._pods_at
        return at is not None and self._clock.monotonic() - at < SPACING

    # --- the node

    async def node(self) -> NodeMetrics | None:
        """Return the usage of the engine's machine if that is this one, else the sum over its
        containers."""
        info = self._link.info
        if info is None:
            return None
        if not info.local:
            pods = await self.pods()
            cores = sum(_from_nano(c.usage["cpu"]) for pod in pods for c in pod.containers)
            memory = sum(sample.stats.memory for sample in self.containers)
            return self._node_of(cores, memory, None, CACHED_FOR)
        figures = await self._node_reader.figures(info.root_dir)
        return self._node_of(figures.cores, figures.memory, figures.storage, figures.window)

    def _node_of(
        self, cores: float | None, memory: int, storage: int | None, window: float
    ) -> NodeMetrics:
        running = sum(1 for observed in self._cache if observed.sandboxes)
        stored = NOT_MEASURED if storage is None else float(storage)
        now = self._clock.now()
        if cores is not None:
            self.history.add(now.timestamp(), (), (cores * 1000, memory, running, stored))
        return NodeMetrics(
            metadata=ObjectMeta(name=self._node_name),
            timestamp=rfc3339(now),
            window=f"{window:.3f}s",
            usage={"cpu": _nano(cores or 0.0), "memory": str(memory)},
        )


def slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for begin in range(0, len(items), SLICE):
        yield items[begin : begin + SLICE]


def _nano(cores: float) -> str:
    return f"{round(max(0.0, cores) * _NANO)}n"


def _from_nano(text: str) -> float:
    return int(text.removesuffix("n")) / _NANO


# --- the engine's machine, if that is this one


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """``cpu`` in nanoseconds since boot; ``memory`` is the working set in bytes."""

    cpu: int
    memory: int


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """``cores`` in use over the last ``window`` seconds, None at the first reading. ``memory`` and
    ``storage`` in bytes; ``storage`` is that of the file system with the engine's images, volumes
    and logs, None if unknown."""

    cores: float | None
    memory: int
    storage: int | None
    window: float


def read_node_usage() -> NodeUsage:
    """Read the usage of this machine. Blocks for some milliseconds."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    memory = psutil.virtual_memory()
    return NodeUsage(int((sum(times[:8]) - idle) * _NANO), memory.total - memory.available)


class NodeReader:
    """Reads the usage at most every ``least`` seconds."""

    def __init__(self, clock: Clock, least: float, disk: ReadDisk = read_disk) -> None:
        self._clock = clock
        self._least = least
        self._disk = disk
        self._last: tuple[NodeUsage, float] | None = None
        self._figures: NodeFigures | None = None

    async def figures(self, engine_root: str) -> NodeFigures:
        """Return the current usage. ``engine_root`` is the engine's root directory."""
        now = self._clock.monotonic()
        before = self._last
        if self._figures is not None and before is not None and now - before[1] < self._least:
            return self._figures
        usage, disk = await asyncio.to_thread(self._read, engine_root)
        window, cores = self._least, None
        if before is not None:
            window = max(1e-3, now - before[1])
            cores = max(0.0, (usage.cpu - before[0].cpu) / _NANO / window)
        storage = None if disk is None else disk.capacity - disk.available
        self._last = (usage, now)
        self._figures = NodeFigures(cores, usage.memory, storage, window)
        return self._figures

    def _read(self, engine_root: str) -> tuple[NodeUsage, Disk | None]:
        return read_node_usage(), self._disk(engine_root or "/")


# --- rates


@dataclass(frozen=True, slots=True)
class CounterReading:
    value: int
    at: datetime


def rate(before: CounterReading | None, now: CounterReading) -> float | None:
    """Return units per second. Return None before the second reading, if the readings are too
    close, or if the counter decreased because it was reset."""
    if before is None or now.value < before.value:
        return None
    elapsed = (now.at - before.at).total_seconds()
    return (now.value - before.value) / elapsed if elapsed >= LEAST_SECONDS else None
