"""The times of log lines: stored as nanoseconds since 1970, shown in three formats."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from enum import Enum
from functools import lru_cache
from typing import Final

from podtui.api.times import short_duration

SECOND: Final = 1_000_000_000
LONGEST_STAMP: Final = 40
_MOST: Final = (1 << 63) - 1
"""Largest time in nanoseconds, in the year 2262. A later time from a server is ignored."""
_BLANK: Final = ord(" ")
_Z: Final = ord("Z")


class Times(Enum):
    """The format of the time before each line; the value is its name in the border."""

    OFF = ""
    ABSOLUTE = "times"
    RELATIVE = "ages"
    BETWEEN = "gaps"

    @property
    def width(self) -> int:
        """The width in cells, including the blank after it."""
        return {Times.OFF: 0, Times.ABSOLUTE: 13, Times.RELATIVE: 7, Times.BETWEEN: 9}[self]

    @property
    def next(self) -> Times:
        order = list(Times)
        return order[(order.index(self) + 1) % len(order)]


@lru_cache(maxsize=4096)
def _seconds(text: bytes) -> int:
    moment = datetime.strptime(text.decode(), "%Y-%m-%dT%H:%M:%S")  # noqa: DTZ007 - UTC is next
    return int(moment.replace(tzinfo=UTC).timestamp())


def parse_stamp(stamp: bytes) -> int:
    """Return an RFC 3339 time in nanoseconds, 0 if it is invalid or out of range."""
    moment = _nanoseconds(stamp)
    return moment if -_MOST <= moment <= _MOST else 0


def _nanoseconds(stamp: bytes) -> int:
    rest = stamp[19:]
    try:
        seconds = _seconds(stamp[:19])
        if rest == b"Z":
            return seconds * SECOND
        if rest[:1] == b"." and rest[-1:] == b"Z":
            return seconds * SECOND + int(rest[1:-1].ljust(9, b"0")[:9])
        moment = datetime.fromisoformat(stamp.decode())
    except (ValueError, OverflowError):
        return 0
    if moment.tzinfo is None:
        return 0
    whole = int(moment.replace(microsecond=0).timestamp())
    digits = rest[1:].partition(b"+")[0].partition(b"-")[0] if rest[:1] == b"." else b""
    return whole * SECOND + int(digits.ljust(9, b"0")[:9])


def split_lines(lines: Sequence[bytes], last: int = 0) -> tuple[list[int], list[bytes]]:
    """Split lines as the API sends them (RFC 3339 time, space, text) into times and texts.

    A line without a time gets the time of the line before it, the first one gets ``last``.
    """
    stamps: list[int] = []
    texts: list[bytes] = []
    second, base = b"", 0
    for line in lines:
        moment, shown = 0, line
        # Fast path for nanosecond stamps within the same second, as engines write them. Parsing
        # each time in full would take half of the total processing time of a line.
        if len(line) > 30 and line[30] == _BLANK and line[29] == _Z and line[:20] == second:
            digits = line[20:29]
            moment = base + int(digits) if digits.isdigit() else 0
        if moment:
            last = moment
            stamps.append(moment)
            texts.append(line[31:])
            continue
        if line[10:11] == b"T" and line[4:5] == b"-":
            stamp, space, text = line.partition(b" ")
            if space and len(stamp) <= LONGEST_STAMP:
                moment = parse_stamp(stamp)
                shown = text if moment else line
                if moment and stamp[19:20] == b"." and stamp.endswith(b"Z"):
                    second, base = stamp[:20], moment // SECOND * SECOND
        last = moment or last
        stamps.append(last)
        texts.append(shown)
    return stamps, texts


@lru_cache(maxsize=4096)
def _date(seconds: int) -> str:
    # ``isoformat`` pads the year to four digits; ``strftime`` does not.
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def rfc3339(moment: int) -> str:
    """Format a time as ``2026-11-21T07:08:09.123456789Z``; empty for 0."""
    return f"{_date(moment // SECOND)}.{moment % SECOND:09d}Z" if moment else ""


def clock(moment: int) -> str:
    """Format a time as ``07:08:09.123`` in UTC, like the log itself; empty for 0."""
    return f"{_date(moment // SECOND)[11:]}.{moment % SECOND // 1_000_000:03d}" if moment else ""


def shown_time(times: Times, moment: int, before: int, now: float) -> str:
    """Return the time to show before a line; ``before`` is the time of the line above (ns), ``now``
    is in seconds."""
    if not moment or times is Times.OFF:
        return ""
    if times is Times.ABSOLUTE:
        return clock(moment)
    if times is Times.RELATIVE:
        return short_duration(max(0.0, now - moment / SECOND))
    return between(moment - before) if before else ""


def event_time(times: Times, moment: int, now: float) -> str:
    """Return the time to show before an event, which is known in whole seconds."""
    if times is Times.BETWEEN:
        return ""
    return shown_time(times, moment, 0, now).partition(".")[0]


def between(nanoseconds: int) -> str:
    """Format a difference as ``+0.012s``, ``+34.5s`` or ``+12m``: at most eight cells."""
    sign = "-" if nanoseconds < 0 else "+"
    seconds = abs(nanoseconds) / SECOND
    if seconds < 10:
        return f"{sign}{seconds:.3f}s"
    if seconds < 1000:
        return f"{sign}{seconds:.1f}s"
    return f"{sign}{short_duration(seconds)}"
