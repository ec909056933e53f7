"""The settings that reach the runtime and the kubelet."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from podtui.agent.run import kubelet_config, make_runtime
from podtui.clock import SystemClock
from podtui.kubelet.config import KubeletConfig
from podtui.runtime.docker import DockerRuntime, LogLimits
from podtui.settings import SETTINGS, Settings, attribute_name


def test_log_limits_follow_the_settings(tmp_path: Path) -> None:
    settings = Settings(
        rootDir=tmp_path,
        staticPodPath=tmp_path,
        nodeName="n1",
        engine="unix:///nowhere.sock",
        containerLogMaxSize=12_345,
        containerLogMaxFiles=3,
    )
    runtime = make_runtime(settings, SystemClock())
    assert isinstance(runtime, DockerRuntime)
    assert runtime.log_limits == LogLimits(size=12_345, files=3)


def test_kubelet_configuration_fields_become_settings() -> None:
    base = {"rootDir": Path("/r"), "staticPodPath": Path("/p"), "nodeName": "n"}
    plain = kubelet_config(Settings(**base))
    named = {field.name: field for field in dataclasses.fields(KubeletConfig)}
    changed = {
        "engine": "memory", "kubeletStrict": True, "maxPods": 7, "cpuCFSQuotaPeriod": 0.5,
        "clusterDNS": ("10.0.0.1",), "imageGCHighThresholdPercent": 90, "registryPullQPS": 9,
    }  # fmt: skip
    config = kubelet_config(Settings(**base, **changed))
    assert (config.simulated, config.strict, config.root_dir) == (True, True, "/r")
    assert (config.max_pods, config.cpu_cfs_quota_period) == (7, 0.5)
    assert config.cluster_dns == ("10.0.0.1",)
    assert (config.image_gc_high_threshold_percent, config.registry_pull_qps) == (90, 9)
    for key in SETTINGS:
        field = named.get(attribute_name(key))
        if field is not None and key not in {*base, "resolvConf", "evictionHard"}:
            default = getattr(plain, field.name)
            assert default == getattr(KubeletConfig(node_name="n"), field.name), key
    constants = """relist_period relist_period_streaming housekeeping_period container_gc_period
        image_gc_period error_backoff ping_period runtime_down_after node_status_period
        node_report_period endpoint_port strict simulated"""
    assert named.keys() - {attribute_name(key) for key in SETTINGS} == set(constants.split())
