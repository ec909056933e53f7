"""The rules of Services as tables and transactions.

`Kernel` applies transactions as nftables does, in so far as their order matters: it refuses what
refers to something missing, and the removal of something that is referred to. The real kernel
applies the same kinds of transactions in tests/engine/test_services.py.
"""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from podtui.services.backends import Backend, PortBackends
from podtui.services.protocol import ClusterPort
from podtui.services.rules import (
    CLUSTER_IPS,
    REFUSED,
    SERVICES,
    Table,
    creation,
    difference,
    listener_table,
    merged,
    removal,
    removed_udp_backends,
    service_table,
)

IPS = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1")


class Kernel:
    def __init__(self) -> None:
        self.tables: set[str] = set()
        self.chains: dict[str, list[str]] = {}
        self.sets: dict[str, str] = {}
        self.elements: dict[str, dict[str, str]] = {}

    def apply(self, transaction: str) -> None:
        for line in transaction.splitlines():
            verb, kind, family, table, *rest = line.split(" ", 4)
            assert family == "ip"
            getattr(self, f"{verb}_{kind}")(table, rest[0] if rest else "")

    def add_table(self, table: str, _: str) -> None:
        self.tables.add(table)

    def flush_table(self, table: str, _: str) -> None:
        assert table in self.tables
        for rules in self.chains.values():
            rules.clear()

    def flush_map(self, table: str, name: str) -> None:
        self.flush_set(table, name)

    def flush_set(self, table: str, name: str) -> None:
        assert table in self.tables
        self.elements[name].clear()

    def delete_table(self, table: str, _: str) -> None:
        self.tables.remove(table)
        self.chains, self.sets, self.elements = {}, {}, {}

    def add_map(self, table: str, text: str) -> None:
        self.add_set(table, text)

    def add_set(self, table: str, text: str) -> None:
        assert table in self.tables
        name, spec = text.split(" ", 1)
        assert self.sets.setdefault(name, spec) == spec
        self.elements.setdefault(name, {})

    def delete_set(self, _: str, name: str) -> None:
        assert not any(f"@{name} " in rule for rules in self.chains.values() for rule in rules)
        del self.sets[name], self.elements[name]

    def add_chain(self, table: str, text: str) -> None:
        assert table in self.tables
        self.chains.setdefault(text.split(" ")[0], [])

    def flush_chain(self, _: str, name: str) -> None:
        self.chains[name] = []

    def delete_chain(self, _: str, name: str) -> None:
        assert not self.chains[name]
        verdicts = [text for elements in self.elements.values() for text in elements.values()]
        for text in (*(rule for rules in self.chains.values() for rule in rules), *verdicts):
            assert name not in re.findall(r"goto ([^ ,]+)", text)
        del self.chains[name]

    def add_rule(self, _: str, text: str) -> None:
        name, rule = text.split(" ", 1)
        assert all(target in self.chains for target in re.findall(r"goto ([^ ,]+)", rule))
        assert all(target in self.sets for target in re.findall(r"@([^ ]+)", rule))
        self.chains[name].append(rule)

    def add_element(self, _: str, text: str) -> None:
        name, listed = text.split(" ", 1)
        for item in listed.strip("{} ").split(", "):
            entry, _, verdict = item.partition(" : ")
            assert entry not in self.elements[name]
            assert all(target in self.chains for target in re.findall(r"goto ([^ ,]+)", verdict))
            self.elements[name][entry] = verdict

    def delete_element(self, _: str, text: str) -> None:
        name, listed = text.split(" ", 1)
        for entry in listed.strip("{} ").split(", "):
            del self.elements[name][entry]

    def state(self) -> object:
        return self.tables, self.chains, self.sets, self.elements


def built(table: Table) -> Kernel:
    kernel = Kernel()
    kernel.apply(creation(table))
    return kernel


def port(
    service: str = "web",
    *,
    protocol: str = "TCP",
    number: int = 80,
    backends: tuple[Backend, ...] = (Backend("10.0.0.1", 8080),),
    addresses: tuple[str, ...] = ("10.96.0.7",),
    external_ips: tuple[str, ...] = (),
    node_port: int = 0,
    affinity: int = 0,
) -> PortBackends:
    return PortBackends(
        namespace="default",
        service=service,
        port_name="",
        protocol=protocol,
        addresses=(*addresses, *external_ips),
        port=number,
        node_port=node_port,
        backends=backends,
        affinity=affinity,
        external_ips=external_ips,
    )


ports = st.builds(
    port,
    st.sampled_from(("web", "db")),
    protocol=st.sampled_from(("TCP", "UDP", "SCTP")),
    number=st.sampled_from((53, 80)),
    backends=st.sets(st.builds(Backend, st.sampled_from(IPS), st.sampled_from((80, 8080)))).map(
        lambda items: tuple(sorted(items))
    ),
    addresses=st.sets(st.sampled_from(("10.96.0.7", "10.96.0.8", "fd00::7"))).map(tuple),
    external_ips=st.sets(st.just("192.0.2.1")).map(tuple),
    node_port=st.sampled_from((0, 30080)),
    affinity=st.sampled_from((0, 60, 10800)),
)
tables = st.builds(
    service_table,
    st.lists(ports, max_size=4, unique_by=lambda p: (p.service, p.protocol, p.port)),
    st.sets(st.just("192.168.0.9")),
)


@given(st.lists(tables, min_size=2, max_size=3))
def test_differences_lead_to_the_same_table_as_a_new_one(steps: list[Table]) -> None:
    kernel = built(steps[0])
    for old, new in itertools.pairwise(steps):
        kernel.apply(difference(old, new))
        assert kernel.state() == built(new).state()
    assert difference(steps[-1], steps[-1]) == ""


