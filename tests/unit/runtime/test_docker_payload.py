"""The driver's payloads for limits, namespaces, mounts and logs, and the values it reads back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from docker_payloads import container, payload_of, sandbox

from podtui.runtime.docker.abilities import Abilities, abilities, engine_info
from podtui.runtime.docker.identity import (
    STDIN_ONCE_LABEL,
    container_labels,
    on_host_network,
    sandbox_labels,
)
from podtui.runtime.docker.inspection import (
    container_status,
    is_routable,
    sandbox_status,
    sandbox_store,
)
from podtui.runtime.docker.payload import (
    NO_MEMORY_LIMIT,
    ContainerFiles,
    JoinedSandbox,
    Json,
    LogLimits,
    MountSource,
    container_payload,
    enforced,
    sandbox_payload,
    update_payload,
)
from podtui.runtime.docker.sandboxes import page_options, source_address
from podtui.runtime.docker.storage import compute_layout, first_places
from podtui.runtime.protocol import (
    ContainerConfig,
    DeviceMapping,
    EngineInfo,
    Mount,
    NamespaceMode,
    NfsShare,
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


def host_config(
    *,
    able: Abilities | None = None,
    logs: LogLimits | None = None,
    sources: dict[Mount, MountSource] | None = None,
    **changes: Any,
) -> tuple[Json, tuple[str, ...]]:
    """Return the host configuration of a container, and the warnings."""
    payload, warnings = container_payload(
        ContainerConfig(**(CONFIG | changes)),
        JoinedSandbox(id="S"),
        ContainerFiles(sources=sources or {}),
        labels={},
        abilities=able or Abilities(),
        logs=logs or LogLimits(),
        seccomp_profile=None,
    )
    return payload["HostConfig"], warnings


# --- shares of NFS servers

SHARE = NfsShare(server="nas.example.com", path="/export/a")


def test_a_share_is_mounted_by_the_local_volume_driver() -> None:
    mount = Mount(container_path="/m", nfs=SHARE)
    (mounted,) = host_config(mounts=(mount,))[0]["Mounts"]
    assert mounted == {
        "Type": "volume",
        "Target": "/m",
        "ReadOnly": False,
        "VolumeOptions": {
            "NoCopy": True,
            "DriverConfig": {
                "Name": "local",
                "Options": {
                    "type": "nfs",
                    "device": ":/export/a",
                    "o": "addr=nas.example.com,nfsvers=4",
                },
            },
        },
    }


@pytest.mark.parametrize("version", ["nfsvers=3", "vers=4.2"])
def test_options_of_a_share(version: str) -> None:
    share = NfsShare(server="10.0.0.1", path="/", options=(version, "hard", "ro"))
    mount = Mount(container_path="/m", nfs=share, read_only=True, sub_path="a/b")
    (mounted,) = host_config(mounts=(mount,))[0]["Mounts"]
    options = mounted["VolumeOptions"]
    assert options["DriverConfig"]["Options"]["o"] == f"addr=10.0.0.1,{version},hard,ro"
    assert (mounted["ReadOnly"], options["Subpath"]) == (True, "a/b")


def test_which_engines_mount_a_directory_of_a_volume() -> None:
    assert not abilities({}, api=(1, 44)).volume_sub_paths
    assert abilities({}, api=(1, 45)).volume_sub_paths
    assert not abilities({}, podman=True, api=(1, 45)).volume_sub_paths


# --- limits


def test_processes_are_limited_if_the_engine_supports_it() -> None:
    limit = Resources(pids=100)
    assert host_config(resources=limit)[0]["PidsLimit"] == 100
    assert "PidsLimit" not in host_config(resources=Resources())[0]
    host, warnings = host_config(resources=limit, able=Abilities(pids_limit=False))
    assert "PidsLimit" not in host
    assert ["process limit" in text for text in warnings] == [True]


def test_an_update_contains_only_changes() -> None:
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
def test_log_options_have_limits(limits: LogLimits, options: dict[str, str]) -> None:
    assert host_config(logs=limits)[0]["LogConfig"] == {"Type": "json-file", "Config": options}


# --- namespaces


def test_the_pid_namespace_of_a_target_is_joined() -> None:
    for mode in NamespaceMode:
        assert host_config(pid=mode, target_container_id="T")[0]["PidMode"] == "container:T"


def test_user_namespaces_are_not_configured() -> None:
    config = SandboxConfig(name="n", namespace="d", uid="u", attempt=0, host_users=False)
    payload = sandbox_payload(config, image="i", labels={}, volume="v", memory={})
    assert "UsernsMode" not in payload["HostConfig"]


# --- mounts


def test_recursive_read_only_is_explicit_if_supported() -> None:
    sources = {HOST_PATH: MountSource(path="/srv")}
    old, _ = host_config(mounts=(HOST_PATH,), sources=sources)
    assert (old["Binds"], "Mounts" in old) == (["/srv:/h:ro"], False)
    able = Abilities(recursive_read_only=True)
    new, _ = host_config(mounts=(HOST_PATH,), sources=sources, able=able)
    (bind,) = new["Mounts"]
    assert bind["BindOptions"] == {"ReadOnlyNonRecursive": True, "CreateMountpoint": True}
    whole = Mount(container_path="/h", volume="v", read_only=True, recursive_read_only=True)
    made = {whole: MountSource(path="/vol/v", must_exist=True)}
    ((bind),) = host_config(mounts=(whole,), sources=made, able=able)[0]["Mounts"]
    assert bind["BindOptions"] == {"ReadOnlyForceRecursive": True}
    assert bind["ReadOnly"]
    writable = Mount(container_path="/h", host_path="/srv")
    host, _ = host_config(
        mounts=(writable,), sources={writable: MountSource(path="/srv")}, able=able
    )
    assert host["Binds"] == ["/srv:/h:rw"]


def test_huge_pages_are_a_separate_volume() -> None:
    volume = PodVolume(name="huge", huge_pages=2 << 20, gid=7, size_limit=4 << 20)
    assert page_options(volume, podman=False) == {
        "type": "hugetlbfs",
        "device": "hugetlbfs",
        "o": "mode=777,uid=0,gid=7,size=4194304,pagesize=2097152",
    }
    assert first_places((volume,)) == {}
    layout = compute_layout((volume,), {}, fresh=True, filled=True, memory_volume={"huge": "e"})
    assert (layout.places, layout.uploads) == ({"huge": "memory:e"}, ())


# --- the properties of the engine


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


def test_runtimes_of_the_engine() -> None:
    known = {"runc": {}, "kata": {}, "io.containerd.runc.v2": {}}
    assert described({"Runtimes": known}).runtimes == ("kata", "runc")
    assert described({}).runtimes == ()


def test_podman_creates_containers_with_its_default_runtime_alone() -> None:
    info: Json = {"Runtimes": {"crun": {}, "runc": {}}, "DefaultRuntime": "crun"}
    found = engine_info(
        info,
        {"Components": [{"Name": "Podman Engine"}]},
        api_version="",
        able=abilities(info, podman=True),
        local=True,
    )
    assert found.runtimes == ("crun",)


def test_the_runtime_of_a_sandbox_is_that_of_its_containers() -> None:
    chosen = sandbox_payload(
        sandbox(runtime_handler="kata"), image="p", labels={}, volume="v", memory={}
    )
    assert chosen["HostConfig"]["Runtime"] == "kata"
    plain = sandbox_payload(sandbox(), image="p", labels={}, volume="v", memory={})
    assert "Runtime" not in plain["HostConfig"]
    payload, _ = payload_of(container(), runtime="kata")
    assert payload["HostConfig"]["Runtime"] == "kata"
    assert "Runtime" not in payload_of(container())[0]["HostConfig"]


def test_the_runtime_of_a_sandbox_is_known_after_a_restart() -> None:
    found: Json = {"Config": {"Labels": {}}, "HostConfig": {"Runtime": "kata"}, "Mounts": []}
    assert sandbox_store(found, "places").runtime == "kata"


@pytest.mark.parametrize(("rootless", "local"), [(False, True), (True, True), (True, False)])
def test_only_pods_of_a_remote_engine_lack_a_route(rootless: bool, local: bool) -> None:
    """Pods of a local rootless engine are reached from inside their network."""
    info: Json = {"SecurityOptions": ["name=rootless"] if rootless else []}
    able = abilities(info, podman=False, api=(1, 41))
    found = engine_info(info, {}, api_version="", able=able, local=local)
    assert any("route" in words for words in found.lacking) is not local


def test_live_restore_keeps_files_on_the_disk() -> None:
    assert not abilities({"LiveRestoreEnabled": True}).memory_files
    assert any("live-restore" in words for words in described({"LiveRestoreEnabled": True}).lacking)
    for info in ({}, {"LiveRestoreEnabled": False}):
        assert abilities(info).memory_files
        assert not any("live-restore" in words for words in described(info).lacking)


PODMAN = {"Components": [{"Name": "Podman Engine"}], "Version": "4.3.1"}


def test_podman_reports_rootless_in_its_own_field() -> None:
    for rootless in (False, True):
        info: Json = {"Rootless": rootless, "SecurityOptions": ["name=seccomp,profile=default"]}
        able = abilities(info, podman=True, version=(4, 3, 1))
        found = engine_info(info, PODMAN, api_version="", able=able, local=True)
        assert (found.rootless, found.routable_pods) == (rootless, not rootless)
        # Its host network is this machine's; rootless Docker has a separate one.
        assert found.local_host_network
    docker = described({"SecurityOptions": ["name=rootless"]})
    assert not docker.local_host_network


def limits(able: Abilities) -> tuple[bool, ...]:
    cpu = able.cpu_shares, able.cpu_quota
    return able.memory_limit, able.swap_limit, *cpu, able.pids_limit


V2: Json = {
    "CgroupVersion": "2",
    "MemoryLimit": True,
    "SwapLimit": False,
    "CpuCfsQuota": False,
    "CPUShares": False,
    "PidsLimit": True,
}
"""The answer of Podman 5, which enforces all limits."""


@pytest.mark.parametrize(
    ("info", "podman", "controllers", "able"),
    [
        (V2, True, None, (True, True, True, True, True)),
        (V2, True, ("cpu", "memory", "pids"), (True, True, True, True, True)),
        (V2 | {"Rootless": True}, True, ("memory", "pids"), (True, True, False, False, True)),
        (V2, False, None, (True, False, False, False, True)),
        (V2 | {"CgroupVersion": "1"}, True, None, (True, False, False, False, True)),
        # The answer of rootless Podman 4.3.1 on cgroup v1, where it enforces no limits.
        ({"CgroupVersion": "1", "Rootless": True, "MemoryLimit": True}, True, None, (False,) * 5),
        ({"CgroupVersion": "1", "SecurityOptions": ["name=rootless"]}, False, None, (False,) * 5),
    ],
)
def test_limits_are_those_that_the_engine_enforces(
    info: Json, podman: bool, controllers: tuple[str, ...] | None, able: tuple[bool, ...]
) -> None:
    assert limits(abilities(info, podman=podman, controllers=controllers)) == able


def test_what_a_rootless_engine_on_cgroup_v1_cannot_do() -> None:
    able = abilities({"CgroupVersion": "1", "Rootless": True}, podman=True, version=(4, 3, 1))
    assert (able.usage, able.resize, able.reports_oom) == (False, False, False)
    assert abilities({"CgroupVersion": "2", "Rootless": True}, podman=True).usage
    held = Resources(cpu_shares=2, cpu_quota=5, cpu_period=9, memory=7, pids=4, oom_score_adj=3)
    assert enforced(held, able) == Resources(oom_score_adj=3)
    assert enforced(held, Abilities()) == held


@pytest.mark.parametrize(
    ("podman", "version", "able"),
    [(False, (20, 10, 24), True), (True, (5, 0, 3), False), (True, (5, 1), True)],
)
def test_engines_that_resize(podman: bool, version: tuple[int, ...], able: bool) -> None:
    assert abilities({}, podman=podman, version=version).resize is able


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
def test_recursive_read_only_requires_engine_and_kernel(
    api: tuple[int, ...], kernel: str, podman: bool, able: bool
) -> None:
    info = described({"KernelVersion": kernel}, api=api, podman=podman)
    assert info.recursive_read_only is able


# --- values that are read back


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


def test_statuses_contain_limits_and_log_file() -> None:
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


@pytest.mark.parametrize(
    ("networks", "source", "routable"),
    [
        # The engine's bridge is here: the kernel sends from the bridge's own address.
        ([("10.88.0.5", "10.88.0.1")], "10.88.0.1", True),
        # Another network has the same range here, so the address is not the pod's.
        ([("10.88.0.5", "10.88.0.1")], "10.88.0.7", False),
        ([("10.88.0.5", "10.88.0.1")], "192.168.1.20", False),
        ([("10.88.0.5", "10.88.0.1")], "", False),
        ([("10.88.0.5", "")], "", False),
        ([("10.88.0.5", "")], "10.88.0.1", False),
        ([("10.88.0.5", "10.88.0.1"), ("10.89.0.5", "10.89.0.1")], "10.89.0.1", False),
        ([], "10.88.0.1", False),
    ],
)
def test_a_pod_ip_is_reachable_if_its_route_uses_the_engines_bridge(
    networks: list[tuple[str, str]], source: str, routable: bool
) -> None:
    found = {
        "NetworkSettings": {
            "Networks": {
                f"n{number}": {"IPAddress": address, "Gateway": gateway}
                for number, (address, gateway) in enumerate(networks)
            }
        }
    }
    assert is_routable(found, lambda address: source) is routable


def test_the_source_address_comes_from_the_kernel() -> None:
    assert source_address("127.0.0.5") == "127.0.0.1"
    assert source_address("no address") == ""


def test_labels_provide_values_omitted_by_podman() -> None:
    config = SandboxConfig(name="p", namespace="n", uid="u", attempt=0)
    of_host = replace(config, network=NamespaceMode.NODE)
    for one, expected in ((config, False), (of_host, True)):
        labels = sandbox_labels(one, "root", {})
        assert on_host_network({"Config": {"Labels": labels}}) is expected
    assert on_host_network({"Config": {"Labels": None}, "HostConfig": {"NetworkMode": "host"}})
    for once in (False, True):
        made = ContainerConfig(**CONFIG, stdin=True, stdin_once=once)
        assert (STDIN_ONCE_LABEL in container_labels(made, "root", "s", "")) is once


def test_devices_of_plugins() -> None:
    config = container(
        devices=(DeviceMapping(host_path="/dev/a", container_path="/dev/b", permissions="rw"),),
        cdi_devices=("example.com/gpu=0",),
        oci_annotations={"example.com/a": "b"},
    )
    for able in (Abilities(cdi=True, annotations=True), Abilities()):
        payload, warnings = payload_of(config, able=able)
        host = payload["HostConfig"]
        assert host["Devices"] == [
            {"PathOnHost": "/dev/a", "PathInContainer": "/dev/b", "CgroupPermissions": "rw"}
        ]
        assert host["DeviceRequests"] == [{"Driver": "cdi", "DeviceIDs": ["example.com/gpu=0"]}]
        assert host.get("Annotations") == ({"example.com/a": "b"} if able.annotations else None)
        lost = "annotations of devices do not reach the OCI runtime: example.com/a"
        assert warnings == (() if able.annotations else (lost,))


@pytest.mark.parametrize(
    ("api", "podman", "annotations", "cdi"),
    [
        ((1, 41), False, False, False),
        ((1, 43), False, True, False),
        ((1, 44), False, True, True),
        ((1, 44), True, False, False),
    ],
)
def test_cdi_devices_and_annotations_by_version(
    api: tuple[int, int], podman: bool, annotations: bool, cdi: bool
) -> None:
    able = abilities({}, podman=podman, api=api)
    assert (able.annotations, able.cdi) == (annotations, cdi)
    info = engine_info({}, {}, api_version="", able=able, local=True)
    assert any("CDI" in text for text in info.lacking) is not cdi
