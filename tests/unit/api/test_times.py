"""Times in the API's format."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from podtui.api.times import parse_time, rfc3339, rfc3339_micros

EAST = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(1, 2, 3, 4, 5, 6, 7, UTC), "0001-02-03T04:05:06.000007Z"),
        (datetime(999, 12, 31, 23, 59, 59, 0, UTC), "0999-12-31T23:59:59.000000Z"),
        (
            datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
            "2026-01-01T00:00:00.000000Z",
        ),
    ],
)
def test_years_have_four_digits(moment: datetime, text: str) -> None:
    assert rfc3339_micros(moment) == text
    assert rfc3339(moment) == f"{text[:19]}Z"
    assert parse_time(text) == moment
