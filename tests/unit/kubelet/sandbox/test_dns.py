"""Name resolution of pods: policies, the node's file, limits (kubelet.md §11.3)."""

from __future__ import annotations

import pytest
from kubelet_settings import default_config
from pod_builders import engine, make_pod

from podtui.kubelet.sandbox.dns import (
    Resolvers,
    beyond_loopback,
    no_resolver,
    parse_resolv_conf,
    pod_dns,
    read_reachable_resolver,
    read_resolver,
    resolver_problem,
)
from podtui.kubelet.types import ConfigError
from podtui.runtime.protocol import DnsConfig

HOST = DnsConfig(servers=("1.1.1.1", "1.1.1.2"), searches=("lan",), options=("ndots:2",))
SERVERS_CUT = (
    "Nameserver limits were exceeded, some nameservers have been omitted,"
    " the applied nameserver line is: "
)
SEARCHES_CUT = (
    "Search Line limits were exceeded, some search paths have been omitted,"
    " the applied search line is: "
)


# --- policies


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"dnsPolicy": "ClusterFirst"}, True),
        ({"dnsPolicy": "ClusterFirst", "hostNetwork": True}, False),
        ({"dnsPolicy": "ClusterFirstWithHostNet"}, True),
        ({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}, True),
        ({"dnsPolicy": "Default"}, False),
        ({}, True),
    ],
)
def test_without_a_cluster_every_policy_but_none_uses_the_node(fields, wanted):
    found = pod_dns(make_pod(**fields), host=HOST)
    assert (found.config, found.missing_cluster_dns, found.cuts) == (HOST, wanted, ())


