"""Metrics computed when they are requested, in the Prometheus text format (kubelet.md §16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from podtui.api.cpus import CpuMap
from podtui.api.pod_resources import is_static
from podtui.api.summary import ClaimReference, VolumeSummary
from podtui.api.v1 import Pod
from podtui.kubelet.kubelet_metrics import KUBELET
from podtui.kubelet.pods.pod_workers import WorkingPod
from podtui.kubelet.prober.state import ProbeTotal
from podtui.kubelet.stats.samples import MetricSamples
from podtui.kubelet.types import ObservedPod
from podtui.runtime.protocol import SandboxState

_NANO: Final = 1e9
_CONTAINER: Final = ("container", "pod", "namespace")
_CADVISOR: Final = ("container", "id", "image", "name", "namespace", "pod")
_CLAIM: Final = ("namespace", "persistentvolumeclaim")
_VOLUME_COLUMNS: Final = (
    ("capacity_bytes", "Capacity in bytes of the volume", "capacityBytes"),
    ("available_bytes", "Available bytes of the volume", "availableBytes"),
    ("used_bytes", "Used bytes of the volume", "usedBytes"),
    ("inodes", "Inodes of the volume", "inodes"),
    ("inodes_free", "Free inodes of the volume", "inodesFree"),
    ("inodes_used", "Used inodes of the volume", "inodesUsed"),
)
_NETWORK: Final = ("interface", "namespace", "pod")


class _Families:
    """A collector of given metric families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def encoded(families: Iterable[Metric], base: CollectorRegistry | None = None) -> bytes:
    """Encode metric families, after those of ``base``."""
    registry = CollectorRegistry()
    registry.register(_Families(families))  # type: ignore[arg-type]
    return (b"" if base is None else generate_latest(base)) + generate_latest(registry)


def kubelet_metrics(
    *,
    node_name: str,
    desired: Sequence[Pod],
    active: Sequence[Pod],
    working: Iterable[WorkingPod],
    observed: Iterable[ObservedPod],
    cpus: CpuMap | None,
    cgroup_version: int,
    volumes: Iterable[VolumeSummary] = (),
) -> bytes:
    """Return ``/metrics``. ``desired`` are the pods of all sources, ``active`` those that have not
    ended, ``working`` those with a worker. ``cpus`` is None without a CPU manager. ``volumes`` are
    those of all pods."""
    name = GaugeMetricFamily("kubelet_node_name", "The node's name", labels=["node"])
    name.add_metric([node_name], 1)
    running, states = 0, Counter[str]()
    for pod in observed:
        running += any(box.state is SandboxState.READY for box in pod.sandboxes)
        states.update(container.state.name.lower() for container in pod.containers)
    pods = GaugeMetricFamily("kubelet_running_pods", "Pods with a running sandbox")
    pods.add_metric([], running)
    containers = GaugeMetricFamily(
        "kubelet_running_containers", "Containers by state", labels=["container_state"]
    )
    for state, count in sorted(states.items()):
        containers.add_metric([state], count)
    mirrors = GaugeMetricFamily("kubelet_mirror_pods", "Static pods with a mirror pod")
    mirrors.add_metric([], sum(map(is_static, desired)))
    workers = GaugeMetricFamily(
        "kubelet_working_pods", "Pods with a worker, by state", labels=WorkingPod._fields
    )
    for labels, count in sorted(Counter(working).items()):
        workers.add_metric(labels, count)
    ephemeral = GaugeMetricFamily(
        "kubelet_managed_ephemeral_containers", "Ephemeral containers of the pods"
    )
    ephemeral.add_metric([], sum(len(pod.spec.ephemeralContainers) for pod in desired))
    cgroup = GaugeMetricFamily("kubelet_cgroup_version", "The cgroup version of the machine")
    cgroup.add_metric([], cgroup_version)
    return encoded(
        (
            name,
            pods,
            containers,
            _by_source("kubelet_desired_pods", "Pods that should run", desired),
            _by_source("kubelet_active_pods", "Pods that count in admission", active),
            mirrors,
            workers,
            ephemeral,
            cgroup,
            *(() if cpus is None else _cpu_families(cpus)),
            *_volume_families(volumes),
        ),
        KUBELET,
    )


