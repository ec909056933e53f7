"""Which kernel parameters are safe, on which kernels (reference §12)."""

from __future__ import annotations

import pytest
from pod_builders import make_pod, node

from podtui.kubelet.admission.predicates import admit
from podtui.kubelet.sandbox.sandbox import SAFE, forbidden_sysctl


def asking(name):
    return make_pod(securityContext={"sysctls": [{"name": name, "value": "1"}]})


@pytest.mark.parametrize("name", SAFE)
def test_every_safe_one_is_let_through_by_a_kernel_of_today(name):
    assert forbidden_sysctl(asking(name), (), "6.1.0-13-amd64") is None
    assert forbidden_sysctl(asking(name), (), "") is None


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
def test_a_kernel_that_does_not_keep_it_apart_for_each_pod(name, kernel, safe):
    refusal = None if safe else f'forbidden sysctl: "{name}" not allowlisted'
    assert forbidden_sysctl(asking(name), (), kernel) == refusal
    assert admit(asking(name), node(kernel=kernel), []).admitted is safe
    assert forbidden_sysctl(asking(name), (name,), kernel) is None
