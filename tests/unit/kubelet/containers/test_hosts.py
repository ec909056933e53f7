"""Host names of a pod and its hosts file (kubelet.md §7.5, 11.1, 11.2)."""

from __future__ import annotations

import pytest
from pod_builders import at, box, ctr, engine, make_pod, seen, up

from podtui.api.v1 import LinuxContainerUser
from podtui.kubelet.containers.hosts import (
    host_and_domain,
    managed_hosts,
    mounts_own_hosts,
    node_hosts,
    sandbox_hostname,
)
from podtui.kubelet.prober.dialing import Address, PodAddresses
from podtui.kubelet.sandbox.sandbox import sorted_pod_ips
from podtui.kubelet.status.container_status import PodView
from podtui.kubelet.status.pod_status import pod_status
from podtui.kubelet.types import ConfigError, NodeContext, ProbeView

MANAGED = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""
ALIASES = [
    {"ip": "10.0.0.1", "hostnames": ["db", "db.local"]},
    {"ip": "fd00::1", "hostnames": ["six"]},
]
ALIAS_LINES = "\n# Entries added by HostAliases.\n10.0.0.1\tdb\tdb.local\nfd00::1\tsix\n"


# --- names


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "web-n1"),
        ({"name": "a" * 70}, "a" * 63),
        ({"name": "a" * 63}, "a" * 63),
        ({"name": "a" * 62 + "-.b"}, "a" * 62),
        ({"hostname": "given"}, "given"),
        ({"hostname": "given", "subdomain": "sub"}, "given"),
        ({"hostnameOverride": "other.example", "hostname": "h", "subdomain": "s"}, "other.example"),
        ({"hostnameOverride": "b" * 62 + ".c"}, "b" * 62),
        ({"hostNetwork": True, "hostname": "h"}, ""),
        ({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": True}, "h.s.default.svc.c.l"),
        ({"hostname": "h", "setHostnameAsFQDN": True}, "h"),
        ({"hostname": "h", "subdomain": "s", "setHostnameAsFQDN": False}, "h"),
    ],
)
def test_case_87_hostnames(fields, expected):
    assert sandbox_hostname(make_pod(**fields), "c.l") == expected


def test_a_full_name_that_is_too_long():
    pod = make_pod(hostname="h" * 50, subdomain="s", setHostnameAsFQDN=True)
    full = "h" * 50 + ".s.default.svc.cluster.local"
    with pytest.raises(ConfigError) as caught:
        sandbox_hostname(pod, "cluster.local")
    assert str(caught.value) == (
        "failed to construct FQDN from pod hostname and cluster domain,"
        f" FQDN {full} is too long (64 characters is the max, 78 characters requested)"
    )
    fits = make_pod(hostname="h" * 36, subdomain="s", setHostnameAsFQDN=True)
    assert len(sandbox_hostname(fits, "cluster.local")) == 64


def test_domains():
    pod = make_pod(hostname="h", subdomain="s")
    assert host_and_domain(pod, "c.l") == ("h", "s.default.svc.c.l")
    assert host_and_domain(pod, "") == ("h", "s.default.svc.")
    overridden = make_pod(hostnameOverride="o", subdomain="s")
    assert host_and_domain(overridden, "c.l") == ("o", "")


# --- the file


def test_case_84_exact_content_of_the_managed_file():
    pod = make_pod(hostAliases=ALIASES)
    text = managed_hosts(pod, ("10.0.0.7",), "c.l").decode()
    assert text == MANAGED + "10.0.0.7\tweb-n1\n" + ALIAS_LINES


def test_without_aliases_the_section_is_omitted():
    assert managed_hosts(make_pod(), ("10.0.0.7",), "").decode() == MANAGED + "10.0.0.7\tweb-n1\n"


