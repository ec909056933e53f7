"""The events of the controllers. They are correlated as the kubelet's are, and sent in order."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Literal

from podtui.api.objects import Object
from podtui.api.times import rfc3339
from podtui.api.v1 import Event, EventSource, ObjectMeta, ObjectReference
from podtui.client.api_client import ApiClient
from podtui.client.decoding import kind_of
from podtui.clock import Clock
from podtui.errors import AgentUnavailable, ApiError, PodtuiError
from podtui.events.correlator import Correlator

_LOG = logging.getLogger(__name__)
_MAX_PENDING: Final = 5000
_MAX_MESSAGE: Final = 1024
_RETRY_SECONDS: Final = 1.0
EventType = Literal["Normal", "Warning"]


def reference(item: Object) -> ObjectReference:
    """Return a reference to an object, as events have it."""
    meta, kind = item.metadata, kind_of(type(item))
    return ObjectReference(
        apiVersion=kind.api_version,
        kind=type(item).__name__,
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        resourceVersion=meta.resourceVersion,
    )


class ControllerEvents:
    """Accepts events without waiting; `run` sends them."""

    def __init__(self, client: ApiClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._correlator = Correlator()
        self._pending: dict[str, Event] = {}
        self._wake = asyncio.Event()
        self._last_nanos = 0

    def record(
        self, component: str, item: Object, event_type: EventType, reason: str, message: str
    ) -> None:
        """Record an event of a controller, such as ``deployment-controller``, about an object."""
        now = self._clock.now()
        about = reference(item)
        nanos = max(int(now.timestamp() * 1e6) * 1000, self._last_nanos + 1)
        self._last_nanos = nanos
        event = Event(
            metadata=ObjectMeta(
                name=f"{about.name}.{nanos:x}", namespace=about.namespace or "default"
            ),
            involvedObject=about,
            reason=reason,
            message=message[:_MAX_MESSAGE],
            type=event_type,
            source=EventSource(component=component),
            reportingComponent=component,
            firstTimestamp=rfc3339(now),
            lastTimestamp=rfc3339(now),
            count=1,
        )
        _LOG.info("%s %s %s: %s", about.kind, about.name, reason, message)
        correlated = self._correlator.observe(event, self._clock.monotonic())
        if correlated is None:
            return
        if len(self._pending) >= _MAX_PENDING:
            del self._pending[next(iter(self._pending))]
        # A repetition replaces the event that it repeats if that is not sent yet.
        self._pending[correlated.metadata.name] = correlated
        self._wake.set()

    async def run(self) -> None:
        """Send the pending events. Runs forever; while the API is away, it waits for it."""
        while True:
            self._wake.clear()
            while self._pending:
                name = next(iter(self._pending))
                event = self._pending[name]
                try:
                    await self._send(event)
                except AgentUnavailable:
                    await self._clock.sleep(_RETRY_SECONDS)
                    continue
                except PodtuiError as error:
                    _LOG.warning("event %s is not recorded: %s", name, error)
                if self._pending.get(name) is event:
                    del self._pending[name]
            await self._wake.wait()

    async def _send(self, event: Event) -> None:
        meta = event.metadata
        if (event.count or 1) > 1:
            patch = {
                "count": event.count,
                "lastTimestamp": event.lastTimestamp,
                "message": event.message,
            }
            try:
                await self._client.patch(Event, meta.namespace, meta.name, patch)
            except ApiError as error:
                if error.code != 404:
                    raise
            else:
                return
        await self._client.create(Event, event)
