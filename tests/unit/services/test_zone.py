"""The records of Services and endpoints, as CoreDNS answers with kubeadm's configuration."""

from __future__ import annotations

from dns_world import (
    SOA,
    DnsWorld,
    endpoint,
    endpoint_slice,
    namespace,
    port,
    service,
)

from podtui.api.discovery import EndpointPort
from podtui.services.zone import Zone, name_of

WEB = "web.default.svc.cluster.local"
DB = "db.default.svc.cluster.local"
TWO_PORTS = (port(80, "http"), port(53, "dns", "UDP"))


def headless(name: str = "db", **spec: object) -> object:
    return service(name, clusterIP="None", clusterIPs=("None",), **spec)


def database(**slices: object) -> DnsWorld:
    return DnsWorld(
        headless(),
        endpoint_slice(
            "db",
            endpoint("10.0.0.1", hostname="db-0", ready=True),
            endpoint("10.0.0.2", ready=True),
            endpoint("10.0.0.3", hostname="db-2", ready=False, serving=True),
        ),
    )


def test_a_service_with_a_cluster_ip() -> None:
    world = DnsWorld(service())
    assert world.ask(WEB) == [f"{WEB} A 10.96.0.7"]
    assert world.ask(WEB, "AAAA") == [SOA]
    for kind in ("TXT", "MX", "CNAME", "NS", "SOA", "PTR", "HTTPS", "ANY", "TYPE65400"):
        assert world.ask(WEB, kind) == [SOA], kind


def test_a_service_with_two_families() -> None:
    world = DnsWorld(service(clusterIPs=("10.96.0.7", "fd00::7")))
    assert world.ask(WEB) == [f"{WEB} A 10.96.0.7"]
    assert world.ask(WEB, "AAAA") == [f"{WEB} AAAA fd00::7"]
    assert world.ask(WEB, "SRV") == [
        f"{WEB} SRV 50 80 {WEB}",
        f"+ {WEB} A 10.96.0.7",
        f"+ {WEB} AAAA fd00::7",
    ]


def test_case_does_not_matter_and_is_kept() -> None:
    world = DnsWorld(service())
    assert world.ask("WEB.default.SVC.Cluster.Local") == [
        "WEB.default.SVC.Cluster.Local A 10.96.0.7"
    ]
    assert world.ask("NO.default.svc.Cluster.Local") == ["NXDOMAIN", "Cluster.Local SOA"]


def test_what_does_not_exist() -> None:
    world = DnsWorld(service(), headless())
    for name in (
        "no.default.svc.cluster.local",
        "web.other.svc.cluster.local",
        "other.svc.cluster.local",
        "other.pod.cluster.local",
        "web.default.cluster.local",
        "cluster.cluster.local",
        "dns.cluster.local",
        "dns-version.cluster.local",
        "a.b.c.web.default.svc.cluster.local",
        "web-0.web.default.svc.cluster.local",
        "10-96-0-7.web.default.svc.cluster.local",
        # As in CoreDNS, a headless Service without ready endpoints does not exist.
        "db.default.svc.cluster.local",
        "web.default.svc.cluster.local.cluster.local",
    ):
        assert world.ask(name) == ["NXDOMAIN", SOA], name
        assert world.ask(name, "AAAA") == ["NXDOMAIN", SOA], name


def test_names_between_exist_without_records() -> None:
    world = DnsWorld(service())
    for name in (
        "cluster.local",
        "svc.cluster.local",
        "pod.cluster.local",
        "default.svc.cluster.local",
        "default.pod.cluster.local",
    ):
        assert world.ask(name) == [SOA], name
        assert world.ask(name, "TXT") == [SOA], name


def test_names_of_others_are_left_to_others() -> None:
    world = DnsWorld(service())
    for name in ("example.com", "local", "", "web", "xcluster.local", "web.default.svc"):
        assert world.ask(name) == ["elsewhere"], name
    assert world.ask("1.0.96.10.in-addr.arpa", "A") == ["elsewhere"]


