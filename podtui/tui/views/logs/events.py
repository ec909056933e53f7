"""Convert a pod's events to lines for display between its log lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from podtui.api.v1 import Event
from podtui.tui.model.model import event_key
from podtui.tui.views.logs.line_buffer import EVENT, EVENT_WARNING
from podtui.tui.views.logs.times import SECOND, parse_stamp
from podtui.tui.widgets.sanitize import clean


class EventLines:
    """Yields each occurrence of an event once."""

    def __init__(self, since: float | None = None) -> None:
        """Skip events before ``since`` (epoch seconds)."""
        self._since = since
        self._told: dict[str, tuple[int, str]] = {}

    def take(self, events: Iterable[Event]) -> Iterator[tuple[int, int, bytes]]:
        """Yield (tag, nanoseconds, text) for each new occurrence."""
        for event in events:
            moment = event_time(event)
            occurrence = (event.count or 0, str(moment))
            key = event_key(event)
            if self._told.get(key) == occurrence:
                continue
            self._told[key] = occurrence
            if self._since is None or moment >= self._since * SECOND:
                tag = EVENT_WARNING if event.type == "Warning" else EVENT
                yield tag, moment, event_text(event).encode(errors="replace")


def event_time(event: Event) -> int:
    """Return the time of the last occurrence in nanoseconds, 0 if the event has none."""
    for stated in (
        event.series.lastObservedTime if event.series is not None else None,
        event.lastTimestamp,
        event.eventTime,
        event.firstTimestamp,
        event.metadata.creationTimestamp,
    ):
        if stated:
            return parse_stamp(str(stated).encode())
    return 0


def event_text(event: Event) -> str:
    """Format an event: ``BackOff  Back-off restarting failed container (x4)``."""
    times = f" (x{event.count})" if (event.count or 0) > 1 else ""
    return f"{clean(event.reason)}  {clean(event.message)}{times}"
