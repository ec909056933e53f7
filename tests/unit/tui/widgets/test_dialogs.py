"""The items of a picker."""

from __future__ import annotations

from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.dialogs import MAX_PADDED_WIDTH, aligned


def texts(*items: Line) -> list[str]:
    return ["".join(span.text for span in item) for item in aligned(items)]


def test_the_second_spans_of_items_are_aligned() -> None:
    assert texts((Span("all  "), Span("77 pods")), (Span("团队-a  "), Span(" 4 pods"))) == [
        "all     77 pods",
        "团队-a   4 pods",
    ]


def test_a_long_item_does_not_move_the_others_and_a_single_span_stays() -> None:
    long = "x" * (MAX_PADDED_WIDTH + 1)
    items = ((Span(long), Span("!")), (Span("a "), Span("1")), (Span("alone"),))
    assert texts(*items) == [f"{long}!", "a 1", "alone"]
