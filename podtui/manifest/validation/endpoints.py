"""The API server's rules for v1 Endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.v1 import EndpointAddress, EndpointPort, Endpoints, EndpointSubset
from podtui.manifest.validation import formats
from podtui.manifest.validation.addresses import address_warnings, endpoint_address, ip_address
from podtui.manifest.validation.endpoint_slices import PROTOCOLS
from podtui.manifest.validation.errors import Errors, invalid_each, not_supported, required
from podtui.manifest.validation.metadata import label_name, object_meta

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
CONTROLLER: Final = "endpoint-controller"


def validate_endpoints(item: Endpoints) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    for index, subset in enumerate(item.subsets):
        path = f"subsets[{index}]"
        if not subset.addresses and not subset.notReadyAddresses:
            yield required(path, "must specify `addresses` or `notReadyAddresses`")
        for here, address in _addresses(subset, path):
            yield from _address(address, here)
        for position, port in enumerate(subset.ports):
            yield from _port(port, f"{path}.ports[{position}]", named=len(subset.ports) > 1)


def endpoints_warnings(item: Endpoints) -> Iterator[str]:
    """Warn about addresses in an unusual form."""
    if item.metadata.labels.get(MANAGED_BY) == CONTROLLER:
        return
    for index, subset in enumerate(item.subsets):
        for path, address in _addresses(subset, f"subsets[{index}]"):
            yield from address_warnings(address.ip, f"{path}.ip")


def _addresses(subset: EndpointSubset, path: str) -> Iterator[tuple[str, EndpointAddress]]:
    for name in ("addresses", "notReadyAddresses"):
        for index, address in enumerate(getattr(subset, name)):
            yield f"{path}.{name}[{index}]", address


def _address(address: EndpointAddress, path: str) -> Errors:
    yield from ip_address(address.ip, f"{path}.ip")
    if address.hostname:
        problems = formats.dns_label(address.hostname)
        yield from invalid_each(f"{path}.hostname", address.hostname, problems)
    if address.nodeName:
        problems = formats.dns_subdomain(address.nodeName)
        yield from invalid_each(f"{path}.nodeName", address.nodeName, problems)
    yield from endpoint_address(address.ip, f"{path}.ip")


def _port(port: EndpointPort, path: str, *, named: bool) -> Errors:
    if port.name:
        yield from invalid_each(f"{path}.name", port.name, formats.dns_label(port.name))
    elif named:
        yield required(f"{path}.name")
    yield from invalid_each(f"{path}.port", port.port, formats.port_number(port.port))
    if not port.protocol:
        yield required(f"{path}.protocol")
    elif port.protocol not in PROTOCOLS:
        yield not_supported(f"{path}.protocol", port.protocol, PROTOCOLS)
    if port.appProtocol:
        yield from label_name(port.appProtocol, f"{path}.appProtocol")
