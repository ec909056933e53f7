"""What the simulated engine says of itself."""

from __future__ import annotations

from typing import Final

from podtui.runtime.protocol import EngineInfo

SIMULATED: Final = EngineInfo(
    name="memory",
    version="SIMULATED",
    api_version="1.0",
    os="linux",
    architecture="amd64",
    kernel="0.0.0-simulated",
    cgroup_version=2,
    cgroup_driver="systemd",
    rootless=False,
    local=False,
    cpus=8,
    memory=32 << 30,
    root_dir="",
    operating_system="SIMULATED: no container really runs",
    routable_pods=False,
    local_host_network=False,
    lacking=("real processes: every container is simulated, none can be dialled",),
)
