"""The kubelet's part of the settings."""

from __future__ import annotations

from podtui.api.cpus import parse_cpu_set
from podtui.kubelet.config import KubeletConfig
from podtui.manifest.listing import shown_path
from podtui.settings import Settings


def kubelet_config(settings: Settings) -> KubeletConfig:
    """Return the kubelet's configuration for the settings.

    `KubeletConfig` has no defaults for them: the type checker reports one that is missing here.
    """
    system, kube = settings.systemReserved, settings.kubeReserved
    if settings.reservedSystemCPUs:
        # The reserved CPUs replace the reserved amounts (kubelet.md §13.7).
        count = len(parse_cpu_set(settings.reservedSystemCPUs))
        system = {**system, "cpu": str(count)}
        kube = {name: text for name, text in kube.items() if name != "cpu"}
    return KubeletConfig(
        node_name=settings.nodeName,
        max_pods=settings.maxPods,
        system_reserved=system,
        kube_reserved=kube,
        eviction_hard=settings.evictionHard,
        node_labels=settings.nodeLabels,
        register_node=settings.registerNode,
        register_with_taints=settings.registerWithTaints,
        allowed_unsafe_sysctls=settings.allowedUnsafeSysctls,
        max_container_restart_period=settings.maxContainerRestartPeriod,
        serialize_image_pulls=settings.serializeImagePulls,
        max_parallel_image_pulls=settings.maxParallelImagePulls,
        sync_frequency=settings.syncFrequency,
        strict=settings.kubeletStrict,
        simulated=settings.engine == "memory",
        root_dir=str(settings.rootDir),
        static_pod_path=shown_path(str(settings.staticPodPath)),
        cluster_dns=settings.clusterDNS,
        cluster_domain=settings.clusterDomain,
        resolv_conf=settings.resolvConf,
        seccomp_default=settings.seccompDefault,
        cpu_cfs_quota=settings.cpuCFSQuota,
        cpu_cfs_quota_period=settings.cpuCFSQuotaPeriod,
        pod_pids_limit=settings.podPidsLimit,
        cpu_manager_policy=settings.cpuManagerPolicy,
        cpu_manager_policy_options=settings.cpuManagerPolicyOptions,
        cpu_manager_reconcile_period=settings.cpuManagerReconcilePeriod,
        memory_manager_policy=settings.memoryManagerPolicy,
        topology_manager_policy=settings.topologyManagerPolicy,
        topology_manager_scope=settings.topologyManagerScope,
        topology_manager_policy_options=settings.topologyManagerPolicyOptions,
        plugin_dir=str(settings.pluginDir or settings.rootDir),
        reserved_system_cpus=settings.reservedSystemCPUs,
        reserved_memory=settings.reservedMemory,
        feature_gates=settings.featureGates,
        registry_pull_qps=settings.registryPullQPS,
        registry_burst=settings.registryBurst,
        image_minimum_gc_age=settings.imageMinimumGCAge,
        image_maximum_gc_age=settings.imageMaximumGCAge,
        image_gc_high_threshold_percent=settings.imageGCHighThresholdPercent,
        image_gc_low_threshold_percent=settings.imageGCLowThresholdPercent,
        eviction_soft=settings.evictionSoft,
        eviction_soft_grace_period=settings.evictionSoftGracePeriod,
        eviction_pressure_transition_period=settings.evictionPressureTransitionPeriod,
        eviction_max_pod_grace_period=settings.evictionMaxPodGracePeriod,
        eviction_minimum_reclaim=settings.evictionMinimumReclaim,
        shutdown_grace_period=settings.shutdownGracePeriod,
        shutdown_grace_period_critical_pods=settings.shutdownGracePeriodCriticalPods,
        shutdown_grace_period_by_pod_priority=settings.shutdownGracePeriodByPodPriority,
    )
