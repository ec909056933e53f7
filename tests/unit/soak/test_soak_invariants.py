"""Which events may be gone after a fault."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from soak.invariants import Snapshot, lost_events

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def snapshot(**events: datetime) -> Snapshot:
    return Snapshot(apps={}, records={}, events=events, version=1, log_size=0)


@pytest.mark.parametrize(("minutes", "lost"), [(0, ["gone"]), (59, ["gone"]), (60, []), (90, [])])
def test_events_expire_after_an_hour(minutes: int, lost: list[str]) -> None:
    last = NOW - timedelta(minutes=minutes)
    before = snapshot(gone=last, stays=last)
    assert lost_events(before, snapshot(stays=last), NOW) == lost
