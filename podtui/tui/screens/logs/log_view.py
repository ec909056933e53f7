"""A log of millions of lines, drawn at the cost of the visible lines.

New lines are stored at once and drawn by a timer, so that ten thousand lines per second do not
delay keys, nor keys the lines.

A line has a sequence number that stays the same. Its place on the screen depends on the filter, on
wrapping and on expanded JSON. The cursor, the marks, the origin of a search and the top of the view
are therefore kept as lines, and translated to rows when something is drawn.

Whatever changes the rows takes three steps: remember the line at the top (`_top`), change the
lines, then put that line back to its place and draw the rows whose content differs (`_settle`).

Filtering, searching and counting rows happen in slices of a few milliseconds, newest lines first,
and pause for keys (`_work`, `_continue_soon`). Until they are done, positions and counts are
estimates, which each slice corrects without moving what the user reads. The view scrolls itself for
that: `_placing` tells this from scrolling by the user, which ends following.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from time import perf_counter
from typing import ClassVar

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
from podtui.tui.screens.logs.row_heights import RowHeights
from podtui.tui.views.logs.filters import LogFilter
from podtui.tui.views.logs.json_rows import row_count
from podtui.tui.views.logs.levels import Level
from podtui.tui.views.logs.line_buffer import CUT, DISK_BYTES, GAP, LineBuffer, is_log
from podtui.tui.views.logs.lines import LogLines, Query
from podtui.tui.views.logs.match_cursor import MatchCursor
from podtui.tui.views.logs.merge import HeadLine
from podtui.tui.views.logs.pace import FRAME_SECONDS, FramePace, pause_seconds, slice_seconds
from podtui.tui.views.logs.times import Times
from podtui.tui.views.logs.viewport import Anchor, Viewport
from podtui.tui.widgets.delays import call_after
from podtui.tui.widgets.scrolled_text import ScrolledText
from podtui.tui.widgets.search import compile_search

LineRow = tuple[int, int, bool]
"""A line, the index of the row within the line, and True if the cursor is on the line."""
Row = LineRow | str
"""The content of a screen row: a row of a line, or a message."""


class Shown(Struct, frozen=True):
    """The values that all rows of one frame share."""

    viewport: Viewport
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
        self._matches = MatchCursor(self.lines)
        self._stale = False
        self._busy = False
        self._placing = False
        self._frames: Timer | None = None
        self._pace = FramePace()
        self._worked = False
        """True if work was done whose result is not drawn yet."""

    def on_mount(self) -> None:
        super().on_mount()
        self._frames = self.set_interval(FRAME_SECONDS, self._due)
        self.set_interval(1.0, self._second)

    def on_unmount(self) -> None:
        # Work that is already queued runs after this, without lines.
        self.lines.close()

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
            self._pace.add(len(texts))
            self._wake()

    def rewrite_head(
        self, until: int, rewrite: Callable[[list[HeadLine]], Sequence[HeadLine]]
    ) -> bool:
        """Replace all lines before ``until`` by what ``rewrite`` makes of them. What is visible,
        the cursor and the marks stay. Returns False if lines were dropped: then there is no head.
        """
        top = self._anchor
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
        self._matches.move(now)
        expanded = {now(line) for line in self._expanded if line >= until or line in moved}
        # Changed in place: the counts of rows read this set.
        self._expanded.clear()
        self._expanded.update(expanded)
        self._strip.cache_clear()
        self._settle(None if top is None else Anchor(now(top.line), top.offset))
        self._worked = True
        self.refresh()
        self._wake()
        return True

    def clear(self) -> None:
        """Drop all lines and their matches; keep the filter and the search."""
        self.lines.clear()
        self._cursor = self._hold = None
        self._expanded.clear()
        self._matches.clear()
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
            viewport = self._viewport
            self._hold = (here, viewport.row_of(here) - viewport.top)
        self.lines.query = query
        self._matches.number = self.match_number = 0
        self._lay_out()
        self._wake()
        self.draw_frame()

    def search(self, pattern: str) -> None:
        """Search the shown lines, including future ones, for ``pattern``; empty ends the search.

        Returns at once: matches are counted in slices, see `match_count`.
        """
        wanted = compile_search(pattern) if pattern else None
        before = self._marked()
        self._matches.number = self.match_number = 0
        if wanted != self.lines.pattern:
            if self._stale:
                # Lines that came since the last frame have no rows yet, and may match.
                top = self._anchor
                self.lines.refresh()
                self._settle(top)
            self._matches.count = self.match_count = 0
            self.lines.search(wanted)
            self._worked = True
            self._wake()
        self._strip.cache_clear()
        self._refresh(y for y, marks in self._marked().items() if before.get(y) != marks)
        self.post_message(self.SearchChanged(self))

    def begin_find(self) -> None:
        """Remember the position: `seek` searches from here, `end_find` returns to it."""
        self._matches.begin(self._anchor, None if self.follow else self.current)

    def seek(self) -> None:
        """Go to the first match at or below the line where the search began, or to the first match
        of the whole log if the view was following.

        This happens as soon as the match is found, unless the user moves first. Without a search,
        return to where the search began.
        """
        self._matches.seeking = self.searching
        if self.searching:
            self._take_match()
        else:
            self.end_find()

    def end_find(self) -> None:
        """Return to the position where the search began."""
        top, self._cursor = self._matches.anchor, self._matches.line
        if top is None:
            self.follow = True
        else:
            self._place(self._viewport.row_of_anchor(top))
        if self._matches.end():
            self._show_match()
        self.refresh()

    def _take_match(self) -> None:
        """Go to the first match, once the search has found it."""
        target = self._matches.seek(self._cursor)
        if target is not None:
            self._strip.cache_clear()
            self.go_to(target)
            self._show_match()

    def _show_match(self) -> None:
        self.match_count, self.match_number = self._matches.count, self._matches.number
        self.post_message(self.SearchChanged(self))

    def _marked(self) -> dict[int, tuple[Spans, bool]]:
        """Return the highlighted ranges by screen row, and True if they are the current match."""
        marked: dict[int, tuple[Spans, bool]] = {}
        here = self.current if self.match_number else None
        buffer = self.lines.buffer
        for y, line in self._viewport.lines():
            spans, searched = marked_spans(self.lines, buffer[line], buffer.tag(line))
            marked[y] = spans, searched and line == here
        return marked

    @property
    def searching(self) -> bool:
        return self._matches.searching

    def next_match(self) -> None:
        """Go to the first match below the current line, wrapping at the end."""
        self._go(forward=True)

    def previous_match(self) -> None:
        self._go(forward=False)

    def _go(self, *, forward: bool) -> None:
        target = self._matches.step(self.current, forward=forward)
        if target is not None:
            self.go_to(target)
            self._strip.cache_clear()
            self._show_match()

    # --- the cursor

    def go_to(self, sequence: int) -> None:
        """Move the cursor to a line; if it is not visible, scroll it to a third from the top."""
        self.follow = False
        self._hold = None
        self._cursor = sequence
        top = self._viewport.top_for(sequence)
        if top is not None:
            self._place(top)
        self.refresh()

    def _move(self, step: int) -> None:
        here = self.current
        if here is None:
            return
        self._hold = None
        self._matches.seeking = False
        if step < 0 and self.lines.buffer.tag(here) == CUT:
            self._ask_for_earlier()
        move = self._viewport.step(here, step)
        self.follow = move is None and step > 0
        if move is None:
            if step < 0:
                self._ask_for_earlier()
            return
        if move.line is not None:
            self._cursor = move.line
        if move.top is not None:
            self._place(move.top)
        if move.line is not None:
            self._refresh_rows()

    def on_click(self, event: events.Click) -> None:
        if event.button != 1:
            return
        viewport = self._viewport
        position = viewport.line_at(viewport.top + event.y)
        if position is not None:
            self._matches.seeking = False
            self.follow = False
            self._cursor = position[0]
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
        buffer = self.lines.buffer
        cuts = [line for _, line in self._viewport.lines() if buffer.tag(line) == CUT]
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
        if self._pace.takes(perf_counter(), self.idle()):
            self.draw_frame()

    def draw_frame(self) -> None:
        """Draw new lines and new matches, then continue the background work."""
        top = self._anchor
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
        until = perf_counter() + slice_seconds(self.idle())
        more = self.lines.work()
        self._worked |= more
        while more and perf_counter() < until:
            more = self.lines.work()
        return more

    def _continue_soon(self) -> None:
        if not self._busy:
            self._busy = True
            # A message to the widget itself would be handled before other tasks get a turn.
            call_after(self, pause_seconds(self.idle()), self._continue_work)

    def _continue_work(self) -> None:
        self._busy = False
        top, rows = self._anchor, self.lines.rows.rows
        more = self._work()
        if self.lines.rows.rows != rows:
            self._settle(top)
        if more:
            self._continue_soon()

    @property
    def _anchor(self) -> Anchor | None:
        """The place of the top row; None while following."""
        return None if self.follow else self._viewport.anchor

    def _settle(self, top: Anchor | None) -> None:
        """Keep the visible lines in place after rows were added or removed; draw changed rows."""
        self._resize()
        if self.follow:
            self._place(self.virtual_size.height)
        elif self._hold is not None:
            self._place(self._viewport.row_of(self._hold[0]) - self._hold[1])
            self._hold = self._hold if self.lines.progress < 1 else None
        elif top is not None:
            self._place(self._viewport.row_of_anchor(top))
        self._refresh_rows()

    def _second(self) -> None:
        if self.times is Times.RELATIVE:
            self._strip.cache_clear()
            self.refresh()

    def _count_matches(self) -> None:
        if self._matches.recount(self._cursor):
            self._show_match()
        self._take_match()

    def _lay_out(self) -> None:
        """Rebuild the shown lines and rows, after a change of the query or the lines."""
        self._strip.cache_clear()
        self.lines.rebuild(*self._heights.counting)
        self._after_layout()

    def _recount(self) -> None:
        """Rebuild the rows, after a change of width, wrapping, prefix or unfolded JSON."""
        if not self.is_mounted:
            return
        top = self._viewport.anchor
        self._strip.cache_clear()
        self.lines.recount(*self._heights.counting)
        self._after_layout()
        if top is not None and not self.follow:
            self._place(self._viewport.row_of(top.line))
        self._wake()

    def _after_layout(self) -> None:
        self._resize()
        if self.follow:
            self._place(self.virtual_size.height)
        self.refresh()

    def _resize(self) -> None:
        size = Size(self.shown_width, self._viewport.total)
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
            self._matches.seeking = False
            self.follow = new_value >= self.max_scroll_y

    # --- lines and rows

    def _paint_options(self, width: int) -> PaintOptions:
        return PaintOptions(width, self.times, self.wrap, self.prefix, self._names, self._shift)

    @property
    def _heights(self) -> RowHeights:
        options = self._paint_options(self.shown_width)
        return RowHeights(self.lines.buffer, options, self.json_all, self._expanded)

    @property
    def _viewport(self) -> Viewport:
        buffer = self.lines.buffer
        return Viewport(
            self.lines.rows, self._heights.rows_of, buffer.first, 1 if buffer.dropped else 0,
            round(self.scroll_y), self.size.height,
        )  # fmt: skip

    # --- drawing

    @property
    def _base(self) -> Style:
        """The background style. `visual_style` is cached; `rich_style` is not."""
        return self.visual_style.rich_style

    def _shown(self) -> Shown:
        width = self.shown_width
        cursor = None if self.follow else self.current
        return Shown(self._viewport, width, self._paint_options(width), cursor)

    def _row(self, y: int, shown: Shown) -> Row:
        viewport = shown.viewport
        row = viewport.top + y
        if row < viewport.head:
            return self._dropped()
        position = viewport.line_at(row)
        if position is None:
            return self._message_row(y, shown)
        return position[0], position[1], position[0] == shown.cursor

    def _dropped(self) -> str:
        buffer = self.lines.buffer
        why = f": {buffer.trouble}" if buffer.trouble else ""
        return f"… {buffer.dropped:,} lines not kept{why}"

    def _message_row(self, y: int, shown: Shown) -> str:
        """Return the message text in a row without a log line."""
        used = min(shown.viewport.total, self.size.height)
        message_text = self.empty_text if not self.lines.log_lines else ""
        if not used and len(self.lines.buffer):
            done = self.lines.progress >= 1
            message_text = "No line passes the filter. Esc clears it." if done else "Looking…"
        lines = centred(message_text, shown.width)
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
        if shown.viewport.top + y < shown.viewport.head:
            return paint(LogRow(row.encode(), GAP), shown.options, self._style, self._base)
        if not row:
            return Strip.blank(shown.width, self._base)
        return Strip([Segment(row, self._base + self._style("empty"))])

    def _style(self, part: str) -> Style:
        style = self._styles.get(part)
        if style is None:
            style = self.get_component_rich_style(f"log-view--{part}", partial=True)
            self._styles[part] = style
        return style

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
        viewport = self._viewport
        return viewport.last_line if self.follow else viewport.nearest(self._cursor)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()
        self._strip.cache_clear()

    def watch_empty_text(self) -> None:
        self.refresh()
