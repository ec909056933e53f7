"""Record events about pods and the node (kubelet.md §15).

Events are correlated before they are stored, to keep the number of records low: repetitions of one
event become one record with a count, many similar events are combined into one record, and the rate
of events per object is limited.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from podtui.api.names import COMPONENT
from podtui.api.pods import all_containers
from podtui.api.times import rfc3339
from podtui.api.v1 import (
    Event,
    EventSource,
    ObjectMeta,
    ObjectReference,
    PersistentVolumeClaim,
    Pod,
)
from podtui.clock import Clock
from podtui.errors import PodtuiError
from podtui.events.correlator import Correlator
from podtui.kubelet.ports import EventSink

_LOG = logging.getLogger(__name__)
NORMAL: Final = "Normal"
WARNING: Final = "Warning"
NO_ANNOTATIONS: Final[Mapping[str, str]] = {}
# Callers do not wait until an event is stored; if the queue is full, the oldest event is dropped.
QUEUE_LIMIT: Final = 5000


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

    def claim(self, claim: PersistentVolumeClaim, kind: str, reason: str, message: str) -> None:
        """Record an event about a claim."""
        reference = ObjectReference(
            apiVersion="v1",
            kind="PersistentVolumeClaim",
            name=claim.metadata.name,
            namespace=claim.metadata.namespace,
            uid=claim.metadata.uid,
        )
        self._record(reference, claim.metadata.namespace, kind, reason, message)

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
