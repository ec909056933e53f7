"""The scheduler's events: counted repetitions, truncation, and retries of writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from scheduler_api import FakeApi
from virtual_time import VirtualClock

from podtui.api.v1 import ObjectReference
from podtui.scheduler.events import SchedulerEvents

pytestmark = pytest.mark.virtual_time
WEB = ObjectReference(kind="Pod", namespace="default", name="web", uid="u", resourceVersion="1")


@asynccontextmanager
async def events_of(api: FakeApi) -> AsyncGenerator[SchedulerEvents]:
    events = SchedulerEvents(api, VirtualClock(), "default-scheduler", "vm")
    async with asyncio.TaskGroup() as group:
        task = group.create_task(events.run())
        yield events
        task.cancel()


def failed(events: SchedulerEvents, text: str = "no room", about: ObjectReference = WEB) -> None:
    events.record(about, "Warning", "FailedScheduling", "Scheduling", text)


def counts(api: FakeApi) -> list[int]:
    return [event.series.count or 0 if event.series else 1 for event in api.events]


async def test_repetitions_are_counted_and_written_rarely() -> None:
    api = FakeApi()
    async with events_of(api) as events:
        for text in ("no room", "still none", "none", "none"):
            failed(events, text)
            await asyncio.sleep(1)
        assert counts(api) == [2]
        assert api.notes("FailedScheduling") == ["no room"]
        await asyncio.sleep(60)
        failed(events)
        await asyncio.sleep(1)
        assert counts(api) == [5]


async def test_an_event_about_another_version_of_the_pod_is_a_new_one() -> None:
    api = FakeApi()
    async with events_of(api) as events:
        failed(events)
        failed(events, about=ObjectReference(kind="Pod", name="web", resourceVersion="2"))
        await asyncio.sleep(1)
        assert counts(api) == [1, 1]
        assert len({event.metadata.name for event in api.events}) == 2


async def test_a_late_repetition_is_a_new_event() -> None:
    api = FakeApi()
    async with events_of(api) as events:
        failed(events)
        await asyncio.sleep(400)
        failed(events)
        await asyncio.sleep(1)
        assert counts(api) == [1, 1]


async def test_a_counted_event_that_has_expired_is_written_again() -> None:
    api = FakeApi()
    async with events_of(api) as events:
        failed(events)
        await asyncio.sleep(1)
        api.events.clear()
        failed(events)
        await asyncio.sleep(1)
        assert api.notes("FailedScheduling") == ["no room"]


async def test_events_wait_for_the_api() -> None:
    api = FakeApi()
    api.down = True
    async with events_of(api) as events:
        failed(events)
        await asyncio.sleep(30)
        assert api.events == []
        api.down = False
        await asyncio.sleep(2)
        assert counts(api) == [1]


async def test_a_long_message_is_truncated() -> None:
    api = FakeApi()
    async with events_of(api) as events:
        failed(events, "x" * 2000)
        await asyncio.sleep(1)
        (text,) = api.notes("FailedScheduling")
        assert len(text) == 1024
        assert text.endswith("x ...")


async def test_times_have_the_precision_of_the_kubelets_events() -> None:
    """``kubectl events`` sorts by them: a fraction would put ``Scheduled`` after ``Pulled``."""
    api = FakeApi()
    async with events_of(api) as events:
        await asyncio.sleep(0.7)
        failed(events)
        failed(events)
        await asyncio.sleep(1)
    (event,) = api.events
    assert event.series is not None
    for time in (event.eventTime, event.series.lastObservedTime):
        assert time is not None
        assert time.endswith(".000000Z")