def test_a_headless_service_has_the_ready_endpoints() -> None:
    world = database()
    assert world.ask(DB) == [f"{DB} A 10.0.0.1", f"{DB} A 10.0.0.2"]
    assert world.ask(DB, "AAAA") == [SOA]
    assert world.ask(f"db-0.{DB}") == [f"db-0.{DB} A 10.0.0.1"]
    assert world.ask(f"10-0-0-2.{DB}") == [f"10-0-0-2.{DB} A 10.0.0.2"]
    # An endpoint with a host name has no name by its address; one that is not ready has none.
    assert world.ask(f"10-0-0-1.{DB}") == ["NXDOMAIN", SOA]
    assert world.ask(f"db-2.{DB}") == ["NXDOMAIN", SOA]


def test_endpoints_of_both_families() -> None:
    world = DnsWorld(
        headless(),
        endpoint_slice("db", endpoint("10.0.0.1")),
        endpoint_slice("db", endpoint("fd00::1"), endpoint("fd00::"), family="IPv6"),
    )
    assert world.ask(DB) == [f"{DB} A 10.0.0.1"]
    assert world.ask(DB, "AAAA") == [f"{DB} AAAA fd00::1", f"{DB} AAAA fd00::"]
    assert world.ask(f"fd00--1.{DB}", "AAAA") == [f"fd00--1.{DB} AAAA fd00::1"]
    assert world.ask(f"fd00--0.{DB}", "AAAA") == [f"fd00--0.{DB} AAAA fd00::"]


def test_hosts_with_one_name_and_addresses_of_several_slices() -> None:
    world = DnsWorld(
        headless(),
        endpoint_slice("db", endpoint("10.0.0.1", hostname="a"), name="one"),
        endpoint_slice(
            "db",
            endpoint("10.0.0.1", hostname="a"),
            endpoint("10.0.0.2", hostname="a"),
            name="two",
            ports=(EndpointPort(name="x", port=9, protocol="TCP"),),
        ),
        endpoint_slice("other", endpoint("10.0.0.9")),
    )
    assert world.ask(DB) == [f"{DB} A 10.0.0.1", f"{DB} A 10.0.0.2"]
    assert world.ask(f"a.{DB}") == [f"a.{DB} A 10.0.0.1", f"a.{DB} A 10.0.0.2"]


def test_a_headless_service_without_ports_has_addresses_but_no_srv() -> None:
    world = DnsWorld(headless(ports=()), endpoint_slice("db", endpoint("10.0.0.1"), ports=()))
    assert world.ask(DB) == [f"{DB} A 10.0.0.1"]
    assert world.ask(DB, "SRV") == [SOA]


def test_endpoints_of_a_service_with_a_cluster_ip_have_names() -> None:
    world = DnsWorld(service(), endpoint_slice("web", endpoint("10.0.0.1", hostname="a")))
    assert world.ask(WEB) == [f"{WEB} A 10.96.0.7"]
    assert world.ask(f"a.{WEB}") == [f"a.{WEB} A 10.0.0.1"]


def test_ports_of_a_service_with_a_cluster_ip() -> None:
    world = DnsWorld(service(ports=TWO_PORTS))
    address = f"+ {WEB} A 10.96.0.7"
    assert world.ask(f"_http._tcp.{WEB}", "SRV") == [
        f"_http._tcp.{WEB} SRV 100 80 {WEB}",
        address,
    ]
    assert world.ask(f"_DNS._UDP.{WEB}", "SRV") == [f"_DNS._UDP.{WEB} SRV 100 53 {WEB}", address]
    assert world.ask(WEB, "SRV") == [
        f"{WEB} SRV 50 80 {WEB}",
        f"{WEB} SRV 50 53 {WEB}",
        address,
    ]
    assert world.ask(f"_http._udp.{WEB}", "SRV") == ["NXDOMAIN", SOA]
    assert world.ask(f"_no._tcp.{WEB}", "SRV") == ["NXDOMAIN", SOA]
    # The name of a port has the address, too.
    assert world.ask(f"_http._tcp.{WEB}") == [f"_http._tcp.{WEB} A 10.96.0.7"]


