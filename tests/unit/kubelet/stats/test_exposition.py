"""Metrics in the Prometheus text format, read back with the format's own parser."""

from __future__ import annotations

from datetime import UTC, datetime

from pod_builders import make_pod
from prometheus_client.parser import text_string_to_metric_families

from podtui.api.cpus import CpuMap, CpuUser
from podtui.kubelet.pods.pod_workers import WorkingPod
from podtui.kubelet.prober.state import ProbeTotal
from podtui.kubelet.stats.exposition import (
    cadvisor_metrics,
    kubelet_metrics,
    probe_metrics,
    resource_metrics,
)
from podtui.kubelet.stats.samples import ContainerSample, MetricSamples, NetworkSample
from podtui.kubelet.types import ObservedContainer, ObservedPod, ObservedSandbox
from podtui.runtime.protocol import (
    ContainerState,
    ContainerStats,
    NetworkInterfaceUsage,
    Resources,
    SandboxState,
    SandboxStats,
)

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OBSERVED = ObservedPod(
    uid="u1",
    name="web-n1",
    namespace="default",
    sandboxes=(ObservedSandbox(id="s1", attempt=0, state=SandboxState.READY, created_at=AT),),
    containers=(
        ObservedContainer(
            id="c1",
            name="main",
            restart_count=0,
            sandbox_id="s1",
            state=ContainerState.RUNNING,
            created_at=AT,
            started_at=AT,
            image="busybox:1",
            resources=Resources(memory=64, cpu_quota=50_000),
        ),
        ObservedContainer(
            id="c0",
            name="main",
            restart_count=0,
            sandbox_id="s1",
            state=ContainerState.EXITED,
            created_at=AT,
        ),
    ),
)
STATS = ContainerStats(timestamp=AT, cpu=2_500_000_000, memory=4096, read=7)
NETWORK = SandboxStats(
    timestamp=AT,
    interfaces=(NetworkInterfaceUsage(name="eth0", received=10, sent=20),),
)
MEASURED = MetricSamples(
    containers=[ContainerSample(OBSERVED, OBSERVED.containers[0], STATS)],
    networks=[NetworkSample(OBSERVED, "s1", NETWORK)],
    node_cpu=100.5,
    node_memory=8192,
)


def samples(body: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_the_kubelet_counts_pods_and_containers() -> None:
    pods = [make_pod(), make_pod(uid="u2", static=False), make_pod(uid="u3", static=False)]
    cpus = CpuMap(
        nodes={0: ((0, 1), (2, 3)), 1: ((4, 5), (6, 7))},
        reserved=(0,),
        users=(CpuUser(pod="u1", container="main", cpus=(2, 3, 4)),),
    )
    working = [
        WorkingPod("sync", "desired", "true"),
        WorkingPod("terminating", "orphan", ""),
        WorkingPod("terminating", "orphan", ""),
    ]
    found = samples(
        kubelet_metrics(
            node_name="n1",
            desired=pods,
            active=pods[:2],
            working=working,
            observed=[OBSERVED],
            cpus=cpus,
            cgroup_version=2,
        )
    )
    assert found["kubelet_node_name", (("node", "n1"),)] == 1
    assert found["kubelet_running_pods", ()] == 1
    assert found["kubelet_running_containers", (("container_state", "running"),)] == 1
    assert found["kubelet_running_containers", (("container_state", "exited"),)] == 1
    assert found["kubelet_desired_pods", (("static", ""),)] == 2
    assert found["kubelet_desired_pods", (("static", "true"),)] == 1
    assert found["kubelet_active_pods", (("static", ""),)] == 1
    assert found["kubelet_mirror_pods", ()] == 1
    ending = (("config", "orphan"), ("lifecycle", "terminating"), ("static", ""))
    assert found["kubelet_working_pods", ending] == 2
    assert found["kubelet_managed_ephemeral_containers", ()] == 0
    assert found["kubelet_cpu_manager_shared_pool_size_millicores", ()] == 4000
    assert found["kubelet_cpu_manager_exclusive_cpu_allocation_count", ()] == 3
    assert found["kubelet_cpu_manager_allocation_per_numa", (("numa_node", "1"),)] == 1
    assert found["kubelet_cgroup_version", ()] == 2
    assert ("kubelet_pleg_last_seen_seconds", ()) in found


def test_resource_metrics_have_containers_pods_and_the_node() -> None:
    found = samples(resource_metrics(MEASURED))
    container = (("container", "main"), ("namespace", "default"), ("pod", "web-n1"))
    pod = (("namespace", "default"), ("pod", "web-n1"))
    assert found["container_cpu_usage_seconds_total", container] == 2.5
    assert found["container_memory_working_set_bytes", container] == 4096
    assert found["container_start_time_seconds", container] == AT.timestamp()
    assert found["pod_cpu_usage_seconds_total", pod] == 2.5
    assert found["pod_memory_working_set_bytes", pod] == 4096
    assert found["node_cpu_usage_seconds_total", ()] == 100.5
    assert found["node_memory_working_set_bytes", ()] == 8192
    assert found["resource_scrape_error", ()] == 0
    assert not any("gone" in str(key) for key in found)


def test_a_failed_scan_is_a_scrape_error() -> None:
    failed = MetricSamples(failed=True)
    assert samples(resource_metrics(failed)) == {("resource_scrape_error", ()): 1}


def test_cadvisor_metrics_have_limits_disks_and_networks() -> None:
    found = samples(cadvisor_metrics(MEASURED, cores=2, memory=1 << 30))
    labels = tuple(
        sorted(
            {
                "container": "main",
                "id": "c1",
                "image": "busybox:1",
                "name": "c1",
                "namespace": "default",
                "pod": "web-n1",
            }.items()
        )
    )
    assert found["container_cpu_usage_seconds_total", labels] == 2.5
    assert found["container_fs_reads_bytes_total", labels] == 7
    assert ("container_fs_writes_bytes_total", labels) not in found
    assert found["container_spec_memory_limit_bytes", labels] == 64
    network = (("interface", "eth0"), ("namespace", "default"), ("pod", "web-n1"))
    assert found["container_network_receive_bytes_total", network] == 10
    assert found["container_network_transmit_bytes_total", network] == 20
    assert found["machine_cpu_cores", ()] == 2
    assert found["machine_memory_bytes", ()] == 1 << 30


def test_probe_results_are_counted_by_pod() -> None:
    total = ProbeTotal(
        probe_type="Liveness",
        result="failed",
        container='c"\n',
        pod="web-n1",
        namespace="default",
        pod_uid="u1",
        count=3,
    )
    ((key, count),) = samples(probe_metrics([total])).items()
    assert (key[0], count) == ("prober_probe_total", 3)
    assert dict(key[1])["container"] == 'c"\n'
