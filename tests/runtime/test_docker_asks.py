"""What the driver asks for limits, namespaces, mounts and logs, and reads back of them."""

from __future__ import annotations

from typing import Any

import pytest

from podtui.runtime.docker.abilities import Abilities
from podtui.runtime.docker.capabilities import abilities, engine_info
from podtui.runtime.docker.inspection import container_status, sandbox_status
from podtui.runtime.docker.mounts import Source
from podtui.runtime.docker.payload import (
    NO_MEMORY_LIMIT,
    Json,
    LogLimits,
    container_payload,
    sandbox_payload,
    update_payload,
)
from podtui.runtime.docker.sandboxes import page_options
from podtui.runtime.docker.storage import first_places, lay_out
from podtui.runtime.protocol import (
    ContainerConfig,
    EngineInfo,
    Mount,
    NamespaceMode,
    PodVolume,
    Resources,
    SandboxConfig,
)

CONFIG: dict[str, Any] = {
    "name": "app",
    "attempt": 0,
    "image": "busybox:1.36",
    "image_id": "sha256:" + "a" * 64,
    "pod_name": "web-n",
    "pod_namespace": "default",
    "pod_uid": "u1",
}
HOST_PATH = Mount(container_path="/h", host_path="/srv", read_only=True)


def asked(
    *,
    able: Abilities | None = None,
    logs: LogLimits | None = None,
    sources: dict[Mount, Source] | None = None,
    **changes: Any,
) -> tuple[Json, tuple[str, ...]]:
    """The host configuration of a container, and the warnings."""
    payload, warnings = container_payload(
        ContainerConfig(**(CONFIG | changes)),
        sandbox_id="S",
        host_ipc=False,
        labels={},
        sources=sources or {},
        termination="",
        abilities=able or Abilities(),
        logs=logs or LogLimits(),
        seccomp_profile=None,
    )
    return payload["HostConfig"], warnings


# --- limits


def test_processes_are_limited_where_the_engine_can() -> None:
    limit = Resources(pids=100)
    assert asked(resources=limit)[0]["PidsLimit"] == 100
    assert "PidsLimit" not in asked(resources=Resources())[0]
    host, warnings = asked(resources=limit, able=Abilities(pids_limit=False))
    assert "PidsLimit" not in host
    assert ["processes" in text for text in warnings] == [True]


def test_an_update_says_only_what_is_to_change() -> None:
    assert update_payload(Resources(), Abilities()) == {}
    assert update_payload(Resources(cpu_shares=5, oom_score_adj=7, pids=3), Abilities()) == {
        "CpuShares": 5
    }
    assert update_payload(Resources(cpu_quota=-1, memory=9), Abilities()) == {
        "CpuQuota": -1,
        "CpuPeriod": 100_000,
        "Memory": 9,
        "MemorySwap": 9,
    }
    assert update_payload(Resources(memory=-1), Abilities()) == {
        "Memory": NO_MEMORY_LIMIT,
        "MemorySwap": NO_MEMORY_LIMIT,
    }
    none = Abilities(cpu_shares=False, cpu_quota=False, memory_limit=False)
    assert update_payload(Resources(cpu_shares=1, cpu_quota=1, memory=1), none) == {}
    assert update_payload(Resources(memory=9), Abilities(swap_limit=False)) == {"Memory": 9}


@pytest.mark.parametrize(
    ("limits", "options"),
    [
        (LogLimits(), {"max-size": "10485760", "max-file": "5", "compress": "true"}),
        (LogLimits(size=9, files=2), {"max-size": "9", "max-file": "2", "compress": "true"}),
        (LogLimits(size=9, files=1), {"max-size": "9", "max-file": "1"}),
    ],
)
def test_logs_are_kept_within_limits(limits: LogLimits, options: dict[str, str]) -> None:
    assert asked(logs=limits)[0]["LogConfig"] == {"Type": "json-file", "Config": options}


# --- namespaces


def test_a_target_s_processes_are_joined_whatever_the_pod_shares() -> None:
    for mode in NamespaceMode:
        assert asked(pid=mode, target_container_id="T")[0]["PidMode"] == "container:T"


def test_nothing_is_asked_of_user_namespaces() -> None:
    config = SandboxConfig(name="n", namespace="d", uid="u", attempt=0, host_users=False)
    payload = sandbox_payload(config, image="i", labels={}, volume="v", memory={})
    assert "UsernsMode" not in payload["HostConfig"]


# --- mounts


