"""The API server's rules for an EndpointSlice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podtui.api.discovery import Endpoint, EndpointHints, EndpointSlice
from podtui.manifest.validation import formats
from podtui.manifest.validation.addresses import (
    address_warnings,
    canonical_address,
    endpoint_address,
    ip_address,
    is_ipv4,
    is_ipv6,
)
from podtui.manifest.validation.errors import (
    Errors,
    GoText,
    duplicate,
    invalid,
    invalid_each,
    not_supported,
    required,
    too_many,
)
from podtui.manifest.validation.metadata import label_name, labels, object_meta

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLERS: Final = (
    "endpointslice-controller.k8s.io",
    "endpointslicemirroring-controller.k8s.io",
)
"""The managers whose addresses cause no warnings."""
_ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
_MOST_ADDRESSES: Final = 100
_MOST_ENDPOINTS: Final = 1000
_MOST_HINTS: Final = 8
_MOST_LABELS: Final = 16
_MOST_PORTS: Final = 20000


def validate_endpoint_slice(item: EndpointSlice) -> Errors:
    yield from _head(item)
    yield from _endpoints(item)


def endpoint_slice_update(new: EndpointSlice, old: EndpointSlice) -> Errors:
    yield from _head(new)
    if new.endpoints != old.endpoints:
        yield from _endpoints(new)
    if new.addressType != old.addressType:
        yield invalid("addressType", GoText(new.addressType), "field is immutable")


def _head(item: EndpointSlice) -> Errors:
    yield from object_meta(item.metadata, "metadata")
    if not item.addressType:
        yield required("addressType")
    elif item.addressType not in _ADDRESS_TYPES:
        yield not_supported("addressType", item.addressType, _ADDRESS_TYPES)
    yield from _ports(item)


def _endpoints(item: EndpointSlice) -> Errors:
    if len(item.endpoints) > _MOST_ENDPOINTS:
        yield too_many("endpoints", len(item.endpoints), _MOST_ENDPOINTS)
        return
    for index, endpoint in enumerate(item.endpoints):
        yield from _endpoint(endpoint, item.addressType, f"endpoints[{index}]")


def endpoint_slice_warnings(item: EndpointSlice) -> Iterator[str]:
    """Warn about addresses in an unusual form."""
    if item.metadata.labels.get(MANAGED_BY) in CONTROLLERS:
        return
    for index, endpoint in enumerate(item.endpoints):
        for position, address in enumerate(endpoint.addresses):
            yield from address_warnings(address, f"endpoints[{index}].addresses[{position}]")


def _ports(item: EndpointSlice) -> Errors:
    if len(item.ports) > _MOST_PORTS:
        yield too_many("ports", len(item.ports), _MOST_PORTS)
        return
    names: set[str] = set()
    for index, port in enumerate(item.ports):
        path = f"ports[{index}]"
        if port.name:
            yield from invalid_each(f"{path}.name", port.name, formats.dns_label(port.name))
        if port.name in names:
            yield duplicate(f"{path}.name", port.name)
        names.add(port.name)
        if port.protocol not in PROTOCOLS:
            yield not_supported(f"{path}.protocol", port.protocol, PROTOCOLS)
        if port.appProtocol:
            yield from label_name(port.appProtocol, f"{path}.appProtocol")


def _endpoint(endpoint: Endpoint, address_type: str, path: str) -> Errors:
    if not endpoint.addresses:
        yield required(f"{path}.addresses", "must contain at least 1 address")
    elif len(endpoint.addresses) > _MOST_ADDRESSES:
        yield too_many(f"{path}.addresses", len(endpoint.addresses), _MOST_ADDRESSES)
    for index, address in enumerate(endpoint.addresses):
        yield from _address(address, address_type, f"{path}.addresses", index)
    if endpoint.nodeName:
        problems = formats.dns_subdomain(endpoint.nodeName)
        yield from invalid_each(f"{path}.nodeName", endpoint.nodeName, problems)
    topology = endpoint.deprecatedTopology
    if len(topology) > _MOST_LABELS:
        yield too_many(f"{path}.deprecatedTopology", len(topology), _MOST_LABELS)
    yield from labels(topology, f"{path}.deprecatedTopology")
    if endpoint.hostname:
        problems = formats.dns_label(endpoint.hostname)
        yield from invalid_each(f"{path}.hostname", endpoint.hostname, problems)
    if endpoint.hints is not None:
        yield from _hints(endpoint.hints, f"{path}.hints")


def _address(address: str, address_type: str, path: str, index: int) -> Errors:
    here = f"{path}[{index}]"
    if address_type == "FQDN":
        yield from _domain_name(address, here)
        return
    if address_type not in ("IPv4", "IPv6"):
        return
    check = ip_address if address_type == "IPv4" else canonical_address
    problems = list(check(address, here))
    yield from problems
    if problems:
        return
    is_of_type = is_ipv4 if address_type == "IPv4" else is_ipv6
    if not is_of_type(address):
        yield invalid(path, address, f"must be an {address_type} address", at=here)
    yield from endpoint_address(address, here)


def _domain_name(name: str, path: str) -> Errors:
    """A fully qualified domain name. Only its first problem is reported."""
    if not name:
        yield required(path)
        return
    name = name.removesuffix(".")
    problems = formats.dns_subdomain(name)
    parts = name.split(".")
    if problems:
        yield invalid(path, name, ",".join(problems))
    elif len(parts) < 2:
        why = "should be a domain with at least two segments separated by dots"
        yield invalid(path, name, why)
    else:
        for part in parts:
            problems = formats.dns_label(part)
            if problems:
                yield invalid(path, part, ",".join(problems))
                return


def _hints(hints: EndpointHints, path: str) -> Errors:
    for field, entries, check in (
        ("forZones", hints.forZones, formats.label_value),
        ("forNodes", hints.forNodes, formats.dns_subdomain),
    ):
        if len(entries) > _MOST_HINTS:
            yield too_many(f"{path}.{field}", len(entries), _MOST_HINTS)
            return
        names: set[str] = set()
        for index, entry in enumerate(entries):
            here = f"{path}.{field}[{index}].name"
            if entry.name in names:
                yield duplicate(here, entry.name)
            names.add(entry.name)
            yield from invalid_each(here, entry.name, check(entry.name))
