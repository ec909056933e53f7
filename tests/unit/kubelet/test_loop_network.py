"""Names, addresses and namespaces of running pods, on the simulated engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from kubelet_world import World, api_pod, container, pod
from msgspec import structs

from podtui.api.v1 import (
    ContainerPort,
    HostAlias,
    ObjectMeta,
    Pod,
    PodDNSConfig,
    PodResourceClaim,
    PodSecurityContext,
    RuntimeClass,
    SecurityContext,
    Sysctl,
    Volume,
    VolumeMount,
)
from podtui.kubelet.containers import hosts as hosts_files
from podtui.kubelet.prober.dialing import Unreachable, hook_port, probe_port
from podtui.runtime.protocol import DnsConfig, NamespaceMode, PortMapping, SandboxConfig

pytestmark = pytest.mark.virtual_time

NODE_HOSTS = "127.0.0.1 localhost\n10.0.0.3 n1\n"

MISSING = (
    "kubelet does not have ClusterDNS IP configured and cannot create Pod using"
    ' "ClusterFirst" policy. Falling back to "Default" policy.'
)


def pod_with(policy: str, name: str = "web-n1", **fields: object) -> Pod:
    made = pod(name, f"uid-{name}", **fields)  # type: ignore[arg-type]
    return structs.replace(made, spec=structs.replace(made.spec, dnsPolicy=policy))


def here(world: World) -> World:
    """The engine's host is this machine."""
    world.engine.info = replace(world.engine.info, local=True)
    return world


def sandbox_config(world: World, uid: str = "uid-web-n1") -> SandboxConfig:
    """Return the configuration of the newest sandbox."""
    found = [cell.config for cell in world.engine.sandboxes.values() if cell.record.uid == uid]
    return found[-1]


def hosts(world: World, name: str = "c") -> str:
    """Return the hosts file of the newest container of that name."""
    cell = [c for c in world.engine.containers.values() if c.config.name == name][-1]
    return (cell.config.hosts or cell.files.read("/etc/hosts") or b"").decode()


def own_lines(text: str) -> list[str]:
    """Return the lines of a managed file that are specific to this pod."""
    return text.split("ip6-allrouters\n", 1)[1].splitlines()


# --- resolvers


async def test_case_85_missing_cluster_dns_is_reported_once_on_the_node() -> None:
    world = World()
    async with world.running():
        world.add(pod_with("ClusterFirst", "a-n1"), pod_with("ClusterFirst", "b-n1"))
        await world.until(lambda: len(world.running_containers()) == 2)
        (event,) = await world.events("n1", "MissingClusterDNS")
        assert (event.type, event.message, event.count) == ("Warning", MISSING, 1)
        assert await world.events("a-n1", "MissingClusterDNS") == []
        world.add(pod_with("ClusterFirstWithHostNet", "c-n1", hostNetwork=True))
        await world.until(lambda: len(world.running_containers()) == 3)
        (event,) = await world.events("c-n1", "MissingClusterDNS")
        assert event.message == f'pod: "c-n1_default(uid-c-n1)". {MISSING}'


