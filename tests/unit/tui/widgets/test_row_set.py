from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from podtui.tui.widgets.cells import Cell, Column, Row, ValueKind
from podtui.tui.widgets.filters import parse_filter
from podtui.tui.widgets.row_set import RowSet

COLUMNS = (Column("name", "NAME", 1), Column("size", "SIZE", 1))


def row(name: str, size: int = 0, *, note: str = "", pin: int = 0, **labels: str) -> Row:
    return Row(
        name, (Cell(name), Cell(f"{size}{note}")), (name, size), search=name, labels=labels, pin=pin
    )


def test_a_change_that_keeps_its_place_moves_nothing() -> None:
    rows = RowSet(COLUMNS, 0)
    rows.apply([row("a"), row("b")])
    order = rows.order
    difference = rows.apply([row("b", 3)])
    assert difference.touched == {"b"}
    assert not difference.moved
    assert rows.order is order, "not sorted again"
    assert rows.apply([row("b", 3)]) == rows.apply([])


def test_a_change_of_the_sorted_column_moves() -> None:
    rows = RowSet(COLUMNS, 1, descending=True)
    rows.apply([row("a", 1), row("b", 2)])
    assert rows.order == ["b", "a"]
    assert rows.apply([row("a", 3)]).moved
    assert rows.order == ["a", "b"]


def test_pinned_rows_stay_on_top() -> None:
    rows = RowSet(COLUMNS, 0)
    rows.apply([row("a", pin=1), row("z", pin=0), row("b", pin=1)])
    assert rows.order == ["z", "a", "b"]
    rows.sort_by(0, descending=True)
    assert rows.order == ["z", "b", "a"]


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3), st.booleans()), max_size=40),
    st.sampled_from(["", "a|b", "![ab]", "-f c"]),
)
def test_any_sequence_of_changes_equals_a_new_table(
    changes: list[tuple[str, int, bool]], pattern: str
) -> None:
    rows = RowSet(COLUMNS, 1)
    rows.filter_by(parse_filter(pattern))
    left: dict[str, Row] = {}
    for name, size, keep in changes:
        if keep:
            left[name] = row(name, size)
            rows.apply([left[name]])
        else:
            left.pop(name, None)
            rows.apply([], [name])
    fresh = RowSet(COLUMNS, 1)
    fresh.filter_by(parse_filter(pattern))
    fresh.apply(left.values())
    assert rows.order == fresh.order
    assert rows.index == {key: n for n, key in enumerate(rows.order)}


def test_a_filter_by_age_drops_rows_over_time() -> None:
    columns = (Column("name", "NAME", 1), Column("age", "AGE", 1, kind=ValueKind.AGE))
    rows = RowSet(columns, 0)
    rows.advance_time(100)
    rows.apply([Row(n, (Cell(n), Cell("", since=at)), (n, -at), (n, at)) for n, at in
                (("old", 10.0), ("young", 95.0))])  # fmt: skip
    rows.filter_by(parse_filter("age<10s", columns))
    assert rows.order == ["young"]
    assert not rows.advance_time(104)
    assert rows.advance_time(105)
    assert rows.order == []


def test_shows_only_unhealthy_pods() -> None:
    rows = RowSet(COLUMNS, 0)
    good = row("a")
    rows.apply([good, replace(row("b"), fault=True), replace(row("c"), fault=True)])
    rows.filter_by(parse_filter("!c"), faults_only=True)
    assert rows.order == ["b"]
    assert rows.is_filtered
    assert rows.apply([replace(good, fault=True)]).moved
    assert rows.order == ["a", "b"]


def test_cells_of_a_hidden_row_are_measured_when_shown() -> None:
    rows = RowSet(COLUMNS, 0)
    rows.apply([row("a"), row("b-with-a-long-name")])
    rows.filter_by(parse_filter("!long", COLUMNS))
    assert rows.natural[0] < len("b-with-a-long-name")
    hidden = rows.rows["b-with-a-long-name"]
    rows.apply([replace(hidden, search="b")])
    assert "b-with-a-long-name" in rows.index
    assert rows.natural[0] >= len("b-with-a-long-name")
