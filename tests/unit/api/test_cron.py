"""Cron schedules: which texts are schedules, and their times."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from podtui.api.cron import CronError, find_zone, parse_schedule

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")


def times(text: str, start: str, count: int = 3, zone: ZoneInfo = BERLIN) -> list[str]:
    """Return the next times on the clocks of the zone."""
    schedule = parse_schedule(text)
    moment = datetime.fromisoformat(start)
    found: list[str] = []
    for _ in range(count):
        following = schedule.following(moment, zone)
        if following is None:
            break
        assert following.tzinfo is moment.tzinfo
        found.append(following.astimezone(zone).strftime("%m-%d %H:%M %Z"))
        moment = following
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/20 * * * *", ["06-01 12:20 CEST", "06-01 12:40 CEST", "06-01 13:00 CEST"]),
        ("5/25 12 * * *", ["06-01 12:05 CEST", "06-01 12:30 CEST", "06-01 12:55 CEST"]),
        ("0 0 * * mon-wed", ["06-02 00:00 CEST", "06-03 00:00 CEST", "06-08 00:00 CEST"]),
        ("0 6 1 JAN,mar *", ["01-01 06:00 CET", "03-01 06:00 CET", "01-01 06:00 CET"]),
        # With both days, one of them has to match; a star is no restriction, a step is one.
        ("0 0 13 * fri", ["06-05 00:00 CEST", "06-12 00:00 CEST", "06-13 00:00 CEST"]),
        ("0 0 ? * fri", ["06-05 00:00 CEST", "06-12 00:00 CEST", "06-19 00:00 CEST"]),
        ("0 0 */30 * fri", ["06-05 00:00 CEST", "06-12 00:00 CEST", "06-19 00:00 CEST"]),
        ("@monthly", ["07-01 00:00 CEST", "08-01 00:00 CEST", "09-01 00:00 CEST"]),
        ("@every 1h30m", ["06-01 13:30 CEST", "06-01 15:00 CEST", "06-01 16:30 CEST"]),
        ("@every 1ms", ["06-01 12:00 CEST", "06-01 12:00 CEST", "06-01 12:00 CEST"]),
        ("TZ=UTC 0 0 * * *", ["06-02 02:00 CEST", "06-03 02:00 CEST", "06-04 02:00 CEST"]),
        ("0 0 30 2 *", []),
        (", * * * *", []),
    ],
)
def test_times(text: str, expected: list[str]) -> None:
    assert times(text, "2026-06-01T10:00:00+00:00") == expected


def test_leap_days_are_found() -> None:
    assert times("0 0 29 2 *", "2026-06-01T10:00:00+00:00", 1) == ["02-29 00:00 CET"]


def test_an_hour_that_clocks_skip_has_no_times_and_one_that_they_repeat_has_two() -> None:
    assert times("30 2 * * *", "2026-03-28T12:00:00+00:00", 2) == [
        "03-30 02:30 CEST",
        "03-31 02:30 CEST",
    ]
    assert times("30 2 * * *", "2026-10-24T12:00:00+00:00") == [
        "10-25 02:30 CEST",
        "10-25 02:30 CET",
        "10-26 02:30 CET",
    ]
    assert times("0 */12 * * *", "2026-03-07T20:00:00+00:00", 3, NEW_YORK) == [
        "03-08 00:00 EST",
        "03-08 12:00 EDT",
        "03-09 00:00 EDT",
    ]


def test_the_next_time_is_later_than_the_moment() -> None:
    schedule = parse_schedule("* * * * *")
    for second in (0, 1, 59):
        moment = datetime(2026, 1, 1, 12, 0, second, 500, tzinfo=UTC)
        assert schedule.following(moment) == datetime(2026, 1, 1, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "empty spec string"),
        ("every day", "expected exactly 5 fields, found 2: [every day]"),
        ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
        ("61 * * * *", "end of range (61) above maximum (59): 61"),
        ("* * * * 7", "end of range (7) above maximum (6): 7"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
        ("1/2/3 * * * *", "too many slashes: 1/2/3"),
        ("L * * * *", 'failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax'),
        ("+-5 * * * *", 'failed to parse int from +: strconv.Atoi: parsing "+": invalid syntax'),
        ("@noon", "unrecognized descriptor: @noon"),
        ("@every", "unrecognized descriptor: @every"),
        (
            "@every 5",
            'failed to parse duration @every 5: time: missing unit in duration "5"',
        ),
        (
            "@every 5q",
            'failed to parse duration @every 5q: time: unknown unit "q" in duration "5q"',
        ),
        ("@every soon", 'failed to parse duration @every soon: time: invalid duration "soon"'),
        ("TZ=Mars 0 0 * * *", "provided bad location Mars: unknown time zone Mars"),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(CronError) as raised:
        parse_schedule(text)
    assert str(raised.value) == error


def test_zones() -> None:
    assert find_zone("Europe/Berlin") == BERLIN
    for name in ("Nowhere/City", "../etc/passwd", "Europe", "a\0b", "/etc/localtime"):
        assert find_zone(name) is None
