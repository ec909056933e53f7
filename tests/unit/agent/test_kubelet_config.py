"""The settings that reach the kubelet."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from podtui.agent.kubelet_config import kubelet_config
from podtui.kubelet.config import KubeletConfig
from podtui.settings import SETTINGS, Settings
from podtui.settings.declarations import attribute_name

PATHS: dict[str, Any] = {"rootDir": Path("/r"), "staticPodPath": Path("/p")}


def test_each_setting_reaches_the_field_of_its_name() -> None:
    values: dict[str, Any] = {key: f"value of {key}" for key in SETTINGS}
    values |= PATHS | {"reservedSystemCPUs": ""}
    config = kubelet_config(Settings(**values))
    assert (config.root_dir, config.static_pod_path) == ("/r", "/p")
    assert config.strict == "value of kubeletStrict"
    by_name = {attribute_name(key): value for key, value in values.items() if key not in PATHS}
    names = {field.name for field in fields(KubeletConfig)} & by_name.keys()
    assert len(names) > 40
    assert {name: getattr(config, name) for name in names} == {
        name: by_name[name] for name in names
    }


def test_the_simulated_engine_is_announced() -> None:
    assert kubelet_config(Settings(**PATHS, nodeName="n", engine="memory")).simulated
    assert not kubelet_config(Settings(**PATHS, nodeName="n")).simulated


def test_reserved_cpus_replace_reserved_amounts() -> None:
    settings = Settings(
        **PATHS, nodeName="n", reservedSystemCPUs="0-1",
        systemReserved={"cpu": "100m", "memory": "1Gi"}, kubeReserved={"cpu": "1", "memory": "2Gi"},
    )  # fmt: skip
    config = kubelet_config(settings)
    assert config.system_reserved == {"cpu": "2", "memory": "1Gi"}
    assert config.kube_reserved == {"memory": "2Gi"}
    assert config.reserved_system_cpus == "0-1"
