"""The number of composed rows and drawn lines, which determines the cost of an idle screen."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from recorded_calls import record_calls
from tui_scene import pod, status

from podtui.api.times import short_duration, short_duration_until
from podtui.tui.model.usage import Usage
from podtui.tui.views.pods.rows import measured_row, pod_row, requests_and_limits
from podtui.tui.widgets import table_lines
from podtui.tui.widgets.cells import Cell, Column, Fitted, Row
from podtui.tui.widgets.table_lines import DrawnRows, valid_until

COLUMNS = (Column("name", "NAME", 100), Column("n", "RESTARTS", 70), Column("age", "AGE", 80))
FITTED = (Fitted(0, 4, False), Fitted(1, 12, False), Fitted(2, 5, False))


def row(name: str = "web", *, restarts: Cell | None = None, since: float = 0.0) -> Row:
    return Row("k", (Cell(name), restarts or Cell("0"), Cell("", since=since)), ("",) * 3)


def drawn(width: int = 30) -> DrawnRows:
    rows = DrawnRows(COLUMNS)
    rows.set_layout(FITTED, width)
    return rows


@example(157679999.99999988)
@given(st.floats(-10, 20 * 365 * 86400))
def test_the_next_change_of_an_age_is_predicted(seconds: float) -> None:
    until = short_duration_until(seconds)
    assert until > seconds or seconds == -2
    words = short_duration(seconds)
    for part in (0.0, 0.5, 0.999):
        # Rounding may make a sum close to the end equal to it.
        before = min(seconds + part * (until - seconds), math.nextafter(until, -math.inf))
        assert short_duration(before) == words


def test_the_next_update_of_a_row_is_that_of_its_shown_ages() -> None:
    old = row(restarts=Cell("3", since=9995.0), since=0.0)
    assert valid_until(old, FITTED, 10_000.0) == 10_001.0
    short = (FITTED[0], Fitted(1, 4, True), FITTED[2])
    assert valid_until(old, short, 10_000.0) == 10_020.0, "an age that is left out"


def test_an_unchanged_row_is_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, web = drawn(), row()
    composed = record_calls(monkeypatch, table_lines, "row_line")
    first = rows.line(web, 1000.0, marked=False)
    assert rows.change(web, 1010.0, marked=False) is None
    assert rows.line(web, 1010.0, marked=False) is first
    assert composed == [web]
    assert rows.change(web, 1020.0, marked=False) == (20, 25), "the minute is another"
    assert composed == [web, web]
    assert rows.change(web, 1000.0, marked=False) == (20, 25), "and when the clock goes back"


def test_changes_are_reported_by_cell() -> None:
    rows = drawn()
    rows.line(row(), 1000.0, marked=False)
    assert rows.change(row("api"), 1000.0, marked=False) == (0, 4)
    assert rows.change(row("api"), 1000.0, marked=False) is None, "an equal row"
    marked = row("api")
    assert rows.change(marked, 1000.0, marked=True) is None, "no cell of it has a name's tone"


def test_removed_columns_and_rows_leave_no_cache() -> None:
    rows = drawn()
    rows.line(row(), 1000.0, marked=False)
    assert not rows.set_layout(FITTED, 30)
    assert rows.set_layout(FITTED[:2], 30)
    assert rows.change(row(), 1000.0, marked=False) == (0, 30)
    rows.forget(["k"])
    assert rows.change(row(), 1000.0, marked=False) == (0, 30)


def test_a_row_with_new_usage_equals_a_new_row() -> None:
    web = pod("web", status(), uid="u")
    use = Usage(cpu=250, memory=64 << 20)
    before = pod_row(web, None, now=0.0)
    assert (
        measured_row(before, use, requests_and_limits(web)) == pod_row(web, use, now=0.0) != before
    )
