"""The names of the cluster: Services and their endpoints as DNS records.

They follow the Kubernetes DNS specification 1.1, as CoreDNS answers with kubeadm's configuration
(``pods insecure``, a TTL of 30 seconds). A headless Service without ready endpoints does not exist,
and a cluster IP has a name only below its Service, both as in CoreDNS.

A name is a tuple of labels, without the root. Labels are compared without regard to case.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from podtui.api.discovery import Endpoint, EndpointPort, EndpointSlice
from podtui.api.v1 import Service, ServicePort
from podtui.services.backends import has_cluster_ip, is_ready, service_key
from podtui.services.name_index import NameIndex

Name = tuple[str, ...]
Code = Literal["NOERROR", "NXDOMAIN", "REFUSED"]
CLUSTER_DOMAIN: Final = "cluster.local"
TTL: Final = 30
VERSION: Final = "1.1.0"
_VERSION_TTL: Final = 28800
_SERVER: Final = ("kube-system", "kube-dns")
"""Namespace and name of the Service of the name server."""
_REVERSE: Final[dict[Name, int]] = {("in-addr", "arpa"): 4, ("ip6", "arpa"): 32}
_MAX_ALIASES: Final = 10
_NO_PORT: Final = -1
_TRANSFERS: Final = ("AXFR", "IXFR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """``address`` belongs to A and AAAA; ``target`` to CNAME, PTR, NS and SRV; ``weight`` and
    ``port`` to SRV; ``text`` to TXT; ``serial`` to SOA."""

    owner: Name
    type: Literal["A", "AAAA", "CNAME", "PTR", "NS", "SRV", "TXT", "SOA"]
    ttl: int = TTL
    address: str = ""
    target: Name = ()
    weight: int = 0
    port: int = 0
    text: str = ""
    serial: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``external`` is the name outside of the cluster at which the aliases of ``records`` end: its
    addresses belong to the answer."""

    code: Code = "NOERROR"
    records: tuple[Record, ...] = ()
    authority: tuple[Record, ...] = ()
    additional: tuple[Record, ...] = ()
    external: Name = ()


@dataclass(frozen=True, slots=True)
class _Host:
    """An address that a name has, with a port. ``owner`` is the name of the address."""

    owner: Name
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class _Alias:
    target: Name


_Entries = tuple[_Host, ...] | _Alias
"""The meaning of an existing name; empty for one that only leads to others."""


