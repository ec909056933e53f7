"""The bar with the tabs of a screen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final, cast

from textual import events

from podtui.tui.widgets.bars import Bar
from podtui.tui.widgets.cells import Line, Span, line_width

if TYPE_CHECKING:
    from podtui.tui.screens.live_screen import LiveScreen

_SHORT_TITLES: Final = {
    "overview": "Info",
    "timeline": "Start",
    "manifest": "File",
    "resources": "Use",
}


def tab_spans(
    selected: str,
    marks: dict[str, str],
    width: int,
    tabs: Mapping[str, str],
    hidden: Collection[str] = (),
) -> list[tuple[str, Line]]:
    """Return each visible tab with its label, shortened to fit into ``width``: first padded, then
    without padding, then with short titles. ``marks`` are appended to titles.
    """
    labels: list[tuple[str, Line]] = []
    for pad, short in ((" ", False), ("", False), ("", True)):
        labels = []
        for number, (tab, title) in enumerate(tabs.items(), start=1):
            if tab in hidden:
                continue
            word = _SHORT_TITLES.get(tab, title) if short and tab != selected else title
            text = f"{pad}{number} {word}{marks.get(tab, '')}{pad}"
            labels.append(
                (tab, (Span(text, "tab-active" if tab == selected else "tab"), Span(" ")))
            )
        if 1 + sum(line_width(line) for _, line in labels) <= width:
            break
    return labels


def hidden_tabs(tabs: Iterable[str], screen: LiveScreen) -> frozenset[str]:
    """Return the tabs that the server or the object does not have."""
    return frozenset(tab for tab in tabs if screen.check_action("tab", (tab,)) is False)


def next_tab(tabs: Iterable[str], screen: LiveScreen, tab: str, step: int) -> str:
    """Return the tab that is ``step`` tabs after ``tab``; after the last one comes the first."""
    hidden = hidden_tabs(tabs, screen)
    names = [name for name in tabs if name not in hidden]
    return names[(names.index(tab) + step) % len(names)]


class TabBar(Bar):
    """The titles of the tabs; a click opens a tab."""

    def __init__(self, tabs: Mapping[str, str]) -> None:
        super().__init__(id="tabs")
        self._tabs = tabs
        self._places: list[tuple[int, int, str]] = []

    def show_tabs(self, selected: str, marks: dict[str, str]) -> None:
        spans: list[Span] = [Span(" ")]
        self._places = []
        hidden = hidden_tabs(self._tabs, cast("LiveScreen", self.screen))
        for tab, line in tab_spans(selected, marks, self.size.width or 80, self._tabs, hidden):
            start = line_width(spans)
            spans += line
            self._places.append((start, line_width(spans) - 1, tab))
        self.show(tuple(spans))

    async def on_click(self, event: events.Click) -> None:
        if event.button != 1:
            return
        for left, right, tab in self._places:
            if left <= event.x < right:
                await self.screen.run_action(f"tab('{tab}')")
