"""Addresses and ranges in all spellings that Go reads."""

from __future__ import annotations

import pytest

from podtui.manifest.validation.addresses import (
    address_range,
    address_warnings,
    canonical_address,
    endpoint_address,
    is_ipv4,
    is_ipv6,
    parse_address,
    parse_range,
    range_warnings,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("001.02.003.0", "1.2.3.0"),
        ("FD00:0::1", "fd00::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("1.2.3", None),
        ("1.2.3.256", None),
        ("fe80::1%eth0", None),
        ("", None),
    ],
)
def test_addresses(text: str, expected: str | None) -> None:
    address = parse_address(text)
    assert (None if address is None else str(address)) == expected
    assert is_ipv4(text) == (expected is not None and "." in expected)
    assert is_ipv6(text) == (expected is not None and ":" in expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("010.0.0.0/08", "10.0.0.0/8"),
        ("::ffff:1.2.3.4/120", "1.2.3.0/24"),
        ("fd00::1/8", "fd00::/8"),
        ("10.0.0.0/33", None),
        ("10.0.0.0/-1", None),
        ("10.0.0.0", None),
        ("10.0.0.0/" + "9" * 5000, None),
    ],
)
def test_ranges(text: str, expected: str | None) -> None:
    parsed = parse_range(text)
    assert (None if parsed is None else str(parsed.network)) == expected


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("10.0.0.0/8", []),
        ("10.0.0.0/99", ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]),
        ("010.0.0.0/8", ["must not have leading 0s in IP or prefix length"]),
        ("10.0.0.0/08", ["must not have leading 0s in IP or prefix length"]),
        ("::ffff:1.2.3.0/120", ["must not have an IPv4-mapped IPv6 address"]),
        ("10.0.0.1/8", ["must not have bits set beyond the prefix length"]),
    ],
)
def test_ranges_that_are_refused(text: str, problems: list[str]) -> None:
    assert [error.detail for error in address_range(text, "cidr")] == problems


def test_an_address_has_one_canonical_form() -> None:
    assert list(canonical_address("fd00::1", "ip")) == []
    [error] = canonical_address("FD00:0::1", "ip")
    assert error.detail == 'must be in canonical form ("fd00::1")'


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "0.0.0.0", "169.254.1.1", "224.0.0.9", "fe80::1", "ff02::1", "::1", "x"]
)
def test_addresses_that_are_no_ends_of_connections(text: str) -> None:
    [_] = endpoint_address(text, "ip")


def test_addresses_in_unusual_forms_cause_warnings() -> None:
    def warnings(text: str) -> list[str]:
        return list(address_warnings(text, "ip"))

    assert warnings("1.2.3.4") == warnings("fd00::1") == warnings("nonsense") == []
    assert warnings("01.2.3.4") == [
        'ip: non-standard IP address "01.2.3.4" is invalid: use "1.2.3.4"'
    ]
    assert warnings("::ffff:1.2.3.4") == [
        'ip: non-standard IP address "::ffff:1.2.3.4" is invalid: use "1.2.3.4"'
    ]
    assert warnings("FD00::1") == [
        'ip: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")'
    ]


def test_ranges_in_unusual_forms_cause_warnings() -> None:
    def warnings(text: str) -> list[str]:
        return list(range_warnings(text, "cidr"))

    assert warnings("10.0.0.0/8") == warnings("fd00::/8") == warnings("nonsense") == []
    choice = '(should be "10.0.0.0/8" or "10.0.0.1/32"?)'
    assert warnings("10.0.0.1/8") == [
        f'cidr: CIDR value "10.0.0.1/8" is ambiguous in this context {choice}'
    ]
    assert warnings("10.0.0.0/08") == [
        'cidr: non-standard CIDR value "10.0.0.0/08" is invalid: use "10.0.0.0/8"'
    ]
    assert warnings("FD00::/8") == [
        'cidr: IPv6 CIDR value "FD00::/8" should be in RFC 5952 canonical format ("fd00::/8")'
    ]
