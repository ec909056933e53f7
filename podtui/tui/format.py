"""Figures as few characters: lengths of time, cores, bytes, shares."""

from __future__ import annotations

from datetime import datetime

KI = 1024


def age(seconds: float) -> str:
    """As kubectl's tables write it: two units, the smaller only while it matters (``3m10s``)."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def epoch(moment: str | None) -> float | None:
    """Seconds since 1970 of an RFC 3339 time; None for none, or for what is not one."""
    if not moment:
        return None
    try:
        parsed = datetime.fromisoformat(moment)
    except ValueError:
        return None
    return parsed.timestamp() if parsed.tzinfo is not None else None


def millicores(milli: int) -> str:
    """``12m``, as ``kubectl top`` does."""
    return f"{milli}m"


def mebibytes(count: int) -> str:
    """``34Mi``, as ``kubectl top`` does; what is less than one is ``<1Mi``."""
    if 0 < count < KI * KI:
        return "<1Mi"
    return f"{count // (KI * KI)}Mi"


def cores(milli: int) -> str:
    """``0.25``, ``4``: cores with at most two decimals."""
    return f"{milli / 1000:.2f}".rstrip("0").rstrip(".")


def size(count: int) -> str:
    """Bytes in three digits or so: ``512Mi``, ``3.8Gi``."""
    value = float(count)
    for unit in ("", "Ki", "Mi", "Gi", "Ti"):
        if abs(value) < KI or unit == "Ti":
            if value >= 100 or unit == "" or value == int(value):
                return f"{value:.0f}{unit}"
            return f"{value:.1f}{unit}"
        value /= KI
    raise AssertionError("unreachable")


def percent(part: float, whole: float) -> str:
    """``32%``; empty where there is no whole."""
    return f"{100 * part / whole:.0f}%" if whole > 0 else ""


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