@given(tables, tables)
def test_a_difference_names_only_what_differs(old: Table, new: Table) -> None:
    text = difference(old, new)
    for chain, rules in old.chains.items():
        if new.chains.get(chain) == rules:
            assert f"chain ip podtui {chain}\n" not in text
    for name in old.sets.keys() & new.sets.keys():
        assert f"set ip podtui {name} " not in text


@given(tables, tables)
def test_a_table_that_keeps_its_clients_has_the_new_rules(old: Table, new: Table) -> None:
    kernel = built(old)
    kernel.elements.update(
        {name: {"10.0.0.9": ""} for name in old.sets}  # What the kernel remembers.
    )
    kernel.apply(creation(new, keep_clients=True))
    expected = built(new)
    for name in (SERVICES, REFUSED, CLUSTER_IPS):
        assert kernel.elements[name] == expected.elements[name]
    for name, rules in kernel.chains.items():
        assert rules == expected.chains.get(name, [])
    assert all(kernel.elements[name] for name in old.sets)
    # The next difference works on it as on a new table.
    kernel.apply(difference(new, old))
    for name, rules in built(old).chains.items():
        assert kernel.chains[name] == rules


@given(tables)
def test_removal_leaves_nothing(table: Table) -> None:
    kernel = built(table)
    kernel.apply(removal())
    assert kernel.state() == Kernel().state()
    kernel.apply(removal())


def test_connections_spread_over_the_backends() -> None:
    backends = (Backend("10.0.0.1", 8080), Backend("10.0.0.2", 9090))
    table = service_table([port(backends=backends, addresses=("10.96.0.7", "10.96.0.8"))])
    assert table.chains == {
        "service/default/web/tcp/80": (
            "meta l4proto tcp dnat ip addr . port to numgen random mod 2 map { CHOICES }".replace(
                "CHOICES", "0 : 10.0.0.1 . 8080, 1 : 10.0.0.2 . 9090"
            ),
        )
    }
    assert table.services == {
        "10.96.0.7 . tcp . 80": "service/default/web/tcp/80",
        "10.96.0.8 . tcp . 80": "service/default/web/tcp/80",
    }
    assert table.cluster_ips == {"10.96.0.7", "10.96.0.8"}


def test_a_port_without_backends_is_refused() -> None:
    table = service_table(
        [port(backends=(), external_ips=("192.0.2.1",), node_port=30080)], ["192.168.0.9"]
    )
    assert not table.services
    assert table.refused == {
        "10.96.0.7 . tcp . 80", "192.0.2.1 . tcp . 80", "192.168.0.9 . tcp . 30080",
    }  # fmt: skip
    # Other ports of an external IP belong to the host that has it.
    assert table.cluster_ips == {"10.96.0.7"}


def test_node_ports_are_led_from_the_addresses_of_the_node() -> None:
    table = service_table([port(node_port=30080)], ["192.168.0.9", "fe80::1"])
    assert table.services["192.168.0.9 . tcp . 30080"] == table.services["10.96.0.7 . tcp . 80"]
    assert len(table.services) == 2


def test_an_affinity_keeps_the_sets_of_the_other_backends() -> None:
    both = (Backend("10.0.0.1", 80), Backend("10.0.0.2", 80))
    old = service_table([port(backends=both, affinity=60)])
    new = service_table([port(backends=both[1:], affinity=60)])
    text = difference(old, new)
    assert "delete set ip podtui affinity-60/default/web/tcp/80/10.0.0.1/80\n" in text
    assert not re.search(r"(add|delete|flush) (set|chain) \S+ \S+ \S*10\.0\.0\.2", text)


def test_a_key_belongs_to_a_listener_or_to_the_first_port() -> None:
    dns = ClusterPort("UDP", "10.96.0.7", 80)
    first, second = port("a", protocol="UDP"), port("b", protocol="UDP", node_port=30080)
    assert not service_table([first], served=["10.96.0.7 . udp . 80"]).services
    table = service_table([first, second], ["192.168.0.9"])
    assert table.services == {
        "10.96.0.7 . udp . 80": "service/default/a/udp/80",
        "192.168.0.9 . udp . 30080": "service/default/b/udp/80",
    }
    listeners = listener_table({dns: ("127.96.0.10", 4000)})
    assert listeners.chains == {
        "listener/10.96.0.7/udp/80": ("meta l4proto udp dnat to 127.96.0.10:4000",)
    }
    together = merged(listeners, service_table([port()]))
    kernel = built(together)
    assert set(kernel.elements[SERVICES]) == {"10.96.0.7 . udp . 80", "10.96.0.7 . tcp . 80"}
    assert kernel.elements[CLUSTER_IPS] == {"10.96.0.7": ""}
    assert not kernel.elements[REFUSED]


def test_udp_backends_that_are_removed() -> None:
    both = (Backend("10.0.0.1", 53), Backend("10.0.0.2", 53))
    before = [port(protocol="UDP", backends=both), port(protocol="TCP", backends=both)]
    after = [port(protocol="UDP", backends=both[:1])]
    assert removed_udp_backends(before, after) == {both[1]}
    assert removed_udp_backends(after, before) == set()
    assert removed_udp_backends(before, []) == set(both)


def test_a_text_that_is_no_address_is_no_part_of_a_rule() -> None:
    evil = "10.0.0.1; flush ruleset"
    table = service_table(
        [
            PortBackends(
                namespace="default",
                service="web",
                port_name="",
                protocol="TCP",
                addresses=("10.96.0.7", evil),
                port=80,
                node_port=0,
                backends=(Backend("10.0.0.1", 80), Backend(evil, 80)),
            )
        ]
    )
    assert "flush ruleset" not in creation(table)
    assert "10.0.0.1" in creation(table)
