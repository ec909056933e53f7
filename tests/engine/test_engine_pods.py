"""Names, addresses, users and privileges as processes see them, on the real engine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import docker
import pytest
from engine_world import EngineWorld

from podtui.kubelet.containers import hosts as hosts_files

MANAGED = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
NODE_HOSTS = "127.0.0.1 localhost\n10.0.0.3 n1\n"
OWN = {kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("net", "pid", "ipc")}
"""The namespaces of this process, which are the node's."""


@pytest.fixture
async def world(engine_url: str, tmp_path: Path) -> AsyncIterator[EngineWorld]:
    """Run a kubelet with a cluster domain and a resolver file of the test."""
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 192.0.2.53\nsearch lan.example\noptions ndots:2\n")
    made = EngineWorld(
        engine_url,
        resolv_conf=str(resolver),
        cluster_domain="c.l",
        allowed_unsafe_sysctls=("kernel.msg*",),
        error_backoff=1.0,
    )
    async with made.running():
        yield made


def once(name: str, spec: str, containers: str, metadata: str = "") -> str:
    """Return a pod that completes; the arguments are lines of YAML."""
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{metadata}"
        f"spec:\n  restartPolicy: Never\n{spec}  containers:\n{containers}"
    )


def script(name: str, text: str, more: str = "") -> str:
    return (
        f"  - name: {name}\n    image: busybox:1.36\n    imagePullPolicy: Never\n"
        f"    command: [sh, -ec, '{text}']\n{more}"
    )


def status_lines(text: str) -> dict[str, str]:
    """Parse ``/proc/self/status``."""
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in pairs}


# --- names and addresses


async def test_pod_hostname(world: EngineWorld) -> None:
    variables = (
        "    env:\n"
        "    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}\n"
        "    - {name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}\n"
        "    - {name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}\n"
        "    - {name: ME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n"
    )
    containers = (
        script("hosts", "cat /etc/hosts")
        + script("name", "hostname; echo $HOSTNAME")
        + script("resolver", "cat /etc/resolv.conf")
        + script("env", "echo $ME $IP $IPS $HOST", variables)
        + script("where", "pwd; echo $0 $@", "    workingDir: /tmp\n    args: [zero, a, b]\n")
        + script("writes", "echo x >> /etc/hosts; tail -n 1 /etc/hosts")
    )
    spec = (
        "  hostname: box\n  subdomain: sub\n"
        "  hostAliases: [{ip: 192.0.2.9, hostnames: [db, db.example]}]\n"
    )
    world.add(once("named", spec, containers))
    status = await world.ended("named")
    address = status.podIP
    assert address
    assert [one.ip for one in status.podIPs] == [address]
    assert await world.output("named", "hosts") == (
        MANAGED
        + f"{address}\tbox.sub.default.svc.c.l\tbox\n"
        + "\n# Entries added by HostAliases.\n192.0.2.9\tdb\tdb.example"
    )
    assert await world.output("named", "name") == "box\nbox"
    assert await world.output("named", "resolver") == (
        "search lan.example\nnameserver 192.0.2.53\noptions ndots:2"
    )
    variables = await world.output("named", "env")
    assert variables == f"named-n1 {address} {address} {status.hostIP}"
    assert await world.output("named", "where") == "/tmp\nzero a b"
    assert await world.output("named", "writes") == "x"


async def test_hostnames_are_truncated_qualified_and_overridden(world: EngineWorld) -> None:
    long = "a" * 62 + "-bcdef"
    world.add(once(long, "", script("c", "hostname")))
    full = "  hostname: box\n  subdomain: sub\n  setHostnameAsFQDN: true\n"
    world.add(once("full", full, script("c", "hostname")))
    world.add(once("over", "  hostnameOverride: other.example\n", script("c", "hostname")))
    assert await world.output(long, "c") == "a" * 62
    assert await world.output("full", "c") == "box.sub.default.svc.c.l"
    assert await world.output("over", "c") == "other.example"


