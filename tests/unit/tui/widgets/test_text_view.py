from __future__ import annotations

from podtui.tui.widgets.text_view import Mark, layout


def test_control_sequences_are_removed() -> None:
    rows = layout("a\x1b[2Jb\x1b]0;t\x07c", [Mark(1, 1, "\x1b[31mbad")])
    assert [row.text for row in rows] == ["abc", "^ bad"]


def test_marks_past_the_end_appear_at_the_end() -> None:
    assert [row.number for row in layout("a\nb\n", [Mark(9, 1, "x")])] == [1, 2, 0]
    assert [row.number for row in layout("", [Mark(1, 1, "x")])] == [1, 0]


def test_long_diagnostics_are_wrapped() -> None:
    rows = layout("a", [Mark(1, 3, "one two three four five six seven")], width=24)
    assert [row.text for row in rows] == ["a", "  ^ one two three four", "    five six seven"]
