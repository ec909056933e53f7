from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podtui.tui.views.logs.line_buffer import LineBuffer
from podtui.tui.views.logs.times import (
    SECOND,
    Times,
    between,
    clock,
    event_time,
    parse_stamp,
    rfc3339,
    shown_time,
    split_lines,
)
from podtui.tui.widgets.cells import width_of

NOON = 1795262400 * SECOND


@pytest.mark.parametrize(
    ("stamp", "nanoseconds"),
    [
        (b"2026-11-21T12:00:00Z", NOON),
        (b"2026-11-21T12:00:00.5Z", NOON + SECOND // 2),
        (b"2026-11-21T12:00:00.123456789Z", NOON + 123456789),
        (b"2026-11-21T14:00:00.000000001+02:00", NOON + 1),
        (b"2026-11-21T07:30:00-04:30", NOON),
        (b"2026-13-21T12:00:00Z", 0),
        (b"2026-11-21T12:00:00", 0),
        (b"2026-11-21T12:00:00.xZ", 0),
        (b"", 0),
    ],
)
def test_stamps(stamp: bytes, nanoseconds: int) -> None:
    assert parse_stamp(stamp) == nanoseconds


@given(st.integers(0, 4 * 10**18))
def test_times_round_trip(moment: int) -> None:
    assert parse_stamp(rfc3339(moment).encode()) == moment or moment == 0


@pytest.mark.parametrize("year", ["0001", "1600", "2400", "9999"])
@pytest.mark.parametrize("zone", ["Z", ".5Z", "+01:00"])
def test_a_time_out_of_range_is_none(year: str, zone: str) -> None:
    """A server may send any time; the view must not fail."""
    stamp = f"{year}-11-21T12:00:00{zone}".encode()
    assert parse_stamp(stamp) == 0
    buffer = LineBuffer()
    stamps, texts = split_lines([stamp + b" x"], NOON)
    buffer.append(texts, stamps)
    assert buffer.stamp(0) == NOON


def test_parts_of_long_lines_keep_the_time() -> None:
    lines = [
        b"2026-11-21T12:00:00Z a b",
        b"rest of it",
        b"2026-11-21T12:00:01Z ",
        b"xxxx-xx-xxTx y",
    ]
    assert split_lines(lines, 7) == (
        [NOON, NOON, NOON + SECOND, NOON + SECOND],
        [b"a b", b"rest of it", b"", b"xxxx-xx-xxTx y"],
    )
    assert split_lines([b"no time"], 7) == ([7], [b"no time"])


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "+0.000s"), (12_000_000, "+0.012s"), (-SECOND, "-1.000s"), (34_560_000_000, "+34.6s"),
        (1200 * SECOND, "+20m"), (3 * 86400 * SECOND, "+3d"),
    ],
)  # fmt: skip
def test_the_time_between_lines(nanoseconds: int, text: str) -> None:
    assert between(nanoseconds) == text


STARTS = (b"2026-11-21T07:08:09", b"2026-11-21T07:08:10", b"2026-13-21T07:08:10", b"x", b"")
FRACTIONS = (
    b".123456789Z ", b".1Z ", b"Z ", b".123456789+01:00 ", b".000000000Z ", b".12345678xZ ",
    b" 23456789Z ", b"Z23456789Z ", b".+12345678Z ", b".123456789Z", b"",
)  # fmt: skip
LINES = st.builds(
    lambda *parts: b"".join(parts),
    st.sampled_from(STARTS),
    st.sampled_from(FRACTIONS),
    st.sampled_from((b"hello", b"", b" a b")),
)


@given(st.lists(LINES, max_size=8))
@example([b"2026-13-21T07:08:10.123456789Z a", b"2026-13-21T07:08:10.123456789Z b"])
@example([b"2026-11-21T07:08:09.1Z a", b"2026-11-21T07:08:09.123456789Z b"])
@example([b"2026-11-21T07:08:09.123456789+01:00 a", b"2026-11-21T07:08:09.123456789Z b"])
def test_lines_are_split_together_as_alone(lines: list[bytes]) -> None:
    stamps: list[int] = []
    texts: list[bytes] = []
    last = 5
    for line in lines:
        (last,), (text,) = split_lines([line], last)
        stamps.append(last)
        texts.append(text)
    assert split_lines(lines, 5) == (stamps, texts)


@given(st.integers(-(10**19), 10**19))
def test_times_fit_their_column(nanoseconds: int) -> None:
    assert width_of(between(nanoseconds)) < Times.BETWEEN.width


def test_three_ways_to_show_a_time() -> None:
    moment, above, now = NOON + 5 * SECOND, NOON, NOON / SECOND + 65
    assert shown_time(Times.OFF, moment, above, now) == ""
    assert shown_time(Times.ABSOLUTE, moment, above, now) == "12:00:05.000"
    assert shown_time(Times.RELATIVE, moment, above, now) == "60s"
    assert shown_time(Times.BETWEEN, moment, above, now) == "+5.000s"
    assert shown_time(Times.BETWEEN, moment, 0, now) == ""
    assert clock(0) == rfc3339(0) == ""
    assert Times.BETWEEN.next is Times.OFF


def test_the_time_of_an_event_is_in_whole_seconds() -> None:
    moment, now = NOON + 5 * SECOND, NOON / SECOND + 65
    assert event_time(Times.ABSOLUTE, moment, now) == "12:00:05"
    assert event_time(Times.RELATIVE, moment, now) == "60s"
    assert event_time(Times.BETWEEN, moment, now) == event_time(Times.OFF, moment, now) == ""