async def test_resolvers(world: EngineWorld) -> None:
    show = script("c", "cat /etc/resolv.conf")
    given = "  dnsConfig: {nameservers: [192.0.2.1], searches: [a, b], options: [{name: edns0}]}\n"
    bare = "  dnsConfig: {nameservers: [192.0.2.1]}\n"
    world.add(once("none", "  dnsPolicy: None\n" + given, show))
    world.add(once("bare", "  dnsPolicy: None\n" + bare, show))
    world.add(once("default", "  dnsPolicy: Default\n" + given, show))
    world.add(once("first", "  dnsPolicy: ClusterFirst\n", show))
    assert await world.output("none", "c") == "search a b\nnameserver 192.0.2.1\noptions edns0"
    assert await world.output("bare", "c") == "nameserver 192.0.2.1"
    assert await world.output("default", "c") == (
        "search lan.example a b\nnameserver 192.0.2.53\nnameserver 192.0.2.1\noptions ndots:2 edns0"
    )
    assert await world.output("first", "c") == (
        "search lan.example\nnameserver 192.0.2.53\noptions ndots:2"
    )


async def test_host_network(
    world: EngineWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine's own may change while the tests run.
    (tmp_path / "hosts").write_text(NODE_HOSTS)
    monkeypatch.setattr(hosts_files, "HOSTS_PATH", str(tmp_path / "hosts"))
    containers = (
        script("hosts", "cat /etc/hosts")
        + script("name", "hostname")
        + script("resolver", "cat /etc/resolv.conf")
        + script("net", "readlink /proc/self/ns/net")
    )
    world.add(once("host", "  hostNetwork: true\n", containers))
    status = await world.ended("host")
    assert status.podIP == status.hostIP != ""
    header = "# Kubernetes-managed hosts file (host network).\n"
    assert await world.output("host", "hosts") == (header + NODE_HOSTS).rstrip("\n")
    assert await world.output("host", "name") == socket.gethostname()
    assert "nameserver 192.0.2.53" in await world.output("host", "resolver")
    assert await world.output("host", "net") == OWN["net"]


# --- namespaces


async def test_case_88_visible_processes(world: EngineWorld) -> None:
    private = script("a", "readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc")
    alone = script("a", "sleep 1; ps -o args") + script("b", "exec sleep 2.5")
    # The first container may start long before the second: wait until its process is visible, not
    # only the shell that starts it.
    wait = 'until ps -o args | grep -qx "sleep 600"; do sleep 0.1; done'
    both = script("a", f"{wait}; ps -o args; killall sleep") + script("b", "sleep 600 || true")
    world.add(once("apart", "", alone))
    world.add(once("shared", "  shareProcessNamespace: true\n", both))
    world.add(once("node", "  hostPID: true\n  hostIPC: true\n", private))
    assert "sleep 2.5" not in await world.output("apart", "a")
    together = await world.output("shared", "a")
    assert "sleep 600" in together
    assert "/pause" in together
    assert await world.output("node", "a") == f"{OWN['pid']}\n{OWN['ipc']}"


# --- users and privileges


async def test_users_and_privileges(world: EngineWorld) -> None:
    def context(text: str) -> str:
        return f"    securityContext: {{{text}}}\n"

    status = "cat /proc/self/status"
    spec = (
        "  securityContext: {runAsUser: 1000, runAsGroup: 3000, fsGroup: 2000,"
        " supplementalGroups: [4000], seccompProfile: {type: RuntimeDefault}}\n"
    )
    containers = (
        script("pods", status)
        + script(
            "own", status, context("runAsUser: 0, runAsGroup: 5, allowPrivilegeEscalation: false")
        )
        + script(
            "caps",
            status,
            context(
                "runAsUser: 0, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]},"
                " seccompProfile: {type: Unconfined}"
            ),
        )
        + script("all", status, context("runAsUser: 0, privileged: true"))
        + script(
            "closed", "touch /x 2>&1 || true", context("runAsUser: 0, readOnlyRootFilesystem: true")
        )
        + script("hidden", "cat /proc/interrupts /proc/keys | wc -c; ls /sys/firmware | wc -l")
        + script(
            "fixed",
            "! (echo 1 > /proc/sys/kernel/panic) 2>&1",
            context("runAsUser: 0"),
        )
    )
    world.add(once("priv", spec, containers))
    pods = status_lines(await world.output("priv", "pods"))
    assert pods["Uid"].split() == ["1000"] * 4
    assert pods["Gid"].split() == ["3000"] * 4
    assert {"2000", "4000"} <= set(pods["Groups"].split())
    assert (pods["Seccomp"], pods["NoNewPrivs"], pods["CapEff"]) == ("2", "0", "0" * 16)
    changed = status_lines(await world.output("priv", "own"))
    assert (
        changed["Uid"].split()[0],
        changed["Gid"].split()[0],
        changed["NoNewPrivs"],
    ) == ("0", "5", "1")
    caps = status_lines(await world.output("priv", "caps"))
    assert int(caps["CapEff"], 16) == 1 << 10
    assert caps["Seccomp"] == "0"
    everything = status_lines(await world.output("priv", "all"))
    assert int(everything["CapEff"], 16) & (1 << 21)
    assert everything["Seccomp"] == "0"
    assert "Read-only file system" in await world.output("priv", "closed")
    assert await world.output("priv", "hidden") == "0\n0"
    assert "Read-only file system" in await world.output("priv", "fixed")


async def test_default_seccomp_profile_follows_the_setting(
    engine_url: str,
) -> None:
    for seccomp_default, expected in ((False, "0"), (True, "2")):
        world = EngineWorld(engine_url, seccomp_default=seccomp_default)
        async with world.running():
            world.add(once("plain", "", script("c", "cat /proc/self/status")))
            assert status_lines(await world.output("plain", "c"))["Seccomp"] == expected


# --- sysctls


async def test_sysctls(world: EngineWorld) -> None:
    asks = (
        '{name: net.ipv4.ip_unprivileged_port_start, value: "80"},'
        ' {name: kernel/msgmax, value: "65536"}'
    )
    show = "cat /proc/sys/net/ipv4/ip_unprivileged_port_start /proc/sys/kernel/msgmax"
    world.add(once("set", f"  securityContext: {{sysctls: [{asks}]}}\n", script("c", show)))
    wrong = "{name: kernel.msgmax, value: nonsense}"
    world.add(once("wrong", f"  securityContext: {{sysctls: [{wrong}]}}\n", script("c", "true")))
    assert await world.output("set", "c") == "80\n65536"
    failed = await world.wait_for_event("wrong", "FailedCreatePodSandBox")
    assert failed.message.startswith("Failed to create pod sandbox: ")
    assert "msgmax" in failed.message


# --- ports, terminals


async def answer(port: int) -> bytes:
    """Return the first data from a server on this machine, once it sends any."""
    for _ in range(200):
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            answer = await reader.read(100)
            writer.close()
            if answer:
                return answer
        await asyncio.sleep(0.05)
    return b""


async def test_a_published_port_answers_on_its_address(world: EngineWorld) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ports = f"    ports: [{{containerPort: 7000, hostPort: {port}, hostIP: 127.0.0.1}}]\n"
    world.add(once("served", "", script("c", "echo hello | nc -l -p 7000", ports)))
    await world.until(lambda status: status.phase == "Running", "served")
    assert await answer(port) == b"hello\n"


async def test_a_host_port_in_use_is_retried_until_free(
    world: EngineWorld,
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        ports = f"    ports: [{{containerPort: 7000, hostPort: {port}, hostIP: 127.0.0.1}}]\n"
        world.add(once("late", "", script("c", "true", ports)))
        failed = await world.wait_for_event("late", "FailedCreatePodSandBox")
        assert failed.type == "Warning"
        assert failed.message.startswith("Failed to create pod sandbox: ")
        assert str(port) in failed.message
    await world.ended("late")


async def test_terminals_and_standard_input(world: EngineWorld, engine_url: str) -> None:
    containers = (
        script("tty", "test -t 1 && echo terminal", "    tty: true\n")
        + script("plain", "test -t 1 || echo none; cat; echo closed")
        + script("open", "timeout 1 cat || echo waits", "    stdin: true\n")
        + script("once", "timeout 1 cat || echo waits", "    stdin: true\n    stdinOnce: true\n")
    )
    world.add(once("io", "", containers))
    assert (await world.output("io", "tty")).strip() == "terminal"
    assert await world.output("io", "plain") == "none\nclosed"
    # The shell may say on its other stream, before or after, that its command was terminated.
    assert "waits" in (await world.output("io", "open")).splitlines()
    assert "waits" in (await world.output("io", "once")).splitlines()
    status = await world.ended("io")
    raw = docker.APIClient(base_url=engine_url)
    try:
        made = {
            one.name: raw.inspect_container(one.containerID.partition("://")[2])["Config"]
            for one in status.containerStatuses
        }
    finally:
        raw.close()
    assert [(made[n]["OpenStdin"], made[n]["StdinOnce"]) for n in ("plain", "open", "once")] == [
        (False, False),
        (True, False),
        (True, True),
    ]
