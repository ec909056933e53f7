"""The Docker driver's decisions, without an engine."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import UTC, datetime
from typing import Any

import pytest
from docker_payloads import ABLE, container, payload_of, sandbox

from podtui.api.names import root_key
from podtui.errors import EngineNotFound
from podtui.runtime.docker.abilities import ALL_CAPABILITIES, LOW_OOM_SCORE, Abilities, remedy
from podtui.runtime.docker.identity import (
    container_labels,
    container_name,
    instant,
    sandbox_labels,
    sandbox_name,
    snapshot,
    volume_name,
)
from podtui.runtime.docker.inspection import container_status, sandbox_status, start_failure
from podtui.runtime.docker.payload import (
    ContainerFiles,
    Json,
    MountSource,
    host_dns,
    host_path_source,
    sandbox_payload,
)
from podtui.runtime.docker.storage import (
    compute_layout,
    first_places,
    inside,
    read_places,
    signs_of_filling,
    tar_of,
)
from podtui.runtime.protocol import (
    ContainerState,
    DnsConfig,
    Mount,
    NamespaceMode,
    PodVolume,
    PortMapping,
    Resources,
    SandboxState,
    SecurityContext,
    VolumeFile,
)

ROOT = root_key("/var/lib/podtui")
STAMP = "2026-11-21T09:21:06.985014643Z"


# --- names and labels


def test_names_match_dockershim() -> None:
    assert sandbox_name(sandbox()) == "k8s_POD_web-n_default_u1_2"
    assert container_name(container()) == "k8s_app_web-n_default_u1_3"


def test_uids_not_valid_in_names_stay_distinct() -> None:
    names = {sandbox_name(sandbox(uid=uid)) for uid in ("a/b", "a_b", "a-b")}
    assert len(names) == 3
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789kPOD8_-.") for name in names)
    assert volume_name(ROOT, "a/b").startswith(f"podtui-{ROOT}-a-b-")


def entry(name: str, labels: dict[str, str], state: str = "running") -> dict[str, Any]:
    return {"Id": "i", "Names": ["/" + name], "Labels": labels, "State": state, "Created": 1700}


def test_a_list_entry_round_trips() -> None:
    config = sandbox(labels={"app": "web"}, annotations={"note": "x", "kubernetes.io/c": "y"})
    one = container(labels={"tier": "b"}, annotations={"io.kubernetes.container.hash": "1f"})
    found = snapshot(
        [
            entry(sandbox_name(config), sandbox_labels(config, ROOT, {}), "exited"),
            entry(container_name(one), container_labels(one, ROOT, "S", "t/00")),
        ]
    )
    (box,), (app,) = found.sandboxes, found.containers
    assert (box.name, box.namespace, box.uid, box.attempt) == ("web-n", "default", "u1", 2)
    assert box.state is SandboxState.NOT_READY
    assert box.labels["app"] == "web"
    assert box.annotations == config.annotations
    assert (app.name, app.attempt, app.sandbox_id, app.image) == ("app", 3, "S", "busybox:1.36")
    assert app.annotations == one.annotations
    assert not any(key.startswith("podtui.dev/") for key in (*box.labels, *app.labels))


@pytest.mark.parametrize(
    ("name", "drop"),
    [
        ("k8s_POD_web-n_default_u1_x", ""),
        ("renamed", ""),
        ("", ""),
        ("k8s_POD_web-n_default_u1_2", "io.kubernetes.pod.uid"),
        ("k8s_POD_web-n_default_u1_2", "io.kubernetes.docker.type"),
    ],
)
def test_foreign_containers_are_ignored(name: str, drop: str) -> None:
    labels = sandbox_labels(sandbox(), ROOT, {})
    labels.pop(drop, None)
    found = snapshot([entry(name, labels), {"Id": "x", "Names": None, "Labels": None}])
    assert (found.sandboxes, found.containers) == ((), ())


def test_times() -> None:
    assert instant(STAMP) == datetime(2026, 11, 21, 9, 21, 6, 985014, UTC)
    assert instant("2026-11-21T10:21:06.5+01:00") == datetime(2026, 11, 21, 9, 21, 6, 500000, UTC)
    assert instant("0001-01-01T00:00:00Z") is None
    assert instant(None) is None


# --- inspections


def inspection(**state: Any) -> dict[str, Any]:
    labels = container_labels(container(), ROOT, "S", "")
    values = {
        "Status": "exited",
        "StartedAt": STAMP,
        "FinishedAt": "2026-11-21T09:21:08Z",
        "ExitCode": 0,
        "OOMKilled": False,
        "Error": "",
        "Pid": 0,
    }
    return {
        "Id": "i",
        "Name": "/" + container_name(container()),
        "Created": STAMP,
        "Image": "sha256:b",
        "Config": {"Labels": labels},
        "HostConfig": {"NetworkMode": "container:S"},
        "State": values | state,
    }


NEVER = {"StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("state", "kind", "reason", "code"),
    [
        ({}, ContainerState.EXITED, "Completed", 0),
        ({"ExitCode": 3}, ContainerState.EXITED, "Error", 3),
        ({"ExitCode": 137, "OOMKilled": True}, ContainerState.EXITED, "OOMKilled", 137),
        ({"Status": "running", "Pid": 7}, ContainerState.RUNNING, "", 0),
        ({"Status": "created", **NEVER}, ContainerState.CREATED, "", 0),
        (
            {"Status": "created", "ExitCode": 127, "Error": "no such file", **NEVER},
            ContainerState.EXITED,
            "StartError",
            128,
        ),
    ],
)
def test_states(state: dict[str, Any], kind: ContainerState, reason: str, code: int) -> None:
    status = container_status(inspection(**state))
    assert (status.record.state, status.reason, status.exit_code) == (kind, reason, code)
    assert status.pid == (7 if kind is ContainerState.RUNNING else None)
    assert (status.finished_at is None) == (kind is not ContainerState.EXITED)
    never_ran = reason == "StartError" or kind is ContainerState.CREATED
    assert (status.started_at is None) == never_ran


_RUNC = (
    "failed to create shim task: OCI runtime create failed: runc create failed: unable to start"
    ' container process: exec: "x": executable file not found in $PATH: unknown'
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_RUNC, f"failed to create containerd task: {_RUNC}"),
        (
            f"failed to create task for container: {_RUNC}",
            f"failed to create containerd task: {_RUNC}",
        ),
        (
            "OCI runtime create failed: no x",
            "failed to create containerd task: OCI runtime create failed: no x",
        ),
        (
            "crun: executable file `x` not found in $PATH",
            "crun: executable file `x` not found in $PATH",
        ),
        ("", ""),
    ],
)
def test_a_failed_start_is_reported_like_containerd(text: str, expected: str) -> None:
    assert start_failure(text) == expected
    failed = container_status(inspection(Status="created", ExitCode=127, Error=text, **NEVER))
    assert failed.message == expected


def test_an_end_before_the_start_is_corrected() -> None:
    status = container_status(inspection(FinishedAt="2026-11-21T09:21:06.98Z"))
    assert status.started_at == status.finished_at


def test_a_container_is_not_a_sandbox() -> None:
    with pytest.raises(EngineNotFound):
        sandbox_status(inspection())


# --- payloads


def test_a_sandbox_on_the_bridge() -> None:
    config = sandbox(
        hostname="web-n",
        dns=DnsConfig(servers=("10.0.0.1",), options=("ndots:5",)),
        extra_hosts=(("db", "10.1.1.1"),),
        ports=(
            PortMapping(container_port=80, host_port=8080, host_ip="127.0.0.1"),
            PortMapping(container_port=80, host_port=8081),
            PortMapping(container_port=53, host_port=53, protocol="UDP"),
            PortMapping(container_port=9, host_port=0),
        ),
        sysctls={"net.ipv4.tcp_syncookies": "1"},
    )
    payload = sandbox_payload(
        config, image="p", labels={"a": "b"}, volume="vol", memory={"m": "tm"}
    )
    host = payload["HostConfig"]
    assert payload["Hostname"] == "web-n"
    assert host["RestartPolicy"] == {"Name": "no"}
    assert host["IpcMode"] == "shareable"
    assert host["DnsSearch"] == ["."]
    assert host["ExtraHosts"] == ["db:10.1.1.1"]
    assert host["Sysctls"] == {"net.ipv4.tcp_syncookies": "1"}
    assert host["PortBindings"] == {
        "80/tcp": [
            {"HostIp": "127.0.0.1", "HostPort": "8080"},
            {"HostIp": "", "HostPort": "8081"},
        ],
        "53/udp": [{"HostIp": "", "HostPort": "53"}],
    }
    assert [m["Target"] for m in host["Mounts"]] == ["/podtui", "/podtui/volumes/m"]
    assert "SecurityOpt" not in host


def test_a_sandbox_of_the_host() -> None:
    node = NamespaceMode.NODE
    config = sandbox(
        network=node,
        ipc=node,
        pid=node,
        hostname="ignored",
        ports=(PortMapping(container_port=80, host_port=80),),
    )
    payload = sandbox_payload(config, image="p", labels={}, volume="vol", memory={})
    host = payload["HostConfig"]
    assert (host["NetworkMode"], host["IpcMode"], host["PidMode"]) == ("host", "host", "host")
    assert "Hostname" not in payload
    assert "PortBindings" not in host


@pytest.mark.parametrize(
    ("command", "args", "entrypoint", "cmd"),
    [
        (None, None, None, None),
        (("a", "b"), None, ["a", "b"], None),
        (None, ("c",), None, ["c"]),
        (("a",), ("c",), ["a"], ["c"]),
        ((), (), None, None),
    ],
)
def test_command_and_args(
    command: tuple[str, ...] | None,
    args: tuple[str, ...] | None,
    entrypoint: list[str] | None,
    cmd: list[str] | None,
) -> None:
    payload, _ = payload_of(container(command=command, args=args))
    assert (payload.get("Entrypoint"), payload.get("Cmd")) == (entrypoint, cmd)


def test_namespaces_of_a_container() -> None:
    host = payload_of(container())[0]["HostConfig"]
    assert (host["NetworkMode"], host["IpcMode"], host["PidMode"]) == (
        "container:S",
        "container:S",
        "",
    )
    shared = payload_of(container(pid=NamespaceMode.POD), host_ipc=True)[0]["HostConfig"]
    assert (shared["IpcMode"], shared["PidMode"]) == ("host", "container:S")


def test_a_container_of_a_host_network_sandbox_uses_the_host_network() -> None:
    dns = DnsConfig(servers=("10.0.0.53",), options=("ndots:3",))
    config = sandbox(network=NamespaceMode.NODE, dns=dns)
    payload = sandbox_payload(config, image="p", labels={}, volume="vol", memory={})
    host = payload_of(container(), host_dns=host_dns(payload["HostConfig"]))[0]["HostConfig"]
    assert (host["NetworkMode"], host["IpcMode"]) == ("host", "container:S")
    given = {"Dns": ["10.0.0.53"], "DnsSearch": ["."], "DnsOptions": ["ndots:3"]}
    assert {key: host[key] for key in given} == given
    assert host_dns({"NetworkMode": "host", "Dns": [], "DnsSearch": None}) == {}
    assert host_dns({"NetworkMode": "bridge", "Dns": ["10.0.0.53"]}) is None


def test_resources_in_the_engines_format() -> None:
    wanted = Resources(cpu_shares=102, cpu_quota=20000, memory=1 << 26, oom_score_adj=-997)
    host, warnings = payload_of(container(resources=wanted))
    assert warnings == ()
    assert {key: host["HostConfig"][key] for key in ("CpuShares", "CpuQuota", "CpuPeriod")} == {
        "CpuShares": 102,
        "CpuQuota": 20000,
        "CpuPeriod": 100000,
    }
    assert host["HostConfig"]["Memory"] == host["HostConfig"]["MemorySwap"] == 1 << 26
    assert host["HostConfig"]["OomScoreAdj"] == -997


def test_unsupported_options_are_omitted_and_reported() -> None:
    unable = Abilities(
        memory_limit=False,
        cpu_quota=False,
        cpu_shares=False,
        lower_oom_score=False,
        seccomp=False,
        apparmor=False,
    )
    wanted = Resources(cpu_shares=2, cpu_quota=1, memory=1, oom_score_adj=-1)
    security = SecurityContext(seccomp="runtime/default", apparmor="localhost/p")
    payload, warnings = payload_of(container(resources=wanted, security=security), able=unable)
    assert not {"Memory", "CpuQuota", "CpuShares", "OomScoreAdj", "SecurityOpt"} & set(
        payload["HostConfig"]
    )
    assert LOW_OOM_SCORE.text in warnings
    assert len(warnings) == 5


def test_security_options() -> None:
    def options(able: Abilities = ABLE, profile: str | None = None, **wanted: Any) -> Any:
        config = container(security=SecurityContext(**wanted))
        return payload_of(config, able=able, seccomp_profile=profile)[0]["HostConfig"]

    assert options()["SecurityOpt"] == ["seccomp=unconfined"]
    assert "SecurityOpt" not in options(seccomp="runtime/default")
    assert options(seccomp="localhost/p.json", profile="{}")["SecurityOpt"] == ["seccomp={}"]
    full = options(
        groups=(7, 8),
        privileged=True,
        add_capabilities=("NET_ADMIN",),
        drop_capabilities=("ALL",),
        read_only_rootfs=True,
        no_new_privileges=True,
        apparmor="localhost/mine",
        unmasked_proc=True,
    )
    assert full["SecurityOpt"] == ["no-new-privileges", "seccomp=unconfined", "apparmor=mine"]
    assert full["GroupAdd"] == ["7", "8"]
    assert (full["CapAdd"], full["CapDrop"]) == (["NET_ADMIN"], ["ALL"])
    assert full["Privileged"]
    assert full["ReadonlyRootfs"]
    assert (full["MaskedPaths"], full["ReadonlyPaths"]) == ([], [])


def test_mounts() -> None:
    data = Mount(container_path="/data", volume="data", read_only=True)
    memory = Mount(container_path="/mem", volume="mem")
    host = Mount(container_path="/h", host_path="/srv/x", read_only=True, propagation="rslave")
    colon = Mount(container_path="/c", host_path="/srv/a:b")
    payload, _ = payload_of(
        container(
            mounts=(data, memory, host, colon), termination_message_path="/dev/termination-log"
        ),
        files=ContainerFiles(
            sources={
                data: MountSource(path="/e/v/00", must_exist=True),
                memory: MountSource(volume="tm"),
                host: host_path_source(host),
                colon: host_path_source(colon),
            },
            termination="/e/t/00",
        ),
    )
    made = payload["HostConfig"]
    assert made["Binds"] == ["/srv/x:/h:ro,rslave"]
    by_target = {mount["Target"]: mount for mount in made["Mounts"]}
    assert by_target["/data"] == {
        "Type": "bind",
        "Source": "/e/v/00",
        "Target": "/data",
        "ReadOnly": True,
    }
    assert by_target["/mem"]["VolumeOptions"] == {"NoCopy": True}
    assert by_target["/c"]["Source"] == "/srv/a:b"
    assert by_target["/dev/termination-log"]["Source"] == "/e/t/00"


def test_a_host_sub_path_is_confined() -> None:
    inner = Mount(container_path="/x", host_path="/srv/", sub_path="a//b")
    assert host_path_source(inner).path == "/srv/a/b"
    with pytest.raises(ValueError, match="outside of its volume"):
        host_path_source(Mount(container_path="/x", host_path="/srv", sub_path="a/../../etc"))
    assert inside("/srv", "a/../b") == "/srv/b"
    with pytest.raises(ValueError, match="outside of its volume"):
        inside("/srv", "../srv2")


# --- what a weak engine refuses


NO_CAPS = "unable to start container process: unable to apply caps: operation not permitted"


def test_a_refused_oom_score_is_dropped() -> None:
    found = remedy("can't get final child's PID from pipe: EOF", {"OomScoreAdj": -5, "Memory": 1})
    assert found == (LOW_OOM_SCORE, {"Memory": 1})
    assert remedy("can't get final child's PID from pipe: EOF", {"OomScoreAdj": 5}) is None
    assert remedy("executable file not found", {"OomScoreAdj": -5}) is None


@pytest.mark.parametrize(
    ("host", "lesser"),
    [
        ({"CapAdd": ["ALL"]}, {"CapAdd": ["ALL"], "CapDrop": ["SYS_RESOURCE"]}),
        ({"CapAdd": ["CAP_SYS_RESOURCE", "NET_RAW"]}, {"CapAdd": ["NET_RAW"]}),
        ({"CapAdd": ["NET_RAW"]}, None),
    ],
)
def test_refused_capabilities_are_dropped(host: Json, lesser: Json | None) -> None:
    found = remedy(NO_CAPS, host)
    assert found == (None if lesser is None else (ALL_CAPABILITIES, lesser))


def test_privileged_is_granted_partly_if_refused() -> None:
    found = remedy(NO_CAPS, {"Privileged": True, "SecurityOpt": ["seccomp={}", "label=off"]})
    assert found is not None
    assert found[1]["Privileged"] is False
    assert found[1]["SecurityOpt"] == ["label=off", "seccomp=unconfined"]
    assert remedy(NO_CAPS, found[1]) is None
    weak = Abilities(all_capabilities=False)
    payload, warnings = payload_of(container(security=SecurityContext(privileged=True)), able=weak)
    assert payload["HostConfig"]["CapDrop"] == ["SYS_RESOURCE"]
    assert warnings == (ALL_CAPABILITIES.text,)


# --- volumes


def test_plain_volumes_take_spares_and_need_no_upload() -> None:
    volumes = [PodVolume(name=f"v{n}") for n in range(18)]
    places = first_places(volumes)
    layout = compute_layout(volumes, places, fresh=True, filled=True, memory_volume={})
    assert layout.places["v0"] == "v/00"
    assert layout.places["v16"] == "volumes/v16"
    assert [e.path for e in layout.uploads] == ["volumes/v16", "volumes/v17"]


def test_volumes_with_files_or_modes_are_uploaded() -> None:
    volumes = (
        PodVolume(name="group", mode=0o2770, gid=7),
        PodVolume(name="files", files=(VolumeFile(path="a/b/c", content=b"x", mode=0o400),)),
        PodVolume(name="mem", memory=True, files=(VolumeFile(path="late"),)),
    )
    layout = compute_layout(
        volumes, first_places(volumes), fresh=True, filled=True, memory_volume={"mem": "tm"}
    )
    assert layout.places == {"group": "volumes/group", "files": "v/00", "mem": "memory:tm"}
    assert [(e.path, e.mode, e.gid) for e in layout.uploads] == [
        ("volumes/group", 0o2770, 7),
        ("v/00/a", 0o755, 0),
        ("v/00/a/b", 0o755, 0),
        ("v/00/a/b/c", 0o400, 0),
    ]
    with tarfile.open(fileobj=io.BytesIO(tar_of(layout.uploads, 1_700_000_000.5))) as tar:
        assert tar.getmember("v/00/a/b/c").mode == 0o400
        assert {member.mtime for member in tar} == {1_700_000_000.5}


def test_a_later_attempt_reuses_its_volumes_and_creates_new_ones() -> None:
    volumes = (PodVolume(name="old"), PodVolume(name="new"))
    layout = compute_layout(volumes, {"old": "v/00"}, fresh=False, filled=False, memory_volume={})
    assert layout.places == {"old": "v/00", "new": "volumes/new"}
    assert [e.path for e in layout.uploads] == ["volumes/new"]


def test_marks_of_a_filled_volume() -> None:
    volumes = (PodVolume(name="old"), PodVolume(name="new"), PodVolume(name="mem", memory=True))
    layout = compute_layout(
        volumes, {"old": "v/00"}, fresh=False, filled=False, memory_volume={"mem": "tm"}
    )
    assert signs_of_filling(layout, by_engine=True) == ("v/00", "volumes")
    assert signs_of_filling(layout, by_engine=False) == ("whole",)


def test_an_engine_without_volume_copy_gets_uploads() -> None:
    volumes = (PodVolume(name="plain"), PodVolume(name="odd", mode=0o700))
    layout = compute_layout(
        volumes, first_places(volumes), fresh=True, filled=False, memory_volume={}
    )
    assert [(e.path, e.mode) for e in layout.uploads] == [
        ("t", 0o755),
        ("v", 0o755),
        ("volumes", 0o755),
        ("v/00", 0o777),
        ("volumes/odd", 0o700),
        ("whole", 0o644),
    ], "the mark comes last: an upload that was cut short has none"


def test_invalid_positions_are_none() -> None:
    assert read_places(None) == read_places("{") == read_places("[1]") == {}
    assert read_places('{"a": "v/00"}') == {"a": "v/00"}


def test_root_keys_differ() -> None:
    assert root_key("/a") != root_key("/b")
    assert json.loads(json.dumps(root_key("/a"))) == root_key("/a")
