"""The resolved settings of a kubelet, with its periods and timeouts (kubelet.md §0, timers)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from podtui.api.thresholds import Threshold, eviction_thresholds

STOP_SIGNALS: Final = "ContainerStopSignals"
"""The feature gate that enables ``lifecycle.stopSignal``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletConfig:
    """Durations are in seconds, reservations are quantities by resource or signal. Fields without a
    default are settings: `podtui.settings.Settings` has their defaults.

    ``strict`` turns off the departures from the kubelet. ``simulated`` means that the runtime only
    simulates containers, which every view must show.
    """

    node_name: str
    max_pods: int
    system_reserved: Mapping[str, str]
    kube_reserved: Mapping[str, str]
    eviction_hard: Mapping[str, str]
    node_labels: Mapping[str, str]
    register_node: bool
    register_with_taints: tuple[tuple[str, str, str], ...]
    """Key, value and effect of each taint that a new node gets."""
    allowed_unsafe_sysctls: tuple[str, ...]
    max_container_restart_period: float
    serialize_image_pulls: bool
    max_parallel_image_pulls: int
    """Used only if pulls are not serialized; 0 means no limit."""
    sync_frequency: float
    strict: bool
    simulated: bool
    root_dir: str
    """The directory that holds ``logs/pods``; empty for none (tests)."""
    static_pod_path: str
    endpoint_port: int = 0
    """The TCP port at which the agent serves the kubelet's endpoints; 0 for none."""
    cluster_dns: tuple[str, ...]
    cluster_domain: str
    resolv_conf: str
    """Path of the node's resolver file; if empty, the engine configures the resolver."""
    seccomp_default: bool
    cpu_cfs_quota: bool
    cpu_cfs_quota_period: float
    pod_pids_limit: int
    cpu_manager_policy: Literal["none", "static"]
    cpu_manager_policy_options: Mapping[str, str]
    cpu_manager_reconcile_period: float
    memory_manager_policy: Literal["None", "Static"]
    topology_manager_policy: Literal["none", "best-effort", "restricted", "single-numa-node"]
    topology_manager_scope: Literal["container", "pod"]
    topology_manager_policy_options: Mapping[str, str]
    plugin_dir: str
    """The directory of ``device-plugins`` and ``plugins_registry``; empty for none (tests)."""
    reserved_system_cpus: str
    """A cpuset such as ``0-1``."""
    reserved_memory: tuple[tuple[int, Mapping[str, str]], ...]
    """The quantities by resource of each NUMA node."""
    feature_gates: Mapping[str, bool]
    registry_pull_qps: int
    registry_burst: int
    image_minimum_gc_age: float
    image_maximum_gc_age: float
    image_gc_high_threshold_percent: int
    image_gc_low_threshold_percent: int
    eviction_soft: Mapping[str, str]
    eviction_soft_grace_period: Mapping[str, float]
    eviction_pressure_transition_period: float
    eviction_max_pod_grace_period: int
    eviction_minimum_reclaim: Mapping[str, str]
    shutdown_grace_period: float
    shutdown_grace_period_critical_pods: float
    shutdown_grace_period_by_pod_priority: tuple[tuple[int, int], ...]

    relist_period: float = 1.0
    relist_period_streaming: float = 10.0
    """Relist period while the runtime's event stream is healthy."""
    housekeeping_period: float = 2.0
    container_gc_period: float = 60.0
    image_gc_period: float = 300.0
    error_backoff: float = 10.0
    ping_period: float = 5.0
    runtime_down_after: float = 30.0
    node_status_period: float = 10.0
    node_report_period: float = 300.0

    def gate(self, name: str, default: bool = False) -> bool:
        """Return True if a feature gate is on; ``default`` is the kubelet's default."""
        return self.feature_gates.get(name, default)

    def eviction_thresholds(self) -> tuple[Threshold, ...]:
        """Raises `podtui.api.thresholds.ThresholdError`."""
        return eviction_thresholds(
            hard=self.eviction_hard,
            soft=self.eviction_soft,
            soft_grace=self.eviction_soft_grace_period,
            minimum_reclaim=self.eviction_minimum_reclaim,
        )

    @property
    def pull_slots(self) -> int:
        """Maximum number of concurrent image pulls; 0 means no limit."""
        return 1 if self.serialize_image_pulls else self.max_parallel_image_pulls