class Zone:
    """The records of a cluster's domain, read from the index at each look-up."""

    def __init__(self, index: NameIndex, domain: str) -> None:
        self._index = index
        self._domain = name_of(domain)

    def answer(self, name: Name, kind: str) -> Answer | None:
        """Return the answer for a name and a record type (``A``); None if the name does not belong
        to the cluster. Reverse look-ups of other addresses do not."""
        lower = _lower(name)
        if not self._contains(lower):
            return self._reverse(name, lower) if kind == "PTR" else None
        if kind in _TRANSFERS:
            return Answer(code="REFUSED")
        base = lower[: -len(self._domain)]
        domain = name[len(base) :]
        if kind == "TXT" and base == ("dns-version",):
            text = Record(owner=name, type="TXT", ttl=_VERSION_TTL, text=VERSION)
            return Answer(records=(text,))
        if not base and kind == "SOA":
            return Answer(records=(self._authority(domain),))
        if not base and kind == "NS":
            return self._name_servers(name)
        entries = self._entries(base)
        if entries is None:
            return Answer(code="NXDOMAIN", authority=(self._authority(domain),))
        answer = self._records(name, kind, entries)
        if not answer.records:
            return Answer(authority=(self._authority(domain),))
        return answer

    def _contains(self, lower: Name) -> bool:
        return lower[-len(self._domain) :] == self._domain

    def _authority(self, domain: Name) -> Record:
        return Record(owner=domain, type="SOA", serial=self._index.revision)

    def _records(self, name: Name, kind: str, entries: _Entries) -> Answer:
        match kind:
            case "A" | "AAAA":
                return self._addresses(name, kind, entries, aliases=0)
            case "CNAME" if isinstance(entries, _Alias):
                return Answer(records=(Record(owner=name, type="CNAME", target=entries.target),))
            case "SRV" if not isinstance(entries, _Alias):
                return _locations(name, entries)
            case _:
                return Answer()

    def _addresses(
        self, name: Name, kind: Literal["A", "AAAA"], entries: _Entries, aliases: int
    ) -> Answer:
        if not isinstance(entries, _Alias):
            addresses = dict.fromkeys(host.address for host in entries)
            return Answer(
                records=tuple(
                    Record(owner=name, type=kind, address=address)
                    for address in addresses
                    if _type_of(address) == kind
                )
            )
        alias = Record(owner=name, type="CNAME", target=entries.target)
        target = _lower(entries.target)
        if not self._contains(target):
            return Answer(records=(alias,), external=entries.target)
        behind = self._entries(target[: -len(self._domain)])
        if behind is None or aliases == _MAX_ALIASES:
            return Answer()
        rest = self._addresses(entries.target, kind, behind, aliases + 1)
        return replace(rest, records=(alias, *rest.records)) if rest.records else rest

    def _name_servers(self, name: Name) -> Answer:
        namespace, service = _SERVER
        hosts = self._service_entries(namespace, service)
        if not hosts or isinstance(hosts, _Alias):
            return Answer(authority=(self._authority(name),))
        target = hosts[0].owner
        return Answer(
            records=(Record(owner=name, type="NS", target=target),),
            additional=tuple(_address_record(host) for host in hosts[:1]),
        )

    # --- names

    def _entries(self, base: Name) -> _Entries | None:
        """Return what a name below the cluster's domain stands for; None if it does not exist."""
        match base:
            case () | ("svc",) | ("pod",):
                return ()
            case ("ns", "dns"):
                return self._service_entries(*_SERVER)
            case (*_, namespace, "svc" | "pod") if not self._index.has_namespace(namespace):
                return None
            case (_, "svc" | "pod"):
                return ()
            case (name, namespace, "svc"):
                return self._service_entries(namespace, name)
            case (endpoint, name, namespace, "svc"):
                return self._service_entries(namespace, name, endpoint=endpoint)
            case (port, protocol, name, namespace, "svc"):
                port, protocol = port.removeprefix("_"), protocol.removeprefix("_")
                return self._service_entries(namespace, name, port=port, protocol=protocol)
            case (name, _, "pod"):
                return self._pod_entries(base, name)
            case _:
                return None

    def _pod_entries(self, base: Name, name: str) -> _Entries | None:
        """Return the address that the name spells, whether or not a pod has it."""
        dotted = name.count("-") == 3 and "--" not in name
        address = name.replace("-", "." if dotted else ":")
        if "%" in address or not _version(address):
            return None
        return (_Host((*base, *self._domain), address, _NO_PORT),)

    def _service_entries(
        self, namespace: str, name: str, *, endpoint: str = "", port: str = "", protocol: str = ""
    ) -> _Entries | None:
        service = self._index.service(namespace, name)
        if service is None:
            return None
        spec = service.spec
        if spec.type == "ExternalName":
            target = name_of(spec.externalName)
            is_address = _version(spec.externalName) != 0
            return None if endpoint or port or protocol or is_address else _Alias(target)
        owner = (name, namespace, "svc", *self._domain)
        if endpoint or not has_cluster_ip(service):
            slices = self._index.slices(namespace, name)
            hosts = tuple(_endpoint_hosts(owner, slices, endpoint, port, protocol))
        else:
            hosts = tuple(_cluster_hosts(owner, service, port, protocol))
        return hosts or None

    # --- reverse look-ups

    def _reverse(self, name: Name, lower: Name) -> Answer | None:
        address = _reverse_address(lower)
        targets = dict.fromkeys(self._names_of(address)) if address else {}
        if not targets:
            return None
        return Answer(
            records=tuple(Record(owner=name, type="PTR", target=target) for target in targets)
        )

    def _names_of(self, address: str) -> Iterator[Name]:
        key = self._index.service_of_address(address)
        if key is not None:
            namespace, service = key
            yield (service, namespace, "svc", *self._domain)
            return
        for item in self._index.slices_of_address(address):
            namespace, service = service_key(item)
            for endpoint in item.endpoints:
                if address in endpoint.addresses and is_ready(endpoint):
                    label = _endpoint_label(endpoint, address)
                    yield (label, service, namespace, "svc", *self._domain)


