"""Times in the API format: UTC, cut to seconds (reference §7.3)."""

from __future__ import annotations

from datetime import datetime

from podtui.api.times import rfc3339


def optional_rfc3339(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)


def parse_time(text: str) -> datetime:
    """Parse an RFC 3339 text to an aware datetime; digits beyond microseconds are dropped.

    Raises ValueError for an invalid text.
    """
    head, dot, tail = text.partition(".")
    if dot:
        digits = len(tail) - len(tail.lstrip("0123456789"))
        head = f"{head}.{tail[:digits][:6].ljust(6, '0')}{tail[digits:]}"
    moment = datetime.fromisoformat(head)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment
