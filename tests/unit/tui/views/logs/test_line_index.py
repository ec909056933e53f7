from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podtui.tui.views.logs import line_buffer
from podtui.tui.views.logs.line_buffer import CHUNK_LINES, Chunk, LineBuffer
from podtui.tui.views.logs.line_index import LineSet, RowCount, RowIndex

lines = st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=60)


def rows_at(buffer: LineBuffer, width: int) -> RowCount:
    return lambda chunk, index: max(1, -(-len(buffer.block(chunk).line(index)) // width))


def having(buffer: LineBuffer, text: bytes):
    def hits(chunk: Chunk, start: int) -> Iterable[int]:
        found = buffer.block(chunk).lines(start)
        return [n for n, line in enumerate(found, start) if text in line]

    return hits


def mapped(index: RowIndex) -> list[tuple[int, int] | None]:
    return [index.line_at(row) for row in range(index.rows)]


@given(lines, st.integers(1, 20))
def test_rows_and_lines_map_both_ways(batch: list[bytes], width: int) -> None:
    buffer = LineBuffer()
    index = RowIndex(buffer, None, rows_at(buffer, width))
    for start in range(0, len(batch), 7):
        buffer.append(batch[start : start + 7])
        index.refresh()
    while index.count_more():
        pass
    expected = [
        (n, inside)
        for n, line in enumerate(batch)
        for inside in range(max(1, -(-len(line) // width)))
    ]
    assert mapped(index) == expected
    assert index.line_at(index.rows) is None
    for row, (sequence, inside) in enumerate(expected):
        assert index.row_of(sequence) == row - inside


@given(lines, st.integers(0, 4), st.integers(1, 20))
def test_only_shown_lines_have_rows(batch: list[bytes], context: int, width: int) -> None:
    buffer = LineBuffer()
    shown = LineSet(buffer, having(buffer, b"a"), context)
    index = RowIndex(buffer, shown, rows_at(buffer, width))
    for start in range(0, len(batch), 7):
        buffer.append(batch[start : start + 7])
        shown.refresh()
        shown.scan_more()
        index.refresh()
    while shown.scan_more():
        index.refresh()
    while index.count_more():
        pass
    hits = [n for n, line in enumerate(batch) if b"a" in line]
    wanted = sorted({
        near for n in hits for near in range(n - context, n + context + 1) if 0 <= near < len(batch)
    })  # fmt: skip
    expected = [(n, inside) for n in wanted for inside in range(max(1, -(-len(batch[n]) // width)))]
    assert mapped(index) == expected
    for row, (sequence, inside) in enumerate(expected):
        assert index.row_of(sequence) == row - inside


def test_context_crosses_chunks() -> None:
    buffer = LineBuffer()
    count = 3 * CHUNK_LINES
    hits = {CHUNK_LINES, 2 * CHUNK_LINES - 1}
    buffer.append([b"a" if n in hits else b"-" for n in range(count)])
    shown = LineSet(buffer, having(buffer, b"a"), 2)
    while shown.scan_more():
        pass
    assert [shown.at(rank) for rank in range(shown.count)] == sorted(
        n + near for n in hits for near in (-2, -1, 0, 1, 2)
    )
    assert shown.is_hit(CHUNK_LINES)
    assert not shown.is_hit(CHUNK_LINES - 1)
    buffer.close()


def test_a_set_is_filled_from_its_end_and_follows() -> None:
    buffer = LineBuffer()
    buffer.append([b"%d" % n for n in range(10 * CHUNK_LINES)])
    found = LineSet(buffer, having(buffer, b"7"))
    assert found.count == 0
    found.scan_more()
    assert found.at(0) >= 9 * CHUNK_LINES
    buffer.append([b"7 more"] * 5)
    found.refresh()
    while found.scan_more():
        pass
    expected = [n for n in range(10 * CHUNK_LINES) if "7" in str(n)]
    expected += range(10 * CHUNK_LINES, 10 * CHUNK_LINES + 5)
    assert [found.at(rank) for rank in range(found.count)] == expected
    assert found.scanned == len(buffer)
    assert [found.rank(n) for n in expected] == list(range(len(expected)))
    assert 8 not in found
    assert 7 in found
    buffer.close()


def test_dropped_lines_leave_the_set_and_the_rows() -> None:
    buffer = LineBuffer()
    buffer.append([b"%d" % n for n in range(6 * CHUNK_LINES)])
    shown = LineSet(buffer, having(buffer, b"5"))
    index = RowIndex(buffer, shown, rows_at(buffer, 2))
    while shown.scan_more() or index.count_more():
        index.refresh()
    buffer.disk_bytes = buffer.nbytes - 1
    buffer.trim()
    assert buffer.dropped
    shown.refresh()
    index.refresh()
    assert shown.scanned == len(buffer)
    assert [shown.at(r) for r in range(shown.count)] == [
        n for n in range(buffer.first, buffer.end) if "5" in str(n)
    ]
    assert index.rows == sum(-(-len(str(shown.at(r))) // 2) for r in range(shown.count))
    buffer.close()


def test_uncounted_chunks_are_one_row_a_line_until_counted() -> None:
    buffer = LineBuffer()
    buffer.append([b"w" * 100] * 10_000)
    index = RowIndex(buffer, None, rows_at(buffer, 50))
    assert len(buffer.chunks) > 3
    estimate = index.rows
    assert 10_000 < estimate < 20_000
    place = index.row_of(500)
    assert index.line_at(place) == (500, 0)
    while index.count_more():
        pass
    assert index.rows == 20_000
    assert index.line_at(index.row_of(500)) == (500, 0)
    buffer.close()


def test_an_expanded_line_moves_those_below() -> None:
    buffer = LineBuffer()
    buffer.append([b"x"] * 100)
    out: set[int] = set()
    index = RowIndex(buffer, None, lambda chunk, n: 1 + 4 * (n in out), lambda chunk: bool(out))
    out.add(10)
    index.recount(10)
    assert index.rows == 104
    assert index.line_at(14) == (10, 4)
    assert index.line_at(15) == (11, 0)
    out.clear()
    index.recount(10)
    assert index.rows == 100


@given(st.data(), lines, lines, st.integers(0, 3))
def test_both_indexes_follow_a_replaced_head(
    data: st.DataObject, batch: list[bytes], head: list[bytes], context: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_buffer, "CHUNK_LINES", 4)
        buffer = LineBuffer()
        hits = having(buffer, b"a")
        shown = LineSet(buffer, hits, context)
        index = RowIndex(buffer, shown, rows_at(buffer, 7))
        buffer.append(batch)
        shown.refresh()
        for _ in range(data.draw(st.integers(0, 20))):
            shown.scan_more()
        until = data.draw(st.integers(buffer.first, buffer.end))
        buffer.replace_head(until, head, [0] * len(head), bytes(len(head)))
        shown.forget_head(until)
        index.forget_head(until)
        buffer.append(batch[:9])
        shown.refresh()
        index.refresh()
        while shown.scan_more():
            index.refresh()
        while index.count_more():
            pass
        new = LineSet(buffer, hits, context)
        while new.scan_more():
            pass
        expected = RowIndex(buffer, new, rows_at(buffer, 7))
        while expected.count_more():
            pass
        assert [shown.at(rank) for rank in range(shown.count)] == [
            new.at(rank) for rank in range(new.count)
        ]
        assert shown.scanned == len(buffer)
        assert mapped(index) == mapped(expected)
