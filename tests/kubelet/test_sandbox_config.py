"""Sandbox configurations: names, namespaces, ports, volumes, resolvers."""

from __future__ import annotations

import pytest
from pod_builders import ctr, make_pod, sidecar

from podtui.kubelet.sandbox.sandbox import SAFE, sandbox_config
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