async def test_case_85_a_strict_kubelet_reports_it_for_each_pod_and_sync(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 127.0.0.53\nsearch lan\n")
    world = here(World(strict=True, resolv_conf=str(path)))
    async with world.running():
        world.add(pod_with("ClusterFirst"))
        await world.until(world.runs("uid-web-n1"))
        reasons = [e.reason for e in await world.events("web-n1")]
        assert reasons[0] == "MissingClusterDNS"
        (first,) = await world.events("web-n1", "MissingClusterDNS")
        assert first.message == f'pod: "web-n1_default(uid-web-n1)". {MISSING}'
        assert sandbox_config(world).dns == DnsConfig(servers=("127.0.0.53",), searches=("lan",))
        await world.sleep(200)
        (later,) = await world.events("web-n1", "MissingClusterDNS")
        (on_node,) = await world.events("n1", "MissingClusterDNS")
        assert later.count > first.count
        assert on_node.message == MISSING


async def test_with_cluster_dns_nothing_is_reported() -> None:
    world = World(cluster_dns=("10.96.0.10",), cluster_domain="c.l", strict=True)
    async with world.running():
        world.add(pod_with("ClusterFirst"))
        await world.until(world.runs("uid-web-n1"))
        assert sandbox_config(world).dns == DnsConfig(
            servers=("10.96.0.10",),
            searches=("default.svc.c.l", "svc.c.l", "c.l"),
            options=("ndots:5",),
        )
        assert await world.events("web-n1", "MissingClusterDNS") == []
        assert await world.events("n1", "MissingClusterDNS") == []


async def test_loopback_servers_are_kept_for_host_network_pods(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 127.0.0.1\nnameserver 9.9.9.9\n")
    world = here(World(resolv_conf=str(path)))
    async with world.running():
        world.add(pod_with("Default", "a-n1"), pod_with("Default", "b-n1", hostNetwork=True))
        await world.until(lambda: len(world.running_containers()) == 2)
        assert sandbox_config(world, "uid-a-n1").dns == DnsConfig(servers=("9.9.9.9",))
        assert sandbox_config(world, "uid-b-n1").dns == DnsConfig(servers=("127.0.0.1", "9.9.9.9"))
        path.write_text("nameserver 8.8.8.8\n")
        world.add(pod_with("Default", "c-n1"))
        await world.until(lambda: len(world.running_containers()) == 3)
        assert sandbox_config(world, "uid-c-n1").dns == DnsConfig(servers=("8.8.8.8",))


async def test_a_remote_engine_has_its_own_resolver(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 9.9.9.9\n")
    world = World(resolv_conf=str(path))
    async with world.running():
        world.add(pod_with("Default"))
        await world.until(world.runs("uid-web-n1"))
        assert sandbox_config(world).dns is None


async def test_without_a_file_a_strict_pod_has_no_name_servers() -> None:
    world = here(World(strict=True))
    async with world.running():
        world.add(pod_with("Default"))
        await world.until(world.runs("uid-web-n1"))
        assert sandbox_config(world).dns == DnsConfig(servers=("127.0.0.1",), searches=(".",))


async def test_a_missing_resolver_file(tmp_path: Path) -> None:
    path = str(tmp_path / "nosuch")
    text = f"open {path}: no such file or directory"
    world = here(World(resolv_conf=path))
    async with world.running():
        world.add(pod_with("Default"))
        await world.until(world.runs("uid-web-n1"))
        assert sandbox_config(world).dns is None
        (event,) = await world.events("n1", "CheckLimitsForResolvConf")
        assert (event.type, event.message) == ("Warning", text)


async def test_a_strict_pod_waits_for_the_resolver_file(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    world = here(World(strict=True, resolv_conf=str(path)))
    async with world.running():
        world.add(pod_with("Default"))
        await world.until(lambda: world.phase() == "Pending")
        await world.sleep(1)
        failed = await world.events("web-n1", "FailedCreatePodSandBox")
        assert failed[0].message == (
            f"Failed to create pod sandbox: open {path}: no such file or directory"
        )
        path.write_text("nameserver 9.9.9.9\n")
        await world.until(world.runs("uid-web-n1"))


async def test_the_nodes_search_list_is_checked_once(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("search " + " ".join(f"s{n}" for n in range(30)) + "\n")
    world = here(World(resolv_conf=str(path), cluster_domain="c.l"))
    async with world.running():
        await world.sleep(1)
        world.engine.stop()
        await world.sleep(60)
        world.engine.start()
        await world.sleep(60)
        (event,) = await world.events("n1", "CheckLimitsForResolvConf")
        assert event.count == 1
        assert event.message == (
            f"Resolv.conf file '{path}' contains search line consisting of more than 29 domains!"
        )


async def test_case_86_exceeded_dns_limits_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 1.1.1.1\nnameserver 1.1.1.2\n")
    world = here(World(resolv_conf=str(path)))
    given = PodDNSConfig(nameservers=("8.8.8.8", "8.8.4.4"))
    async with world.running():
        world.add(pod_with("Default", dnsConfig=given))
        await world.until(world.runs("uid-web-n1"))
        (event,) = await world.events("web-n1", "DNSConfigForming")
        assert event.type == "Warning"
        assert event.message.endswith("the applied nameserver line is: 1.1.1.1 1.1.1.2 8.8.8.8")


# --- the hosts file


async def test_case_84_the_hosts_file_follows_the_pod_s_address() -> None:
    world = World(cluster_domain="c.l")
    alias = HostAlias(ip="10.9.9.9", hostnames=("db", "db2"))
    async with world.running():
        world.add(pod(hostAliases=(alias,), hostname="h", subdomain="s"))
        await world.until(world.runs("uid-web-n1"))
        before = (await world.status()).podIP
        assert own_lines(hosts(world)) == [
            f"{before}\th.s.default.svc.c.l\th",
            "",
            "# Entries added by HostAliases.",
            "10.9.9.9\tdb\tdb2",
        ]
        (sandbox,) = world.sandboxes()
        await world.runtime.stop_sandbox(sandbox.id)
        await world.until(lambda: bool(world.sandboxes()))
        await world.until(world.runs("uid-web-n1"))
        await world.sleep(10)
        after = (await world.status()).podIP
        assert before != after
        assert own_lines(hosts(world))[0] == f"{after}\th.s.default.svc.c.l\th"


async def test_a_container_with_its_own_hosts_file_keeps_it() -> None:
    mount = VolumeMount(name="v", mountPath="/etc/hosts")
    world = World()
    async with world.running():
        world.add(
            pod(
                "web-n1",
                "",
                container("own", volumeMounts=(mount,)),
                container("managed"),
                volumes=(Volume(name="v", emptyDir=None),),
            )
        )
        await world.until(world.runs("uid-web-n1", 2))
        assert hosts(world, "managed").startswith("# Kubernetes-managed hosts file.\n")
        assert hosts(world, "own") == ""


async def test_host_network_pods_get_the_nodes_hosts_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine's own file may change while the tests run.
    (tmp_path / "hosts").write_text(NODE_HOSTS)
    monkeypatch.setattr(hosts_files, "HOSTS_PATH", str(tmp_path / "hosts"))
    world = here(World())
    async with world.running():
        world.add(pod(hostNetwork=True))
        await world.until(world.runs("uid-web-n1"))
        assert hosts(world) == f"# Kubernetes-managed hosts file (host network).\n{NODE_HOSTS}"


async def test_a_remote_engine_provides_the_hosts_file() -> None:
    world = World()
    async with world.running():
        world.add(pod(hostNetwork=True))
        await world.until(world.runs("uid-web-n1"))
        assert hosts(world) == ""


# --- names and namespaces


async def test_a_too_long_fqdn_prevents_the_sandbox() -> None:
    world = World(cluster_domain="cluster.local")
    async with world.running():
        world.add(pod(hostname="h" * 50, subdomain="s", setHostnameAsFQDN=True))
        await world.until(lambda: world.phase() == "Pending")
        await world.sleep(1)
        failed = await world.events("web-n1", "FailedCreatePodSandBox")
        full = "h" * 50 + ".s.default.svc.cluster.local"
        assert failed[0].message == (
            "Failed to create pod sandbox: failed to construct FQDN from pod hostname and cluster"
            f" domain, FQDN {full} is too long (64 characters is the max,"
            " 78 characters requested)"
        )
        assert world.sandboxes(ready=False) == []


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("pod", "pod", "container")),
        ({"hostNetwork": True}, ("node", "pod", "container")),
        ({"hostIPC": True}, ("pod", "node", "container")),
        ({"hostPID": True}, ("pod", "pod", "node")),
        ({"shareProcessNamespace": True}, ("pod", "pod", "pod")),
    ],
)
async def test_namespaces(fields: dict[str, object], expected: tuple[str, str, str]) -> None:
    world = World()
    async with world.running():
        world.add(pod(**fields))  # type: ignore[arg-type]
        await world.until(world.runs("uid-web-n1"))
        made = sandbox_config(world)
        assert (made.network, made.ipc, made.pid) == expected
        (cell,) = world.engine.containers.values()
        assert cell.config.pid is NamespaceMode(expected[2])


async def test_host_users_false_with_engine_support() -> None:
    world = World()
    world.engine.info = replace(world.engine.info, user_namespaces=True)
    async with world.running():
        world.add(pod(hostUsers=False))
        await world.until(world.runs("uid-web-n1"))
        assert not sandbox_config(world).host_users
        world.add(pod("b-n1", "b", hostUsers=True), pod("c-n1", "c"))
        await world.until(lambda: len(world.running_containers()) == 3)
        assert sandbox_config(world, "b").host_users
        assert sandbox_config(world, "c").host_users


async def test_host_users_false_without_engine_support() -> None:
    world = World()
    async with world.running():
        world.add(pod(hostUsers=False))
        await world.until(lambda: world.phase() == "Pending")
        await world.sleep(1)
        failed = await world.events("web-n1", "FailedCreatePodSandBox")
        assert failed[0].type == "Warning"
        assert failed[0].message == (
            "Failed to create pod sandbox: can't set `spec.hostUsers: false`,"
            " runtime does not support user namespaces"
        )
        status = await world.status()
        waiting = status.containerStatuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "ContainerCreating"


# --- runtime classes


def runtime_class(name: str, handler: str) -> RuntimeClass:
    return RuntimeClass(metadata=ObjectMeta(name=name), handler=handler)


async def test_a_pod_runs_with_the_runtime_of_its_class() -> None:
    world = World()
    await world.store.put("runtimeclasses", runtime_class("plain", "runc"))
    async with world.running():
        world.add(pod(runtimeClassName="plain"), pod("b-n1", "b"))
        await world.until(lambda: len(world.running_containers()) == 2)
        assert sandbox_config(world).runtime_handler == "runc"
        assert sandbox_config(world, "b").runtime_handler == ""


async def test_a_pod_of_an_unknown_class_waits_until_the_class_exists() -> None:
    world = World()
    async with world.running():
        world.add(pod(runtimeClassName="kata"))
        await world.until(lambda: world.phase() == "Pending")
        await world.sleep(1)
        [failed] = await world.events("web-n1", "FailedCreatePodSandBox")
        assert (failed.type, failed.message) == (
            "Warning",
            (
                'Failed to create pod sandbox: runtimeclass.node.k8s.io "kata" not found;'
                " runtimes of the engine: runc"
            ),
        )
        assert world.engine.sandboxes == {}
        await world.store.put("runtimeclasses", runtime_class("kata", "runc"))
        await world.until(world.runs("uid-web-n1"))


async def test_a_handler_that_the_engine_does_not_have() -> None:
    world = World()
    await world.store.put("runtimeclasses", runtime_class("kata", "kata-qemu"))
    async with world.running():
        world.add(pod(runtimeClassName="kata"))
        await world.until(lambda: world.phase() == "Pending")
        await world.sleep(1)
        [failed] = await world.events("web-n1", "FailedCreatePodSandBox")
        assert failed.message == (
            'Failed to create pod sandbox: no runtime for "kata-qemu" is configured;'
            " runtimes of the engine: runc"
        )
        assert world.phase() == "Pending"


async def test_a_pod_with_resource_claims_does_not_run_without_its_devices() -> None:
    world = World()
    claims = (PodResourceClaim(name="gpu", resourceClaimName="one"), PodResourceClaim(name="nic"))
    async with world.running():
        await world.create(api_pod(resourceClaims=claims))
        await world.until(lambda: world.phase("web") == "Pending")
        await world.sleep(1)
        [failed] = await world.events("web", "FailedPrepareDynamicResources")
        assert failed.message == (
            "Failed to prepare dynamic resources: podtui does not allocate the devices of"
            " resourceClaims (gpu, nic)"
        )
        assert world.engine.sandboxes == {}


# --- ports


async def test_ports_of_the_regular_containers_are_published() -> None:
    ports = (
        ContainerPort(containerPort=80, hostPort=8080, protocol="TCP"),
        ContainerPort(containerPort=53, hostPort=53, protocol="UDP", hostIP="10.0.0.1"),
        ContainerPort(containerPort=9, hostPort=99, protocol="SCTP"),
        ContainerPort(containerPort=81),
    )
    init = container(
        "side", restartPolicy="Always", ports=(ContainerPort(containerPort=7, hostPort=7),)
    )
    world = World()
    async with world.running():
        world.add(pod("web-n1", "", container(ports=ports), init=(init,)))
        await world.until(world.runs("uid-web-n1", 2))
        assert sandbox_config(world).ports == (
            PortMapping(container_port=80, host_port=8080),
            PortMapping(container_port=53, host_port=53, protocol="UDP", host_ip="10.0.0.1"),
            PortMapping(container_port=9, host_port=99, protocol="SCTP"),
        )


def test_a_port_can_be_referenced_by_name() -> None:
    ports = (ContainerPort(containerPort=80, name="web"), ContainerPort(containerPort=9))
    owner = container(ports=ports)
    assert probe_port("web", owner) == 80
    assert hook_port("web", owner) == 80
    assert hook_port("other", owner) == Unreachable("couldn't find port: other")


async def test_a_port_in_use_is_retried() -> None:
    world = World()
    foreign = SandboxConfig(
        name="x",
        namespace="x",
        uid="x",
        attempt=0,
        ports=(PortMapping(container_port=1, host_port=8080),),
    )
    taken = world.engine.run_sandbox("another pod", foreign)
    ports = (ContainerPort(containerPort=80, hostPort=8080),)
    async with world.running():
        world.add(pod("web-n1", "", container(ports=ports)))
        await world.until(lambda: world.phase() == "Pending")
        await world.sleep(1)
        failed = await world.events("web-n1", "FailedCreatePodSandBox")
        assert failed[0].message == (
            "Failed to create pod sandbox: Bind for 0.0.0.0:8080 failed: port is already allocated"
        )
        world.engine.remove_sandbox(taken)
        assert await world.until(world.runs("uid-web-n1")) <= 15


# --- users


async def test_case_45_a_root_image_is_retried_without_restart_count() -> None:
    world = World()
    security = PodSecurityContext(runAsNonRoot=True)
    text = (
        "container has runAsNonRoot and image will run as root"
        ' (pod: "web-n1_default(uid-web-n1)", container: c)'
    )
    async with world.running():
        world.add(pod(securityContext=security))
        await world.until(lambda: world.phase() == "Pending")
        await world.sleep(35)
        status = (await world.status()).containerStatuses[0]
        assert status.state.waiting is not None
        assert status.state.waiting.reason == "CreateContainerConfigError"
        assert status.state.waiting.message == text
        assert (status.restartCount, status.containerID) == (0, "")
        events = await world.events("web-n1", "Failed")
        assert [(e.type, e.message) for e in events] == [("Warning", f"Error: {text}")]
        assert 3 <= (events[0].count or 0) <= 5
        assert world.containers() == []
        own = SecurityContext(runAsNonRoot=False)
        world.add(pod("b-n1", "b", container(securityContext=own), securityContext=security))
        await world.until(world.runs("b"))


# --- sysctls


async def test_case_31_a_sysctl_that_is_not_allowed() -> None:
    security = PodSecurityContext(sysctls=(Sysctl(name="kernel.msgmax", value="65536"),))
    world = World()
    async with world.running():
        world.add(pod(securityContext=security))
        await world.until(lambda: world.phase() == "Failed")
        status = await world.status()
        text = 'forbidden sysctl: "kernel.msgmax" not allowlisted'
        assert (status.reason, status.message) == ("SysctlForbidden", f"Pod was rejected: {text}")
        (event,) = await world.events("web-n1", "SysctlForbidden")
        assert (event.type, event.message) == ("Warning", text)
        assert world.sandboxes(ready=False) == []


async def test_sysctls_that_are_allowed_reach_the_sandbox() -> None:
    security = PodSecurityContext(
        sysctls=(
            Sysctl(name="kernel/msgmax", value="65536"),
            Sysctl(name="net.ipv4.tcp_rmem", value="4096 131072 6291456"),
        )
    )
    world = World(allowed_unsafe_sysctls=("kernel.msg*",))
    async with world.running():
        world.add(pod(securityContext=security))
        await world.until(world.runs("uid-web-n1"))
        assert sandbox_config(world).sysctls == {
            "kernel.msgmax": "65536",
            "net.ipv4.tcp_rmem": "4096 131072 6291456",
        }


# --- supplementary groups


async def test_a_strict_groups_policy_requires_engine_support() -> None:
    security = PodSecurityContext(supplementalGroupsPolicy="Strict")
    world = World()
    async with world.running():
        world.add(pod(securityContext=security))
        await world.until(lambda: world.phase() == "Failed")
        status = await world.status()
        assert (status.reason, status.message) == (
            "SupplementalGroupsPolicyNotSupported",
            "Pod was rejected: SupplementalGroupsPolicy=Strict is not supported in this node",
        )
        merged = PodSecurityContext(supplementalGroupsPolicy="Merge")
        world.add(pod("b-n1", "b", securityContext=merged))
        await world.until(world.runs("b"))
    able = World()
    able.engine.info = replace(able.engine.info, supplemental_groups_policy=True)
    async with able.running():
        able.add(pod(securityContext=security))
        await able.until(able.runs("uid-web-n1"))


# --- addresses in the status


@pytest.mark.parametrize(("strict", "expected"), [(False, "127.0.0.1"), (True, "")])
async def test_departure_5_addresses_of_a_pod_on_the_node_s_network(
    strict: bool, expected: str
) -> None:
    world = World(strict=strict)
    async with world.running():
        world.add(pod(hostNetwork=True), pod("b-n1", "b"))
        await world.until(lambda: len(world.running_containers()) == 2)
        await world.sleep(5)
        status = await world.status()
        assert (status.hostIP, status.podIP) == (expected, expected)
        assert [one.ip for one in status.hostIPs] == [expected] * (not strict)
        assert [one.ip for one in status.podIPs] == [expected] * (not strict)
        plain = await world.status("b-n1")
        assert plain.hostIP == expected
        assert plain.podIP.startswith("198.18.")