def _cpu_families(cpus: CpuMap) -> Iterator[Metric]:
    taken = {cpu for user in cpus.users for cpu in user.cpus}
    nodes = {node: {cpu for core in cores for cpu in core} for node, cores in cpus.nodes.items()}
    shared = set[int]().union(*nodes.values()) - taken - set(cpus.reserved)
    yield GaugeMetricFamily(
        "kubelet_cpu_manager_shared_pool_size_millicores",
        "CPUs that can become exclusive",
        value=1000 * len(shared),
    )
    yield GaugeMetricFamily(
        "kubelet_cpu_manager_exclusive_cpu_allocation_count",
        "Exclusive CPUs of containers",
        value=len(taken),
    )
    of_node = GaugeMetricFamily(
        "kubelet_cpu_manager_allocation_per_numa",
        "Exclusive CPUs by NUMA node",
        labels=["numa_node"],
    )
    for node, members in sorted(nodes.items()):
        of_node.add_metric([str(node)], len(members & taken))
    yield of_node


def _volume_families(volumes: Iterable[VolumeSummary]) -> Iterator[Metric]:
    """Yield the figures of claims; of one that several pods use, those of the first pod."""
    claims: dict[ClaimReference, VolumeSummary] = {}
    for volume in volumes:
        if volume.pvcRef is not None:
            claims.setdefault(volume.pvcRef, volume)
    for name, text, attribute in _VOLUME_COLUMNS:
        family = GaugeMetricFamily(f"kubelet_volume_stats_{name}", text, labels=_CLAIM)
        for ref, volume in claims.items():
            family.add_metric((ref.namespace, ref.name), getattr(volume, attribute))
        yield family


def _by_source(name: str, text: str, pods: Sequence[Pod]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=["static"])
    static = sum(map(is_static, pods))
    family.add_metric([""], len(pods) - static)
    family.add_metric(["true"], static)
    return family


def probe_metrics(totals: Iterable[ProbeTotal]) -> bytes:
    """Return ``/metrics/probes``."""
    labels = ("probe_type", "result", "container", "pod", "namespace", "pod_uid")
    family = CounterMetricFamily("prober_probe_total", "Results of probes", labels=labels)
    for total in totals:
        family.add_metric([str(getattr(total, label)) for label in labels], total.count)
    return encoded([family])


def resource_metrics(measured: MetricSamples) -> bytes:
    """Return ``/metrics/resource``."""
    cpu = CounterMetricFamily(
        "container_cpu_usage_seconds", "CPU seconds used by the container", labels=_CONTAINER
    )
    memory = GaugeMetricFamily(
        "container_memory_working_set_bytes", "Working set of the container", labels=_CONTAINER
    )
    start = GaugeMetricFamily(
        "container_start_time_seconds", "Start of the container, in Unix seconds", labels=_CONTAINER
    )
    of_pods: dict[tuple[str, str], list[float]] = {}
    times: dict[tuple[str, str], float] = {}
    for sample in measured.containers:
        stats, pod, container = sample.stats, sample.pod, sample.container
        labels = (container.name, pod.name, pod.namespace)
        at = stats.timestamp.timestamp()
        cpu.add_metric(labels, stats.cpu / _NANO, timestamp=at)
        memory.add_metric(labels, stats.memory, timestamp=at)
        if container.started_at is not None:
            start.add_metric(labels, container.started_at.timestamp())
        sums = of_pods.setdefault((pod.name, pod.namespace), [0.0, 0.0])
        sums[0] += stats.cpu / _NANO
        sums[1] += stats.memory
        times[pod.name, pod.namespace] = at
    families: list[Metric] = [cpu, memory, start]
    if measured.node_cpu is not None:
        node = CounterMetricFamily("node_cpu_usage_seconds", "CPU seconds used by the node")
        node.add_metric([], measured.node_cpu, timestamp=measured.node_time)
        families.append(node)
    if measured.node_memory is not None:
        used = GaugeMetricFamily("node_memory_working_set_bytes", "Working set of the node")
        used.add_metric([], measured.node_memory, timestamp=measured.node_time)
        families.append(used)
    pod_cpu = CounterMetricFamily(
        "pod_cpu_usage_seconds", "CPU seconds used by the pod", labels=("pod", "namespace")
    )
    pod_memory = GaugeMetricFamily(
        "pod_memory_working_set_bytes", "Working set of the pod", labels=("pod", "namespace")
    )
    for key, (seconds, size) in of_pods.items():
        pod_cpu.add_metric(key, seconds, timestamp=times[key])
        pod_memory.add_metric(key, size, timestamp=times[key])
    error = GaugeMetricFamily("resource_scrape_error", "1 if a scan of the containers failed")
    error.add_metric([], float(measured.failed))
    return encoded([*families, pod_cpu, pod_memory, error])


