"""Amounts and ports that fixes propose."""

from __future__ import annotations

import pytest
from kubelet_world import container, pod

from podtui.api.v1 import ContainerPort, Pod
from podtui.why.amounts import host_ports, next_port


def on(*ports: int) -> Pod:
    taken = tuple(ContainerPort(containerPort=80, hostPort=port) for port in ports)
    return pod("web", "", container(ports=taken))


@pytest.mark.parametrize(
    ("wanted", "taken", "other"),
    [
        (8080, (), 8081),
        (8080, (8081, 8082), 8083),
        (65534, (65535,), 65533),
        (65535, (), 65534),
        (80, tuple(range(81, 65536)), None),
    ],
)
def test_a_suggested_port_exists(wanted: int, taken: tuple[int, ...], other: int | None) -> None:
    asking = on(wanted)
    (port,) = host_ports(asking)
    assert next_port(port, (asking, on(*taken))) == other
