from __future__ import annotations

from podtui.tui.widgets.cells import Cell, Row
from podtui.tui.widgets.row_set import FORGET, Marks


def row(name: str, *, key: str = "", markable: bool = True) -> Row:
    return Row(key or name, (Cell(name),), (name,), identity=name, markable=markable)


A, B, C, D = (row(name) for name in "abcd")


def marked(marks: Marks, *rows: Row) -> str:
    return "".join(r.identity for r in rows if r in marks)


def test_marks_are_set_and_cleared() -> None:
    marks = Marks()
    assert marks.toggle(A, 0)
    assert marks.toggle(C, 0)
    assert not marks.toggle(A, 0)
    assert marked(marks, A, B, C) == "c"
    marks.clear()
    assert not len(marks)


def test_only_actionable_rows_are_marked() -> None:
    marks = Marks()
    file = row("file.yaml", markable=False)
    assert not marks.toggle(file, 0)
    marks.extend([A, file, B], 1, 0)
    assert not len(marks)


def test_a_range_extends_from_the_last_mark_in_both_directions() -> None:
    marks = Marks()
    marks.toggle(C, 0)
    marks.extend([A, B, C, D], 0, 0)
    assert marked(marks, A, B, C, D) == "abc"
    marks.extend([A, B, C, D], 3, 0)
    assert marked(marks, A, B, C, D) == "abcd"


def test_a_range_without_a_mark_is_one_row() -> None:
    marks = Marks()
    marks.extend([A, B, C], 1, 0)
    assert marked(marks, A, B, C) == "b"


def test_a_pod_that_is_replaced_keeps_its_mark() -> None:
    marks = Marks()
    marks.toggle(row("web", key="uid-1"), 0)
    marks.keep([], FORGET - 1)
    assert row("web", key="uid-2") in marks


def test_marks_of_removed_rows_expire() -> None:
    marks = Marks()
    marks.toggle(A, 0)
    marks.toggle(B, 0)
    marks.keep([B], FORGET)
    assert marked(marks, A, B) == "b"
