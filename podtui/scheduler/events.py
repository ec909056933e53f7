"""The scheduler's events. A repetition increases the count of the event that it repeats."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from podtui.api.times import rfc3339_micros
from podtui.api.v1 import Event, ObjectMeta, ObjectReference
from podtui.clock import Clock
from podtui.errors import AgentUnavailable, ApiError, PodtuiError
from podtui.scheduler.api import SchedulerApi

_LOG = logging.getLogger(__name__)
FORGET_SECONDS: Final = 360.0
"""A later repetition is a new event."""
WRITE_SECONDS: Final = 60.0
"""The least time between two writes of a count, from the third event on."""
_MOST_PENDING: Final = 5000
_LONGEST_NOTE: Final = 1024
_CUT: Final = " ..."
_RETRY_SECONDS: Final = 1.0
Kind = Literal["Normal", "Warning"]


@dataclass(slots=True)
class _Series:
    event: Event
    count: int
    seen: float
    written: float
    last: datetime


_Key = tuple[str, str, ObjectReference]


class SchedulerEvents:
    """Accepts events without waiting; `run` sends them, in order."""

    def __init__(self, api: SchedulerApi, clock: Clock, component: str, host: str) -> None:
        self._api = api
        self._clock = clock
        self._component = component
        self._instance = f"{component}-{host}"
        self._series: dict[_Key, _Series] = {}
        self._pending: deque[_Series] = deque(maxlen=_MOST_PENDING)
        self._wake = asyncio.Event()
        self._last_nanos = 0

    def record(
        self, about: ObjectReference, kind: Kind, reason: str, action: str, note: str
    ) -> None:
        """Record an event. If an equal one was recorded before, that is counted instead; its text
        stays."""
        _LOG.info("%s %s %s: %s", about.name, kind, reason, note)
        now = self._clock.now().astimezone(UTC)
        self._forget()
        key = (reason, action, about)
        series = self._series.pop(key, None)
        if series is None:
            series = _Series(self._event(about, kind, reason, action, note, now), 0, 0.0, 0.0, now)
        self._series[key] = series
        series.count += 1
        series.seen, series.last = self._clock.monotonic(), now
        if series.count <= 2 or series.seen - series.written >= WRITE_SECONDS:
            series.written = series.seen
            self._pending.append(series)
            self._wake.set()

    def _event(
        self,
        about: ObjectReference,
        kind: Kind,
        reason: str,
        action: str,
        note: str,
        now: datetime,
    ) -> Event:
        if len(note) > _LONGEST_NOTE:
            note = note[: _LONGEST_NOTE - len(_CUT)] + _CUT
        nanos = max(int(now.timestamp() * 1e6) * 1000, self._last_nanos + 1)
        self._last_nanos = nanos
        return Event(
            apiVersion="v1",
            kind="Event",
            metadata=ObjectMeta(name=f"{about.name}.{nanos:x}", namespace=about.namespace),
            eventTime=_micro_time(now),
            reportingComponent=self._component,
            reportingInstance=self._instance,
            action=action,
            reason=reason,
            involvedObject=about,
            message=note,
            type=kind,
        )

    def _forget(self) -> None:
        oldest = self._clock.monotonic() - FORGET_SECONDS
        for key, series in list(self._series.items()):
            if series.seen >= oldest:
                break
            del self._series[key]

    async def run(self) -> None:
        """Send the pending events. Runs forever; while the API is away, it waits for it."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._pending:
                series = self._pending[0]
                try:
                    await self._send(series)
                except AgentUnavailable:
                    await self._clock.sleep(_RETRY_SECONDS)
                    continue
                except PodtuiError as error:
                    _LOG.warning("event %s is not recorded: %s", series.event.metadata.name, error)
                if self._pending and self._pending[0] is series:
                    self._pending.popleft()

    async def _send(self, series: _Series) -> None:
        meta = series.event.metadata
        if series.count > 1:
            last = _micro_time(series.last)
            patch = {"series": {"count": series.count, "lastObservedTime": last}}
            try:
                await self._api.patch_event(meta.namespace, meta.name, patch)
            except ApiError as error:
                if error.code != 404:
                    raise
            else:
                return
        await self._api.create_event(series.event)


def _micro_time(moment: datetime) -> str:
    """Format as a MicroTime of a whole second, the precision of the kubelet's events.

    Clients that sort by time, like ``kubectl events``, would otherwise show ``Scheduled`` after the
    kubelet's events of the same second.
    """
    return rfc3339_micros(moment.replace(microsecond=0))
