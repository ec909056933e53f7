"""The settings that reach the runtime."""

from __future__ import annotations

from pathlib import Path

from podtui.agent.run import make_runtime
from podtui.clock import SystemClock
from podtui.runtime.docker import DockerRuntime, LogLimits
from podtui.settings import Settings


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
