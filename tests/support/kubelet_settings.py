"""The kubelet's configuration in tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from podtui.agent.kubelet_config import kubelet_config
from podtui.kubelet.config import KubeletConfig
from podtui.settings import Settings


def default_config(**changes: Any) -> KubeletConfig:
    """Return the default settings of the node ``n1``, without files and without thresholds of
    eviction."""
    settings = Settings(rootDir=Path("/"), staticPodPath=Path("/"), nodeName="n1")
    independent = {
        "root_dir": "",
        "static_pod_path": "",
        "resolv_conf": "",
        "eviction_hard": {},
        "plugin_dir": "",
    }
    return replace(kubelet_config(settings), **independent | changes)
