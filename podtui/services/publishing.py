"""The addresses on this machine at which Services are published, as pure functions.

Node ports at one address, and each load balancer at an address of its own. All addresses are
loopback addresses by default. 127.96.0.0/24 is left to the addresses that pods reach the agent
at.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from podtui.api.discovery import EndpointSlice
from podtui.api.urls import host_port
from podtui.api.v1 import LoadBalancerIngress, LoadBalancerStatus, PortStatus, Service
from podtui.services.backends import PortBackends, port_backends

NODE_PORT_ONLY: Final = "podtui.dev/NodePortOnly"
"""The error of a load balancer's port that is only reached at the node port."""
PROTOCOLS: Final = ("TCP", "UDP")
_CANDIDATES: Final = 4
_LOOPBACK: Final = "127.0.0.1"
_ANY: Final = ("0.0.0.0", "::")


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """An address that the agent listens on."""

    protocol: str
    address: str
    port: int

    @property
    def text(self) -> str:
        """As in the annotation `podtui.api.urls.PUBLISHED`."""
        return f"{host_port(shown_address(self.address), self.port)}/{self.protocol}"


def shown_address(address: str) -> str:
    """Return where clients on this machine connect to a listening address."""
    if address in _ANY:
        return _LOOPBACK if address == _ANY[0] else "::1"
    return address


def service_ports(service: Service, slices: Iterable[EndpointSlice]) -> list[PortBackends]:
    """Return the ports of a Service that can be published, and their backends."""
    key = (service.metadata.namespace, service.metadata.name)
    return [
        port
        for port in port_backends((service,), {key: [*slices]})
        if port.protocol in PROTOCOLS and service.spec.type in ("NodePort", "LoadBalancer")
    ]


def node_listeners(ports: Iterable[PortBackends], address: str) -> dict[Listener, PortBackends]:
    return {
        Listener(port.protocol, address, port.node_port): port for port in ports if port.node_port
    }


def balancer_listeners(ports: Iterable[PortBackends], address: str) -> dict[Listener, PortBackends]:
    return {Listener(port.protocol, address, port.port): port for port in ports}


def wants_balancer(service: Service) -> bool:
    """Return whether a Service wants a load balancer from the default implementation."""
    return service.spec.type == "LoadBalancer" and not service.spec.loadBalancerClass


def balancer_addresses(service: Service, address: str, machine: str) -> tuple[str, ...]:
    """Return the addresses to try for a load balancer, the best first: the one that the Service
    requests or has, and those that derive from its name. ``address`` is that of node ports;
    ``machine`` is what distinguishes the agents of a machine."""
    if not ipaddress.ip_address(address).is_loopback:
        return (address,)
    if ":" in address:
        return ()
    requested = service.spec.loadBalancerIP
    current = [entry.ip for entry in service.status.loadBalancer.ingress]
    meta = service.metadata
    name = f"{machine}/{meta.namespace}/{meta.name}"
    candidates = [item for item in (requested, *current) if item and item != address]
    candidates += (_derived(f"{name}/{number}") for number in range(_CANDIDATES))
    return tuple(dict.fromkeys(item for item in candidates if _is_loopback(item)))


def _is_loopback(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return address.version == 4 and address.is_loopback


def _derived(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"127.96.{1 + digest[0] % 254}.{1 + digest[1] % 254}"


def balancer_status(
    ports: Sequence[PortBackends], address: str, published: Iterable[Listener]
) -> LoadBalancerStatus:
    """Return the status of a load balancer at an address. A port that does not listen there is
    marked."""
    if not address:
        return LoadBalancerStatus()
    listening = set(published)
    statuses = tuple(
        PortStatus(
            port=port.port,
            protocol=port.protocol,
            error=""
            if Listener(port.protocol, address, port.port) in listening
            else NODE_PORT_ONLY,
        )
        for port in ports
    )
    entry = LoadBalancerIngress(ip=shown_address(address), ipMode="Proxy", ports=statuses)
    return LoadBalancerStatus(ingress=(entry,))


def published_text(listeners: Iterable[Listener]) -> str:
    return " ".join(sorted(listener.text for listener in listeners))
