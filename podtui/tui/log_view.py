"""The log pane: follows, wraps and searches a million lines at the cost of the lines it shows.

`LogView` draws by Textual's line API from a `LineBuffer`. What arrives is taken in at once and
shown by a timer, so that neither ten thousand lines a second nor a key waits for the other.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from re import Pattern
from time import perf_counter
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from podtui.tui.ansi import parse, shown_cells
from podtui.tui.cells import Span, width_of, wrap
from podtui.tui.line_buffer import (
    DEFAULT_BYTES,
    LineBuffer,
    compile_search,
    matching_lines,
)
from podtui.tui.row_index import RowIndex

FRAME: Final = 1 / 15
SLICE: Final = 0.008
"""Seconds of searching, or of counting wrapped rows, between two looks at the keyboard."""
EMPTY_MARGIN: Final = 3
STAMP_LENGTH: Final = len("12:34:56.789 ")


class LogView(ScrollView, can_focus=True):
    """Lines as the API sends them: an RFC 3339 time stamp, a space, the text."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "log-view--timestamp",
        "log-view--match",
        "log-view--gap",
        "log-view--empty",
    }
    DEFAULT_CSS = """
    LogView {
        overflow-y: scroll;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .log-view--timestamp { color: $text-muted; }
        & > .log-view--match { background: $warning; color: $background; text-style: bold; }
        & > .log-view--gap { color: $warning; text-style: italic; }
        & > .log-view--empty { color: $text-muted; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False, id="log.up"),
        Binding("down,j", "scroll_down", "Down", show=False, id="log.down"),
        Binding("left,h", "pan(-8)", "Left", show=False, id="log.left"),
        Binding("right", "pan(8)", "Right", show=False, id="log.right"),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False, id="log.page-up"),
        Binding("pagedown,ctrl+f", "page_down", "Page down", show=False, id="log.page-down"),
        Binding("home,g", "scroll_home", "Start", show=False, id="log.start"),
        Binding("end,G", "scroll_end", "End", show=False, id="log.end"),
    ]

    follow: reactive[bool] = reactive(True)
    wrap: reactive[bool] = reactive(False)
    timestamps: reactive[bool] = reactive(False)
    empty_text: reactive[str] = reactive("")
    match_count: reactive[int] = reactive(0)
    match_number: reactive[int] = reactive(0)
    """Which match is the current one, from 1; 0 for none."""

    class SearchChanged(Message):
        """Posted when the number of matches, or the current one, changed."""

        def __init__(self, view: LogView) -> None:
            super().__init__()
            self.view = view

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, LogView.SearchChanged)

    class FollowChanged(Message):
        """Posted when the view starts or stops following."""

        def __init__(self, view: LogView) -> None:
            super().__init__()
            self.view = view

    def __init__(
        self,
        *,
        max_bytes: int = DEFAULT_BYTES,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.buffer = LineBuffer(max_bytes)
        self._gaps: dict[int, str] = {}
        self._rows: RowIndex | None = None
        self._stale = False
        self._placing = False
        self._shift = 0
        self._seen_first = 0
        self._pattern: Pattern[bytes] | None = None
        self._matches: array[int] = array("Q")
        self._searched = 0
        self._strip = lru_cache(maxsize=1024)(self._make_strip)

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(FRAME, self._frame)

    # --- what is shown

    def write(self, lines: Sequence[bytes]) -> None:
        """Take in lines; they are drawn with the next frame."""
        if lines:
            self.buffer.append(lines)
            self._stale = True

    def mark_gap(self, text: str) -> None:
        """Add a line of our own that says what is missing at this place."""
        self._gaps[self.buffer.end] = text
        self.write([text.encode()])

    def clear(self) -> None:
        """Forget all lines and what was found in them; the search itself stays."""
        self.buffer.clear()
        self._gaps.clear()
        self._matches = array("Q")
        self._searched = self.buffer.first
        self._seen_first = self.buffer.first
        self.match_count = self.match_number = 0
        self._shift = 0
        self._recount()

    def save(self, path: Path) -> int:
        """Write what is kept to a file; returns the number of lines. Raises OSError."""
        return self.buffer.save(path)

    # --- search

    def search(self, pattern: str) -> None:
        """Look for ``pattern`` in all lines, those to come included; empty ends the search.

        Returns at once: matches are counted a slice a frame, see `match_count`.
        """
        self._pattern = compile_search(pattern) if pattern else None
        self._matches = array("Q")
        self._searched = self.buffer.first
        self.match_count = self.match_number = 0
        self._strip.cache_clear()
        self.refresh()
        self._search_slice()
        self.post_message(self.SearchChanged(self))

    def next_match(self) -> None:
        """Go to the first match below the current one, or the top of the view; round at the end."""
        self._go(forward=True)

    def previous_match(self) -> None:
        self._go(forward=False)

    def _go(self, *, forward: bool) -> None:
        if not self._matches:
            return
        here = self._matches[self.match_number - 1] if self.match_number else self._top_line()
        if forward:
            index = (
                bisect_right(self._matches, here)
                if self.match_number
                else bisect_left(self._matches, here)
            )
        else:
            index = bisect_left(self._matches, here) - 1
        index %= len(self._matches)
        self.match_number = index + 1
        self.follow = False
        row = self._row_of(self._matches[index])
        self._place(row - self.size.height // 3)
        self._strip.cache_clear()
        self.refresh()
        self.post_message(self.SearchChanged(self))

    def _search_slice(self) -> None:
        if self._pattern is None or self._searched >= self.buffer.end:
            return
        before = len(self._matches)
        until = perf_counter() + SLICE
        while self._searched < self.buffer.end and perf_counter() < until:
            self._searched = max(self._searched, self.buffer.first)
            chunk = self.buffer.chunk_of(self._searched)
            self._matches.extend(matching_lines(chunk, self._pattern, self._searched))
            self._searched = chunk.first + len(chunk)
        if self._searched < self.buffer.end:
            self.call_later(self._search_slice)
        if len(self._matches) != before:
            self.match_count = len(self._matches)
            self.post_message(self.SearchChanged(self))

    def _forget_matches(self, first: int) -> None:
        gone = bisect_left(self._matches, first)
        if gone:
            del self._matches[:gone]
            self.match_count = len(self._matches)
            self.match_number = max(0, self.match_number - gone)

    # --- frames

    def _frame(self) -> None:
        """Show what came since the last frame, and do a slice of the work that waits."""
        if self._stale:
            self._stale = False
            self._take_in()
            self._search_slice()
        if self._rows is not None:
            anchor = self._rows.line_at(round(self.scroll_y))
            until = perf_counter() + SLICE
            counted = False
            while perf_counter() < until and self._rows.count_more():
                counted = True
            if counted:
                self._resize()
                if self.follow:
                    self._place(self.virtual_size.height)
                elif anchor is not None:
                    self._place(self._rows.row_of(anchor[0]) + anchor[1])

    def _take_in(self) -> None:
        first = self.buffer.first
        dropped_rows = 0
        if first > self._seen_first:
            dropped_rows = self._rows.row_of(first) if self._rows else first - self._seen_first
            self._seen_first = first
            self._forget_matches(first)
            self._gaps = {key: text for key, text in self._gaps.items() if key >= first}
        if self._rows is not None:
            self._rows.refresh()
        self._resize()
        if self.follow:
            self._place(self.virtual_size.height)
        elif dropped_rows:
            self._place(round(self.scroll_y) - dropped_rows)
        self.refresh()

    def _recount(self) -> None:
        """Begin anew with the row index: the width, the wrapping or the lines are others."""
        self._strip.cache_clear()
        width = self._text_width()
        self._rows = RowIndex(self.buffer, self._rows_of_line) if self.wrap and width else None
        self._resize()
        if self.follow:
            self._place(self.virtual_size.height)
        self.refresh()

    def _resize(self) -> None:
        rows = self._rows.rows if self._rows is not None else len(self.buffer)
        size = Size(self.scrollable_content_region.width or self.size.width, rows)
        if size != self.virtual_size:
            self.virtual_size = size

    def _place(self, row: int) -> None:
        """Scroll without it counting as the user's own doing."""
        self._placing = True
        self.scroll_to(y=max(0, min(row, self.max_scroll_y)), animate=False, force=True)
        self._placing = False

    # --- lines and rows

    def _text_width(self) -> int:
        return self.scrollable_content_region.width - (STAMP_LENGTH if self.timestamps else 0)

    def _rows_of_line(self, line: bytes) -> int:
        cells = shown_cells(split_stamp(line)[1])
        return max(1, -(-cells // max(1, self._text_width())))

    def _top_line(self) -> int:
        row = round(self.scroll_y)
        if self._rows is None:
            return self.buffer.first + row
        at = self._rows.line_at(row)
        return at[0] if at else self.buffer.end

    def _row_of(self, sequence: int) -> int:
        return self._rows.row_of(sequence) if self._rows else sequence - self.buffer.first

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if not len(self.buffer):
            return self._empty_line(y, width)
        row = round(self.scroll_y) + y
        if self._rows is not None:
            at = self._rows.line_at(row)
            if at is None:
                return Strip.blank(width, self.rich_style)
            sequence, inside = at
        else:
            sequence, inside = self.buffer.first + row, 0
            if sequence >= self.buffer.end:
                return Strip.blank(width, self.rich_style)
        return self._strip(sequence, inside, width)

    def _empty_line(self, y: int, width: int) -> Strip:
        room = min(width, max(20, width - 2 * EMPTY_MARGIN))
        lines = [
            "".join(span.text for span in row).rstrip()
            for line in self.empty_text.split("\n")
            for row in wrap([Span(line)], room)
        ]
        start = max(0, (self.size.height - len(lines)) // 2)
        if not start <= y < start + len(lines):
            return Strip.blank(width, self.rich_style)
        text = lines[y - start]
        text = text.center(width - width_of(text) + len(text))
        return Strip([Segment(text, self.get_component_rich_style("log-view--empty"))])

    def _make_strip(self, sequence: int, inside: int, width: int) -> Strip:
        base = self.rich_style
        stamp, text = split_stamp(self.buffer[sequence])
        if sequence in self._gaps:
            style = self.get_component_rich_style("log-view--gap")
            strip = Strip([Segment(f"── {self._gaps[sequence]} ──", style)])
            return strip.crop_extend(0, width, base)
        strip = Strip(parse(text, base))
        current = bool(self.match_number) and self._matches[self.match_number - 1] == sequence
        if self._pattern is not None:
            strip = self._highlighted(strip, self._pattern, current)
        text_width = max(1, self._text_width())
        start = inside * text_width if self._rows is not None else self._shift
        strip = strip.crop(start, start + text_width)
        if self.timestamps:
            shown = short_stamp(stamp) if not inside else ""
            style = self.get_component_rich_style("log-view--timestamp")
            head = Strip([Segment(shown.ljust(STAMP_LENGTH), style)])
            strip = Strip.join([head, strip])
        return strip.crop_extend(0, width, base)

    def _highlighted(self, strip: Strip, pattern: Pattern[bytes], current: bool) -> Strip:
        text = strip.text
        spans = [
            (len(text.encode()[: m.start()].decode(errors="ignore")),
             len(text.encode()[: m.end()].decode(errors="ignore")))
            for m in pattern.finditer(text.encode())
            if m.end() > m.start()
        ]  # fmt: skip
        if not spans:
            return strip
        style = self.get_component_rich_style("log-view--match")
        if current:
            style += Style(underline=True, reverse=True)
        return Strip(restyle(list(strip), spans, style))

    # --- reactions

    def on_resize(self, event: Resize) -> None:
        self._recount()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strip.cache_clear()

    def watch_wrap(self) -> None:
        self._shift = 0
        if self.is_mounted:
            self._recount()

    def watch_timestamps(self) -> None:
        if self.is_mounted:
            self._recount()

    def watch_empty_text(self) -> None:
        self.refresh()

    def watch_follow(self, follow: bool) -> None:
        if follow and self.is_mounted:
            self._place(self.virtual_size.height)
        self.post_message(self.FollowChanged(self))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._placing and round(old_value) != round(new_value):
            self.follow = new_value >= self.max_scroll_y

    def action_scroll_home(self) -> None:
        self.scroll_to(y=0, animate=False)

    def action_scroll_end(self) -> None:
        self.follow = True
        self._place(self.virtual_size.height)

    def action_page_up(self) -> None:
        self.scroll_to(y=self.scroll_y - self.size.height, animate=False)

    def action_page_down(self) -> None:
        self.scroll_to(y=self.scroll_y + self.size.height, animate=False)

    def action_pan(self, columns: int) -> None:
        """Move sideways along lines that are not wrapped."""
        if self._rows is None:
            limit = max(0, self.buffer.longest - self._text_width())
            self._shift = max(0, min(self._shift + columns, limit))
            self._strip.cache_clear()
            self.refresh()


def split_stamp(line: bytes) -> tuple[bytes, bytes]:
    """The time stamp and the text of a line; no stamp where there is none."""
    if line[4:5] == b"-" and line[10:11] == b"T":
        stamp, space, text = line.partition(b" ")
        if space and len(stamp) <= 40:
            return stamp, text
    return b"", line


def short_stamp(stamp: bytes) -> str:
    """``12:34:56.789`` of an RFC 3339 time."""
    text = stamp[11:23].decode("ascii", "replace").rstrip("Z")
    return text if "." in text else text[:8] + ".000" if text else ""


def restyle(
    segments: Sequence[Segment], spans: Sequence[tuple[int, int]], style: Style
) -> list[Segment]:
    """Lay ``style`` over character ranges of a row of segments."""
    result: list[Segment] = []
    offset = 0
    for segment in segments:
        text, own = segment.text, segment.style
        end = offset + len(text)
        cuts = sorted({0, len(text)} | {
            cut - offset for span in spans for cut in span if offset < cut < end
        })  # fmt: skip
        for start, stop in pairwise(cuts):
            inside = any(a <= offset + start and offset + stop <= b for a, b in spans)
            result.append(
                Segment(text[start:stop], (own + style if own else style) if inside else own)
            )
        offset = end
    return result
