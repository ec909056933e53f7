"""Merge the lines of several logs and the events of their pods in the order of their times.

A line waits until every other log has delivered a later line, or until a short window is over.
Lines that arrive after that are shown late and out of order, but are never lost. This module reads
no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from msgspec import Struct

from podtui.api.events import event_count, event_order, last_seen
from podtui.api.v1 import Event
from podtui.tui.model.model import event_key
from podtui.tui.views.logs.line_buffer import EVENT, EVENT_WARNING
from podtui.tui.views.logs.times import SECOND, parse_stamp
from podtui.tui.widgets.sanitize import clean

WINDOW: Final = 0.25
"""Seconds that a line waits for logs that deliver nothing."""
OPENING: Final = 1.5
"""The same while a log is being opened: its history may be long."""
MOST_WAITING: Final = 50_000
"""Maximum number of waiting lines."""


class Run(Struct, frozen=True):
    """Consecutive lines of one source or kind."""

    tag: int
    stamps: Sequence[int]
    texts: Sequence[bytes]


class Merger:
    """Merges logs by time; ``sources`` are their tags, ``now`` is always in monotonic seconds."""

    def __init__(self, sources: Iterable[int], now: float) -> None:
        self._newest: dict[int, int] = dict.fromkeys(sources, 0)
        self._done = set[int]()
        self._opened = now
        self._last_arrival = now
        self._waiting: list[tuple[int, int, bytes]] = []
        # The arrival time of each batch, and the latest time stamp in it.
        self._arrivals: deque[tuple[float, int]] = deque()
        self._events: list[tuple[int, int, bytes]] = []

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def waits(self) -> bool:
        return bool(self._waiting or self._events)

    def take(
        self, source: int, stamps: Sequence[int], texts: Sequence[bytes], now: float, tag: int = -1
    ) -> None:
        """Add lines of a log, or with ``tag`` a remark about this place in the log."""
        if not texts:
            return
        self._last_arrival = now
        self._newest[source] = max(self._newest[source], stamps[-1])
        self._done.discard(source)
        kind = source if tag < 0 else tag
        self._waiting.extend((stamp, kind, text) for stamp, text in zip(stamps, texts, strict=True))
        self._arrivals.append((now, max(stamps)))

    def last_stamp(self, source: int) -> int:
        """Return the time of the newest line of a log, 0 before the first."""
        return self._newest[source]

    def take_event(self, tag: int, stamp: int, text: bytes) -> None:
        """Add an event; lines do not wait for events."""
        self._events.append((stamp, tag, text))

    def finish(self, source: int) -> None:
        """Note that a log has no more lines for now, so that other logs do not wait for it."""
        self._done.add(source)

    def ready(self, now: float) -> list[Run]:
        """Return the lines and events that can be shown now, in order."""
        bound = self._bound(now)
        due = self._waiting
        if len(self._newest) > 1:
            due.sort(key=itemgetter(0))
            # Only the lines that no other log can precede any more, but never so many waiting ones
            # that a silent log fills the memory.
            count = sum(1 for entry in due if entry[0] <= bound)
            if len(due) - count > MOST_WAITING:
                count = len(due) - MOST_WAITING // 2
            due, self._waiting = due[:count], due[count:]
        else:
            self._waiting = []
        return _runs(self._with_events(due, now))

    def _bound(self, now: float) -> int:
        """Return the time stamp up to which no more lines are expected."""
        window = WINDOW
        speaking = [s for s in self._newest if s not in self._done]
        if any(not self._newest[s] for s in speaking) and now - self._opened < OPENING:
            window = OPENING
        bound = min((self._newest[s] for s in speaking), default=1 << 62)
        # What has waited for a window is shown, even if another log is still silent.
        while self._arrivals and self._arrivals[0][0] <= now - window:
            bound = max(bound, self._arrivals.popleft()[1])
        return bound

    def _with_events(
        self, due: list[tuple[int, int, bytes]], now: float
    ) -> list[tuple[int, int, bytes]]:
        if not self._events:
            return due
        self._events.sort(key=itemgetter(0))
        quiet = not self._waiting and now - self._last_arrival >= WINDOW
        opening = any(not self._newest[s] for s in self._newest if s not in self._done)
        merged: list[tuple[int, int, bytes]] = []
        position = 0
        for entry in due:
            while position < len(self._events) and self._events[position][0] < entry[0]:
                merged.append(self._events[position])
                position += 1
            merged.append(entry)
        if quiet and (not opening or now - self._opened >= OPENING):
            merged += self._events[position:]
            position = len(self._events)
        del self._events[:position]
        return merged


def _runs(entries: Iterable[tuple[int, int, bytes]]) -> list[Run]:
    runs: list[Run] = []
    for tag, group in groupby(entries, key=itemgetter(1)):
        lines = list(group)
        runs.append(Run(tag, [line[0] for line in lines], [line[2] for line in lines]))
    return runs


RESTART_BACKOFF: Final = "Back-off restarting failed container"


class EventLines:
    """Yields each occurrence of an event once."""

    def __init__(self, since: float | None = None) -> None:
        """Skip events before ``since`` (epoch seconds)."""
        self._since = since
        self._yielded: dict[str, tuple[int, str]] = {}

    def take(
        self, events: Iterable[Event], *, names_container: bool = False
    ) -> Iterator[tuple[int, int, bytes]]:
        """Yield (tag, nanoseconds, text) for each new occurrence."""
        for event in sorted(events, key=event_order):
            seen = last_seen(event)
            # Whole seconds, so that events of one second keep their order.
            moment = parse_stamp(seen.encode()) // SECOND * SECOND
            if event.message.startswith(RESTART_BACKOFF):
                # It follows the end of the container, and so the last line of this second.
                moment += SECOND - 1
            occurrence = (event_count(event), seen)
            key = event_key(event)
            if self._yielded.get(key) == occurrence:
                continue
            self._yielded[key] = occurrence
            if self._since is None or moment >= self._since * SECOND:
                tag = EVENT_WARNING if event.type == "Warning" else EVENT
                text = event_text(event, names_container=names_container)
                yield tag, moment, text.encode(errors="replace")


class HeadLine(Struct, frozen=True):
    """A line of the oldest part of a view. ``sequence`` is its number in the buffer so far, None
    for a line that is new."""

    stamp: int
    tag: int
    text: bytes
    sequence: int | None = None


def merge_heads(head: Iterable[HeadLine], earlier: Sequence[HeadLine]) -> list[HeadLine]:
    """Merge earlier lines into the head of a view by their times. The order within each of both
    stays; of lines with the same time, those of ``head`` are first.
    """
    merged: list[HeadLine] = []
    index = 0
    for line in head:
        while index < len(earlier) and earlier[index].stamp < line.stamp:
            merged.append(earlier[index])
            index += 1
        merged.append(line)
    return [*merged, *earlier[index:]]


def event_text(event: Event, *, names_container: bool = False) -> str:
    """Format an event: ``BackOff  app: Back-off restarting failed container (x4)``."""
    count = event_count(event)
    times = f" (x{count})" if count > 1 else ""
    _, brace, rest = event.involvedObject.fieldPath.partition("{")
    container = f"{clean(rest.removesuffix('}'))}: " if brace and names_container else ""
    return f"{clean(event.reason)}  {container}{clean(event.message)}{times}"