def test_a_line_for_each_address_with_the_full_name_first():
    pod = make_pod(hostname="h", subdomain="s")
    text = managed_hosts(pod, ("10.0.0.7", "fd00::7"), "c.l").decode()
    assert text == MANAGED + ("10.0.0.7\th.s.default.svc.c.l\th\nfd00::7\th.s.default.svc.c.l\th\n")


def test_on_the_node_s_network_the_node_s_file_comes_first():
    node = b"127.0.0.1 localhost\n10.1.1.1 box\n"
    header = b"# Kubernetes-managed hosts file (host network).\n"
    assert node_hosts(make_pod(hostNetwork=True), node) == header + node
    pod = make_pod(hostNetwork=True, hostAliases=ALIASES)
    assert node_hosts(pod, node) == header + node + ALIAS_LINES.encode()


@pytest.mark.parametrize(
    ("path", "own"), [("/etc/hosts", True), ("/etc", False), ("/etc/hosts.d", False)]
)
def test_a_mounted_hosts_file_is_not_replaced(path, own):
    pod = make_pod(ctr(volumeMounts=[{"name": "v", "mountPath": path}]))
    assert mounts_own_hosts(pod.spec.containers[0]) is own


# --- addresses


@pytest.mark.parametrize(
    ("ips", "node", "expected"),
    [
        (("10.0.0.7",), ("192.0.2.1",), ("10.0.0.7",)),
        (("fd00::7", "10.0.0.7"), ("192.0.2.1",), ("10.0.0.7", "fd00::7")),
        (("10.0.0.7", "fd00::7"), ("2001:db8::1", "192.0.2.1"), ("fd00::7", "10.0.0.7")),
        (("10.0.0.7", "10.0.0.8", "fd00::7", "fd00::8"), (), ("10.0.0.7", "fd00::7")),
        (("fd00:0:0:0::7",), ("192.0.2.1",), ("fd00::7",)),
        ((), ("192.0.2.1",), ()),
        (("nonsense", "10.0.0.7"), (), ("10.0.0.7",)),
    ],
)
def test_the_node_s_family_comes_first(ips, node, expected):
    assert sorted_pod_ips(ips, node) == expected


def test_a_status_has_the_addresses_in_the_node_s_order():
    sandbox = box(ips=("fd00::7", "10.0.0.7", "10.0.0.8"))
    for node, expected in (
        (("192.0.2.1", "2001:db8::1"), ["10.0.0.7", "fd00::7"]),
        (("2001:db8::1",), ["fd00::7", "10.0.0.7"]),
    ):
        status = status_of(make_pod(), seen(up(), sandboxes=(sandbox,)), host_ips=node)
        assert status.podIP == expected[0]
        assert [one.ip for one in status.podIPs] == expected
        assert [one.ip for one in status.hostIPs] == list(node)


def test_case_101_on_the_node_s_network_without_an_api_server():
    probe = {"httpGet": {"path": "/", "port": 8080}}
    pod = make_pod(ctr(readinessProbe=probe), hostNetwork=True)
    observed = seen(up(), sandboxes=(box(host_network=True),))
    status = status_of(pod, observed, host_ips=("192.0.2.1",), strict=True)
    assert (status.podIP, status.podIPs, status.hostIP, status.hostIPs) == ("", (), "", ())
    addresses = PodAddresses(lambda _: observed, engine)
    assert addresses.find(pod, 8080) == Address("127.0.0.1", 8080)


def status_of(pod, observed, **node):
    view = PodView(observed=observed, probes=ProbeView())
    return pod_status(pod, view, NodeContext(**node), now=at(9))


def test_the_user_of_the_first_process_comes_from_the_runtime():
    status = status_of(make_pod(), seen(up(user=(1000, 0, (0, 7)))))
    user = status.containerStatuses[0].user
    assert user is not None
    assert user.linux == LinuxContainerUser(uid=1000, gid=0, supplementalGroups=(0, 7))
    assert status_of(make_pod(), seen(up())).containerStatuses[0].user is None
