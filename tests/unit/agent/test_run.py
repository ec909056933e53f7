"""The settings that reach the runtime."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from podtui.agent.run import make_runtime
from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime, LogLimits
from podtui.settings import Settings, flag_words, resolve


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


def test_a_node_of_a_cluster_has_records_of_its_own(tmp_path: Path) -> None:
    flags = {"rootDir": str(tmp_path)}
    own = resolve(flags, {"HOME": str(tmp_path)}, working=tmp_path).settings
    member = structs.replace(own, nodeKubeconfig=tmp_path / "kubelet.conf")
    assert own.records_path != member.records_path
    assert not any("--node-kubeconfig" in flag for flag in flag_words(own))
    assert f"--node-kubeconfig={tmp_path}/kubelet.conf" in flag_words(member)