def cadvisor_metrics(measured: MetricSamples, *, cores: int, memory: int) -> bytes:
    """Return ``/metrics/cadvisor``: the most used metrics of cAdvisor. ``cores`` and ``memory``
    (bytes) are the machine's."""
    containers: dict[str, Metric] = {
        "cpu": CounterMetricFamily(
            "container_cpu_usage_seconds", "CPU seconds used by the container", labels=_CADVISOR
        ),
        "memory": GaugeMetricFamily(
            "container_memory_working_set_bytes", "Working set of the container", labels=_CADVISOR
        ),
        "start": GaugeMetricFamily(
            "container_start_time_seconds", "Start of the container", labels=_CADVISOR
        ),
        "read": CounterMetricFamily(
            "container_fs_reads_bytes", "Bytes read from disks", labels=_CADVISOR
        ),
        "written": CounterMetricFamily(
            "container_fs_writes_bytes", "Bytes written to disks", labels=_CADVISOR
        ),
        "cpu limit": GaugeMetricFamily(
            "container_spec_cpu_quota", "CPU quota in microseconds per period", labels=_CADVISOR
        ),
        "memory limit": GaugeMetricFamily(
            "container_spec_memory_limit_bytes", "Memory limit", labels=_CADVISOR
        ),
    }
    for sample in measured.containers:
        stats, pod, container = sample.stats, sample.pod, sample.container
        identity, image = container.id, container.image
        labels = (container.name, identity, image, identity, pod.namespace, pod.name)
        values: dict[str, float | None] = {
            "cpu": stats.cpu / _NANO,
            "memory": stats.memory,
            "start": _seconds(container.started_at),
            "read": stats.read,
            "written": stats.written,
        }
        if container.resources is not None:
            values["cpu limit"] = container.resources.cpu_quota or None
            values["memory limit"] = container.resources.memory
        for name, value in values.items():
            if value is not None:
                family = containers[name]
                if isinstance(family, CounterMetricFamily | GaugeMetricFamily):
                    family.add_metric(labels, value, timestamp=stats.timestamp.timestamp())
    machine = [
        GaugeMetricFamily("machine_cpu_cores", "Logical CPUs of the machine", value=cores),
        GaugeMetricFamily("machine_memory_bytes", "Memory of the machine", value=memory),
    ]
    return encoded([*containers.values(), *_network_families(measured), *machine])


def _network_families(measured: MetricSamples) -> list[Metric]:
    columns = (
        ("container_network_receive_bytes", "Bytes received", "received"),
        ("container_network_transmit_bytes", "Bytes sent", "sent"),
        ("container_network_receive_errors", "Receive errors", "receive_errors"),
        ("container_network_transmit_errors", "Transmit errors", "send_errors"),
    )
    families: list[Metric] = []
    for name, text, attribute in columns:
        family = CounterMetricFamily(name, text, labels=_NETWORK)
        for sample in measured.networks:
            for interface in sample.stats.interfaces or ():
                labels = (interface.name, sample.pod.namespace, sample.pod.name)
                family.add_metric(labels, getattr(interface, attribute))
        families.append(family)
    return families


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()