def test_ports_of_a_headless_service() -> None:
    name = f"_http._tcp.{DB}"
    assert database().ask(name, "SRV") == [
        f"{name} SRV 50 8080 db-0.{DB}",
        f"{name} SRV 50 8080 10-0-0-2.{DB}",
        f"+ db-0.{DB} A 10.0.0.1",
        f"+ 10-0-0-2.{DB} A 10.0.0.2",
    ]
    assert database().ask(f"db-0.{DB}", "SRV") == [
        f"db-0.{DB} SRV 100 8080 db-0.{DB}",
        f"+ db-0.{DB} A 10.0.0.1",
    ]


def test_an_external_name_is_an_alias() -> None:
    world = DnsWorld(service("ext", type="ExternalName", externalName="db.example.com", ports=()))
    name = "ext.default.svc.cluster.local"
    alias = f"{name} CNAME db.example.com"
    assert world.ask(name, "CNAME") == [alias]
    assert world.ask(name) == [alias, "external db.example.com"]
    assert world.ask(name, "AAAA") == [alias, "external db.example.com"]
    for kind in ("TXT", "SRV", "MX"):
        assert world.ask(name, kind) == [SOA], kind
    assert world.ask(f"a.{name}") == ["NXDOMAIN", SOA]
    assert world.ask(f"_http._tcp.{name}", "CNAME") == ["NXDOMAIN", SOA]


def test_an_external_name_inside_the_cluster_is_resolved() -> None:
    def alias(name: str, target: str) -> object:
        return service(name, type="ExternalName", externalName=target)

    world = DnsWorld(
        service(),
        alias("one", "two.default.svc.cluster.local."),
        alias("two", WEB),
        alias("loop", "loop.default.svc.cluster.local"),
        alias("gone", "no.default.svc.cluster.local"),
        alias("address", "10.1.2.3"),
    )
    one, two = "one.default.svc.cluster.local", "two.default.svc.cluster.local"
    assert world.ask(one) == [f"{one} CNAME {two}", f"{two} CNAME {WEB}", f"{WEB} A 10.96.0.7"]
    assert world.ask(one, "AAAA") == [SOA]
    assert world.ask("loop.default.svc.cluster.local") == [SOA]
    assert world.ask("gone.default.svc.cluster.local") == [SOA]
    assert world.ask("address.default.svc.cluster.local") == ["NXDOMAIN", SOA]


def test_the_name_of_a_pod_is_its_address() -> None:
    world = DnsWorld()
    assert world.ask("10-0-0-1.default.pod.cluster.local") == [
        "10-0-0-1.default.pod.cluster.local A 10.0.0.1"
    ]
    assert world.ask("fd00--1.default.pod.cluster.local", "AAAA") == [
        "fd00--1.default.pod.cluster.local AAAA fd00::1"
    ]
    assert world.ask("10-0-0-1.default.pod.cluster.local", "AAAA") == [SOA]
    for name in ("10-0-0-1.other", "10-0-0.default", "10-0-0-256.default", "fe80--1%eth0.default"):
        assert world.ask(f"{name}.pod.cluster.local") == ["NXDOMAIN", SOA], name


def test_reverse_names() -> None:
    world = DnsWorld(
        service(clusterIPs=("10.96.0.7", "fd00::7")),
        headless(),
        endpoint_slice(
            "db",
            endpoint("10.0.0.1", hostname="db-0"),
            endpoint("10.0.0.2"),
            endpoint("10.0.0.3", ready=False),
        ),
        endpoint_slice("web", endpoint("10.0.0.1")),
    )
    assert world.ask("7.0.96.10.in-addr.arpa", "PTR") == [f"7.0.96.10.in-addr.arpa PTR {WEB}"]
    assert world.ask("1.0.0.10.IN-ADDR.arpa", "PTR") == [
        f"1.0.0.10.IN-ADDR.arpa PTR db-0.{DB}",
        f"1.0.0.10.IN-ADDR.arpa PTR 10-0-0-1.{WEB}",
    ]
    assert world.ask("2.0.0.10.in-addr.arpa", "PTR") == [f"2.0.0.10.in-addr.arpa PTR 10-0-0-2.{DB}"]
    six = ".".join("7" + "0" * 27 + "00df") + ".ip6.arpa"
    assert world.ask(six, "PTR") == [f"{six} PTR {WEB}"]
    for name in (
        "3.0.0.10.in-addr.arpa",
        "1.1.1.1.in-addr.arpa",
        "x.0.0.10.in-addr.arpa",
        "0.0.10.in-addr.arpa",
        "1.1.0.0.10.in-addr.arpa",
        "in-addr.arpa",
        "ip6.arpa",
    ):
        assert world.ask(name, "PTR") == ["elsewhere"], name


