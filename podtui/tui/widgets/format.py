"""Figures as few characters: cores, bytes, shares."""

from __future__ import annotations

from podtui.api.times import parse_time, short_duration

KI = 1024


def epoch(moment: str | None) -> float | None:
    """Seconds since 1970 of an RFC 3339 time; None for none, or for what is not one."""
    parsed = parse_time(moment)
    return None if parsed is None else parsed.timestamp()


def ago(moment: str | None, now: float) -> str:
    """``3m10s ago``; empty for a time that is none."""
    seconds = epoch(moment)
    return "" if seconds is None else f"{short_duration(now - seconds)} ago"


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
