from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.errors import UsageError
from podtui.text.terminal_text import after_return
from podtui.tui.views.logs.filters import fuzzy, matching_lines, parse_log_filter
from podtui.tui.views.logs.line_buffer import LineBlock
from podtui.tui.widgets.search import compile_search

lines = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=60)
PATTERNS = [
    "a", "ab", "[0-9]+", "A", "(", r"\s", "^x", "x$", ".", r"[^a]b", r"\Wa", "(?=b)a", r"\Ax",
    r"a\Z", "a*", "a.*b", "[^a]*b",
]  # fmt: skip


def block_of(batch: list[bytes]) -> LineBlock:
    block = LineBlock()
    if batch:
        block.append(batch, [0] * len(batch), bytes(len(batch)))
    return block


@given(lines, st.sampled_from(PATTERNS), st.integers(0, 10))
def test_search_agrees_with_a_line_by_line_search(
    batch: list[bytes], text: str, start: int
) -> None:
    pattern = compile_search(text)
    strip = re.compile(rb"\x1b\[[0-9;:]*m")
    expected = [
        n
        for n, line in enumerate(batch)
        if n >= start and pattern.search(strip.sub(b"", after_return(line)))
    ]
    assert matching_lines(block_of(batch), pattern, start) == expected


@given(lines, st.sampled_from(PATTERNS))
def test_an_inverse_filter_shows_all_the_others(batch: list[bytes], text: str) -> None:
    block = block_of(batch)
    with_it = list(parse_log_filter(text).hits(block, 0))
    without = list(parse_log_filter(f"!{text}").hits(block, 0))
    assert sorted(with_it + without) == list(range(len(batch)))


@pytest.mark.parametrize(
    ("text", "line", "found"),
    [
        ("warn", b"WARNING", True),
        ("Warn", b"WARNING", False),
        (r"\Sa", b"xA", True),
        ("a(b", b"xa(b", True),
        ("[z-a]", b"x[z-a]y", True),
        ("error", b"\x1b[31mer\x1b[0mror", True),
        ("31", b"\x1b[31mred", False),
        ("!get", b"GET /", False),
        ("!get", b"POST /", True),
        ("! get", b"POST /", True),
        ("-f gfav", b"GET /favicon.ico", True),
        ("-f vafg", b"GET /favicon.ico", False),
        ("-f GF", b"get /favicon.ico", False),
        ("-f a.b", b"aXb", False),
        ("-f a.b", b"aX.Yb", True),
        ("-f [x]", b"a [ x ]", True),
        ("-f größe", "g r ö ß e".encode(), True),
        ("-f", b"anything", True),
        ("", b"anything", True),
        ("!", b"anything", True),
        ("-C 3", b"anything", True),
        ("10%", b"10%\r100%\r", False),
        ("0%$", b"10%\r100%\r", True),
    ],
)
def test_the_grammar(text: str, line: bytes, found: bool) -> None:
    assert bool(list(parse_log_filter(text).hits(block_of([line]), 0))) is found


@pytest.mark.parametrize(
    ("text", "context", "inverse"),
    [
        ("-C 3 err", 3, False), ("err -C 3", 3, False), ("-C3 !err", 3, True),
        ("-C 12 -f err", 12, False), ("err", 0, False), ("x-C 3", 0, False),
    ],
)  # fmt: skip
def test_context(text: str, context: int, inverse: bool) -> None:
    parsed = parse_log_filter(text)
    assert (parsed.context, parsed.inverse) == (context, inverse)


@pytest.mark.parametrize("text", ["-C", "-C x err", "err -C -1", "-C 1000 a"])
def test_a_non_numeric_context_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="-C requires a number up to 999"):
        parse_log_filter(text)


def test_marked_ranges() -> None:
    assert parse_log_filter("e.").spans(b"hello eX") == [(1, 3), (6, 8)]
    assert parse_log_filter("-f hlo").spans(b"hello") == [(0, 1), (2, 3), (4, 5)]
    assert parse_log_filter("!e").spans(b"hello") == []
    assert parse_log_filter("x*").spans(b"hello") == []


def test_fuzzy_search_is_linear_in_the_line() -> None:
    # With backtracking the search would not end.
    assert not fuzzy("aaaaaaaaaaaaaaaaaaaab").search(b"a" * 20_000)