def test_how_far_read_only_goes_is_said_where_it_can_be() -> None:
    sources = {HOST_PATH: Source(path="/srv")}
    old, _ = asked(mounts=(HOST_PATH,), sources=sources)
    assert (old["Binds"], "Mounts" in old) == (["/srv:/h:ro"], False)
    able = Abilities(recursive_read_only=True)
    new, _ = asked(mounts=(HOST_PATH,), sources=sources, able=able)
    (bind,) = new["Mounts"]
    assert bind["BindOptions"] == {"ReadOnlyNonRecursive": True, "CreateMountpoint": True}
    whole = Mount(container_path="/h", volume="v", read_only=True, recursive_read_only=True)
    made = {whole: Source(path="/vol/v", must_exist=True)}
    ((bind),) = asked(mounts=(whole,), sources=made, able=able)[0]["Mounts"]
    assert bind["BindOptions"] == {"ReadOnlyForceRecursive": True}
    assert bind["ReadOnly"]
    writable = Mount(container_path="/h", host_path="/srv")
    host, _ = asked(mounts=(writable,), sources={writable: Source(path="/srv")}, able=able)
    assert host["Binds"] == ["/srv:/h:rw"]


def test_huge_pages_are_a_volume_of_their_own() -> None:
    volume = PodVolume(name="huge", huge_pages=2 << 20, gid=7, size_limit=4 << 20)
    assert page_options(volume, podman=False) == {
        "type": "hugetlbfs",
        "device": "hugetlbfs",
        "o": "mode=777,uid=0,gid=7,size=4194304,pagesize=2097152",
    }
    assert first_places((volume,)) == {}
    layout = lay_out((volume,), {}, fresh=True, filled=True, memory_volume={"huge": "e"})
    assert (layout.places, layout.uploads) == ({"huge": "memory:e"}, ())


# --- what the engine is


def described(info: Json, *, api: tuple[int, ...] = (1, 41), podman: bool = False) -> EngineInfo:
    able = abilities(info, podman=podman, api=api)
    return engine_info(info, {}, api_version="", able=able, local=True)


def test_security_options_of_the_engine() -> None:
    none = described({})
    assert (none.apparmor, none.user_namespaces, none.rootless) == (False, False, False)
    options = ["name=apparmor", "name=seccomp,profile=builtin", "name=userns", "name=rootless"]
    all_ = described({"SecurityOptions": options})
    assert (all_.apparmor, all_.user_namespaces, all_.rootless) == (True, True, True)
    assert not all_.supplemental_groups_policy
    assert not described({"SecurityOptions": ["name=seccomp,profile=userns"]}).user_namespaces


@pytest.mark.parametrize(
    ("api", "kernel", "podman", "able"),
    [
        ((1, 44), "5.12.0-1-amd64", False, True),
        ((1, 45), "6.1", False, True),
        ((1, 43), "6.1", False, False),
        ((1, 44), "5.11.22", False, False),
        ((1, 44), "", False, False),
        ((1, 44), "6.1", True, False),
    ],
)
def test_recursive_read_only_takes_engine_and_kernel(
    api: tuple[int, ...], kernel: str, podman: bool, able: bool
) -> None:
    info = described({"KernelVersion": kernel}, api=api, podman=podman)
    assert info.recursive_read_only is able


# --- what is read back


def inspected(**changes: Any) -> dict[str, Any]:
    labels = {
        "io.kubernetes.docker.type": "container",
        "io.kubernetes.pod.uid": "u",
        "io.kubernetes.container.name": "c",
    }
    values: dict[str, Any] = {
        "Id": "i" * 64,
        "Name": "/k8s_c_p_d_u_0",
        "Config": {"Labels": labels},
        "State": {"Status": "running"},
        "LogPath": "/logs/i.log",
        "HostConfig": {"LogConfig": {"Type": "json-file"}, "PidsLimit": None, "Memory": 5},
    }
    return values | changes


def test_statuses_tell_limits_and_log_file() -> None:
    status = container_status(inspected())
    assert (status.resources, status.log_path) == (Resources(memory=5), "/logs/i.log")
    other = inspected(HostConfig={"LogConfig": {"Type": "journald"}, "PidsLimit": -1})
    status = container_status(other)
    assert (status.resources, status.log_path) == (Resources(), "")


def test_addresses_of_both_families_the_node_s_first() -> None:
    labels = {"io.kubernetes.docker.type": "podsandbox", "io.kubernetes.pod.uid": "u"}
    network = {"IPAddress": "10.0.0.2", "GlobalIPv6Address": "fd00::2"}
    found = inspected(
        Name="/k8s_POD_p_d_u_0",
        Config={"Labels": labels},
        HostConfig={"NetworkMode": "bridge"},
        NetworkSettings={**network, "Networks": {"bridge": network}},
    )
    assert sandbox_status(found).ips == ("10.0.0.2", "fd00::2")
