"""Lines of several logs, and the events of their pods, in the order of their times.

Lines wait for a moment until every other log has said something later, or has had time to. What
comes later than that is shown where it comes: late, but never lost. Nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from msgspec import Struct

WINDOW: Final = 0.25
"""Seconds that a line waits for those of logs that have nothing to say."""
OPENING: Final = 1.5
"""The same while a log is being opened: its past may be long."""
MOST_WAITING: Final = 50_000
"""Lines that wait at most."""


class Run(Struct, frozen=True):
    """Consecutive lines of one source or kind."""

    tag: int
    stamps: Sequence[int]
    texts: Sequence[bytes]


class Merger:
    """``sources`` are the tags of the logs; ``now`` everywhere is monotonic seconds."""

    def __init__(self, sources: Iterable[int], now: float) -> None:
        self._newest: dict[int, int] = dict.fromkeys(sources, 0)
        self._done = set[int]()
        self._opened = now
        self._last_arrival = now
        self._waiting: list[tuple[int, int, bytes]] = []
        # When lines arrived, and the latest time of any that had arrived by then.
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
        """Lines of a log; with ``tag`` what is said at this place of it."""
        if not texts:
            return
        self._last_arrival = now
        self._newest[source] = max(self._newest[source], stamps[-1])
        self._done.discard(source)
        kind = source if tag < 0 else tag
        self._waiting.extend((stamp, kind, text) for stamp, text in zip(stamps, texts, strict=True))
        self._arrivals.append((now, max(stamps)))

    def last_stamp(self, source: int) -> int:
        """The time of the newest line of a log, 0 before the first."""
        return self._newest[source]

    def take_event(self, tag: int, stamp: int, text: bytes) -> None:
        """An event; it holds back no line."""
        self._events.append((stamp, tag, text))

    def finish(self, source: int) -> None:
        """A log has nothing more to say for now: the others need not wait for it."""
        self._done.add(source)

    def ready(self, now: float) -> list[Run]:
        """What may be shown now, in order."""
        bound = self._bound(now)
        due = self._waiting
        if len(self._newest) > 1:
            due.sort(key=itemgetter(0))
            count = sum(1 for entry in due if entry[0] <= bound)
            if len(due) - count > MOST_WAITING:
                count = len(due) - MOST_WAITING // 2
            due, self._waiting = due[:count], due[count:]
        else:
            self._waiting = []
        return _runs(self._with_events(due, now))

    def _bound(self, now: float) -> int:
        """The time up to which nothing earlier is to be expected."""
        window = WINDOW
        speaking = [s for s in self._newest if s not in self._done]
        if any(not self._newest[s] for s in speaking) and now - self._opened < OPENING:
            window = OPENING
        bound = min((self._newest[s] for s in speaking), default=1 << 62)
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
        place = 0
        for entry in due:
            while place < len(self._events) and self._events[place][0] < entry[0]:
                merged.append(self._events[place])
                place += 1
            merged.append(entry)
        if quiet and (not opening or now - self._opened >= OPENING):
            merged += self._events[place:]
            place = len(self._events)
        del self._events[:place]
        return merged


def _runs(entries: Iterable[tuple[int, int, bytes]]) -> list[Run]:
    runs: list[Run] = []
    for tag, group in groupby(entries, key=itemgetter(1)):
        lines = list(group)
        runs.append(Run(tag, [line[0] for line in lines], [line[2] for line in lines]))
    return runs
