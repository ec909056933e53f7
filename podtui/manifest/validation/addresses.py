"""Rules for IP addresses and address ranges in CIDR notation, and warnings about their spelling.

As in Go, an address may be written with leading zeros, which the rules refuse and the warnings
explain, and an IPv4 address that is mapped into IPv6 is an IPv4 address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from podtui.manifest.validation import formats
from podtui.manifest.validation.errors import Errors, invalid, invalid_each, quoted

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_OCTETS: Final = re.compile(r"[0-9]+(\.[0-9]+){3}")
_NO_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


class Range(NamedTuple):
    """An address with a prefix length, as it is written."""

    address: Address
    length: int

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network((self.address, self.length), strict=False)


def parse_address(text: str) -> Address | None:
    """Read an address; None if the text is none. Leading zeros are ignored."""
    if "%" in text:
        return None
    if _OCTETS.fullmatch(text):
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def parse_range(text: str) -> Range | None:
    """Read an address range; None if the text is none. Leading zeros are ignored."""
    first, slash, length = text.partition("/")
    address = parse_address(first)
    if address is None or not slash or re.fullmatch("[0-9]{1,8}", length) is None:
        return None
    bits = int(length)
    if ":" in first and address.version == 4:
        bits -= 96
    return Range(address, bits) if 0 <= bits <= address.max_prefixlen else None


def is_ipv4(text: str) -> bool:
    address = parse_address(text)
    return address is not None and address.version == 4


def is_ipv6(text: str) -> bool:
    address = parse_address(text)
    return address is not None and address.version == 6


def ip_address(text: str, path: str) -> Errors:
    yield from invalid_each(path, text, formats.ip_address(text))


def canonical_address(text: str, path: str) -> Errors:
    """An address in its shortest form."""
    problems = formats.ip_address(text)
    yield from invalid_each(path, text, problems)
    if not problems and text != str(parse_address(text)):
        yield invalid(path, text, f"must be in canonical form ({quoted(str(parse_address(text)))})")


def address_range(text: str, path: str) -> Errors:
    """An address range without bits set beyond the prefix length."""
    parsed = parse_range(text)
    if parsed is None:
        yield invalid(path, text, _NO_RANGE)
        return
    first, _, length = text.partition("/")
    if length != str(int(length)) or _has_leading_zeros(first):
        yield invalid(path, text, "must not have leading 0s in IP or prefix length")
    elif ":" in first and parsed.address.version == 4:
        yield invalid(path, text, "must not have an IPv4-mapped IPv6 address")
    elif parsed.address != parsed.network.network_address:
        yield invalid(path, text, "must not have bits set beyond the prefix length")


def canonical_range(text: str, path: str) -> Errors:
    """An address range in its shortest form."""
    problems = list(address_range(text, path))
    yield from problems
    parsed = parse_range(text)
    if not problems and parsed is not None and text != str(parsed.network):
        yield invalid(path, text, f"must be in canonical form ({_quoted(parsed.network)})")


def endpoint_address(text: str, path: str) -> Errors:
    """An address that can be the end of a connection to another host."""
    address = parse_address(text)
    if address is None:
        yield invalid(path, text, "must be a valid IP address")
        return
    if address.is_unspecified:
        yield invalid(path, text, f"may not be unspecified ({text})")
    if address.is_loopback:
        yield invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        yield invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if _is_link_local_multicast(address):
        why = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
        yield invalid(path, text, why)


def address_warnings(text: str, path: str) -> Iterator[str]:
    """Warn about an address in an unusual form; nothing about what is no address."""
    address = parse_address(text)
    if address is None:
        return
    if _has_leading_zeros(text) or (":" in text and address.version == 4):
        yield f"{path}: non-standard IP address {quoted(text)} is invalid: use {_quoted(address)}"
    elif address.version == 6 and str(address) != text:
        yield (
            f"{path}: IPv6 address {quoted(text)} should be in RFC 5952 canonical format"
            f" ({_quoted(address)})"
        )


def range_warnings(text: str, path: str) -> Iterator[str]:
    """Warn about an address range in an unusual form; nothing about what is no range."""
    parsed = parse_range(text)
    if parsed is None:
        return
    first, _, length = text.partition("/")
    network, address = parsed.network, parsed.address
    ambiguous = address != network.network_address
    if ambiguous:
        host = _quoted(f"{address}/{address.max_prefixlen}")
        yield (
            f"{path}: CIDR value {quoted(text)} is ambiguous in this context (should be"
            f" {_quoted(network)} or {host}?)"
        )
    mapped = ":" in first and address.version == 4
    if mapped or _has_leading_zeros(first) or length != str(int(length)):
        yield f"{path}: non-standard CIDR value {quoted(text)} is invalid: use {_quoted(network)}"
    elif not ambiguous and address.version == 6 and str(network) != text:
        yield (
            f"{path}: IPv6 CIDR value {quoted(text)} should be in RFC 5952 canonical format"
            f" ({_quoted(network)})"
        )


def _quoted(value: object) -> str:
    return quoted(str(value))


def _has_leading_zeros(text: str) -> bool:
    return ":" not in text and any(part != str(int(part)) for part in text.split("."))


def _is_link_local_multicast(address: Address) -> bool:
    packed = address.packed
    if address.version == 4:
        return packed[:3] == bytes((224, 0, 0))
    return packed[0] == 0xFF and packed[1] & 0x0F == 0x02
