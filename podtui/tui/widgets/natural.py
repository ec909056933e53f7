"""Natural sort order: ``web-2`` before ``web-10``, ``10.0.0.9`` before ``10.0.0.10``."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

_DIGITS: Final = re.compile(r"(\d{1,18})")

NaturalKey = tuple[str | int, ...]


@lru_cache(maxsize=8192)
def natural_key(text: str) -> NaturalKey:
    """Split into alternating texts and numbers, a text first, so that any two keys compare."""
    parts = _DIGITS.split(text.lower())
    return tuple(int(part) if n % 2 else part for n, part in enumerate(parts))


@lru_cache(maxsize=8192)
def address_key(text: str) -> tuple[int, int]:
    """Return (IP version, number); an invalid address sorts first."""
    try:
        address = ip_address(text)
    except ValueError:
        return 0, 0
    return address.version, int(address)
