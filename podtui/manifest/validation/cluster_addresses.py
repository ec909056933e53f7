"""The API server's rules for ServiceCIDRs and IPAddresses."""

from __future__ import annotations

from typing import Final

from podtui.api.networking import IPAddress, IPAddressSpec, ServiceCIDR, ServiceCIDRSpec
from podtui.manifest.validation import formats
from podtui.manifest.validation.addresses import canonical_address, canonical_range, parse_range
from podtui.manifest.validation.errors import Errors, invalid, invalid_each, required
from podtui.manifest.validation.metadata import object_meta

_MOST_RANGES: Final = 2
_IMMUTABLE: Final = "field is immutable"


def validate_ip_address(item: IPAddress) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False, name_rule=_address_name)
    yield from _parent(item.spec)


def ip_address_update(new: IPAddress, old: IPAddress) -> Errors:
    yield from _parent(new.spec)
    if new.spec != old.spec:
        yield invalid("spec.parentRef", new.spec.parentRef, _IMMUTABLE)


def _address_name(text: str) -> list[str]:
    return [problem.detail for problem in canonical_address(text, "metadata.name")]


def _parent(spec: IPAddressSpec) -> Errors:
    path, parent = "spec.parentRef", spec.parentRef
    if parent is None:
        yield required(path)
        return
    if parent.group:
        problems = formats.dns_subdomain(parent.group)
        yield from invalid_each(f"{path}.group", parent.group, problems)
    if not parent.resource:
        yield required(f"{path}.resource")
    if not parent.name:
        yield required(f"{path}.name")
    for name in ("resource", "name", "namespace"):
        value: str = getattr(parent, name)
        yield from invalid_each(f"{path}.{name}", value, formats.path_segment(value))


def validate_service_cidr(item: ServiceCIDR) -> Errors:
    yield from object_meta(item.metadata, "metadata", namespaced=False)
    yield from _ranges(item.spec)


def service_cidr_update(new: ServiceCIDR, old: ServiceCIDR) -> Errors:
    path, ranges, before = "spec.cidrs", new.spec.cidrs, old.spec.cidrs
    # A range of the second family may be added.
    is_added = (len(before), len(ranges)) == (1, _MOST_RANGES)
    if len(ranges) != len(before) and not is_added:
        yield invalid(path, ranges, _IMMUTABLE)
        return
    for index, (text, earlier) in enumerate(zip(ranges, before, strict=False)):
        if text != earlier:
            yield invalid(f"{path}[{index}]", text, _IMMUTABLE)
    if is_added:
        yield from _ranges(new.spec)


def _ranges(spec: ServiceCIDRSpec) -> Errors:
    path, ranges = "spec.cidrs", spec.cidrs
    if not ranges:
        yield required(path, "at least one CIDR required")
        return
    if len(ranges) > _MOST_RANGES:
        yield invalid(path, spec, "may only hold up to 2 values")
        return
    for index, text in enumerate(ranges):
        yield from canonical_range(text, f"{path}[{index}]")
    parsed = [each for each in map(parse_range, ranges) if each is not None]
    if len(parsed) > len({each.address.version for each in parsed}):
        yield invalid(
            path,
            ranges,
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and"
            " 2001:db8::/64",
        )
