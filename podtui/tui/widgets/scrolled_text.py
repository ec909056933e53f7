"""The common base of views of long text: scrolling, searching, and restyling parts of a row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView


class ScrolledText(ScrollView, can_focus=True):
    """Rows drawn on demand. A subclass provides ``action_pan`` and ``render_line``."""

    DEFAULT_CSS = """
    ScrolledText {
        overflow-y: scroll;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False, id="text.up", tooltip="A line up"),
        Binding("down,j", "scroll_down", "Down", show=False, id="text.down",
                tooltip="A line down"),
        Binding("left,h", "pan(-8)", "Left", show=False, id="text.left",
                tooltip="Left along long lines"),
        Binding("right", "pan(8)", "Right", show=False, id="text.right",
                tooltip="Right along long lines"),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False, id="text.page-up",
                tooltip="A page up"),
        Binding("pagedown,ctrl+f", "page_down", "Page down", show=False, id="text.page-down",
                tooltip="A page down"),
        Binding("home,g", "scroll_home", "Start", show=False, id="text.start",
                tooltip="To the first line"),
        Binding("end,G", "scroll_end", "End", show=False, id="text.end",
                tooltip="To the last line"),
    ]  # fmt: skip

    match_count: reactive[int] = reactive(0, repaint=False)
    match_number: reactive[int] = reactive(0, repaint=False)
    """The number of the current match, from 1; 0 for none."""

    class SearchChanged(Message):
        """Posted when the number of matches, or the current one, changed."""

        def __init__(self, view: ScrolledText) -> None:
            super().__init__()
            self.view = view

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ScrolledText.SearchChanged)

    @property
    def shown_width(self) -> int:
        """The width without the scroll bar, which `size` includes."""
        return self.scrollable_content_region.width or self.size.width

    def action_scroll_home(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_scroll_end(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False)

    def action_page_up(self) -> None:
        self.scroll_to(y=self.scroll_y - self.size.height, animate=False)

    def action_page_down(self) -> None:
        self.scroll_to(y=self.scroll_y + self.size.height, animate=False)


def characters(raw: bytes, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Convert byte ranges of a UTF-8 text to character ranges."""
    return [
        (len(raw[:start].decode(errors="ignore")), len(raw[:end].decode(errors="ignore")))
        for start, end in spans
        if end > start
    ]


def restyle(
    segments: Sequence[Segment], spans: Sequence[tuple[int, int]], style: Style
) -> list[Segment]:
    """Add ``style`` to character ranges of a row of segments."""
    result: list[Segment] = []
    offset = 0
    for segment in segments:
        text, segment_style = segment.text, segment.style
        combined = segment_style + style if segment_style else style
        end = offset + len(text)
        cuts = sorted({0, len(text)} | {
            cut - offset for span in spans for cut in span if offset < cut < end
        })  # fmt: skip
        for start, stop in pairwise(cuts):
            inside = any(a <= offset + start and offset + stop <= b for a, b in spans)
            result.append(Segment(text[start:stop], combined if inside else segment_style))
        offset = end
    return result
