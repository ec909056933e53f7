from __future__ import annotations

from podtui.tui.views.logs.line_buffer import Chunk, LineBuffer
from podtui.tui.views.logs.line_index import RowIndex
from podtui.tui.views.logs.viewport import Anchor, Step, Viewport


def viewport(heights: list[int], top: int, height: int, *, head: int = 0) -> Viewport:
    """Return a view of lines that take these numbers of rows."""
    buffer = LineBuffer()
    buffer.append([b"x"] * len(heights))

    def rows(chunk: Chunk, index: int) -> int:
        return heights[chunk.first + index]

    index = RowIndex(buffer, None, rows)
    while index.count_more():
        pass
    return Viewport(index, heights.__getitem__, buffer.first, head, top, height)


EVEN = [1] * 10
TALL = [1, 5, 1, 1]
"""The second line takes the rows 1 to 5."""


def test_rows_and_lines_map_both_ways_below_the_head() -> None:
    view = viewport(TALL, 0, 3, head=1)
    assert view.total == 9
    assert view.line_at(0) is None
    assert view.line_at(1) == (0, 0)
    assert view.line_at(4) == (1, 2)
    assert (view.row_of(1), view.last_row_of(1)) == (2, 6)
    assert view.last_line == 3


def test_only_visible_lines_are_listed() -> None:
    assert list(viewport(TALL, 4, 4).lines()) == [(0, 1), (1, 1), (2, 2), (3, 3)]
    assert list(viewport(TALL, 7, 4).lines()) == [(0, 3)], "the log ends within the view"


def test_the_anchor_stays_when_lines_above_change_their_height() -> None:
    anchor = viewport(TALL, 3, 2).anchor
    assert anchor == Anchor(1, 2)
    assert viewport([3, 5, 1, 1], 0, 2).row_of_anchor(anchor) == 5
    assert viewport([], 0, 2).anchor is None


def test_the_nearest_visible_line() -> None:
    view = viewport(EVEN, 3, 4)
    assert [view.nearest(line) for line in (0, 3, 5, 6, 9, None)] == [3, 3, 5, 6, 6, 6]
    assert viewport(EVEN, 3, 0).nearest(9) == 3, "before the first layout"
    assert viewport([1], 0, 4).nearest(None) == 0
    assert viewport([], 0, 4).nearest(None) is None


def test_a_line_out_of_sight_is_scrolled_to_a_third_of_the_height() -> None:
    view = viewport(EVEN, 3, 3)
    assert [view.top_for(line) for line in (2, 3, 5, 6)] == [1, None, None, 5]


def test_a_step_moves_the_cursor_and_scrolls_only_at_the_edges() -> None:
    view = viewport(EVEN, 3, 3)
    assert view.step(3, 1) == Step(4, None)
    assert view.step(5, 1) == Step(6, 4)
    assert view.step(4, -1) == Step(3, None)
    assert view.step(3, -1) == Step(2, 2)
    assert view.step(0, -1) == Step(None, 2), "the cursor's line is above the view"
    assert viewport(EVEN, 0, 3).step(0, -1) is None
    assert viewport(EVEN, 7, 3).step(9, 1) is None


def test_a_line_that_is_taller_than_the_view_is_scrolled_row_by_row() -> None:
    assert viewport(TALL, 0, 3).step(0, 1) == Step(1, 1), "its first row is shown at the top"
    assert viewport(TALL, 1, 3).step(1, 1) == Step(None, 2)
    assert viewport(TALL, 3, 3).step(1, 1) == Step(2, 4)
    assert viewport(TALL, 6, 2).step(2, -1) == Step(1, 4), "its last row is shown at the bottom"
    assert viewport(TALL, 4, 2).step(1, -1) == Step(None, 3)
