"""A log of millions of lines, drawn at the cost of the visible lines.

New lines are stored at once and drawn by a timer, so that ten thousand lines per second do not
delay keys, nor keys the lines.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from time import perf_counter
from typing import ClassVar, Final

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import Reactive, reactive
from textual.strip import Strip
from textual.timer import Timer

from podtui.tui.screens.logs.log_paint import (
    PARTS,
    LogRow,
    PaintOptions,
    Prefix,
    Spans,
    centred,
    log_row,
    marked_spans,
    paint,
)
from podtui.tui.views.logs.filters import LogFilter
from podtui.tui.views.logs.json_rows import row_count
from podtui.tui.views.logs.levels import Level
from podtui.tui.views.logs.line_buffer import (
    CUT,
    DISK_BYTES,
    GAP,
    Chunk,
    LineBuffer,
    is_log,
)
from podtui.tui.views.logs.line_index import RowCount
from podtui.tui.views.logs.lines import LogLines, Query
from podtui.tui.views.logs.merge import HeadLine
from podtui.tui.views.logs.times import Times
from podtui.tui.widgets.delays import call_after
from podtui.tui.widgets.scrolled_text import ScrolledText
from podtui.tui.widgets.search import compile_search

FRAME: Final = 1 / 15
FLOOD: Final = 250
"""New lines per frame that are too many to read: drawing every frame would only delay the lines."""
FLOOD_FRAME: Final = 1 / 4
SLICE: Final = 0.004
"""Seconds of filtering, searching and counting before the event loop may handle keys again."""
TURN: Final = 0.001
"""Seconds left to other tasks between two slices."""
KEYS_FIRST: Final = 0.03
"""Seconds after a key in which slices and frames wait, so that the effect of the key is drawn
first."""
LONGEST: Final = 0.5
"""Maximum delay of a frame in seconds: the user may hold a key down."""
TYPING: Final = 0.12
"""Seconds after a key in which another key is likely. During this time slices are short: a search
blocks the threads that read keys and write to the terminal."""
SHORT_SLICE: Final = 0.0015
LONG_TURN: Final = 0.005
"""`SLICE` and `TURN` while the user types."""

LineRow = tuple[int, int, bool]
"""A line, the index of the row within the line, and True if the cursor is on the line."""
Row = LineRow | str
"""The content of a screen row: a row of a line, or a message."""


class Shown(Struct, frozen=True):
    """The values that all rows of one frame share."""

    width: int
    options: PaintOptions
    cursor: int | None
    """The line of the cursor; None while following, when no line is highlighted."""


class LogView(ScrolledText):
    """A widget for log lines as the API sends them: RFC 3339 time stamp, space, text.

    Only visible rows are drawn, and of these only the changed ones.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log-view--{part}" for part in PARTS}
    DEFAULT_CSS = """
    LogView {
        & > .log-view--timestamp { color: $text-muted; }
        & > .log-view--match { background: $warning; color: $background; text-style: bold; }
        & > .log-view--current {
            background: $warning; color: $background; text-style: bold underline reverse;
        }
        & > .log-view--gap { color: $warning; text-style: italic; }
        & > .log-view--rule { color: $accent; text-style: italic; }
        & > .log-view--event { color: $accent; text-style: italic; }
        & > .log-view--event-warning { color: $warning; text-style: italic; }
        & > .log-view--empty { color: $text-muted; }
        & > .log-view--mark { color: $accent; text-style: bold; }
        & > .log-view--cursor { background: $panel; }
        & > .log-view--context { text-style: dim; }
        & > .log-view--level-fatal { color: $error; text-style: bold reverse; }
        & > .log-view--level-error { color: $error; text-style: bold; }
        & > .log-view--level-warn { color: $warning; text-style: bold; }
        & > .log-view--level-info { color: $success; }
        & > .log-view--level-debug { color: $text-muted; }
        & > .log-view--level-trace { color: $text-muted; text-style: italic; }
        & > .log-view--json-key { color: $primary; }
        & > .log-view--json-string { color: $success; }
        & > .log-view--json-number { color: $secondary; }
        & > .log-view--json-word { color: $accent; }
        & > .log-view--source-0 { color: $primary; }
        & > .log-view--source-1 { color: $accent; }
        & > .log-view--source-2 { color: $secondary; }
        & > .log-view--source-3 { color: $success; }
    }
    """

    follow: reactive[bool] = reactive(True)
    wrap: reactive[bool] = reactive(False)
    times: reactive[Times] = reactive(Times.OFF)
    prefix: reactive[Prefix] = reactive(Prefix.LOCKED)
    json_all: reactive[bool] = reactive(False)
    empty_text: reactive[str] = reactive("")

    # By default Textual would lay out and draw the whole screen again for each new line.
    virtual_size = Reactive(Size(0, 0), layout=False, repaint=False)

    class FollowChanged(Message):
        """Posted when the view starts or stops following."""

        def __init__(self, view: LogView) -> None:
            super().__init__()
            self.view = view

    class EarlierWanted(Message):
        """Posted when the user moves up and remarks on earlier lines (`CUT`) are visible; ``cuts``
        are their sequence numbers."""

        def __init__(self, view: LogView, cuts: Sequence[int]) -> None:
            super().__init__()
            self.view = view
            self.cuts = cuts

    def __init__(
        self,
        *,
        disk_bytes: int = DISK_BYTES,
        now: Callable[[], float] = time.time,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.lines = LogLines(disk_bytes)
        self._now = now
        self._names: tuple[str, ...] = ()
        self._cursor: int | None = None
        self._expanded: set[int] = set()
        self._shift = 0
        self._strip = lru_cache(maxsize=1024)(self._make_strip)
        self._styles: dict[str, Style] = {}
        self._drawing = False
        self._shown_now: Shown | None = None
        self._drawn: dict[int, Row] = {}
        """The last drawn content of each screen row."""
        self.idle: Callable[[], float] = lambda: math.inf
        """Return the seconds since the last key press."""
        # A line and its row on the screen, kept in place until the filter has scanned all lines.
        self._hold: tuple[int, int] | None = None
        self._seeking = False
        """True if the view moves to the first match as soon as the search finds it."""
        self._stale = False
        self._busy = False
        self._placing = False
        self._frames: Timer | None = None
        self._framed_at = 0.0
        self._came = 0
        """Number of lines added since the last frame."""
        self._worked = False
        """True if work was done whose result is not drawn yet."""
        self._origin: tuple[tuple[int, int] | None, int | None] = (None, None)
        """The position where a search began: the value of `_top` and the cursor line, each None
        while following."""

    def on_mount(self) -> None:
        super().on_mount()
        self._frames = self.set_interval(FRAME, self._due)
        self.set_interval(1.0, self._second)

    def on_unmount(self) -> None:
        self.lines.buffer.close()

    # --- lines

    @property
    def buffer(self) -> LineBuffer:
        return self.lines.buffer

    def write(self, lines: Sequence[bytes]) -> None:
        """Add lines of the first source; they are drawn with the next frame."""
        if lines:
            self.lines.write(lines)
            self._wake()

    def add(self, stamps: Sequence[int], texts: Sequence[bytes], tag: int) -> None:
        """Add lines of one source or kind, see `podtui.tui.views.logs.line_buffer`."""
        if texts:
            self.lines.add(stamps, texts, tag)
            self._came += len(texts)
            self._wake()

    def rewrite_head(
        self, until: int, rewrite: Callable[[list[HeadLine]], Sequence[HeadLine]]
    ) -> bool:
        """Replace all lines before ``until`` by what ``rewrite`` makes of them. What is visible,
        the cursor and the marks stay. Returns False if lines were dropped: then there is no head.
        """
        top = self._top()
        if self._stale:
            self.lines.refresh()
        if self.lines.buffer.dropped:
            return False
        moved = self.lines.replace_head(until, rewrite(self.lines.head(until)))

        def now(sequence: int) -> int:
            # The line above ``until`` takes the place of one that is gone.
            return sequence if sequence >= until else moved.get(sequence, until - 1)

        self._cursor = None if self._cursor is None else now(self._cursor)
        self._hold = None if self._hold is None else (now(self._hold[0]), self._hold[1])
        place, cursor = self._origin
        self._origin = (
            None if place is None else (now(place[0]), place[1]),
            None if cursor is None else now(cursor),
        )
        self._expanded = {now(n) for n in self._expanded if n >= until or n in moved}
        self._strip.cache_clear()
        self._settle(None if top is None else (now(top[0]), top[1]))
        self._worked = True
        self.refresh()
        self._wake()
        return True

    def clear(self) -> None:
        """Drop all lines and their matches; keep the filter and the search."""
        self.lines.clear()
        self._cursor = self._hold = None
        self._expanded.clear()
        self.match_count = self.match_number = 0
        self._shift = 0
        self._lay_out()

    def name_sources(self, names: Sequence[str]) -> None:
        """Set the names of the sources, in the order of their tags from 0 on."""
        self._names = tuple(names)
        self._recount()

    def _wake(self) -> None:
        self._stale = True
        if self._frames is not None:
            self._frames.resume()

    @property
    def wanted(self) -> Query:
        return self.lines.query

    # --- filter and search

    def ask(
        self,
        *,
        filter: LogFilter | None = None,
        level: Level | None = None,
        events: bool | None = None,
    ) -> None:
        """Change the query; keep the parts that are not given.

        Returns at once: past lines appear as they are scanned, see `LogLines.progress`.
        """
        old = self.lines.query
        query = Query(
            old.filter if filter is None else filter,
            old.level if level is None else level,
            old.events if events is None else events,
        )
        if query == old:
            return
        here = self.current
        if here is not None and not self.follow:
            self._cursor = here
            self._hold = (here, self._row_of(here) - round(self.scroll_y))
        self.lines.query = query
        self.match_number = 0
        self._lay_out()
        self._wake()
        self.draw_frame()

    def search(self, pattern: str) -> None:
        """Search the shown lines, including future ones, for ``pattern``; empty ends the search.

        Returns at once: matches are counted in slices, see `match_count`.
        """
        wanted = compile_search(pattern) if pattern else None
        before = self._marked()
        self.match_number = 0
        if wanted != self.lines.pattern:
            if self._stale:
                # Lines that came since the last frame have no rows yet, and may match.
                top = self._top()
                self.lines.refresh()
                self._settle(top)
            self.match_count = 0
            self.lines.search(wanted)
            self._worked = True
            self._wake()
        self._strip.cache_clear()
        self._refresh(y for y, marks in self._marked().items() if before.get(y) != marks)
        self.post_message(self.SearchChanged(self))

    def begin_find(self) -> None:
        """Remember the position: `seek` searches from here, `end_find` returns to it."""
        self._origin = self._top(), None if self.follow else self.current

    def seek(self) -> None:
        """Go to the first match at or below the line where the search began, or to the first match
        of the whole log if the view was following.

        This happens as soon as the match is found, unless the user moves first. Without a search,
        return to where the search began.
        """
        self._seeking = self.searching
        if self.searching:
            self._take_match()
        else:
            self.end_find()

    def end_find(self) -> None:
        """Return to the position where the search began."""
        self._seeking = False
        top, cursor = self._origin
        self._cursor = cursor
        if top is None:
            self.follow = True
        else:
            self._place(self._row_of(max(top[0], self.lines.buffer.first)) + top[1])
        found = self.lines.found
        if found is not None and cursor is not None and cursor in found:
            self.match_count, self.match_number = found.count, found.rank(cursor) + 1
            self.post_message(self.SearchChanged(self))
        self.refresh()

    def _take_match(self) -> None:
        matches = self.lines.found
        if not self._seeking or matches is None:
            return
        if matches.count:
            cursor = self._origin[1]
            begin = self.lines.buffer.first if cursor is None else cursor
            rank = matches.rank(max(begin, self.lines.buffer.first)) % matches.count
            if matches.at(rank) != self._cursor or self.match_number != rank + 1:
                self._strip.cache_clear()
                self.go_to(matches.at(rank))
                self.match_count, self.match_number = matches.count, rank + 1
                self.post_message(self.SearchChanged(self))
        # The newest lines are searched first: an earlier match may still be found.
        self._seeking = self.lines.progress < 1

    def _marked(self) -> dict[int, tuple[Spans, bool]]:
        """Return the highlighted ranges by screen row, and True if they are the current match."""
        marked: dict[int, tuple[Spans, bool]] = {}
        here = self.current if self.match_number else None
        buffer = self.lines.buffer
        for y in range(self.size.height):
            at = self._line_at(round(self.scroll_y) + y)
            if at is not None:
                sequence = at[0]
                spans, searched = marked_spans(self.lines, buffer[sequence], buffer.tag(sequence))
                marked[y] = spans, searched and sequence == here
        return marked

    @property
    def searching(self) -> bool:
        return self.lines.pattern is not None

    def next_match(self) -> None:
        """Go to the first match below the current line, wrapping at the end."""
        self._go(forward=True)

    def previous_match(self) -> None:
        self._go(forward=False)

    def _go(self, *, forward: bool) -> None:
        self._seeking = False
        # Without a search, go through the lines that passed the filter.
        lines = self.lines.found or self.lines.rows.shown
        here = self.current
        if lines is None or not lines.count or here is None:
            return
        rank = lines.rank(here)
        # The first step of a search may select the current line itself.
        leaves = here in lines and bool(self.match_number or not self.searching)
        if forward:
            rank += leaves
        elif leaves or here not in lines:
            rank -= 1
        rank %= lines.count
        self.match_number = rank + 1 if self.searching else 0
        self.go_to(lines.at(rank))
        self._strip.cache_clear()
        self.post_message(self.SearchChanged(self))

    # --- the cursor

    def go_to(self, sequence: int) -> None:
        """Move the cursor to a line; if it is not visible, scroll it to a third from the top."""
        self.follow = False
        self._hold = None
        self._cursor = sequence
        row, top, height = self._row_of(sequence), round(self.scroll_y), self.size.height
        if not top <= row < top + height:
            self._place(row - height // 3)
        self.refresh()

    def _move(self, step: int) -> None:
        here = self.current
        if here is None:
            return
        self._hold = None
        self._seeking = False
        if step < 0 and self.lines.buffer.tag(here) == CUT:
            self._ask_for_earlier()
        top, height = round(self.scroll_y), self.size.height
        first, last = self._row_of(here), self._last_row(here)
        # Scroll row by row through a line that extends beyond the view.
        if (step > 0 and last >= top + height) or (step < 0 and first < top):
            self.follow = False
            self._place(top + step)
            return
        at = self._line_at(last + 1 if step > 0 else first - 1)
        if at is None:
            self.follow = step > 0
            if step < 0:
                self._ask_for_earlier()
            return
        self.follow = False
        self._cursor = at[0]
        first, last = self._row_of(at[0]), self._last_row(at[0])
        if step > 0 and last >= top + height:
            self._place(min(first, last - height + 1))
        elif step < 0 and first < top:
            self._place(max(first, last - height + 1))
        self._refresh_rows()

    def _last_row(self, sequence: int) -> int:
        chunk = self.lines.buffer.chunk_of(sequence)
        counting = self._counting()[0]
        rows = counting(chunk, sequence - chunk.first) if counting else 1
        return self._row_of(sequence) + rows - 1

    def on_click(self, event: events.Click) -> None:
        if event.button != 1:
            return
        at = self._line_at(round(self.scroll_y) + event.y)
        if at is not None:
            self._seeking = False
            self.follow = False
            self._cursor = at[0]
            self.refresh()

    def toggle_mark(self) -> None:
        """Mark or unmark the cursor line."""
        here = self.current
        if here is not None:
            self.lines.toggle_mark(here)
            self._strip.cache_clear()
            self.refresh()

    def go_to_mark(self, step: int) -> None:
        here = self.current
        target = self.lines.next_mark(here, step) if here is not None else None
        if target is not None:
            self.go_to(target)

    def toggle_json(self) -> bool:
        """Unfold or fold the JSON of the cursor line. Returns False if it contains none."""
        here = self.current
        if here is None or not is_log(self.lines.buffer.tag(here)):
            return False
        if not row_count(self.lines.buffer[here]):
            return False
        self.go_to(here)
        self._expanded ^= {here}
        self._recount()
        return True

    # --- moving

    def action_scroll_up(self) -> None:
        self._move(-1)

    def action_scroll_down(self) -> None:
        self._move(1)

    def action_scroll_home(self) -> None:
        self._ask_for_earlier()
        self.follow = False
        self._place(0)
        self._cursor = self.lines.buffer.first
        self.refresh()

    def action_page_up(self) -> None:
        self._ask_for_earlier()
        super().action_page_up()

    def on_mouse_scroll_up(self) -> None:
        self._ask_for_earlier()

    def _ask_for_earlier(self) -> None:
        """Ask for the earlier lines that a visible remark is about, before the user moves up."""
        buffer, top = self.lines.buffer, round(self.scroll_y)
        lines = (self._line_at(row) for row in range(top, top + self.size.height))
        cuts = [at[0] for at in lines if at is not None and buffer.tag(at[0]) == CUT]
        if cuts:
            self.post_message(self.EarlierWanted(self, cuts))

    def action_scroll_end(self) -> None:
        self.follow = True
        self._place(self.virtual_size.height)

    def action_pan(self, columns: int) -> None:
        """Scroll sideways, if lines are not wrapped."""
        if not self.wrap:
            room = self._paint_options(self.shown_width).text_width
            limit = max(0, self.lines.buffer.longest - room)
            self._shift = max(0, min(self._shift + columns, limit))
            self._strip.cache_clear()
            self.refresh()

    # --- frames

    def _due(self) -> None:
        now = perf_counter()
        since = now - self._framed_at
        if self.idle() < KEYS_FIRST and since < LONGEST:
            return
        if self._came < FLOOD or since >= FLOOD_FRAME:
            self._came, self._framed_at = 0, now
            self.draw_frame()

    def draw_frame(self) -> None:
        """Draw new lines and new matches, then continue the background work."""
        top = self._top()
        stale, self._stale = self._stale, False
        if stale:
            self.lines.refresh()
        more = self._work()
        worked, self._worked = self._worked, False
        if stale or worked:
            self._settle(top)
            self._count_matches()
        if more:
            self._continue_soon()
        elif not worked and not stale and self._frames is not None and self.is_mounted:
            self._frames.pause()

    def _work(self) -> bool:
        """Do one slice of the pending work. Returns True if there is more."""
        now = perf_counter()
        until = now + (SLICE if self.idle() >= TYPING else SHORT_SLICE)
        more = self.lines.work()
        self._worked |= more
        while more and perf_counter() < until:
            more = self.lines.work()
        return more

    def _continue_soon(self) -> None:
        if not self._busy:
            self._busy = True
            idle = self.idle()
            pause = TURN if idle >= TYPING else max(LONG_TURN, KEYS_FIRST - idle)
            # A message to the widget itself would be handled before other tasks get a turn.
            call_after(self, pause, self._continue_work)

    def _continue_work(self) -> None:
        self._busy = False
        top, rows = self._top(), self.lines.rows.rows
        more = self._work()
        if self.lines.rows.rows != rows:
            self._settle(top)
        if more:
            self._continue_soon()

    def _top(self) -> tuple[int, int] | None:
        """Return the top line and the number of its rows above the view; None while following."""
        row = round(self.scroll_y)
        at = None if self.follow else self._line_at(row)
        return None if at is None else (at[0], row - self._row_of(at[0]))

    def _settle(self, top: tuple[int, int] | None) -> None:
        """Keep the visible lines in place after rows were added or removed; draw changed rows."""
        self._resize()
        if self.follow:
            self._place(self.virtual_size.height)
        elif self._hold is not None:
            self._place(self._row_of(self._hold[0]) - self._hold[1])
            self._hold = self._hold if self.lines.progress < 1 else None
        elif top is not None:
            self._place(self._row_of(max(top[0], self.lines.buffer.first)) + top[1])
        self._refresh_rows()

    def _second(self) -> None:
        if self.times is Times.RELATIVE:
            self._strip.cache_clear()
            self.refresh()

    def _count_matches(self) -> None:
        found = self.lines.found
        count = found.count if found is not None else 0
        if count != self.match_count or self.lines.progress < 1:
            self.match_number = min(self.match_number, count)
            if found is not None and self.match_number and self._cursor is not None:
                self.match_number = found.rank(self._cursor) + 1
            self.match_count = count
            self.post_message(self.SearchChanged(self))
        self._take_match()

    def _lay_out(self) -> None:
        """Rebuild the shown lines and rows, after a change of the query or the lines."""
        self._strip.cache_clear()
        self.lines.rebuild(*self._counting())
        self._after_layout()

    def _recount(self) -> None:
        """Rebuild the rows, after a change of width, wrapping, prefix or unfolded JSON."""
        if not self.is_mounted:
            return
        top = self._line_at(round(self.scroll_y))
        self._strip.cache_clear()
        self.lines.recount(*self._counting())
        self._after_layout()
        if top is not None and not self.follow:
            self._place(self._row_of(top[0]))
        self._wake()

    def _after_layout(self) -> None:
        self._resize()
        if self.follow:
            self._place(self.virtual_size.height)
        self.refresh()

    def _resize(self) -> None:
        size = Size(self.shown_width, self.lines.rows.rows + self._head)
        if size != self.virtual_size:
            self.virtual_size = size
            self._placing = True
            # Without the layout that Textual would do: the scrollbar always shows.
            self.vertical_scrollbar.window_virtual_size = size.height
            self.scroll_y = self.validate_scroll_y(self.scroll_y)
            self._placing = False

    def _place(self, row: int) -> None:
        """Scroll without treating it as scrolling by the user."""
        self._placing = True
        y = max(0, min(row, self.max_scroll_y))
        self.scroll_to(y=y, animate=False, force=True, immediate=True)
        self._placing = False

    # --- reactions

    def on_resize(self, event: events.Resize) -> None:
        self._recount()

    def watch_wrap(self) -> None:
        self._shift = 0
        self._recount()

    def watch_times(self) -> None:
        self._recount()

    def watch_prefix(self) -> None:
        self._recount()

    def watch_json_all(self) -> None:
        self._recount()

    def watch_follow(self, follow: bool) -> None:
        if follow:
            self._cursor = None
            if self.is_mounted:
                self._place(self.virtual_size.height)
        self.refresh()
        self.post_message(self.FollowChanged(self))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        # Textual's own method would draw all rows, also rows whose content did not change.
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        if round(old_value) != round(new_value):
            self._refresh_rows()
        if not self._placing and round(old_value) != round(new_value):
            self._hold = None
            self._seeking = False
            self.follow = new_value >= self.max_scroll_y

    # --- lines and rows

    @property
    def _head(self) -> int:
        """The number of rows above the first line: one if lines were dropped, to report that."""
        return 1 if self.lines.buffer.dropped else 0

    def _paint_options(self, width: int) -> PaintOptions:
        return PaintOptions(width, self.times, self.wrap, self.prefix, self._names, self._shift)

    def _line_at(self, row: int) -> tuple[int, int] | None:
        return self.lines.rows.line_at(row - self._head)

    def _row_of(self, sequence: int) -> int:
        return self.lines.rows.row_of(sequence) + self._head

    def _uneven(self, chunk: Chunk) -> bool:
        if self.wrap or self.json_all:
            return True
        return any(chunk.first <= sequence < chunk.end for sequence in self._expanded)

    def _rows_of_line(self, chunk: Chunk, index: int) -> int:
        block = self.lines.buffer.block(chunk)
        line, tag = block.line(index), block.tags[index]
        rows = self._text_rows(line, tag) if self.wrap else 1
        if is_log(tag) and (self.json_all or chunk.first + index in self._expanded):
            rows += row_count(line)
        return rows

    def _text_rows(self, line: bytes, tag: int) -> int:
        return self._paint_options(self.shown_width).rows_of(line, tag)

    # --- drawing

    @property
    def _base(self) -> Style:
        """The background style. `visual_style` is cached; `rich_style` is not."""
        return self.visual_style.rich_style

    def _shown(self) -> Shown:
        width = self.shown_width
        return Shown(width, self._paint_options(width), None if self.follow else self.current)

    def _row(self, y: int, shown: Shown) -> Row:
        row = round(self.scroll_y) + y
        if row < self._head:
            return self._dropped()
        at = self._line_at(row)
        if at is None:
            return self._message_row(y, shown.width)
        return at[0], at[1], at[0] == shown.cursor

    def _dropped(self) -> str:
        buffer = self.lines.buffer
        why = f": {buffer.trouble}" if buffer.trouble else ""
        return f"… {buffer.dropped:,} lines not kept{why}"

    def _message_row(self, y: int, width: int) -> str:
        """Return the message text in a row without a log line."""
        used = min(self.lines.rows.rows + self._head, self.size.height)
        message_text = self.empty_text if not self.lines.log_lines else ""
        if not used and len(self.lines.buffer):
            done = self.lines.progress >= 1
            message_text = "No line passes the filter. Esc clears it." if done else "Looking…"
        lines = centred(message_text, width)
        start = used + max(0, (self.size.height - used - len(lines)) // 2)
        return lines[y - start] if start <= y < start + len(lines) else ""

    def _refresh_rows(self) -> None:
        """Draw the rows whose content changed since they were last drawn."""
        shown = self._shown()
        self._refresh(
            y for y in range(self.size.height) if self._drawn.get(y) != self._row(y, shown)
        )

    def _refresh(self, rows: Iterable[int]) -> None:
        regions = [Region(0, y, self.size.width, 1) for y in rows]
        if regions:
            self.refresh(*regions)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._drawing, self._shown_now = True, None
        try:
            return super().render_lines(crop)
        finally:
            self._drawing = False

    def render_line(self, y: int) -> Strip:
        shown = self._shown_now if self._drawing else None
        if shown is None:
            shown = self._shown_now = self._shown()
        row = self._drawn[y] = self._row(y, shown)
        if not isinstance(row, str):
            return self._strip(row, shown.options)
        if round(self.scroll_y) + y < self._head:
            return paint(LogRow(row.encode(), GAP), shown.options, self._style, self._base)
        if not row:
            return Strip.blank(shown.width, self._base)
        return Strip([Segment(row, self._base + self._style("empty"))])

    def _style(self, part: str) -> Style:
        found = self._styles.get(part)
        if found is None:
            found = self.get_component_rich_style(f"log-view--{part}", partial=True)
            self._styles[part] = found
        return found

    def _make_strip(self, row: LineRow, options: PaintOptions) -> Strip:
        sequence, inside, cursor = row
        base = self._base
        if cursor:
            base = base + self._style("cursor")
        match = self.current if self.match_number else None
        drawn = log_row(self.lines, sequence, inside, options, now=self._now(), match=match)
        return paint(drawn, options, self._style, base)

    # --- the cursor

    @property
    def current(self) -> int | None:
        """The line that keys act on: the last line while following, otherwise the cursor line.

        A cursor outside the view is moved to the nearest visible line.
        """
        rows = self.lines.rows.rows
        if not rows:
            return None
        if self.follow:
            at = self.lines.rows.line_at(rows - 1)
            return at[0] if at is not None else None
        top = round(self.scroll_y)
        bottom = min(top + max(1, self.size.height), rows + self._head) - 1
        row = bottom
        if self._cursor is not None:
            row = self._row_of(max(self._cursor, self.lines.buffer.first))
        at = self._line_at(max(top, self._head, min(row, bottom)))
        return at[0] if at is not None else None

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()
        self._strip.cache_clear()

    def watch_empty_text(self) -> None:
        self.refresh()

    def _counting(self) -> tuple[RowCount | None, Callable[[Chunk], bool] | None]:
        if not (self.wrap or self.json_all or self._expanded):
            return None, None
        return self._rows_of_line, self._uneven
