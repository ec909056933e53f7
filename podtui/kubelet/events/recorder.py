"""Record events about pods and the node (kubelet.md §15).

Events are correlated before they are stored, to keep the number of records low: repetitions of one
event become one record with a count, many similar events are combined into one record, and the rate
of events per object is limited.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Generic, TypeVar

from msgspec import structs

from podtui.api.names import COMPONENT
from podtui.api.pods import all_containers
from podtui.api.times import rfc3339
from podtui.api.v1 import Event, EventSource, ObjectMeta, ObjectReference, Pod
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.kubelet.backoff import TokenBucket
from podtui.kubelet.ports import EventSink

_LOG = logging.getLogger(__name__)
NORMAL: Final = "Normal"
WARNING: Final = "Warning"
NO_ANNOTATIONS: Final[Mapping[str, str]] = {}
# Callers do not wait until an event is stored; if the queue is full, the oldest event is dropped.
QUEUE_LIMIT: Final = 5000
CACHE_LIMIT: Final = 4096
BURST: Final = 25
REFILL_SECONDS: Final = 300.0
SIMILAR_LIMIT: Final = 10
SIMILAR_SECONDS: Final = 600.0
COMBINED: Final = "(combined from similar events): "
V = TypeVar("V")


def field_path(pod: Pod, name: str) -> str:
    """Return ``spec.containers{NAME}``, empty for a container that is not in the spec."""
    return next((path for path, container in all_containers(pod) if container.name == name), "")


class EventRecorder:
    """Accepts events without blocking, in order; `run` stores them. The record store expires
    them."""

    def __init__(self, events: EventSink, clock: Clock, node_name: str) -> None:
        self._events = events
        self._clock = clock
        self._source = EventSource(component=COMPONENT, host=node_name)
        self._node_name = node_name
        self._correlator = Correlator()
        self._pending: dict[str, Event] = {}
        self._wake = asyncio.Event()
        self._last_nanos = 0
        self.dropped = 0

    def pod(
        self,
        pod: Pod,
        kind: str,
        reason: str,
        message: str,
        field_path: str = "",
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        """Record an event about a pod or, with ``field_path``, about one of its containers."""
        reference = ObjectReference(
            apiVersion="v1",
            kind="Pod",
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            uid=pod.metadata.uid,
            fieldPath=field_path,
        )
        self._record(reference, pod.metadata.namespace, kind, reason, message, annotations)

    def node(self, kind: str, reason: str, message: str) -> None:
        """Record an event about this node."""
        reference = ObjectReference(apiVersion="v1", kind="Node", name=self._node_name)
        self._record(reference, "default", kind, reason, message)

    def _record(
        self,
        reference: ObjectReference,
        namespace: str,
        kind: str,
        reason: str,
        message: str,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
    ) -> None:
        now = self._clock.now()
        stamp = rfc3339(now)
        event = Event(
            apiVersion="v1",
            kind="Event",
            metadata=ObjectMeta(
                name=f"{reference.name}.{self._nanos(now):x}",
                namespace=namespace,
                annotations=dict(annotations),
                creationTimestamp=stamp,
            ),
            involvedObject=reference,
            reason=reason,
            message=message,
            type=kind,
            source=self._source,
            reportingComponent=COMPONENT,
            reportingInstance=self._node_name,
            firstTimestamp=stamp,
            lastTimestamp=stamp,
            count=1,
        )
        _LOG.info("%s %s %s: %s", reference.name, kind, reason, message)
        correlated = self._correlator.observe(event, self._clock.monotonic())
        if correlated is None:
            return
        if len(self._pending) >= QUEUE_LIMIT:
            del self._pending[next(iter(self._pending))]
            self.dropped += 1
        # A repetition replaces the event that it repeats if that is not stored yet.
        self._pending[correlated.metadata.name] = correlated
        self._wake.set()

    def _nanos(self, now: datetime) -> int:
        """Return a unique timestamp in nanoseconds since the epoch."""
        nanos = int(now.timestamp() * 1e6) * 1000
        self._last_nanos = max(nanos, self._last_nanos + 1)
        return self._last_nanos

    async def run(self) -> None:
        """Store pending events. Runs forever."""
        while True:
            await self.drain()
            await self._wake.wait()
            self._wake.clear()

    async def drain(self) -> None:
        """Store the pending events now."""
        while self._pending:
            event = self._pending.pop(next(iter(self._pending)))
            try:
                await self._events.put(event)
            except PodtuiError as error:
                _LOG.warning("cannot record event %s: %s", event.metadata.name, error)
            except Exception:
                self._pending.setdefault(event.metadata.name, event)
                raise


# --- correlation


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
        return structs.replace(event, message=COMBINED + event.message), kind

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
