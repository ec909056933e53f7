"""Event correlation."""

from __future__ import annotations

from msgspec import structs

from podtui.api.v1 import Event, EventSource, ObjectMeta, ObjectReference
from podtui.events.correlator import Correlator


def event(
    message: str = "m",
    *,
    reason: str = "BackOff",
    kind: str = "Warning",
    number: int = 0,
    field_path: str = "spec.containers{c}",
    name: str = "web-n1",
) -> Event:
    stamp = f"2026-01-02T03:{number // 60:02}:{number % 60:02}Z"
    return Event(
        metadata=ObjectMeta(name=f"{name}.{number:x}", namespace="default"),
        involvedObject=ObjectReference(
            kind="Pod", namespace="default", name=name, uid="u1", fieldPath=field_path
        ),
        source=EventSource(component="kubelet", host="n1"),
        reason=reason,
        message=message,
        type=kind,
        firstTimestamp=stamp,
        lastTimestamp=stamp,
        count=1,
    )


def test_a_first_event_is_unchanged():
    assert Correlator().observe(event(), 0) == event()


def test_case_96_identical_events_increase_the_count():
    correlator = Correlator()
    correlator.observe(event(number=1), 0)
    again = correlator.observe(event(number=9), 5)
    assert again is not None
    assert again.metadata.name == "web-n1.1"
    assert again.count == 2
    assert again.firstTimestamp == "2026-01-02T03:00:01Z"
    assert again.lastTimestamp == "2026-01-02T03:00:09Z"
    third = correlator.observe(event(number=12), 6)
    assert third is not None
    assert third.count == 3


def test_other_field_paths_and_reasons_are_other_events():
    correlator = Correlator()
    for number, one in enumerate(
        (
            event(),
            event(field_path="spec.containers{d}"),
            event(reason="Failed"),
            event("other"),
            event(name="db-n1"),
            event(kind="Normal"),
        )
    ):
        found = correlator.observe(structs.replace(one), float(number))
        assert found is not None
        assert found.count == 1


def test_case_96_no_more_than_25_and_then_one_in_five_minutes():
    correlator = Correlator()
    kept = [
        correlator.observe(event(f"m{number}", reason=f"R{number}", number=number), number * 2.0)
        for number in range(30)
    ]
    assert sum(one is not None for one in kept) == 25
    assert all(one is not None for one in kept[:25])
    # The bucket began to fill at the first event.
    assert correlator.observe(event("late", reason="L1", number=40), 299) is None
    assert correlator.observe(event("late", reason="L2", number=41), 300) is not None
    assert correlator.observe(event("late", reason="L3", number=42), 301) is None
    assert correlator.observe(event("late", reason="L4", number=43), 600) is not None


def test_types_and_objects_have_separate_buckets():
    correlator = Correlator()
    for number in range(30):
        correlator.observe(event(f"m{number}", reason=f"R{number}"), 0)
    assert correlator.observe(event("x", reason="X"), 0) is None
    assert correlator.observe(event("x", reason="X", kind="Normal"), 0) is not None
    assert correlator.observe(event("x", reason="X", name="db-n1"), 0) is not None


def test_repetitions_use_the_bucket_and_are_counted():
    correlator = Correlator()
    kept = [correlator.observe(event(number=number), 0) for number in range(30)]
    assert sum(one is not None for one in kept) == 25
    late = correlator.observe(event(number=59), 300)
    assert late is not None
    assert late.count == 31


def test_ten_different_messages_of_a_kind_become_one_event():
    correlator = Correlator()
    found = [
        correlator.observe(event(f"probe failed {number}", number=number), float(number))
        for number in range(12)
    ]
    assert [one.message for one in found[:9] if one] == [f"probe failed {n}" for n in range(9)]
    tenth, eleventh, twelfth = found[9:]
    assert tenth is not None
    assert eleventh is not None
    assert twelfth is not None
    assert tenth.message == "(combined from similar events): probe failed 9"
    assert tenth.count == 1
    assert (tenth.reportingComponent, tenth.source) == ("", found[0].source if found[0] else None)
    assert eleventh.metadata.name == twelfth.metadata.name == tenth.metadata.name
    assert eleventh.message == "(combined from similar events): probe failed 10"
    assert twelfth.count == 3


def test_combining_ends_after_ten_quiet_minutes():
    correlator = Correlator()
    for number in range(10):
        correlator.observe(event(f"m{number}", number=number), float(number))
    later = correlator.observe(event("fresh", number=50), 9 + 601)
    assert later is not None
    assert later.message == "fresh"


def test_the_cache_is_bounded():
    correlator = Correlator(limit=8)
    for number in range(100):
        correlator.observe(event("m", name=f"pod{number}"), 0)
    first = correlator.observe(event("m", name="pod0", number=7), 1)
    recent = correlator.observe(event("m", name="pod99", number=8), 1)
    assert first is not None
    assert first.count == 1
    assert recent is not None
    assert recent.count == 2
