"""Events of the components that work on the records, without the API."""

from __future__ import annotations

import logging
from typing import Final

from podtui.api.objects import Object
from podtui.api.times import rfc3339
from podtui.api.v1 import Event, EventSource, ObjectMeta, ObjectReference
from podtui.clock import Clock
from podtui.server.resources.field_managers import CONTROLLER_MANAGER, managed
from podtui.store.protocol import Records

_LOG = logging.getLogger(__name__)
NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class ComponentEvents:
    """``component`` is the source, such as ``node-controller``."""

    def __init__(self, records: Records, clock: Clock, component: str) -> None:
        self._records = records
        self._clock = clock
        self._component = component
        self._last_nanos = 0

    async def record(
        self, item: Object, reason: str, message: str, *, event_type: str = NORMAL
    ) -> None:
        """Record an event about a pod or a node."""
        meta, now = item.metadata, self._clock.now()
        # Events about one object in the same instant need different names.
        self._last_nanos = max(int(now.timestamp() * 1e6) * 1000, self._last_nanos + 1)
        _LOG.info("%s %s: %s", meta.name, reason, message)
        event = Event(
            metadata=ObjectMeta(
                name=f"{meta.name}.{self._last_nanos:x}", namespace=meta.namespace or "default"
            ),
            involvedObject=ObjectReference(
                apiVersion="v1",
                kind=type(item).__name__,
                name=meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
            ),
            reason=reason,
            message=message,
            type=event_type,
            source=EventSource(component=self._component),
            reportingComponent=self._component,
            firstTimestamp=rfc3339(now),
            lastTimestamp=rfc3339(now),
            count=1,
        )
        event = managed(event, None, manager=CONTROLLER_MANAGER, now=rfc3339(now))
        await self._records.put("events", event)
