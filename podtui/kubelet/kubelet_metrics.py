"""The kubelet's own metrics, under the kubelet's names (kubelet.md §16).

They belong to the process, as in every Prometheus client: code that causes an event increments the
metric. ``/metrics`` serves the registry.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

from podtui.errors import EngineError
from podtui.runtime.interceptor import RuntimeInterceptor
from podtui.runtime.protocol import Runtime

disable_created_metrics()
T = TypeVar("T")
KUBELET: Final = CollectorRegistry()
SLIS: Final = CollectorRegistry()
"""The results of health checks, which are served separately."""
_POD_START: Final = (0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480,
                     600, 900, 1200, 1800, 2700, 3600)  # fmt: skip
_OPERATION: Final = tuple(0.005 * 2.5**n for n in range(14))
_PULL: Final = (1, 5, 10, 20, 30, 60, 180, 300, 600, 900, 1200, 1800, 2700, 3600)

POD_WORKER_SECONDS: Final = Histogram(
    "kubelet_pod_worker_duration_seconds",
    "Duration of one pass of a pod worker",
    ["operation_type"],
    registry=KUBELET,
)
POD_START_SECONDS: Final = Histogram(
    "kubelet_pod_start_duration_seconds",
    "Time from when the kubelet first sees a pod until all its containers have started",
    buckets=_POD_START,
    registry=KUBELET,
)
POD_WORKER_START_SECONDS: Final = Histogram(
    "kubelet_pod_worker_start_duration_seconds",
    "Time from when the kubelet first sees a pod to the first pass of its worker",
    registry=KUBELET,
)
POD_START_TOTAL_SECONDS: Final = Histogram(
    "kubelet_pod_start_total_duration_seconds",
    "Time from the creation of an API pod until all its containers run",
    buckets=_POD_START,
    registry=KUBELET,
)
POD_START_SLI_SECONDS: Final = Histogram(
    "kubelet_pod_start_sli_duration_seconds",
    "The same without image pulls and init containers, for pods without persistent volumes",
    buckets=_POD_START,
    registry=KUBELET,
)
RELIST_SECONDS: Final = Histogram(
    "kubelet_pleg_relist_duration_seconds", "Duration of a relist", registry=KUBELET
)
RELIST_INTERVAL: Final = Histogram(
    "kubelet_pleg_relist_interval_seconds", "Time between two relists", registry=KUBELET
)
PLEG_LAST_SEEN: Final = Gauge(
    "kubelet_pleg_last_seen_seconds", "Unix time of the last relist", registry=KUBELET
)
OPERATIONS: Final = Counter(
    "kubelet_runtime_operations_total",
    "Calls of the container runtime",
    ["operation_type"],
    registry=KUBELET,
)
OPERATION_ERRORS: Final = Counter(
    "kubelet_runtime_operations_errors_total",
    "Failed calls of the container runtime",
    ["operation_type"],
    registry=KUBELET,
)
OPERATION_SECONDS: Final = Histogram(
    "kubelet_runtime_operations_duration_seconds",
    "Duration of calls of the container runtime",
    ["operation_type"],
    buckets=_OPERATION,
    registry=KUBELET,
)
STARTED_PODS: Final = Counter(
    "kubelet_started_pods_total", "Started pod sandboxes", registry=KUBELET
)
STARTED_PODS_ERRORS: Final = Counter(
    "kubelet_started_pods_errors_total", "Pod sandboxes that failed to start", registry=KUBELET
)
STARTED_CONTAINERS: Final = Counter(
    "kubelet_started_containers_total",
    "Started containers",
    ["container_type"],
    registry=KUBELET,
)
STARTED_CONTAINERS_ERRORS: Final = Counter(
    "kubelet_started_containers_errors_total",
    "Containers that failed to start",
    ["container_type", "code"],
    registry=KUBELET,
)
TERMINATED_CONTAINERS: Final = Counter(
    "kubelet_terminated_containers_total",
    "Terminated containers",
    ["container_type", "exit_code", "reason"],
    registry=KUBELET,
)
ORPHANED_PODS: Final = Counter(
    "kubelet_orphaned_runtime_pods_total",
    "Pods that the container runtime has and no source knows",
    registry=KUBELET,
)
RESTARTED_PODS: Final = Counter(
    "kubelet_restarted_pods_total",
    "Pods that were removed and came back with the same UID",
    ["static"],
    registry=KUBELET,
)
IMAGE_PULL_SECONDS: Final = Histogram(
    "kubelet_image_pull_duration_seconds", "Duration of image pulls", buckets=_PULL,
    registry=KUBELET,
)  # fmt: skip
IMAGES_COLLECTED: Final = Counter(
    "kubelet_image_garbage_collected_total",
    "Images deleted because of disk usage (space) or age",
    ["reason"],
    registry=KUBELET,
)
ADMISSION_REJECTIONS: Final = Counter(
    "kubelet_admission_rejections_total", "Rejected pods", ["reason"], registry=KUBELET
)
PREEMPTIONS: Final = Counter(
    "kubelet_preemptions", "Preempted pods", ["preemption_signal"], registry=KUBELET
)
EVICTIONS: Final = Counter(
    "kubelet_evictions", "Evicted pods", ["eviction_signal"], registry=KUBELET
)
CPU_REQUESTS: Final = Counter(
    "kubelet_cpu_manager_pinning_requests_total",
    "Allocations of exclusive CPUs",
    registry=KUBELET,
)
CPU_ERRORS: Final = Counter(
    "kubelet_cpu_manager_pinning_errors_total",
    "Failed allocations of exclusive CPUs",
    registry=KUBELET,
)
MEMORY_REQUESTS: Final = Counter(
    "kubelet_memory_manager_pinning_requests_total",
    "Allocations of memory on NUMA nodes",
    registry=KUBELET,
)
MEMORY_ERRORS: Final = Counter(
    "kubelet_memory_manager_pinning_errors_total",
    "Failed allocations of memory on NUMA nodes",
    registry=KUBELET,
)
TOPOLOGY_REQUESTS: Final = Counter(
    "kubelet_topology_manager_admission_requests_total",
    "Pods that the topology manager was asked to admit",
    registry=KUBELET,
)
TOPOLOGY_ERRORS: Final = Counter(
    "kubelet_topology_manager_admission_errors_total",
    "Pods that the topology manager did not admit",
    registry=KUBELET,
)
DEVICE_REGISTRATIONS: Final = Counter(
    "kubelet_device_plugin_registration_total",
    "Registrations of device plugins",
    ("resource_name",),
    registry=KUBELET,
)
DEVICE_ALLOCATION_SECONDS: Final = Histogram(
    "kubelet_device_plugin_alloc_duration_seconds",
    "Duration of calls of Allocate by resource",
    ("resource_name",),
    registry=KUBELET,
)
MANIFESTS: Final = Gauge(
    "podtui_manifests",
    "Files of the static-pod folder by their state",
    ["state"],
    registry=KUBELET,
)
HEALTH_CHECK: Final = Gauge(
    "kubernetes_healthcheck",
    "Result of the last health check: 1 if it passed",
    ["name", "type"],
    registry=SLIS,
)
HEALTH_CHECKS: Final = Counter(
    "kubernetes_healthchecks_total",
    "Results of health checks",
    ["name", "type", "status"],
    registry=SLIS,
)
_OPERATIONS: Final = {
    "connect": "version",
    "list": "list_containers",
    "run_sandbox": "run_podsandbox",
    "stop_sandbox": "stop_podsandbox",
    "remove_sandbox": "remove_podsandbox",
    "create_container": "create_container",
    "start_container": "start_container",
    "stop_container": "stop_container",
    "remove_container": "remove_container",
    "container_status": "container_status",
    "sandbox_status": "podsandbox_status",
    "update_container": "update_container",
    "image_status": "image_status",
    "list_images": "list_images",
    "pull_image": "pull_image",
    "remove_image": "remove_image",
    "stats": "list_container_stats",
    "exec": "exec_sync",
}
"""The operation types of CRI by method of the runtime. Other methods are not counted."""


def measured(runtime: Runtime) -> Runtime:
    """Wrap a runtime so that its calls are counted and timed."""
    return _Measured(runtime)


class _Measured(RuntimeInterceptor):
    async def _call(self, method: str, call: Awaitable[T]) -> T:
        operation = _OPERATIONS.get(method)
        if operation is None:
            return await call
        OPERATIONS.labels(operation).inc()
        try:
            with OPERATION_SECONDS.labels(operation).time():
                return await call
        except EngineError:
            OPERATION_ERRORS.labels(operation).inc()
            raise
