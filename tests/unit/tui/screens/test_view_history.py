from __future__ import annotations

from podtui.tui.screens.main.main_screen import KEPT_VIEWS, HistoryEntry, ViewHistory

A, B, C = HistoryEntry("pods"), HistoryEntry("events", "web"), HistoryEntry("pods", "", "uid-1")


def test_back_and_forward_in_views() -> None:
    history = ViewHistory(A)
    assert history.step(-1) is None
    history.visit(B)
    history.visit(B)
    history.visit(C)
    assert [history.step(-1), history.step(-1), history.step(-1)] == [B, A, None]
    assert history.step(1) == B
    history.visit(A)
    assert history.step(1) is None, "what lay ahead is forgotten"
    assert history.step(-1) == B


def test_the_last_view_and_back() -> None:
    history = ViewHistory(A)
    assert history.last() is None
    history.visit(B)
    assert [history.last(), history.last(), history.last()] == [A, B, A]


def test_views_are_bounded() -> None:
    history = ViewHistory(A)
    for number in range(3 * KEPT_VIEWS):
        history.visit(HistoryEntry("pods", str(number)))
    steps = 0
    while history.step(-1) is not None:
        steps += 1
    assert steps == KEPT_VIEWS - 1
