"""Durations as Go prints them: ``1.234s``, ``1m20s``, ``5m0s``."""

from __future__ import annotations


def go_duration(seconds: float) -> str:
    """Format a duration, cut to milliseconds."""
    millis = int(seconds * 1000 + 1e-6)
    if millis < 1000:
        return f"{millis}ms" if millis else "0s"
    minutes, millis = divmod(millis, 60_000)
    hours, minutes = divmod(minutes, 60)
    rest = f"{millis / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours}h{minutes}m{rest}"
    return f"{minutes}m{rest}" if minutes else rest
