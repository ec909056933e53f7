"""The IP addresses and node ports of Services, as an API server of a cluster with IPv4 allocates
them.

An address is taken as long as a stored Service has it, so there is nothing to release, and as long
as there is an IPAddress that somebody else created. As in Kubernetes, the lower end of each range
is used last, so that clients can choose addresses and ports there without conflicts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network
from itertools import chain
from typing import Final

from msgspec import structs

from podtui.api.networking import IPAddress, ServiceCIDR
from podtui.api.v1 import Service, ServicePort, ServiceSpec, StatusCause, StatusDetails
from podtui.manifest.validation.addresses import Address, is_ipv6, parse_address, parse_range
from podtui.manifest.validation.errors import Errors, FieldError, GoText, invalid
from podtui.manifest.validation.services import (
    HEADLESS,
    IP_FAMILIES,
    cluster_addresses,
    is_headless,
    needs_health_check,
)
from podtui.server.status import StatusError, invalid_fields
from podtui.store.protocol import Records

ADDRESSES: Final = IPv4Network("10.96.0.0/16")
"""The range of the default ServiceCIDR."""
DEFAULT_CIDR: Final = "kubernetes"
MANAGED_BY: Final = "ipaddress.kubernetes.io/managed-by"
ALLOCATOR: Final = "ipallocator.k8s.io"
"""The manager of the IPAddresses of Services."""
READY: Final = "Ready"
NODE_PORTS: Final = range(30000, 32768)
_LEAST_CHOSEN_ADDRESSES: Final = 16
_MOST_CHOSEN_ADDRESSES: Final = 256
_CHOSEN_PORTS: Final = 86
_RESERVED: Final = ADDRESSES[1]
"""The address of the Service ``default/kubernetes``."""
_ON_NODES: Final = ("NodePort", "LoadBalancer")
_ALLOCATED: Final = "provided {} is already allocated"
_FULL: Final = "range is full"


class Allocation:
    """The addresses and node ports of all other Services and, as they are allocated, of one.

    Addresses are from ``networks``, without those that are ``taken``.
    """

    def __init__(
        self,
        name: str,
        others: Iterable[Service],
        generator: random.Random,
        networks: Sequence[IPv4Network] = (ADDRESSES,),
        taken: Iterable[str] = (),
    ) -> None:
        self._name = name
        self._generator = generator
        self._networks = networks
        self._addresses: set[Address | None] = {_RESERVED, *map(parse_address, taken)}
        self._ports: set[int] = set()
        for spec in (service.spec for service in others):
            self._addresses.update(map(parse_address, spec.clusterIPs))
            self._ports |= {port.nodePort for port in spec.ports if port.nodePort}
            if spec.healthCheckNodePort:
                self._ports.add(spec.healthCheckNodePort)

    def created(self, service: Service) -> Service:
        """Return a new Service with its addresses and ports. Raises `StatusError`."""
        spec = service.spec
        if spec.clusterIP and not spec.clusterIPs:
            spec = structs.replace(spec, clusterIPs=(spec.clusterIP,))
        spec = self._with_address(self._with_families(spec, None))
        if spec.type in _ON_NODES:
            spec = self._with_new_ports(spec)
        if needs_health_check(spec):
            spec = self._with_health_check_port(spec)
        return structs.replace(service, spec=spec)

    def updated(self, new: Service, old: Service) -> Service:
        """Return a changed Service with its addresses and ports: those that the update does not
        name stay as they were. Raises `StatusError`."""
        before = old.spec
        spec = with_synchronized_addresses(with_old_values(new.spec, before), before)
        spec = self._with_families(spec, before)
        if before.type == "ExternalName":
            spec = self._with_address(spec)
        if spec.type in _ON_NODES:
            spec = self._with_changed_ports(spec, before)
        if needs_health_check(spec) and not needs_health_check(before):
            spec = self._with_health_check_port(spec)
        return structs.replace(new, spec=spec)

    # --- IP families and addresses

    def _with_families(self, spec: ServiceSpec, before: ServiceSpec | None) -> ServiceSpec:
        if spec.type == "ExternalName" or _prefers_dual_stack(spec, before):
            return spec
        policy, selectorless = spec.ipFamilyPolicy, is_headless(spec) and not spec.selector
        if not policy and before is not None:
            policy = before.ipFamilyPolicy
        policy = policy or ("RequireDualStack" if selectorless else "SingleStack")
        spec = structs.replace(spec, ipFamilyPolicy=policy)
        self._refuse(cluster_addresses(spec))
        if before is not None and policy == "SingleStack":
            if spec.clusterIPs == before.clusterIPs:
                spec = structs.replace(spec, clusterIPs=spec.clusterIPs[:1])
            if spec.ipFamilies == before.ipFamilies:
                spec = structs.replace(spec, ipFamilies=spec.ipFamilies[:1])
        self._refuse(_policy_errors(spec, before))
        families = spec.ipFamilies
        if not is_headless(spec):
            families += IP_FAMILIES[:1] * (len(spec.clusterIPs) - len(families))
        if selectorless:
            families = families or IP_FAMILIES[:1]
            if len(families) < len(IP_FAMILIES) and policy != "SingleStack":
                families += tuple(name for name in IP_FAMILIES if name not in families)
            return structs.replace(spec, ipFamilies=families)
        self._refuse(_family_errors(policy, families))
        return structs.replace(spec, ipFamilies=families or IP_FAMILIES[:1])

    def _with_address(self, spec: ServiceSpec) -> ServiceSpec:
        if spec.type == "ExternalName" or spec.clusterIPs[:1] == (HEADLESS,):
            return spec
        if not spec.clusterIPs:
            address = str(self._next_address())
            return structs.replace(spec, clusterIP=address, clusterIPs=(address,))
        problem = self._address_problem(spec.clusterIPs[0])
        if problem:
            why = f"failed to allocate IP {spec.clusterIPs[0]}: {problem}"
            self._refuse([invalid("spec.clusterIPs", spec.clusterIPs, why)])
        return spec

    def _address_problem(self, text: str) -> str:
        address = parse_address(text)
        if address is None or not has_address(self._networks, address):
            return "the provided network does not match the current range"
        if address in self._addresses:
            return _ALLOCATED.format("IP")
        return ""

    def _next_address(self) -> IPv4Address:
        """Raises `StatusError` 500 if all ranges are full."""
        for network in self._networks:
            numbers = range(1, network.num_addresses - 1)
            taken = {
                int(address) - int(network.network_address)
                for address in self._addresses
                if isinstance(address, IPv4Address)
            }
            number = self._free(numbers, _chosen_addresses(network), taken)
            if number is not None:
                return network[number]
        text = f'failed to allocate a serviceIP for Service "{self._name}": {_FULL}'
        raise _internal_error(text)

    # --- node ports

    def _with_new_ports(self, spec: ServiceSpec) -> ServiceSpec:
        """Ports with the same number, for instance 53 for UDP and TCP, share a node port."""
        ports: list[ServicePort] = []
        allocated: dict[int, int] = {}
        for index, port in enumerate(spec.ports):
            number = port.nodePort or 0
            if not number and not _allocates(spec):
                ports.append(port)
                continue
            if port.port not in allocated:
                same = (other.nodePort for other in spec.ports if other.port == port.port)
                wanted = next((number for number in same if number), 0)
                if wanted:
                    self._take(wanted, f"spec.ports[{index}].nodePort")
                allocated[port.port] = number = wanted or self._next_port("a nodePort")
            elif not number:
                number = allocated[port.port]
            elif number != allocated[port.port]:
                self._take(number, f"spec.ports[{index}].nodePort")
            ports.append(structs.replace(port, nodePort=number))
        return structs.replace(spec, ports=tuple(ports))

    def _with_changed_ports(self, spec: ServiceSpec, before: ServiceSpec) -> ServiceSpec:
        ports: list[ServicePort] = []
        own = {port.nodePort for port in before.ports}
        used: set[tuple[str, int]] = set()
        for index, port in enumerate(spec.ports):
            if not port.nodePort and not _allocates(spec):
                ports.append(port)
                continue
            number = port.nodePort or self._next_port("a nodePort")
            if port.nodePort and number not in own:
                self._take(number, f"spec.ports[{index}].nodePort")
                own.add(number)
            if (port.protocol, number) in used:
                text = f"duplicate nodePort: {{{port.protocol} {number}}}"
                raise StatusError(500, text, reason="")
            used.add((port.protocol, number))
            ports.append(structs.replace(port, nodePort=number))
        return structs.replace(spec, ports=tuple(ports))

    def _with_health_check_port(self, spec: ServiceSpec) -> ServiceSpec:
        number = spec.healthCheckNodePort
        if not number:
            number = self._next_port("a HealthCheck NodePort 0")
            return structs.replace(spec, healthCheckNodePort=number)
        problem = self._port_problem(number)
        if problem:
            text = f"failed to allocate requested HealthCheck NodePort {number}: {problem}"
            raise _internal_error(text)
        self._ports.add(number)
        return spec

    def _take(self, number: int, path: str) -> None:
        """Raises `StatusError` 422 if the port is taken or outside of the range."""
        problem = self._port_problem(number)
        if problem:
            self._refuse([invalid(path, number, problem)])
        self._ports.add(number)

    def _port_problem(self, number: int) -> str:
        if number not in NODE_PORTS:
            first, last = NODE_PORTS[0], NODE_PORTS[-1]
            return (
                "provided port is not in the valid range. The range of valid ports is"
                f" {first}-{last}"
            )
        return _ALLOCATED.format("port") if number in self._ports else ""

    def _next_port(self, what: str) -> int:
        """Raises `StatusError` 500 if the range is full."""
        number = self._free(NODE_PORTS, _CHOSEN_PORTS, self._ports)
        if number is None:
            raise _internal_error(f"failed to allocate {what}: {_FULL}")
        self._ports.add(number)
        return number

    def _free(self, numbers: Sequence[int], chosen: int, taken: set[int]) -> int | None:
        """Return a free number, from the first ``chosen`` ones only if no other is free."""
        for part in filter(None, (numbers[chosen:], numbers[:chosen])):
            start = self._generator.randrange(len(part))
            for number in chain(part[start:], part[:start]):
                if number not in taken:
                    return number
        return None

    def _refuse(self, errors: Iterable[FieldError]) -> None:
        problems = list(errors)
        if problems:
            raise invalid_fields("Service", self._name, problems)


async def allocation(records: Records, service: Service) -> Allocation:
    """Return the allocation for a Service; for one that exists, its own addresses are free."""
    meta = service.metadata
    listing = await records.list("services")
    others = (
        other
        for other in listing.items
        if isinstance(other, Service)
        and (other.metadata.namespace, other.metadata.name) != (meta.namespace, meta.name)
    )
    cidrs = (await records.list("servicecidrs")).items
    addresses = (await records.list("ipaddresses")).items
    return Allocation(
        meta.name,
        others,
        random.Random(),
        allocated_networks(item for item in cidrs if isinstance(item, ServiceCIDR)),
        (
            item.metadata.name
            for item in addresses
            if isinstance(item, IPAddress) and not is_allocated(item)
        ),
    )


def allocated_networks(cidrs: Iterable[ServiceCIDR]) -> list[IPv4Network]:
    """Return the networks from which addresses are allocated, in this order: those of the ready
    ServiceCIDRs, or the default range if there are none at all."""
    items = sorted(cidrs, key=lambda item: item.metadata.name)
    if not items:
        return [ADDRESSES]
    items.sort(key=lambda item: item.metadata.name != DEFAULT_CIDR)
    return [network for item in items if _is_ready(item) for network in networks_of(item)]


def networks_of(item: ServiceCIDR) -> list[IPv4Network]:
    """Return the IPv4 networks of a ServiceCIDR."""
    ranges = (parsed for parsed in map(parse_range, item.spec.cidrs) if parsed is not None)
    return [each.network for each in ranges if isinstance(each.network, IPv4Network)]


def has_address(networks: Iterable[IPv4Network], address: Address) -> bool:
    """Return whether Services can have the address: it is in a network, and not at its ends."""
    return any(
        address in network and address not in (network.network_address, network.broadcast_address)
        for network in networks
    )


def is_allocated(item: IPAddress) -> bool:
    """Return whether an IPAddress is that of a Service."""
    return item.metadata.labels.get(MANAGED_BY) == ALLOCATOR


def _is_ready(item: ServiceCIDR) -> bool:
    ready = (each.status for each in item.status.conditions if each.type == READY)
    return item.metadata.deletionTimestamp is None and next(ready, "True") == "True"


def _chosen_addresses(network: IPv4Network) -> int:
    """Return the number of addresses at the beginning that are left to those who choose."""
    size = network.num_addresses
    if size <= _LEAST_CHOSEN_ADDRESSES:
        return 0
    return min(max(size // 16, _LEAST_CHOSEN_ADDRESSES), _MOST_CHOSEN_ADDRESSES)


def with_old_values(spec: ServiceSpec, before: ServiceSpec) -> ServiceSpec:
    """Return a changed spec with the allocated values that the client did not repeat."""
    if "ExternalName" not in (spec.type, before.type):
        spec = structs.replace(
            spec,
            clusterIP=spec.clusterIP or before.clusterIP,
            clusterIPs=spec.clusterIPs or before.clusterIPs,
        )
    if _needs_node_ports(spec) and _needs_node_ports(before):
        used = {port.nodePort for port in spec.ports} & {port.nodePort for port in before.ports}
        by_name = {port.name: port.nodePort for port in before.ports}

        def kept(port: ServicePort) -> ServicePort:
            number = by_name.get(port.name)
            if port.nodePort or number in used:
                return port
            return structs.replace(port, nodePort=number)

        spec = structs.replace(spec, ports=tuple(map(kept, spec.ports)))
    if needs_health_check(spec) and needs_health_check(before):
        number = spec.healthCheckNodePort or before.healthCheckNodePort
        spec = structs.replace(spec, healthCheckNodePort=number)
    return spec


def with_synchronized_addresses(spec: ServiceSpec, before: ServiceSpec) -> ServiceSpec:
    """Return a changed spec whose ``clusterIPs`` follow a changed ``clusterIP``."""
    if spec.clusterIP == before.clusterIP:
        return structs.replace(spec, clusterIPs=spec.clusterIPs or before.clusterIPs)
    if spec.clusterIPs != before.clusterIPs:
        return spec
    return structs.replace(spec, clusterIPs=(spec.clusterIP,) if spec.clusterIP else ())


def _needs_node_ports(spec: ServiceSpec) -> bool:
    return spec.type in _ON_NODES and _allocates(spec)


def _allocates(spec: ServiceSpec) -> bool:
    """Return whether ports without a node port get one."""
    return spec.type != "LoadBalancer" or spec.allocateLoadBalancerNodePorts is not False


def _prefers_dual_stack(spec: ServiceSpec, before: ServiceSpec | None) -> bool:
    """Return whether an update leaves a Service alone that has both families where possible."""
    if before is None or spec.ipFamilyPolicy != "PreferDualStack":
        return False
    names = ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    return all(getattr(spec, name) == getattr(before, name) for name in names)


def _policy_errors(spec: ServiceSpec, before: ServiceSpec | None) -> Errors:
    path, policy = "spec.ipFamilyPolicy", GoText(spec.ipFamilyPolicy)
    counts = (("cluster IP", len(spec.clusterIPs)), ("IP family", len(spec.ipFamilies)))
    if policy != "SingleStack" and before is not None:
        earlier = (len(before.clusterIPs), len(before.ipFamilies))
        for (what, count), old in zip(counts, earlier, strict=True):
            if 0 < count < old:
                yield invalid(
                    path, policy, f"must be 'SingleStack' to release the secondary {what}"
                )
    if policy == "SingleStack":
        for what, count in (("cluster IPs", counts[0][1]), ("IP families", counts[1][1])):
            if count == len(IP_FAMILIES):
                why = f"must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are"
                yield invalid(path, policy, f"{why} specified")
    for index, address in enumerate(spec.clusterIPs):
        if is_ipv6(address) and index >= len(spec.ipFamilies):
            why = "IPv6 is not configured on this cluster"
            yield invalid(f"spec.clusterIPs[{index}]", spec.clusterIPs, why)


def _family_errors(policy: str, families: tuple[str, ...]) -> Errors:
    if policy == "RequireDualStack":
        why = "this cluster is not configured for dual-stack services"
        yield invalid("spec.ipFamilyPolicy", GoText(policy), why)
    for index, family in enumerate(families):
        if family != IP_FAMILIES[0]:
            why = "not configured on this cluster"
            yield invalid(f"spec.ipFamilies[{index}]", GoText(family), why)


def _internal_error(text: str) -> StatusError:
    details = StatusDetails(causes=(StatusCause(message=text),))
    return StatusError(500, f"Internal error occurred: {text}", details=details)