def test_version_name_server_and_authority() -> None:
    world = DnsWorld(service("kube-dns", "kube-system", clusterIP="10.96.0.10"))
    server = "kube-dns.kube-system.svc.cluster.local"
    assert world.ask("dns-version.cluster.local", "TXT") == ["dns-version.cluster.local TXT 1.1.0"]
    assert world.ask("cluster.local", "SOA") == [SOA]
    assert world.ask("cluster.local", "NS") == [
        f"cluster.local NS {server}",
        f"+ {server} A 10.96.0.10",
    ]
    assert world.ask("ns.dns.cluster.local") == ["ns.dns.cluster.local A 10.96.0.10"]
    assert DnsWorld().ask("cluster.local", "NS") == [SOA]
    for kind in ("AXFR", "IXFR"):
        assert world.ask("cluster.local", kind) == ["REFUSED"]


def test_records_live_30_seconds() -> None:
    world = DnsWorld(service())
    answers = [world.zone.answer(name_of(name), "A") for name in (WEB, "no.cluster.local")]
    records = [record for answer in answers if answer for record in answer.records]
    records += [record for answer in answers if answer for record in answer.authority]
    assert [record.ttl for record in records] == [30, 30]


def test_another_domain() -> None:
    world = DnsWorld(service())
    zone = Zone(world.index, "k8s.example.org.")
    answer = zone.answer(name_of("web.default.svc.k8s.example.org"), "A")
    assert answer is not None
    assert [record.address for record in answer.records] == ["10.96.0.7"]
    assert zone.answer(name_of(WEB), "A") is None


def test_changes_take_effect_at_once() -> None:
    world = DnsWorld(headless())
    first = endpoint_slice("db", endpoint("10.0.0.1"), endpoint("10.0.0.2"), version=1)
    world.put(first)
    assert world.ask(DB) == [f"{DB} A 10.0.0.1", f"{DB} A 10.0.0.2"]
    world.put(endpoint_slice("db", endpoint("10.0.0.1", ready=False), version=2))
    assert world.ask(DB) == ["NXDOMAIN", SOA]
    assert world.ask("2.0.0.10.in-addr.arpa", "PTR") == ["elsewhere"]
    world.put(endpoint_slice("db", endpoint("10.0.0.3"), version=3))
    assert world.ask(DB) == [f"{DB} A 10.0.0.3"]
    world.cache.remove(endpoint_slice("db"))
    assert world.ask(DB) == ["NXDOMAIN", SOA]
    assert world.ask("3.0.0.10.in-addr.arpa", "PTR") == ["elsewhere"]


def test_services_and_namespaces_come_and_go() -> None:
    world = DnsWorld()
    assert world.ask("web.shop.svc.cluster.local") == ["NXDOMAIN", SOA]
    world.put(namespace("shop"), service(namespace="shop"))
    name = "web.shop.svc.cluster.local"
    assert world.ask(name) == [f"{name} A 10.96.0.7"]
    assert world.ask("7.0.96.10.in-addr.arpa", "PTR") == [f"7.0.96.10.in-addr.arpa PTR {name}"]
    world.cache.remove(service(namespace="shop"))
    assert world.ask(name) == ["NXDOMAIN", SOA]
    assert world.ask("7.0.96.10.in-addr.arpa", "PTR") == ["elsewhere"]
    world.cache.remove(namespace("shop"))
    assert world.ask("shop.svc.cluster.local") == ["NXDOMAIN", SOA]


def test_an_address_that_moves_between_services_keeps_its_new_name() -> None:
    world = DnsWorld(service("old"), service("new"))
    world.cache.remove(service("old"))
    assert world.ask("7.0.96.10.in-addr.arpa", "PTR") == [
        "7.0.96.10.in-addr.arpa PTR new.default.svc.cluster.local"
    ]
