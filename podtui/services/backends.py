"""The backends of Services: the addresses that a connection to a Service's port may reach.

As kube-proxy chooses them: endpoints that are ready; if there are none, those that still serve
while they terminate. The endpoints of a Service with ``publishNotReadyAddresses`` are always
ready: the controller of EndpointSlices writes them so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from podtui.api.discovery import Endpoint, EndpointSlice
from podtui.api.v1 import Service, ServicePort

SERVICE_NAME: Final = "kubernetes.io/service-name"
_CLIENT_IP: Final = "ClientIP"
_AFFINITY_SECONDS: Final = 10800


@dataclass(frozen=True, slots=True, order=True)
class Backend:
    ip: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PortBackends:
    """One port of a Service and its backends, sorted. ``affinity`` is the number of seconds for
    which a client keeps its backend; 0 without session affinity. ``addresses`` are the cluster IPs
    and ``external_ips``."""

    namespace: str
    service: str
    port_name: str
    protocol: str
    addresses: tuple[str, ...]
    port: int
    node_port: int
    backends: tuple[Backend, ...]
    affinity: int = 0
    external_ips: tuple[str, ...] = ()

    @property
    def cluster_ips(self) -> tuple[str, ...]:
        return tuple(ip for ip in self.addresses if ip not in self.external_ips)


def has_cluster_ip(service: Service) -> bool:
    return service.spec.type != "ExternalName" and service.spec.clusterIP not in ("", "None")


def service_key(endpoint_slice: EndpointSlice) -> tuple[str, str]:
    """Return namespace and name of the Service of a slice; the name is empty if it has none."""
    meta = endpoint_slice.metadata
    return meta.namespace, meta.labels.get(SERVICE_NAME, "")


def port_backends(
    services: Iterable[Service], slices: Mapping[tuple[str, str], Iterable[EndpointSlice]]
) -> list[PortBackends]:
    """Return the ports of all Services with a cluster IP. ``slices`` are those of each Service."""
    return [
        _port_backends(service, port, slices.get(key, ()))
        for service in services
        if has_cluster_ip(service) and (key := (service.metadata.namespace, service.metadata.name))
        for port in service.spec.ports
    ]


def _port_backends(
    service: Service, port: ServicePort, slices: Iterable[EndpointSlice]
) -> PortBackends:
    spec, meta = service.spec, service.metadata
    affinity = 0
    if spec.sessionAffinity == _CLIENT_IP:
        config = spec.sessionAffinityConfig
        client_ip = None if config is None else config.clientIP
        affinity = (client_ip and client_ip.timeoutSeconds) or _AFFINITY_SECONDS
    return PortBackends(
        namespace=meta.namespace,
        service=meta.name,
        port_name=port.name,
        protocol=port.protocol or "TCP",
        addresses=(*(spec.clusterIPs or (spec.clusterIP,)), *spec.externalIPs),
        port=port.port,
        node_port=port.nodePort or 0,
        backends=backends_of(port, slices),
        affinity=affinity,
        external_ips=tuple(spec.externalIPs),
    )


def backends_of(port: ServicePort, slices: Iterable[EndpointSlice]) -> tuple[Backend, ...]:
    """Return the backends of a Service's port, sorted and without duplicates."""
    ready: set[Backend] = set()
    serving: set[Backend] = set()
    for endpoint_slice in slices:
        if endpoint_slice.addressType not in ("IPv4", "IPv6"):
            continue
        number = next(
            (
                item.port
                for item in endpoint_slice.ports
                if item.name == port.name and (item.protocol or "TCP") == (port.protocol or "TCP")
            ),
            None,
        )
        if number is None:
            continue
        for endpoint in endpoint_slice.endpoints:
            backends = {Backend(address, number) for address in endpoint.addresses}
            if is_ready(endpoint):
                ready |= backends
            elif is_serving_while_terminating(endpoint):
                serving |= backends
    return tuple(sorted(ready or serving))


def is_ready(endpoint: Endpoint) -> bool:
    """Return the ``ready`` condition; a missing one means true, as the API defines it."""
    return endpoint.conditions.ready is not False


def is_serving_while_terminating(endpoint: Endpoint) -> bool:
    conditions = endpoint.conditions
    return conditions.serving is True and conditions.terminating is True
