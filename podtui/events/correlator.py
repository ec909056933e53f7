"""Correlate events before they are stored, as client-go does, to keep the number of records low
(kubelet.md §15).

Repetitions of one event become one record with a count, many similar events are combined into one
record, and the rate of events per object is limited.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from msgspec import structs

from podtui.api.v1 import Event
from podtui.events.token_bucket import TokenBucket

CACHE_LIMIT: Final = 4096
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
SIMILAR_LIMIT: Final = 10
SIMILAR_SECONDS: Final = 600.0
COMBINED: Final = "(combined from similar events): "
V = TypeVar("V")


class _Lru(Generic[V]):
    """A mapping that drops the least recently used item."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._items: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        value = self._items.get(key)
        if value is not None:
            self._items.move_to_end(key)
        return value

    def put(self, key: Hashable, value: V) -> None:
        self._items[key] = value
        self._items.move_to_end(key)
        if len(self._items) > self._limit:
            self._items.popitem(last=False)

    def get_or(self, key: Hashable, make: Callable[[], V]) -> V:
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value)
        return value

    def __len__(self) -> int:
        return len(self._items)


@dataclass(slots=True)
class _Similar:
    last: float
    messages: dict[str, None] = field(default_factory=dict[str, None])


def _subject(event: Event) -> tuple[str, ...]:
    about = event.involvedObject
    source = event.source
    return (
        source.component,
        source.host,
        about.apiVersion,
        about.kind,
        about.namespace,
        about.name,
        about.uid,
    )


class Correlator:
    """Remembers recent events; at most 4096 entries of each kind."""

    def __init__(self, limit: int = CACHE_LIMIT) -> None:
        self._buckets: _Lru[TokenBucket] = _Lru(limit)
        self._similar: _Lru[_Similar] = _Lru(limit)
        self._seen: _Lru[Event] = _Lru(limit)

    def observe(self, event: Event, now: float) -> Event | None:
        """Return the event to record, or None if the object exceeds its rate limit.

        ``now`` is in monotonic seconds. A repetition gets the name and ``firstTimestamp`` of the
        first event, and a ``count`` increased by one.
        """
        combined, key = self._combine(event, now)
        counted = self._count(combined, key)
        return counted if self._admit(event, now) else None

    def _combine(self, event: Event, now: float) -> tuple[Event, Hashable]:
        """Return the event, or a combined one after ten similar events with different messages."""
        kind = (*_subject(event), event.type, event.reason, event.reportingComponent)
        exact = (*kind, event.involvedObject.fieldPath, event.message)
        similar = self._similar.get_or(kind, lambda: _Similar(now))
        if now - similar.last > SIMILAR_SECONDS:
            similar.messages.clear()
        similar.last = now
        similar.messages[event.message] = None
        if len(similar.messages) < SIMILAR_LIMIT:
            return event, exact
        # Keep one message below the limit, so that a repetition alone does not end the combining.
        del similar.messages[next(iter(similar.messages))]
        # As in client-go, only the source names the component.
        text = COMBINED + event.message
        combined = structs.replace(event, message=text, reportingComponent="", reportingInstance="")
        return combined, kind

    def _count(self, event: Event, key: Hashable) -> Event:
        first = self._seen.get(key)
        if first is not None:
            event = structs.replace(
                event,
                metadata=first.metadata,
                count=(first.count or 1) + 1,
                firstTimestamp=first.firstTimestamp,
            )
        elif event.count is None:
            event = structs.replace(event, count=1)
        self._seen.put(key, event)
        return event

    def _admit(self, event: Event, now: float) -> bool:
        """Take a token from the bucket of this object and event type."""
        bucket = self._buckets.get_or(
            (*_subject(event), event.type), lambda: TokenBucket(1 / REFILL_SECONDS, BURST)
        )
        return bucket.take(now)