def name_of(text: str) -> Name:
    """Return the labels of a name such as ``cluster.local``."""
    return tuple(text.rstrip(".").split(".")) if text.rstrip(".") else ()


def _lower(name: Name) -> Name:
    return tuple(label.lower() for label in name)


def _version(address: str) -> int:
    """Return 4 or 6; 0 if the text is not an address."""
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return 0


def _reverse_address(lower: Name) -> str:
    """Return the address of a name such as ``1.0.96.10.in-addr.arpa``; empty if it is none."""
    labels = lower[:-2][::-1]
    if _REVERSE.get(lower[-2:]) != len(labels):
        return ""
    if len(labels) == 4:
        text = ".".join(labels)
    else:
        text = ":".join("".join(labels[start : start + 4]) for start in range(0, 32, 4))
    return str(ipaddress.ip_address(text)) if _version(text) else ""


def _cluster_hosts(owner: Name, service: Service, port: str, protocol: str) -> Iterator[_Host]:
    spec = service.spec
    ports = spec.ports or (ServicePort(port=_NO_PORT),)
    for item in ports:
        if _matches(port, item.name) and _matches(protocol, item.protocol or "TCP"):
            for address in spec.clusterIPs or (spec.clusterIP,):
                yield _Host(owner, address, item.port)


def _endpoint_hosts(
    service: Name, slices: Iterable[EndpointSlice], label: str, port: str, protocol: str
) -> Iterator[_Host]:
    for item in slices:
        if item.addressType not in ("IPv4", "IPv6"):
            continue
        numbers = [
            _NO_PORT if candidate.port is None else candidate.port
            for candidate in item.ports or (EndpointPort(),)
            if _matches(port, candidate.name) and _matches(protocol, candidate.protocol)
        ]
        for endpoint in item.endpoints if numbers else ():
            if not is_ready(endpoint):
                continue
            for address in endpoint.addresses:
                own = _endpoint_label(endpoint, address)
                if _matches(label, own):
                    for number in numbers:
                        yield _Host((own, *service), address, number)


def _matches(wanted: str, value: str) -> bool:
    """``wanted`` is in lower case; empty for any value."""
    return not wanted or wanted == value.lower()


def _endpoint_label(endpoint: Endpoint, address: str) -> str:
    """Return the name of an endpoint below its Service: its host name, or its address."""
    if endpoint.hostname:
        return endpoint.hostname
    if "." in address:
        return address.replace(".", "-")
    label = address.replace(":", "-")
    return f"{label}0" if label.endswith("-") else label


def _locations(name: Name, hosts: tuple[_Host, ...]) -> Answer:
    """Return SRV records, and the addresses of their targets."""
    weight = max(100 // len(hosts), 1) if hosts else 0
    located = [host for host in hosts if host.port != _NO_PORT]
    return Answer(
        records=tuple(
            Record(owner=name, type="SRV", target=target, weight=weight, port=port)
            for target, port in dict.fromkeys((host.owner, host.port) for host in located)
        ),
        additional=tuple(dict.fromkeys(_address_record(host) for host in located)),
    )


def _address_record(host: _Host) -> Record:
    return Record(owner=host.owner, type=_type_of(host.address), address=host.address)


def _type_of(address: str) -> Literal["A", "AAAA"]:
    return "AAAA" if ":" in address else "A"
