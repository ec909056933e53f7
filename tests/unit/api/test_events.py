"""Times, counts and order of events by different components."""

from __future__ import annotations

from podtui.api.events import event_count, event_order, first_seen, last_seen
from podtui.api.v1 import Event, EventSeries, ObjectMeta, ObjectReference

WEB = ObjectReference(kind="Pod", namespace="default", name="web")
SECOND = "2026-01-02T03:04:05"
SCHEDULED = Event(
    metadata=ObjectMeta(name="web.1", namespace="default", resourceVersion="9"),
    involvedObject=WEB,
    reason="Scheduled",
    eventTime=f"{SECOND}.900000Z",
)
PULLED = Event(
    metadata=ObjectMeta(name="web.2", namespace="default", resourceVersion="10"),
    involvedObject=WEB,
    reason="Pulled",
    firstTimestamp=f"{SECOND}Z",
    lastTimestamp=f"{SECOND}Z",
    count=1,
)
REPEATED = Event(
    metadata=ObjectMeta(name="web.0", namespace="default", resourceVersion="8"),
    involvedObject=WEB,
    reason="FailedScheduling",
    eventTime="2026-01-02T03:00:00.100000Z",
    series=EventSeries(count=3, lastObservedTime="2026-01-02T03:04:04.500000Z"),
)
EVENTS = (PULLED, SCHEDULED, REPEATED)


def test_a_series_counts_and_dates_its_repetitions() -> None:
    assert event_count(REPEATED) == 3
    assert first_seen(REPEATED) == "2026-01-02T03:00:00.100000Z"
    assert last_seen(REPEATED) == "2026-01-02T03:04:04.500000Z"
    assert event_count(SCHEDULED) == 1
    assert first_seen(Event(metadata=ObjectMeta(), involvedObject=WEB)) == ""


def test_scheduled_comes_before_the_kubelets_events_of_the_same_second() -> None:
    assert [one.reason for one in sorted(EVENTS, key=event_order)] == [
        "FailedScheduling",
        "Scheduled",
        "Pulled",
    ]
