"""Times in the API's format and durations in the format of kubectl's tables."""

from __future__ import annotations

import sys
from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """Format as ``2026-01-02T03:04:05Z``; the fraction of a second is dropped.

    Equal texts are the same object: each pod has a dozen times of the same few seconds.
    """
    return sys.intern(f"{_in_utc(moment).isoformat(timespec='seconds')}Z")


def rfc3339_micros(moment: datetime) -> str:
    """Format as ``2026-01-02T03:04:05.678901Z``, the API's MicroTime."""
    return f"{_in_utc(moment).isoformat(timespec='microseconds')}Z"


def _in_utc(moment: datetime) -> datetime:
    """``isoformat`` pads the year to four digits; ``strftime`` does not."""
    return moment.astimezone(UTC).replace(tzinfo=None)


def parse_time(text: str | None) -> datetime | None:
    """Return an aware datetime; None if the text is not an RFC 3339 time."""
    if not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed if parsed.tzinfo is not None else None


def short_duration(seconds: float) -> str:
    """Format a duration with at most two units: ``45s``, ``3m10s``, ``2d4h``, ``3y``.

    A duration of -2 seconds or less is ``<invalid>``; a smaller negative one is treated as clock
    skew.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(0, whole)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _pair(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def short_duration_until(seconds: float) -> float:
    """Return a longer duration up to which the text of `short_duration` stays the same."""
    whole = int(seconds)
    if whole < -1:
        return -2.0
    for below, step in ((600, 1), (8 * 3600, 60), (8 * 86400, 3600)):
        if whole < below:
            return float(max(0, whole) // step * step + step)
    return float(whole // 86400 * 86400 + 86400)


def since(moment: str | None, now: datetime) -> str:
    """Return the age of an RFC 3339 time; ``<unknown>`` if there is none."""
    parsed = parse_time(moment)
    return "<unknown>" if parsed is None else short_duration((now - parsed).total_seconds())


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def optional_rfc3339(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def epoch(moment: str | None) -> float | None:
    """Return an RFC 3339 time as epoch seconds; None if it is missing or invalid."""
    parsed = parse_time(moment)
    return None if parsed is None else parsed.timestamp()
