"""The time, count and order of an event, whichever component recorded it.

The kubelet records whole seconds in ``lastTimestamp``. A scheduler records microseconds in
``eventTime``, and repetitions in ``series``.
"""

from __future__ import annotations

from podtui.api.times import epoch
from podtui.api.v1 import Event


def first_seen(event: Event) -> str:
    """Return the RFC 3339 time of the first occurrence; empty if the event has none."""
    times = (event.firstTimestamp, event.eventTime, event.metadata.creationTimestamp)
    return next(filter(None, times), "")


def last_seen(event: Event) -> str:
    """Return the RFC 3339 time of the last occurrence; empty if the event has none."""
    series = event.series.lastObservedTime if event.series is not None else None
    return series or event.lastTimestamp or first_seen(event)


def event_count(event: Event) -> int:
    return (event.series.count if event.series is not None else None) or event.count or 1


def event_order(event: Event) -> tuple[int, int]:
    """Return the key that sorts events, oldest first.

    Microseconds are ignored: an event of the scheduler would follow the kubelet's of the same
    second. Within a second, the order of writing counts.
    """
    version = event.metadata.resourceVersion
    return int(epoch(last_seen(event)) or 0), int(version) if version.isdecimal() else 0
