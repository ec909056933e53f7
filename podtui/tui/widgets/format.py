"""Short formats for numbers: cores, bytes, percentages, ages."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from podtui.api.times import epoch, short_duration

KI = 1024


def ago(moment: str | None, now: float) -> str:
    """Format a time as ``3m10s ago``; empty if it is missing or invalid."""
    seconds = epoch(moment)
    return "" if seconds is None else f"{short_duration(now - seconds)} ago"


def millicores(milli: int) -> str:
    """Format ``12m``, like ``kubectl top``."""
    return f"{milli}m"


def mebibytes(count: int) -> str:
    """Format ``34Mi``, like ``kubectl top``; less than one is ``<1Mi``."""
    if 0 < count < KI * KI:
        return "<1Mi"
    return f"{count // (KI * KI)}Mi"


def cores(milli: int) -> str:
    """Format millicores as cores with at most two decimals: ``0.25``, ``4``."""
    return f"{milli / 1000:.2f}".rstrip("0").rstrip(".")


def size(count: int) -> str:
    """Format bytes in at most four digits: ``0``, ``771B``, ``512Mi``, ``3.8Gi``."""
    if not count:
        return "0"
    value = float(count)
    for unit in ("B", "Ki", "Mi", "Gi", "Ti"):
        if abs(value) < KI or unit == "Ti":
            if value >= 100 or value == int(value):
                return f"{value:.0f}{unit}"
            return f"{value:.1f}{unit}"
        value /= KI
    raise AssertionError("unreachable")


def percent(part: float, whole: float) -> str:
    """Format ``32%``; empty if ``whole`` is 0."""
    return f"{100 * part / whole:.0f}%" if whole > 0 else ""


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
