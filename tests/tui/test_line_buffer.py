from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.ansi import parse, plain_text, shown_cells
from podtui.tui.line_buffer import CHUNK_BYTES, LineBuffer, compile_search, matching_lines
from podtui.tui.row_index import RowIndex

lines = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=60)


@given(st.lists(lines, max_size=6))
def test_lines_come_back_as_they_went_in(batches: list[list[bytes]]) -> None:
    buffer = LineBuffer()
    for batch in batches:
        buffer.append(batch)
    flat = [line for batch in batches for line in batch]
    assert list(buffer) == flat
    assert [buffer[i] for i in range(buffer.first, buffer.end)] == flat


def test_over_budget_the_oldest_go_and_are_counted() -> None:
    buffer = LineBuffer(max_bytes=3 * CHUNK_BYTES)
    line = b"x" * 999
    for _ in range(2000):
        buffer.append([line])
    assert buffer.dropped > 0
    assert buffer.dropped + len(buffer) == 2000
    assert buffer.nbytes <= 3 * CHUNK_BYTES
    assert buffer[buffer.first] == line
    with pytest.raises(IndexError):
        buffer[buffer.first - 1]


def test_a_million_lines_cost_little_more_than_their_text() -> None:
    buffer = LineBuffer()
    batch = [b"y" * 110] * 10_000
    for _ in range(100):
        buffer.append(batch)
    assert len(buffer) == 1_000_000
    assert buffer.nbytes < 120 * 1_000_000


def test_a_line_feed_inside_a_line_does_not_make_two() -> None:
    buffer = LineBuffer()
    buffer.append([b"a\nb", b"c"])
    assert list(buffer) == [b"a b", b"c"]


def test_clear_goes_on_numbering() -> None:
    buffer = LineBuffer()
    buffer.append([b"a", b"b"])
    buffer.clear()
    buffer.append([b"c"])
    assert (buffer.first, buffer.end, buffer[2]) == (2, 3, b"c")


@given(lines, st.sampled_from(["a", "ab", "[0-9]+", "A", "(", r"\s", "^x", "."]))
def test_search_finds_what_a_search_line_by_line_finds(batch: list[bytes], text: str) -> None:
    buffer = LineBuffer()
    buffer.append(batch)
    pattern = compile_search(text)
    found = [n for chunk in buffer.chunks for n in matching_lines(chunk, pattern)]
    multi = re.compile(pattern.pattern, pattern.flags)
    expected = [n for n, line in enumerate(batch) if multi.search(line)]
    if text.startswith("^"):
        # Anchors mean the line's own start: the run of bytes a chunk searches has only one.
        assert set(found) <= set(expected)
    else:
        assert found == expected


def test_search_is_case_blind_only_for_lower_case() -> None:
    assert compile_search("warn").search(b"WARNING")
    assert not compile_search("Warn").search(b"WARNING")
    assert compile_search("a(b").search(b"xa(b")


@given(st.binary(max_size=200))
def test_no_control_character_is_ever_drawn(line: bytes) -> None:
    text = plain_text(line)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"\x1b[31mred\x1b[0m", "red"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]52;c;aGk=\x1b\\after", "after"),
        (b"\x1b[2J\x1b[Hhome", "home"),
        (b"\x1bPq#0\x1b\\dcs", "dcs"),
        (b"a\tb", "a       b"),
        (b"bell\x07", "bell␇"),
        (b"back\x08", "back␈"),
        ("‮right".encode(), "right"),
        (b"\xff\xfe", "��"),
    ],
)
def test_sequences_are_neutralised(line: bytes, shown: str) -> None:
    assert plain_text(line) == shown


def test_colours_are_kept() -> None:
    red, plain = parse(b"\x1b[1;31mred\x1b[0m plain")
    assert red.style is not None
    assert red.style.bold
    assert red.style.color is not None
    assert red.style.color.name == "red"
    assert plain.style is not None
    assert plain.style.color is None
    (orange,) = parse(b"\x1b[38;2;255;128;0morange")
    assert orange.style is not None
    assert orange.style.color is not None
    assert orange.style.color.triplet == (255, 128, 0)


def test_a_huge_line_is_cut_and_says_so() -> None:
    text = plain_text(b"z" * 1_000_000)
    assert len(text) < 20_000
    assert text.endswith("(1,000,000 bytes, cut)")


@given(st.text(max_size=50))
def test_cells_agree_with_what_is_drawn(text: str) -> None:
    line = text.encode(errors="replace").replace(b"\n", b"")
    assert shown_cells(line) == sum(segment.cell_length for segment in parse(line))


def rows_at(width: int) -> Callable[[bytes], int]:
    return lambda line: max(1, -(-len(line) // width))


@given(lines, st.integers(1, 20))
def test_rows_and_lines_map_both_ways(batch: list[bytes], width: int) -> None:
    buffer = LineBuffer()
    index = RowIndex(buffer, rows_at(width))
    for start in range(0, len(batch), 7):
        buffer.append(batch[start : start + 7])
        index.refresh()
    while index.count_more():
        pass
    expected = [
        (n, inside) for n, line in enumerate(batch) for inside in range(rows_at(width)(line))
    ]
    assert [index.line_at(row) for row in range(index.rows)] == expected
    assert index.line_at(index.rows) is None
    for row, (sequence, inside) in enumerate(expected):
        assert index.row_of(sequence) == row - inside


def test_uncounted_chunks_are_one_row_a_line_until_counted() -> None:
    buffer = LineBuffer()
    buffer.append([b"w" * 100] * 10_000)
    index = RowIndex(buffer, rows_at(50))
    assert len(buffer.chunks) > 3
    estimate = index.rows
    assert 10_000 < estimate < 20_000
    while index.count_more():
        pass
    assert index.rows == 20_000
