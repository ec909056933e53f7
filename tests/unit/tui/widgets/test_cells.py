from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.views.events import EVENT_COLUMNS
from podtui.tui.views.pods.rows import POD_COLUMNS
from podtui.tui.widgets.cells import Span, fit, line_width, sized, sized_in_middle, width_of, wrap
from podtui.tui.widgets.columns import ColumnChoice
from podtui.tui.widgets.format import cores, mebibytes, size
from podtui.tui.widgets.sanitize import clean, clean_lines

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
PLAIN = st.text("abc déf 漢字-", max_size=60)


def test_amounts() -> None:
    assert [cores(n) for n in (0, 250, 1000, 3800, 1)] == ["0", "0.25", "1", "3.8", "0"]
    assert [mebibytes(n) for n in (0, 1, 3 << 20, 5 << 30)] == ["0Mi", "<1Mi", "3Mi", "5120Mi"]
    assert [size(n) for n in (0, 512, 1 << 20, 7680 << 20, 90 << 30)] == [
        "0",
        "512B",
        "1Mi",
        "7.5Gi",
        "90Gi",
    ]


@given(TEXT)
def test_stripped_text_does_not_move_the_cursor(text: str) -> None:
    found = clean(text)
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in found)
    assert not any(c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" for c in found)


def test_clean_keeps_wide_characters_and_lines() -> None:
    assert clean("漢字 ok") == "漢字 ok"
    assert clean_lines("a\nb\x1b[2J") == ["a", "b"]


@given(PLAIN, st.integers(0, 30))
def test_sized_text_has_the_requested_width(text: str, width: int) -> None:
    assert width_of(sized(text, width)) == width


def test_a_space_that_does_not_fit_ends_its_row() -> None:
    rows = wrap([Span("four"), Span("  X "), Span("more")], 5)
    assert ["".join(span.text for span in row) for row in rows] == ["four", "X ", "more"]


@given(st.lists(PLAIN, max_size=4), st.integers(2, 40), st.integers(0, 50))
def test_wrapped_rows_fit_and_keep_every_word(texts: list[str], width: int, indent: int) -> None:
    rows = wrap([Span(text) for text in texts], width, indent=indent)
    assert all(line_width(row) <= width for row in rows)
    before = "".join("".join(texts).split())
    assert "".join("".join(span.text for row in rows for span in row).split()) == before


MOST = max(len(POD_COLUMNS), len(EVENT_COLUMNS))


@given(
    st.integers(10, 250), st.lists(st.integers(0, 80), min_size=MOST, max_size=MOST), st.booleans()
)
def test_fitted_columns_never_overflow(available: int, natural: list[int], wide: bool) -> None:
    for columns in (POD_COLUMNS, EVENT_COLUMNS):
        wanted = natural[: len(columns)]
        shown = ColumnChoice(wide=wide).shown(columns)
        found = fit(columns, wanted, wanted, available, shown=shown)
        assert sum(f.width for f in found) + 2 * (len(found) - 1) <= available
        assert [f.index for f in found] == sorted(f.index for f in found)
        assert {f.index for f in found} <= set(shown)


NATURAL = {"name": 20, "ready": 5, "status": 20, "restarts": 11, "cpu": 5, "memory": 6, "ip": 12,
           "age": 6, "why": 0}  # fmt: skip


def fitted(available: int, *wanted: str, why: int = 0) -> list[str]:
    keys = [column.key for column in POD_COLUMNS]
    natural = [why if key == "why" else NATURAL.get(key, 8) for key in keys]
    short = [1 if key == "restarts" else width for key, width in zip(keys, natural, strict=True)]
    found = fit(
        POD_COLUMNS, natural, short, available,
        shown=ColumnChoice().shown(POD_COLUMNS), wanted=[keys.index(key) for key in wanted],
    )  # fmt: skip
    return [keys[f.index] for f in found]


def test_the_least_important_column_is_hidden_first() -> None:
    assert fitted(78) == ["name", "ready", "status", "restarts", "cpu", "memory", "age"]
    assert fitted(40)[:3] == ["name", "ready", "status"]
    assert {"cpu", "memory", "ip"}.isdisjoint(fitted(40))
    assert fitted(120) == [key for key in NATURAL if key != "why"]


def test_causes_take_the_place_of_figures_but_not_of_names() -> None:
    assert fitted(78, why=60) == ["name", "ready", "status", "why"]
    assert fitted(84, why=60) == ["name", "ready", "status", "age", "why"]
    assert fitted(200, why=60) == list(NATURAL)


@pytest.mark.parametrize(
    ("text", "width", "wanted"),
    [
        ("web-n1", 8, "web-n1  "),
        ("cache-of-the-shop-1-n1", 14, "cache-o…p-1-n1"),
        ("cache-of-the-shop-2-n1", 14, "cache-o…p-2-n1"),
        ("cache-of-the-shop-2-n1", 6, "cache…"),
        ("应用程序的缓存容器-1", 12, "应用程…器-1 "),
    ],
)
def test_a_cut_in_the_middle_keeps_the_end(text: str, width: int, wanted: str) -> None:
    assert sized_in_middle(text, width) == wanted
    assert width_of(wanted) == width


def test_unusually_long_values_are_cut_before_causes() -> None:
    keys = [column.key for column in POD_COLUMNS]
    natural = [{**NATURAL, "status": 30, "why": 60}.get(key, 8) for key in keys]
    shown = ColumnChoice().shown(POD_COLUMNS)
    for available in range(76, 140):
        widths = {
            keys[f.index]: f.width
            for f in fit(POD_COLUMNS, natural, natural, available, shown=shown)
        }
        assert widths["status"] <= 19 or widths["why"] == 40
        assert widths["name"] >= 19


def test_additional_columns_do_not_truncate_fixed_ones() -> None:
    keys = [column.key for column in POD_COLUMNS]
    natural = [20 if key == "status" else NATURAL.get(key, 8) for key in keys]
    for available in range(80, 240):
        found = fit(POD_COLUMNS, natural, natural, available,
                    shown=ColumnChoice(wide=True).shown(POD_COLUMNS))  # fmt: skip
        widths = {keys[f.index]: f.width for f in found}
        assert widths["status"] >= 20 or set(widths) <= set(NATURAL)


def test_a_selected_column_is_hidden_last() -> None:
    assert "ip" in fitted(40, "ip")
    assert "ip" not in fitted(40)
