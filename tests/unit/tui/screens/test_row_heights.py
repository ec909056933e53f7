from __future__ import annotations

import pytest

from podtui.tui.screens.logs.log_paint import GUTTER, PaintOptions
from podtui.tui.screens.logs.row_heights import RowHeights
from podtui.tui.views.logs.line_buffer import GAP, LineBuffer

JSON = b'{"level": "info", "count": 2}'
TEXTS = [b"short", b"x" * 25, JSON, JSON]


@pytest.fixture
def buffer() -> LineBuffer:
    lines = LineBuffer()
    lines.append(TEXTS[:3])
    lines.append(TEXTS[3:], tags=GAP)
    return lines


def heights(
    buffer: LineBuffer, *, wrap: bool = False, json_all: bool = False, expanded: frozenset[int]
) -> list[int]:
    options = PaintOptions(GUTTER + 10, wrap=wrap)
    rows = RowHeights(buffer, options, json_all, expanded)
    return [rows.rows_of(line) for line in range(len(TEXTS))]


def test_each_line_takes_one_row_unless_something_is_unfolded_or_wrapped(
    buffer: LineBuffer,
) -> None:
    none = RowHeights(buffer, PaintOptions(40), json_all=False, expanded=frozenset())
    assert none.counting == (None, None)
    assert heights(buffer, expanded=frozenset()) == [1, 1, 1, 1]


def test_a_wrapped_line_takes_the_rows_of_its_text(buffer: LineBuffer) -> None:
    assert heights(buffer, wrap=True, expanded=frozenset())[:3] == [1, 3, 3]


def test_unfolded_json_adds_rows_but_not_to_remarks(buffer: LineBuffer) -> None:
    unfolded = heights(buffer, expanded=frozenset({2, 3}))
    assert unfolded[:2] == [1, 1]
    assert unfolded[2] > 2
    assert unfolded[3] == 1
    assert heights(buffer, json_all=True, expanded=frozenset()) == unfolded


def test_only_chunks_with_unfolded_lines_are_uneven(buffer: LineBuffer) -> None:
    chunk = buffer.chunks[0]
    options = PaintOptions(40)
    assert RowHeights(buffer, options, json_all=False, expanded={2}).is_uneven(chunk)
    assert not RowHeights(buffer, options, json_all=False, expanded={10_000}).is_uneven(chunk)
    assert RowHeights(buffer, options, json_all=True, expanded=set[int]()).is_uneven(chunk)
