"""The rules that lead the connections of a pod from Services to backends, as plain data.

They are a table of nftables in the pod's own network namespace, at the hook for the packets that
its processes send. A map leads from address, protocol and port to the chain of a Service's port.
That chain chooses a backend at random, or the backend that the client had before (session
affinity). New connections to a port without backends are rejected. The kernel keeps the choice for
each connection, so that changes of the rules do not affect connections that exist.

The difference of two tables is one transaction: the kernel applies all of it or nothing. It does
not touch what both tables have, such as the clients that a set of session affinity remembers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Final

from podtui.services.backends import Backend, PortBackends
from podtui.services.protocol import ClusterPort

TABLE: Final = "podtui"
SERVICES: Final = "services"
REFUSED: Final = "refused"
CLUSTER_IPS: Final = "cluster-ips"
"""An empty chain: its flush changes nothing, and fails if the table is gone."""
_KEY: Final = "ipv4_addr . inet_proto . inet_service"
_DESTINATION: Final = "ip daddr . meta l4proto . th dport"
_MAP: Final = f"{{ type {_KEY} : verdict; }}"
_SETS: Final = {
    REFUSED: f"{{ type {_KEY}; }}",
    CLUSTER_IPS: "{ type ipv4_addr; }",
}
_HOOKS: Final = {
    "nat-output": "{ type nat hook output priority -100; }",
    "filter-output": "{ type filter hook output priority 0; }",
}
_HOOK_RULES: Final = (
    f"nat-output {_DESTINATION} vmap @{SERVICES}",
    f"filter-output ct state new {_DESTINATION} @{REFUSED} reject",
    f"filter-output ct state new ip daddr @{CLUSTER_IPS} reject",
)
_IPV4_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")


@dataclass(frozen=True, slots=True)
class Table:
    """``chains`` have their rules, ``sets`` their types; ``services`` lead from the keys of the map
    to chains. ``refused`` are keys without backends; at ``cluster_ips``, every port without a key
    is refused."""

    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    sets: Mapping[str, str] = field(default_factory=dict[str, str])
    services: Mapping[str, str] = field(default_factory=dict[str, str])
    refused: frozenset[str] = frozenset()
    cluster_ips: frozenset[str] = frozenset()


EMPTY: Final = Table()


def key(ip: str, protocol: str, port: int) -> str:
    return f"{ip} . {protocol.lower()} . {port}"


def service_table(
    ports: Iterable[PortBackends], node_ips: Iterable[str] = (), served: Iterable[str] = ()
) -> Table:
    """Return the rules of Services. Node ports are led from ``node_ips``. The keys ``served`` are
    left to listeners in the pods. If two ports have the same key, the first one has it."""
    node_ips = tuple(filter(_is_ipv4, node_ips))
    taken = set(served)
    chains: dict[str, tuple[str, ...]] = {}
    sets: dict[str, str] = {}
    services: dict[str, str] = {}
    refused: set[str] = set()
    cluster_ips: set[str] = set()
    for port in ports:
        if port.protocol not in _IPV4_PROTOCOLS:
            continue
        cluster_ips.update(filter(_is_ipv4, port.cluster_ips))
        keys = [
            entry for entry in _keys(port, node_ips) if entry not in taken and not taken.add(entry)
        ]
        backends = [backend for backend in port.backends if _is_ipv4(backend.ip)]
        if not keys:
            continue
        if not backends:
            refused.update(keys)
            continue
        name = _chain_name("service", port)
        services.update(dict.fromkeys(keys, name))
        if port.affinity:
            _add_affinity(port, name, backends, chains, sets)
        else:
            chains[name] = (_spread(port.protocol, backends),)
    return Table(chains, sets, services, frozenset(refused), frozenset(cluster_ips))


def listener_table(ports: Mapping[ClusterPort, tuple[str, int]]) -> Table:
    """Return the rules that lead cluster ports to listeners in the pod, with IP and port."""
    chains: dict[str, tuple[str, ...]] = {}
    services: dict[str, str] = {}
    for port, (ip, number) in ports.items():
        name = f"listener/{port.ip}/{port.protocol.lower()}/{port.port}"
        chains[name] = (_spread(port.protocol, [Backend(ip, number)]),)
        services[key(port.ip, port.protocol, port.port)] = name
    return Table(chains, services=services)


def merged(first: Table, second: Table) -> Table:
    """Return the rules of two tables that have no key in common."""
    return Table(
        {**first.chains, **second.chains},
        {**first.sets, **second.sets},
        {**first.services, **second.services},
        first.refused | second.refused,
        first.cluster_ips | second.cluster_ips,
    )


def _keys(port: PortBackends, node_ips: Iterable[str]) -> list[str]:
    keys = [key(ip, port.protocol, port.port) for ip in port.addresses if _is_ipv4(ip)]
    if port.node_port:
        keys += [key(ip, port.protocol, port.node_port) for ip in node_ips]
    return keys


def _chain_name(kind: str, port: PortBackends) -> str:
    return f"{kind}/{port.namespace}/{port.service}/{port.protocol.lower()}/{port.port}"


def _spread(protocol: str, backends: list[Backend]) -> str:
    match = f"meta l4proto {protocol.lower()}"
    if len(backends) == 1:
        return f"{match} dnat to {backends[0].ip}:{backends[0].port}"
    choices = ", ".join(f"{n} : {b.ip} . {b.port}" for n, b in enumerate(backends))
    return f"{match} dnat ip addr . port to numgen random mod {len(backends)} map {{ {choices} }}"


def _add_affinity(
    port: PortBackends,
    name: str,
    backends: list[Backend],
    chains: dict[str, tuple[str, ...]],
    sets: dict[str, str],
) -> None:
    """Add a chain and a set of clients for each backend, as kube-proxy does. A name has the timeout
    because the type of a set cannot change."""
    endpoints: list[str] = []
    rules: list[str] = []
    for backend in backends:
        suffix = f"{backend.ip}/{backend.port}"
        clients = f"{_chain_name(f'affinity-{port.affinity}', port)}/{suffix}"
        endpoint = f"{_chain_name(f'endpoint-{port.affinity}', port)}/{suffix}"
        sets[clients] = f"{{ type ipv4_addr; flags dynamic,timeout; timeout {port.affinity}s; }}"
        chains[endpoint] = (
            f"update @{clients} {{ ip saddr }}",
            _spread(port.protocol, [backend]),
        )
        rules.append(f"ip saddr @{clients} goto {endpoint}")
        endpoints.append(endpoint)
    choices = ", ".join(f"{number} : goto {name}" for number, name in enumerate(endpoints))
    rules.append(
        f"goto {endpoints[0]}"
        if len(endpoints) == 1
        else f"numgen random mod {len(endpoints)} vmap {{ {choices} }}"
    )
    chains[name] = tuple(rules)


def _is_ipv4(ip: str) -> bool:
    """Only well-formed addresses become text of a rule."""
    try:
        IPv4Address(ip)
    except ValueError:
        return False
    return True


# --- transactions


def creation(table: Table, name: str = TABLE, *, keep_clients: bool = False) -> str:
    """Return the transaction that replaces whatever the table has by these rules.

    With ``keep_clients``, sets of session affinity keep their clients. Then, former chains and sets
    remain without effect, and the transaction fails if the table comes from another version of
    podtui with other types.
    """
    lines = [
        # A table that does not exist cannot be deleted or flushed, unless it is added first.
        f"add table ip {name}",
        *([f"flush table ip {name}"] if keep_clients else [f"delete table ip {name}"]),
        f"add table ip {name}",
        f"add map ip {name} {SERVICES} {_MAP}",
        f"flush map ip {name} {SERVICES}",
        *(
            line
            for item, spec in _SETS.items()
            for line in (f"add set ip {name} {item} {spec}", f"flush set ip {name} {item}")
        ),
        *(f"add chain ip {name} {item} {spec}".rstrip() for item, spec in _HOOKS.items()),
        *(f"add rule ip {name} {rule}" for rule in _HOOK_RULES),
    ]
    return "\n".join(lines) + "\n" + difference(EMPTY, table, name)


def removal(name: str = TABLE) -> str:
    return f"add table ip {name}\ndelete table ip {name}\n"


def table_deletion(name: str) -> str:
    """Return a transaction that fails without the table."""
    return f"delete table ip {name}\n"


def difference(old: Table, new: Table, name: str = TABLE) -> str:
    """Return the transaction that turns ``old`` into ``new``; empty if they are equal."""
    added_chains = new.chains.keys() - old.chains.keys()
    removed_chains = sorted(old.chains.keys() - new.chains.keys())
    changed_chains = {
        chain
        for chain in new.chains.keys() & old.chains.keys()
        if new.chains[chain] != old.chains[chain]
    }
    removed_keys = [
        entry for entry, chain in old.services.items() if new.services.get(entry) != chain
    ]
    added_keys = [
        f"{entry} : goto {chain}"
        for entry, chain in new.services.items()
        if old.services.get(entry) != chain
    ]
    lines = [
        # What rules refer to comes first; what nothing refers to any more goes last.
        *(
            f"add set ip {name} {item} {new.sets[item]}"
            for item in sorted(new.sets.keys() - old.sets.keys())
        ),
        *(f"add chain ip {name} {chain}" for chain in sorted(added_chains)),
        *(f"flush chain ip {name} {chain}" for chain in sorted(changed_chains)),
        *(
            f"add rule ip {name} {chain} {rule}"
            for chain in sorted(added_chains | changed_chains)
            for rule in new.chains[chain]
        ),
        *_elements("delete", name, SERVICES, removed_keys),
        *_elements("delete", name, REFUSED, old.refused - new.refused),
        *_elements("delete", name, CLUSTER_IPS, old.cluster_ips - new.cluster_ips),
        *_elements("add", name, SERVICES, added_keys),
        *_elements("add", name, REFUSED, new.refused - old.refused),
        *_elements("add", name, CLUSTER_IPS, new.cluster_ips - old.cluster_ips),
        *(f"flush chain ip {name} {chain}" for chain in removed_chains),
        *(f"delete chain ip {name} {chain}" for chain in removed_chains),
        *(f"delete set ip {name} {item}" for item in sorted(old.sets.keys() - new.sets.keys())),
    ]
    return "".join(f"{line}\n" for line in lines)


def _elements(verb: str, name: str, target: str, elements: Iterable[str]) -> list[str]:
    listed = ", ".join(sorted(elements))
    return [f"{verb} element ip {name} {target} {{ {listed} }}"] if listed else []


def removed_udp_backends(
    before: Iterable[PortBackends], after: Iterable[PortBackends]
) -> set[Backend]:
    """Return the backends of UDP ports that are no longer in use by the same port of a Service."""
    kept = {_port_key(port): set(port.backends) for port in after}
    removed: set[Backend] = set()
    for port in before:
        if port.protocol == "UDP":
            removed |= set(port.backends) - kept.get(_port_key(port), set())
    return removed


def _port_key(port: PortBackends) -> tuple[str, str, str, int]:
    return port.namespace, port.service, port.protocol, port.port
