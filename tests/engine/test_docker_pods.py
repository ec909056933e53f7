"""Sandboxes, volumes and containers on the real engine."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from pathlib import Path
from typing import Any

import pytest
from runtime_bench import Bench

from podtui.errors import (
    ContainerCreateError,
    ContainerStartError,
    EngineConflict,
    SubPathError,
)
from podtui.runtime.protocol import (
    ContainerState,
    DnsConfig,
    Mount,
    NamespaceMode,
    PodVolume,
    PortMapping,
    Resources,
    SecurityContext,
    VolumeFile,
)

TERMINATION = "/dev/termination-log"


async def test_container_names_and_labels_match_dockershim(docker_bench: Bench, raw: Any) -> None:
    sandbox = await docker_bench.sandbox(annotations={"note": "x"})
    app = await docker_bench.create(sandbox, "true", attempt=5, env=(("A", "b=c"),))
    pod = f"contract_default_{docker_bench.uid}"
    box, one = raw.inspect_container(sandbox), raw.inspect_container(app)
    assert box["Name"] == f"/k8s_POD_{pod}_0"
    assert one["Name"] == f"/k8s_app_{pod}_5"
    assert box["Config"]["Labels"]["io.kubernetes.docker.type"] == "podsandbox"
    assert box["Config"]["Labels"]["annotation.note"] == "x"
    assert one["Config"]["Labels"]["io.kubernetes.sandbox.id"] == sandbox
    assert one["HostConfig"]["RestartPolicy"]["Name"] in ("no", "")
    assert one["HostConfig"]["NetworkMode"] == f"container:{sandbox}"
    assert "A=b=c" in one["Config"]["Env"]


async def test_hostname_dns_hosts_and_address_of_a_sandbox(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox(
        hostname="box",
        dns=DnsConfig(servers=("192.0.2.1",), searches=("a.b",), options=("ndots:5",)),
        extra_hosts=(("db", "192.0.2.9"),),
    )
    script = "hostname; cat /etc/resolv.conf; grep db /etc/hosts; hostname -i"
    _, lines = await docker_bench.run(sandbox, script)
    status = await docker_bench.runtime.sandbox_status(sandbox)
    assert lines[0] == "box"
    assert {"nameserver 192.0.2.1", "search a.b", "options ndots:5"} <= set(lines)
    assert any(line.split() == ["192.0.2.9", "db"] for line in lines)
    assert lines[-1] in status.ips


async def test_a_host_port_in_use_is_a_conflict_and_leaves_nothing(
    docker_bench: Bench, raw: Any
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = PortMapping(container_port=80, host_port=taken.getsockname()[1], host_ip="127.0.0.1")
        with pytest.raises(EngineConflict):
            await docker_bench.sandbox(ports=(port,))
    snapshot = await docker_bench.runtime.list()
    assert snapshot.sandboxes == ()
    volumes = raw.volumes(filters={"label": f"io.kubernetes.pod.uid={docker_bench.uid}"})
    assert not volumes["Volumes"]


async def test_published_ports_reach_the_pod(docker_bench: Bench) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    port = PortMapping(container_port=7000, host_port=number, host_ip="127.0.0.1")
    sandbox = await docker_bench.sandbox(ports=(port,))
    await docker_bench.start(sandbox, "while :; do echo hello | nc -l -p 7000; done")
    async with asyncio.timeout(120):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", number)
                answer = await reader.read(5)
                writer.close()
                await writer.wait_closed()
            except OSError:
                answer = b""
            if answer:
                break
            await asyncio.sleep(0.05)
    assert answer == b"hello"


async def test_pause_is_process_one_and_reaps_zombies(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    orphan = "(sh -c 'sleep 0.1 & exit' &); for i in $(seq 100); do sleep 0.05;"
    orphan += " ps -o stat,comm | grep -q '^Z' || break; done; sleep 0.3;"
    script = orphan + " cat /proc/1/comm; ps -o stat,comm | grep -c '^Z'; true"
    _, lines = await docker_bench.run(sandbox, script, pid=NamespaceMode.POD)
    assert lines == ["pause", "0"]


async def test_a_sandbox_stops_immediately(docker_bench: Bench, raw: Any) -> None:
    sandbox = await docker_bench.sandbox()
    await docker_bench.runtime.stop_sandbox(sandbox)
    state = raw.inspect_container(sandbox)["State"]
    assert (state["Running"], state["ExitCode"]) == (False, 0)


# --- volumes


async def test_modes_and_owners_are_exact(docker_bench: Bench) -> None:
    volumes = (
        PodVolume(name="plain"),
        PodVolume(name="group", mode=0o2770, gid=1234),
        PodVolume(
            name="files",
            mode=0o755,
            uid=11,
            files=(
                VolumeFile(path="..a/one", content=b"1\n", mode=0o640, uid=5, gid=6),
                VolumeFile(path="..data", target="..a"),
                VolumeFile(path="one", target="..data/one"),
            ),
        ),
    )
    sandbox = await docker_bench.sandbox(volumes=volumes)
    mounts = tuple(Mount(container_path=f"/{v.name}", volume=v.name) for v in volumes)
    script = "stat -c '%a %u %g %n' /plain /group /files /files/..a/one; cat /files/one"
    assert await docker_bench.run(sandbox, script, mounts=mounts) == (
        0,
        ["777 0 0 /plain", "2770 0 1234 /group", "755 11 0 /files", "640 5 6 /files/..a/one", "1"],
    )


async def test_more_volumes_and_messages_than_spare_carriers(docker_bench: Bench) -> None:
    volumes = tuple(PodVolume(name=f"v{n}") for n in range(18))
    sandbox = await docker_bench.sandbox(volumes=volumes)
    mounts = tuple(Mount(container_path=f"/m/{v.name}", volume=v.name) for v in volumes)
    code, lines = await docker_bench.run(
        sandbox, "for v in /m/*; do stat -c %a $v; touch $v/x; done", mounts=mounts
    )
    assert (code, set(lines), len(lines)) == (0, {"777"}, 18)
    for attempt in range(18):
        made = await docker_bench.create(
            sandbox, "true", name="t", attempt=attempt, termination_message_path=TERMINATION
        )
        await docker_bench.runtime.remove_container(made)
    last = await docker_bench.start(
        sandbox,
        f"stat -c '%a %s' {TERMINATION}; echo end > {TERMINATION}",
        attempt=1,
        termination_message_path=TERMINATION,
    )
    await docker_bench.ended(last)
    assert await docker_bench.text(last) == ["666 0"]
    assert await docker_bench.runtime.termination_message(last, 100) == b"end\n"


async def test_memory_volumes_have_a_limit_and_files(docker_bench: Bench) -> None:
    files = (VolumeFile(path="d/seed", content=b"here\n", mode=0o600),)
    volume = PodVolume(name="mem", memory=True, size_limit=1 << 20, files=files, gid=77)
    sandbox = await docker_bench.sandbox(volumes=(volume,))
    mounts = (
        Mount(container_path="/mem", volume="mem"),
        Mount(container_path="/sub", volume="mem", sub_path="d"),
    )
    script = (
        "stat -f -c %T /mem; stat -c '%a %g' /mem; cat /mem/d/seed; ls /sub;"
        " dd if=/dev/zero of=/mem/big bs=64k count=64 2>/dev/null || echo full"
    )
    _, lines = await docker_bench.run(sandbox, script, mounts=mounts)
    assert lines == ["tmpfs", "777 77", "here", "seed", "full"]
    later = await docker_bench.run(sandbox, "ls /mem", name="later", mounts=mounts[:1])
    assert later == (0, ["big", "d"])


async def test_sub_paths_are_created_resolved_and_confined(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox(volumes=(PodVolume(name="v"),))
    whole = Mount(container_path="/v", volume="v")

    def sub(path: str) -> tuple[Mount, ...]:
        return (Mount(container_path="/s", volume="v", sub_path=path),)

    made = await docker_bench.run(sandbox, "stat -c %a /s; echo x > /s/f", mounts=sub("a/b"))
    assert made == (0, ["777"])
    script = "cat /v/a/b/f; ln -s a/b /v/ln; ln -s /etc /v/out; ln -s ../../.. /v/a/up"
    assert await docker_bench.run(sandbox, script, name="two", mounts=(whole,)) == (0, ["x"])
    linked = await docker_bench.run(sandbox, "cat /s", name="three", mounts=sub("ln/f"))
    assert linked == (0, ["x"])
    for path in ("out", "out/passwd", "a/up", "../x", "ln/../../../x"):
        with pytest.raises(SubPathError, match="outside of its volume"):
            await docker_bench.create(sandbox, "true", name="four", mounts=sub(path))


async def test_host_paths(docker_bench: Bench, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("the engine's files are not readable here")
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "f").write_text("old\n")
    sandbox = await docker_bench.sandbox()
    mounts = (
        Mount(container_path="/ro", host_path=f"{tmp_path}/there", read_only=True),
        Mount(container_path="/dir", host_path=f"{tmp_path}/a/b", host_path_create="Directory"),
        Mount(container_path="/new", host_path=f"{tmp_path}/new", host_path_create="File"),
        Mount(container_path="/old", host_path=f"{tmp_path}/there/f", host_path_create="File"),
        Mount(container_path="/sub", host_path=str(tmp_path), sub_path="there/f"),
    )
    script = "touch /ro/x || echo refused; echo 1 > /new; touch /dir/y; cat /old /sub"
    _, lines = await docker_bench.run(sandbox, script, mounts=mounts)
    assert [line for line in lines if "touch" not in line] == ["refused", "old", "old"]
    assert (tmp_path / "new").read_text() == "1\n"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644
    assert (tmp_path / "a" / "b" / "y").exists()
    if docker_bench.info.name == "podman":
        return  # which makes any missing directory of a bind
    orphan = Mount(container_path="/o", host_path=f"{tmp_path}/no/such/x", host_path_create="File")
    with pytest.raises(ContainerCreateError, match="no such file or directory"):
        await docker_bench.create(sandbox, "true", name="orphan", mounts=(orphan,))
    assert not (tmp_path / "no").exists()


async def test_an_unknown_volume_is_refused(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    with pytest.raises(ContainerCreateError, match='"nope"'):
        await docker_bench.create(
            sandbox, "true", mounts=(Mount(container_path="/x", volume="nope"),)
        )


async def test_a_later_sandbox_keeps_data_and_gives_fresh_messages(docker_bench: Bench) -> None:
    volume = (PodVolume(name="v"),)
    mounts = (Mount(container_path="/v", volume="v"),)
    path = {"termination_message_path": TERMINATION}
    first = await docker_bench.sandbox(0, volumes=volume)
    await docker_bench.run(first, f"echo a > /v/f; echo m > {TERMINATION}", mounts=mounts, **path)
    await docker_bench.runtime.remove_sandbox(first)
    second = await docker_bench.sandbox(1, volumes=(*volume, PodVolume(name="w")))
    more = (*mounts, Mount(container_path="/w", volume="w"))
    script = f"cat /v/f; stat -c %a /w; stat -c %s {TERMINATION}"
    got = await docker_bench.run(second, script, attempt=1, mounts=more, **path)
    assert got == (0, ["a", "777", "0"])


async def test_a_replaced_message_file_is_ignored(
    docker_bench: Bench,
) -> None:
    sandbox = await docker_bench.sandbox(pid=NamespaceMode.POD)
    script = "t=$(ls /proc/1/root/podtui/t | head -n1); rm /proc/1/root/podtui/t/$t;"
    script += " ln -s /etc/hostname /proc/1/root/podtui/t/$t"
    security = SecurityContext(privileged=True)
    app = await docker_bench.start(
        sandbox,
        script,
        pid=NamespaceMode.POD,
        security=security,
        termination_message_path=TERMINATION,
    )
    await docker_bench.ended(app)
    assert await docker_bench.runtime.termination_message(app, 100) == b""


# --- containers


async def test_the_security_context_is_applied(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    security = SecurityContext(
        user="65534:100",
        groups=(2000,),
        drop_capabilities=("ALL",),
        read_only_rootfs=True,
        no_new_privileges=True,
        seccomp="runtime/default",
    )
    script = "id -u; id -g; id -G; touch /x 2>/dev/null || echo ro;"
    script += " grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"
    _, lines = await docker_bench.run(sandbox, script, security=security)
    assert lines[:2] == ["65534", "100"]
    assert set(lines[2].split()) == {"100", "2000"}
    assert lines[3] == "ro"
    status = dict(line.split(":\t") for line in lines[4:])
    assert (int(status["CapBnd"], 16), status["NoNewPrivs"], status["Seccomp"]) == (0, "1", "2")


async def test_seccomp_is_unconfined_unless_requested(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    script = "grep ^Seccomp: /proc/self/status"
    assert (await docker_bench.run(sandbox, script))[1] == ["Seccomp:\t0"]


async def test_a_missing_seccomp_profile(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    with pytest.raises(ContainerCreateError, match="seccomp profile"):
        await docker_bench.create(
            sandbox, "true", security=SecurityContext(seccomp="localhost/no.json")
        )


async def test_limits_are_passed_to_the_engine(docker_bench: Bench, raw: Any) -> None:
    sandbox = await docker_bench.sandbox()
    wanted = Resources(
        cpu_shares=102, cpu_quota=20000, cpu_period=100000, memory=64 << 20, oom_score_adj=500
    )
    app = await docker_bench.start(sandbox, resources=wanted)
    host = raw.inspect_container(app)["HostConfig"]
    assert (host["CpuShares"], host["CpuQuota"], host["CpuPeriod"]) == (102, 20000, 100000)
    assert host["Memory"] == 64 << 20
    found = await docker_bench.runtime.exec(app, ("cat", "/proc/1/oom_score_adj"), timeout=120)
    assert found.output == b"500\n"


async def test_a_lower_oom_score_is_set_or_skipped_with_a_warning(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    low = Resources(oom_score_adj=-997)
    made = await docker_bench.create(
        sandbox, "sleep 60", resources=low, termination_message_path=TERMINATION
    )
    started = await docker_bench.runtime.start_container(made)
    status = await docker_bench.runtime.container_status(started.id)
    assert status.record.state is ContainerState.RUNNING
    snapshot = await docker_bench.runtime.list()
    assert [c.id for c in snapshot.containers] == [started.id]
    info = await docker_bench.runtime.connect()
    assert info.supports_lower_oom_score == (started.warnings == ())
    config = docker_bench.container_config("sleep 60", name="next", resources=low)
    second = await docker_bench.runtime.create_container(sandbox, config)
    again = await docker_bench.runtime.start_container(second.id)
    assert again.id == second.id
    assert second.warnings == started.warnings


async def test_a_container_runs_once(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    app = await docker_bench.start(sandbox, "true")
    await docker_bench.ended(app)
    with pytest.raises(ContainerStartError, match="already started once"):
        await docker_bench.runtime.start_container(app)


async def test_a_container_of_a_stopped_sandbox_does_not_start(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    app = await docker_bench.create(sandbox, "true")
    await docker_bench.runtime.stop_sandbox(sandbox)
    with pytest.raises(ContainerStartError):
        await docker_bench.runtime.start_container(app)


async def test_the_stop_signal_of_the_pod(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    script = "trap 'exit 7' USR1; echo ready; while :; do sleep 0.05; done"
    app = await docker_bench.start(sandbox, script, stop_signal="SIGUSR1")
    await docker_bench.shows(app, "ready")
    await docker_bench.runtime.stop_container(app, 20)
    assert (await docker_bench.runtime.container_status(app)).exit_code == 7


async def test_a_terminal_and_stdin(docker_bench: Bench) -> None:
    sandbox = await docker_bench.sandbox()
    app = await docker_bench.start(sandbox, "tty; printf unfinished", tty=True, stdin=True)
    await docker_bench.ended(app)
    lines = await docker_bench.lines(app)
    assert [(x.stream, x.content, x.partial) for x in lines] == [
        ("stdout", b"/dev/pts/0", False),
        ("stdout", b"unfinished", True),
    ]


async def test_pods_of_one_name_with_different_uids_are_separate(docker_bench: Bench) -> None:
    other = str(uuid.uuid4())
    first = await docker_bench.sandbox()
    second = await docker_bench.sandbox(uid=other)
    try:
        snapshot = await docker_bench.runtime.list(other)
        assert [s.id for s in snapshot.sandboxes] == [second]
        await docker_bench.runtime.stop_sandbox(second)
        status = await docker_bench.runtime.sandbox_status(first)
        assert status.ips
    finally:
        await docker_bench.runtime.remove_sandbox(second)
        await docker_bench.runtime.remove_pod_data(other)
