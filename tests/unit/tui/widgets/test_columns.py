from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.geometry import Size

from podtui.tui.views.events import EVENT_COLUMNS
from podtui.tui.views.pods.rows import POD_COLUMNS
from podtui.tui.widgets.cells import Cell, Column, Fitted, Row, Span, Visibility, fit
from podtui.tui.widgets.columns import ColumnChoice
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.table_lines import (
    cell_text,
    changed_cells,
    gutter,
    plain_text,
    row_line,
    title_spans,
)

COLUMNS = (
    Column("space", "SPACE", 50, shown=Visibility.WIDE),
    Column("name", "NAME", 100),
    Column("age", "AGE", 80, align="right"),
    Column("labels", "LABELS", 10, shown=Visibility.ON_REQUEST),
)


def keys(choice: ColumnChoice, sort: int | None = None) -> list[str]:
    return [COLUMNS[index].key for index in choice.shown(COLUMNS, sort)]


def test_initial_wide_and_selected_columns() -> None:
    assert keys(ColumnChoice()) == ["name", "age"]
    assert keys(ColumnChoice(wide=True)) == ["space", "name", "age"]
    assert keys(ColumnChoice(("labels", "age"))) == ["name", "age", "labels"], "names stay"
    assert keys(ColumnChoice(("age",), wide=True)) == ["space", "name", "age"]
    assert keys(ColumnChoice(("gone",))) == ["name"]


def test_the_sort_column_is_shown() -> None:
    assert keys(ColumnChoice(), 3) == ["name", "age", "labels"]


def test_selection_starts_from_the_shown_columns() -> None:
    assert ColumnChoice().toggled("labels", COLUMNS).chosen == ("name", "age", "labels")
    assert ColumnChoice().toggled("age", COLUMNS).chosen == ("name",)
    assert ColumnChoice(wide=True).toggled("age", COLUMNS) == ColumnChoice(("space", "name"))


ROW = Row("k", (Cell("s"), Cell("漢字", "name"), Cell("", since=0.0), Cell("a=b")), ("",) * 4)
BROKEN = Row("b", (Cell(), Cell("x.yaml"), Cell(), Cell()), ("",) * 4,
             tail=Span("line 3 is wrong"), tail_from=2)  # fmt: skip
FITTED = (Fitted(1, 6, False), Fitted(2, 5, False))


def test_a_row_and_its_titles_have_the_same_columns() -> None:
    titles = [span.text for span in title_spans(COLUMNS, FITTED, 1, descending=True)]
    assert titles == ["NAME↓ ", "  AGE"]
    line = row_line(ROW, COLUMNS, FITTED, now=60, width=20, marked=False)
    assert "".join(span.text for span in line) == "漢字      60s  "


def test_a_mark_shows_without_colour_and_beside_the_cursor() -> None:
    signs = {gutter(cursor=c, marked=m).text for c in (True, False) for m in (True, False)}
    assert len(signs) == 4


def test_the_whole_table_as_text() -> None:
    assert plain_text([ROW, BROKEN], COLUMNS, (1, 2, 3), 60) == (
        "NAME    AGE  LABELS\n"
        "漢字    60s  a=b\n"
        "x.yaml  line 3 is wrong\n"
    )  # fmt: skip


def test_a_copied_cell_has_no_symbol() -> None:
    assert cell_text(Cell("✖ CrashLoopBackOff"), 0) == "CrashLoopBackOff"
    assert cell_text(Cell("4", since=0.0), 12) == "4 (12s ago)"
    assert cell_text(Cell("web-n1"), 0) == "web-n1"
    assert cell_text(Cell("a b"), 0) == "a b"


def spans(*texts: str) -> tuple[Span, ...]:
    return tuple(Span(text) for text in texts)


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (spans("web ", "Running ", "9s "), None),
        (spans("web ", "Running ", "10s"), (12, 15)),
        (spans("web ", "Stopped ", "10s"), (4, 15)),
        (spans("db  ", "Running ", "9s "), (0, 4)),
        (spans("web ", "日本", "9s "), (4, 15)),
        (spans("web ", "Running "), (0, 15)),
        ((Span("web ", "error"), *spans("Running ", "9s ")), (0, 4)),
    ],
)
def test_only_changed_cells_are_drawn(
    after: tuple[Span, ...], found: tuple[int, int] | None
) -> None:
    assert changed_cells(spans("web ", "Running ", "9s "), after) == found


def test_a_column_reserves_width_for_usual_values() -> None:
    columns = (Column("name", "NAME", 100), Column("status", "STATUS", 90, usual_width=19),
               Column("age", "AGE", 80))  # fmt: skip
    natural, longer = (5, 9, 3), (5, 19, 3)
    assert fit(columns, natural, natural, 60) == fit(columns, longer, longer, 60)
    narrow = fit(columns, natural, natural, 24)
    assert [fitted.index for fitted in narrow] == [0, 1, 2]
    assert narrow[1].width < 19


@pytest.mark.parametrize(
    ("available", "widths"),
    [
        (130, {"seen": 5, "reason": 25, "object": 20, "message": 74}),
        (76, {"seen": 5, "reason": 16, "object": 16, "message": 33}),
        (56, {"seen": 5, "reason": 14, "object": 12, "message": 19}),
        (46, {"seen": 5, "reason": 14, "message": 23}),
    ],
)
def test_an_event_names_its_pod_before_its_message_is_shown_in_full(
    available: int, widths: dict[str, int]
) -> None:
    shown = [n for n, column in enumerate(EVENT_COLUMNS) if column.key in
             ("seen", "reason", "object", "message")]  # fmt: skip
    natural = [5, 8, 25, 5, 20, 9, 8, 400]
    found = fit(EVENT_COLUMNS, natural, natural, available, shown=shown)
    assert sum(f.width for f in found) + 2 * (len(found) - 1) == available
    assert {EVENT_COLUMNS[f.index].key: f.width for f in found} == widths


KEYS = [column.key for column in POD_COLUMNS]


@example(
    chosen={"status", "restarts", "namespace"}, wide=False, sort=2, widths=[1] * len(KEYS),
    available=49,
)  # fmt: skip
@given(
    chosen=st.sets(st.sampled_from(KEYS)),
    wide=st.booleans(),
    sort=st.integers(0, len(POD_COLUMNS) - 1),
    widths=st.lists(st.integers(1, 60), min_size=len(KEYS), max_size=len(KEYS)),
    available=st.integers(1, 300),
)
def test_a_selected_column_is_kept_longer_than_others(
    chosen: set[str], wide: bool, sort: int, widths: list[int], available: int
) -> None:
    choice = ColumnChoice(tuple(key for key in KEYS if key in chosen), wide=wide)
    table = Table(POD_COLUMNS, sort=KEYS[sort])
    table.set.natural, table.set.short = widths, widths
    with patch.object(Table, "size", Size(available + 2, 10)):
        table.show_columns(choice)
        table.order_by(KEYS[sort], descending=False)
    shown = {KEYS[place.index] for place in table.fitted}
    if not chosen <= shown:
        # The name is always shown.
        assert shown <= {*chosen, "name"}


def test_an_added_column_is_kept_longer_than_default_ones() -> None:
    natural = [12] * len(POD_COLUMNS)
    choice = ColumnChoice().toggled("labels", POD_COLUMNS)
    ticked = choice.ticked(POD_COLUMNS)
    assert ticked
    for available in range(40, 200):
        found = fit(POD_COLUMNS, natural, natural, available,
                    shown=choice.shown(POD_COLUMNS), ticked=ticked)  # fmt: skip
        assert {"name", "labels"} <= {KEYS[place.index] for place in found}
