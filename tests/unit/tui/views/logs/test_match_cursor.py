from __future__ import annotations

import re

from podtui.tui.views.logs.filters import LogFilter
from podtui.tui.views.logs.line_buffer import CHUNK_LINES
from podtui.tui.views.logs.lines import LogLines, Query
from podtui.tui.views.logs.match_cursor import MatchCursor
from podtui.tui.views.logs.viewport import Anchor


def log(texts: list[bytes], pattern: bytes = b"hit", *, scanned: bool = True) -> LogLines:
    lines = LogLines()
    lines.add([0] * len(texts), texts, 0)
    lines.refresh()
    lines.search(re.compile(pattern))
    while scanned and lines.work():
        pass
    return lines


TEXTS = [b"a", b"hit", b"b", b"hit", b"c"]


def test_matches_follow_each_other_in_a_circle() -> None:
    cursor = MatchCursor(log(TEXTS))
    assert [cursor.step(line, forward=True) for line in (0, 1, 3)] == [1, 3, 1]
    assert cursor.number == 1
    assert [cursor.step(line, forward=False) for line in (1, 3, 4)] == [3, 1, 3]
    assert cursor.number == 2


def test_the_first_step_of_a_search_may_select_the_current_line_itself() -> None:
    cursor = MatchCursor(log(TEXTS))
    assert cursor.step(1, forward=True) == 1
    assert cursor.step(1, forward=True) == 3


def test_without_a_search_steps_go_through_the_lines_of_the_filter() -> None:
    lines = LogLines()
    lines.add([0] * len(TEXTS), TEXTS, 0)
    cursor = MatchCursor(lines)
    assert not cursor.searching
    assert cursor.step(0, forward=True) is None, "nothing is filtered either"
    lines.query = Query(LogFilter("hit", re.compile(b"hit")))
    lines.rebuild()
    assert cursor.step(1, forward=True) == 3
    assert cursor.number == 0


def test_seeking_starts_at_the_line_where_the_search_began() -> None:
    for begin, target in ((None, 1), (0, 1), (1, 1), (2, 3), (4, 1)):
        cursor = MatchCursor(log(TEXTS))
        cursor.begin(None, begin)
        cursor.seeking = True
        assert cursor.seek(begin) == target
        assert (cursor.count, cursor.number) == (2, 1 if target == 1 else 2)
        assert not cursor.seeking, "all lines are searched"


def test_seeking_goes_on_until_all_lines_are_searched() -> None:
    texts = [b"a"] * 3 * CHUNK_LINES
    texts[0] = texts[-1] = b"hit"
    lines = log(texts, scanned=False)
    cursor = MatchCursor(lines)
    cursor.seeking = True
    assert cursor.seek(None) == len(texts) - 1, "the newest lines are searched first"
    assert cursor.seeking
    assert cursor.seek(len(texts) - 1) is None, "it is there already"
    while lines.work():
        pass
    assert cursor.seek(len(texts) - 1) == 0
    assert not cursor.seeking


def test_a_move_of_the_user_ends_the_seeking() -> None:
    cursor = MatchCursor(log(TEXTS))
    cursor.seeking = True
    cursor.step(None, forward=True)
    assert cursor.seek(0) is None


def test_the_end_of_a_search_returns_to_the_match_where_it_began() -> None:
    cursor = MatchCursor(log(TEXTS))
    cursor.begin(Anchor(0, 0), 3)
    assert cursor.end()
    assert (cursor.number, cursor.count) == (2, 2)
    cursor.begin(Anchor(0, 0), 2)
    assert not cursor.end(), "that line is no match"
    cursor.begin(None, None)
    assert not cursor.end()


def test_matches_that_are_found_above_change_the_number_of_the_current_one() -> None:
    texts = [b"a"] * 3 * CHUNK_LINES
    texts[0] = texts[-1] = b"hit"
    last, lines = len(texts) - 1, log(texts, scanned=False)
    cursor = MatchCursor(lines)
    assert cursor.recount(None)
    assert (cursor.count, cursor.number) == (1, 0)
    assert cursor.step(last, forward=True) == last
    assert cursor.number == 1
    while lines.work():
        pass
    assert cursor.recount(last)
    assert (cursor.count, cursor.number) == (2, 2)
    assert not cursor.recount(last), "nothing is left to search"


def test_the_position_follows_lines_that_are_renumbered() -> None:
    cursor = MatchCursor(log(TEXTS))
    cursor.begin(Anchor(1, 2), 3)
    cursor.move(lambda line: line + 10)
    assert (cursor.anchor, cursor.line) == (Anchor(11, 2), 13)
    cursor.begin(None, None)
    cursor.move(lambda line: line + 10)
    assert (cursor.anchor, cursor.line) == (None, None)
