"""Sandbox configurations: names, namespaces, ports, volumes, resolvers."""

from __future__ import annotations

import pytest
from pod_builders import ctr, make_pod, node, sidecar

from podtui.kubelet.admission.predicates import admit
from podtui.kubelet.sandbox.sandbox import SAFE, forbidden_sysctl, sandbox_config
from podtui.runtime.protocol import NamespaceMode, PortMapping


def config(*containers, **fields):
    return sandbox_config(make_pod(*containers, **fields), attempt=3)


def test_a_plain_sandbox():
    found = config(labels={"app": "web"})
    assert (found.name, found.namespace, found.uid, found.attempt) == (
        "web-n1",
        "default",
        "u1",
        3,
    )
    assert found.hostname == "web-n1"
    assert found.labels == {
        "app": "web",
        "io.kubernetes.pod.name": "web-n1",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "u1",
    }
    assert found.annotations == {"kubernetes.io/config.source": "file"}
    assert (found.network, found.ipc, found.pid) == (
        NamespaceMode.POD,
        NamespaceMode.POD,
        NamespaceMode.CONTAINER,
    )
    assert (found.ports, found.volumes, found.dns, found.privileged) == ((), (), None, False)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"hostNetwork": True}, ("node", "pod", "container")),
        ({"hostIPC": True}, ("pod", "node", "container")),
        ({"hostPID": True}, ("pod", "pod", "node")),
        ({"shareProcessNamespace": True}, ("pod", "pod", "pod")),
    ],
)
def test_case_88_namespaces(fields, expected):
    found = config(**fields)
    assert (found.network, found.ipc, found.pid) == expected


def test_ports():
    ports = [
        {"containerPort": 80, "hostPort": 8080},
        {"containerPort": 53, "hostPort": 53, "protocol": "UDP", "hostIP": "10.0.0.1"},
        {"containerPort": 81},
        {"containerPort": 80, "hostPort": 8080, "name": "again"},
    ]
    found = config(ctr(ports=ports), init=(sidecar(ports=[{"containerPort": 1, "hostPort": 1}]),))
    assert found.ports == (
        PortMapping(container_port=80, host_port=8080),
        PortMapping(container_port=53, host_port=53, protocol="UDP", host_ip="10.0.0.1"),
    )
    assert config(ctr(ports=ports), hostNetwork=True).ports == ()


def test_case_84_host_aliases():
    found = config(hostAliases=[{"ip": "10.0.0.1", "hostnames": ["a", "b"]}])
    assert found.extra_hosts == (("a", "10.0.0.1"), ("b", "10.0.0.1"))


def test_sysctls_and_privilege():
    sysctl = {"name": "net/ipv4/tcp_syncookies", "value": "1"}
    found = config(
        ctr("a"),
        ctr("b", securityContext={"privileged": True}),
        securityContext={"sysctls": [sysctl]},
    )
    assert found.sysctls == {"net.ipv4.tcp_syncookies": "1"}
    assert set(found.sysctls) <= set(SAFE)
    assert found.privileged


# --- Which kernel parameters are safe, on which kernels (kubelet.md §12)


def with_sysctl(name):
    return make_pod(securityContext={"sysctls": [{"name": name, "value": "1"}]})


@pytest.mark.parametrize("name", SAFE)
def test_every_safe_sysctl_is_accepted_by_a_current_kernel(name):
    assert forbidden_sysctl(with_sysctl(name), (), "6.1.0-13-amd64") is None
    assert forbidden_sysctl(with_sysctl(name), (), "") is None


@pytest.mark.parametrize(
    ("name", "kernel", "safe"),
    [
        ("net.ipv4.tcp_rmem", "4.14.99", False),
        ("net.ipv4.tcp_rmem", "4.15.0", True),
        ("net.ipv4.tcp_wmem", "4.9", False),
        ("net.ipv4.tcp_fin_timeout", "4.5.7", False),
        ("net.ipv4.tcp_keepalive_time", "4.5.7", True),
        ("net.ipv4.tcp_keepalive_intvl", "4.4", False),
        ("net.ipv4.tcp_keepalive_probes", "4.4", False),
        ("net.ipv4.ip_local_reserved_ports", "3.10.0-1160.el7", False),
        ("net.ipv4.ip_local_port_range", "3.10.0-1160.el7", True),
        ("net.ipv4.tcp_rmem", "10.2", True),
    ],
)
def test_a_sysctl_without_a_namespace_is_refused(name, kernel, safe):
    refusal = None if safe else f'forbidden sysctl: "{name}" not allowlisted'
    assert forbidden_sysctl(with_sysctl(name), (), kernel) == refusal
    assert admit(with_sysctl(name), node(kernel=kernel), []).admitted is safe
    assert forbidden_sysctl(with_sysctl(name), (name,), kernel) is None
