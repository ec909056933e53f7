from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.cells import Span, fit, line_width, sized, width_of, wrap
from podtui.tui.format import cores, mebibytes, size
from podtui.tui.rows import EVENT_COLUMNS, POD_COLUMNS
from podtui.tui.sanitize import clean, clean_lines

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
PLAIN = st.text("abc déf 漢字-", max_size=60)


def test_amounts() -> None:
    assert [cores(n) for n in (0, 250, 1000, 3800, 1)] == ["0", "0.25", "1", "3.8", "0"]
    assert [mebibytes(n) for n in (0, 1, 3 << 20, 5 << 30)] == ["0Mi", "<1Mi", "3Mi", "5120Mi"]
    assert [size(n) for n in (512, 1 << 20, 7680 << 20, 90 << 30)] == [
        "512",
        "1Mi",
        "7.5Gi",
        "90Gi",
    ]


@given(TEXT)
def test_clean_text_holds_nothing_that_moves_a_cursor(text: str) -> None:
    found = clean(text)
    assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in found)
    assert not any(c in "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069" for c in found)


def test_clean_keeps_wide_characters_and_lines() -> None:
    assert clean("漢字 ok") == "漢字 ok"
    assert clean_lines("a\nb\x1b[2J") == ["a", "b"]


@given(PLAIN, st.integers(0, 30))
def test_sized_text_has_its_size(text: str, width: int) -> None:
    assert width_of(sized(text, width)) == width


@given(st.lists(PLAIN, max_size=4), st.integers(2, 40), st.integers(0, 50))
def test_wrapped_rows_fit_and_lose_no_word(texts: list[str], width: int, indent: int) -> None:
    rows = wrap([Span(text) for text in texts], width, indent=indent)
    assert all(line_width(row) <= width for row in rows)
    before = "".join("".join(texts).split())
    assert "".join("".join(span.text for row in rows for span in row).split()) == before


@given(st.integers(10, 250), st.lists(st.integers(0, 80), min_size=8, max_size=8))
def test_fitted_columns_never_overflow(available: int, natural: list[int]) -> None:
    for columns in (POD_COLUMNS, EVENT_COLUMNS):
        wanted = natural[: len(columns)]
        found = fit(columns, wanted, wanted, available)
        assert sum(f.width for f in found) + 2 * (len(found) - 1) <= available
        assert [f.index for f in found] == sorted(f.index for f in found)


def test_the_least_important_column_goes_first() -> None:
    natural = [20, 5, 20, 11, 5, 6, 12, 6]
    short = [20, 5, 20, 1, 5, 6, 12, 6]
    at_78 = [POD_COLUMNS[f.index].key for f in fit(POD_COLUMNS, natural, short, 78)]
    assert at_78 == ["name", "ready", "status", "restarts", "cpu", "memory", "age"]
    at_40 = [POD_COLUMNS[f.index].key for f in fit(POD_COLUMNS, natural, short, 40)]
    assert at_40[:3] == ["name", "ready", "status"]
    assert {"cpu", "memory", "ip"}.isdisjoint(at_40)
    assert len(fit(POD_COLUMNS, natural, short, 120)) == len(POD_COLUMNS)