@pytest.mark.parametrize(
    "fields",
    [
        {"dnsPolicy": "ClusterFirst"},
        {"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True},
    ],
)
def test_with_a_cluster(fields):
    found = pod_dns(
        make_pod(**fields), cluster_dns=("10.96.0.10",), cluster_domain="c.l", host=HOST
    )
    assert found.config == DnsConfig(
        servers=("10.96.0.10",),
        searches=("default.svc.c.l", "svc.c.l", "c.l", "lan"),
        options=("ndots:5",),
    )
    assert not found.missing_cluster_dns


def test_a_cluster_without_a_domain_uses_the_nodes_search_list():
    found = pod_dns(make_pod(), cluster_dns=("10.96.0.10",), host=HOST).config
    assert found == DnsConfig(servers=("10.96.0.10",), searches=("lan",), options=("ndots:5",))


def test_a_host_domain_equal_to_the_clusters_is_listed_once():
    host = DnsConfig(searches=("c.l", "lan"))
    found = pod_dns(make_pod(), cluster_dns=("10.96.0.10",), cluster_domain="c.l", host=host)
    assert found.config is not None
    assert found.config.searches == ("default.svc.c.l", "svc.c.l", "c.l", "lan")


def test_host_network_pods_use_cluster_dns_only_on_request():
    pod = make_pod(dnsPolicy="ClusterFirst", hostNetwork=True)
    assert pod_dns(pod, cluster_dns=("10.96.0.10",), host=HOST).config == HOST


def test_the_engines_resolver_is_not_used():
    assert pod_dns(make_pod(dnsPolicy="Default")).config is None


GIVEN = {
    "nameservers": ["9.9.9.9", "1.1.1.2"],
    "searches": ["a", "lan", "a"],
    "options": [{"name": "ndots", "value": "1"}, {"name": "edns0"}],
}


def test_policy_none_uses_only_dns_config():
    found = pod_dns(make_pod(dnsPolicy="None", dnsConfig=GIVEN), host=HOST)
    assert found.config == DnsConfig(
        servers=("9.9.9.9", "1.1.1.2"), searches=("a", "lan"), options=("ndots:1", "edns0")
    )
    assert not found.missing_cluster_dns


def test_dns_config_is_appended_and_its_options_win():
    found = pod_dns(make_pod(dnsPolicy="Default", dnsConfig=GIVEN), host=HOST)
    assert found.config == DnsConfig(
        servers=("1.1.1.1", "1.1.1.2", "9.9.9.9"),
        searches=("lan", "a"),
        options=("ndots:1", "edns0"),
    )
    alone = pod_dns(make_pod(dnsPolicy="Default", dnsConfig={"searches": ["a"]}))
    assert alone.config == DnsConfig(searches=("a",))


# --- limits


def test_case_86_the_first_three_of_four_servers():
    given = {"nameservers": ["8.8.8.8", "8.8.4.4"]}
    found = pod_dns(make_pod(dnsPolicy="Default", dnsConfig=given), host=HOST)
    assert found.config is not None
    assert found.config.servers == ("1.1.1.1", "1.1.1.2", "8.8.8.8")
    assert found.cuts == (SERVERS_CUT + "1.1.1.1 1.1.1.2 8.8.8.8",)


def test_duplicate_servers_are_listed_once():
    given = {"nameservers": ["1.1.1.1", "8.8.8.8"]}
    found = pod_dns(make_pod(dnsPolicy="Default", dnsConfig=given), host=HOST)
    assert found.cuts == ()


def test_32_searches_at_most():
    given = {"searches": [f"s{number}" for number in range(40)]}
    found = pod_dns(make_pod(dnsPolicy="Default", dnsConfig=given), host=HOST)
    assert found.config is not None
    kept = ("lan", *(f"s{number}" for number in range(31)))
    assert found.config.searches == kept
    assert found.cuts == (SEARCHES_CUT + " ".join(kept),)


def test_a_too_long_search_domain_counts_before_it_is_dropped():
    given = {"searches": ["x" * 254, *(f"s{number}" for number in range(40))]}
    found = pod_dns(make_pod(dnsPolicy="None", dnsConfig=given))
    assert found.config is not None
    assert found.config.searches == tuple(f"s{number}" for number in range(31))


def test_2048_characters_of_searches_at_most():
    searches = [letter * 250 for letter in "abcdefghi"]
    found = pod_dns(make_pod(dnsPolicy="None", dnsConfig={"searches": searches}))
    assert found.config is not None
    assert found.config.searches == tuple(searches[:8])
    fits = [letter * 227 for letter in "abcdefghi"]
    assert len(" ".join(fits)) == 2051
    found = pod_dns(make_pod(dnsPolicy="None", dnsConfig={"searches": [*fits[:8], "i" * 224]}))
    assert found.cuts == ()


# --- the node's file


def test_resolv_conf():
    text = (
        "# made by hand\nnameserver 1.1.1.1\nnameserver 1.1.1.2 # second\n"
        "search old\nsearch a.b. . c\noptions ndots:2 rotate\noptions ndots:3\n; note\nsortlist x\n"
    )
    assert parse_resolv_conf(text) == DnsConfig(
        servers=("1.1.1.1", "1.1.1.2"), searches=("a.b", "c"), options=("ndots:3", "rotate")
    )
    assert parse_resolv_conf("") == DnsConfig()


def test_a_nameserver_line_without_an_address_is_refused(tmp_path):
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver\n")
    with pytest.raises(ConfigError) as caught:
        read_resolver(str(path))
    assert str(caught.value) == (
        "Encountered error while parsing resolv conf file. Error: nameserver list is empty "
    )


def test_a_missing_file(tmp_path):
    path = str(tmp_path / "nosuch")
    with pytest.raises(ConfigError) as caught:
        read_resolver(path)
    assert str(caught.value) == f"open {path}: no such file or directory"
    assert read_reachable_resolver(path) is None


def test_without_a_file_there_are_no_name_servers():
    assert no_resolver(("10.0.0.1", "fd00::1")) == DnsConfig(
        servers=("127.0.0.1", "::1"), searches=(".",)
    )
    assert no_resolver(()).servers == ("127.0.0.1",)


def test_loopback_servers_are_dropped_for_other_networks():
    node = DnsConfig(
        servers=("127.0.0.53", "9.9.9.9", "::1", "fe80::1%eth0"), searches=("lan",), options=("x",)
    )
    assert beyond_loopback(node) == DnsConfig(
        servers=("9.9.9.9", "fe80::1%eth0"), searches=("lan",), options=("x",)
    )


@pytest.mark.parametrize(
    ("node", "resolved", "expected"),
    [
        ("nameserver 9.9.9.9\n", "nameserver 8.8.8.8\n", DnsConfig(servers=("9.9.9.9",))),
        (
            "nameserver 127.0.0.53\noptions edns0\nsearch lan\n",
            "nameserver 8.8.8.8\nsearch x\n",
            DnsConfig(servers=("8.8.8.8",), searches=("lan",), options=("edns0",)),
        ),
        ("nameserver 127.0.0.53\nnameserver 9.9.9.9\n", None, DnsConfig(servers=("9.9.9.9",))),
        ("nameserver 127.0.0.1\n", None, None),
        ("nameserver 127.0.0.1\n", "nameserver 127.0.0.2\n", None),
        ("search lan\n", "nameserver 8.8.8.8\n", None),
    ],
)
def test_upstream_servers_of_a_loopback_resolver(tmp_path, node, resolved, expected):
    path, behind = tmp_path / "resolv.conf", tmp_path / "resolved.conf"
    path.write_text(node)
    if resolved is not None:
        behind.write_text(resolved)
    assert read_reachable_resolver(str(path), str(behind)) == expected


@pytest.mark.parametrize(
    ("searches", "domain", "expected"),
    [
        (("a",) * 32, "", ""),
        (
            ("a",) * 33,
            "",
            "Resolv.conf file '/r' contains search line consisting of more than 32 domains!",
        ),
        (
            ("a",) * 30,
            "c.l",
            "Resolv.conf file '/r' contains search line consisting of more than 29 domains!",
        ),
        (
            ("x" * 254,),
            "",
            (
                'Resolv.conf file "/r" contains a search path which length is more than allowed'
                " 253 chars!"
            ),
        ),
        (
            ("x" * 253,) * 9,
            "",
            (
                "Resolv.conf file '/r' contains search line which length is more than allowed"
                " 2048 chars!"
            ),
        ),
    ],
)
def test_errors_of_the_nodes_file(searches, domain, expected):
    assert resolver_problem("/r", DnsConfig(searches=searches), cluster_domain=domain) == expected


# --- the cluster's own name server


class _Events:
    """Records the reasons of events."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def node(self, kind: str, reason: str, text: str) -> None:
        self.reasons.append(reason)

    def pod(self, item: object, kind: str, reason: str, text: str) -> None:
        self.reasons.append(reason)


async def resolver(path, fields, engine_fields, *, services=True, **config):
    """Return the resolver of a pod, and the reasons of the events about it."""
    events = _Events()
    settings = default_config(resolv_conf=str(path), **config)
    resolvers = Resolvers(settings, events, lambda: (), services=services)  # pyright: ignore[reportArgumentType]
    return await resolvers.resolver_of(make_pod(**fields), engine(**engine_fields)), events.reasons


@pytest.fixture
def node_file(tmp_path):
    path = tmp_path / "resolv.conf"
    path.write_text("nameserver 127.0.0.53\nsearch lan\noptions edns0\n")
    return path


OWN = DnsConfig(
    servers=("10.96.0.10",),
    searches=("default.svc.cluster.local", "svc.cluster.local", "cluster.local", "lan"),
    options=("ndots:5",),
)


async def test_pods_find_the_cluster_s_own_name_server(node_file) -> None:
    assert await resolver(node_file, {}, {"pod_rules": True}) == (OWN, [])
    host = {"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True}
    assert await resolver(node_file, host, {"pod_rules": True}) == (OWN, [])
    node, reasons = await resolver(node_file, {"dnsPolicy": "Default"}, {"pod_rules": True})
    assert node is None or node.servers != OWN.servers
    assert reasons == []


async def test_an_explicit_name_server_wins(node_file) -> None:
    found, reasons = await resolver(
        node_file, {}, {"pod_rules": True}, cluster_dns=("10.0.0.9",), cluster_domain="c.l"
    )
    assert found.servers == ("10.0.0.9",)
    assert found.searches == ("default.svc.c.l", "svc.c.l", "c.l", "lan")
    assert reasons == []


@pytest.mark.parametrize(
    ("fields", "engine_fields", "more"),
    [
        ({}, {"pod_rules": False}, {}),
        ({}, {"pod_rules": True}, {"services": False}),
        ({}, {"pod_rules": True}, {"strict": True}),
        (
            {"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": True},
            {"pod_rules": True, "rootless": True},
            {},
        ),
    ],
)
async def test_a_name_server_out_of_reach_is_not_given(
    node_file, fields, engine_fields, more
) -> None:
    found, reasons = await resolver(node_file, fields, engine_fields, **more)
    assert found is None or "10.96.0.10" not in found.servers
    assert "MissingClusterDNS" in reasons
