"""The widget of logs: follows, wraps and searches millions of lines at the cost of those it shows.

`LogView` draws by Textual's line API what `LogLines` holds. What arrives is taken in at once and
shown by a timer, so that neither ten thousand lines a second nor a key waits for the other.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import lru_cache
from time import perf_counter
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.timer import Timer

from podtui.tui.cells import Span, width_of, wrap
from podtui.tui.line_buffer import DISK_BYTES, Chunk, LineBuffer
from podtui.tui.log_filter import LogFilter, compile_search, spans_of
from podtui.tui.log_json import pretty, row_count
from podtui.tui.log_levels import Level
from podtui.tui.log_lines import LogLines, Query
from podtui.tui.log_paint import PARTS, LogRow, Look, Prefix, paint, shown_spans
from podtui.tui.log_tags import GAP, RULE, is_log
from podtui.tui.log_time import Times, shown_time
from podtui.tui.row_index import RowCount
from podtui.tui.scrolled_text import ScrolledText

FRAME: Final = 1 / 15
SLICE: Final = 0.006
"""Seconds of filtering, searching and counting between two looks at the keyboard."""
EMPTY_MARGIN: Final = 3


class LogView(ScrolledText):
    """Lines as the API sends them: an RFC 3339 time stamp, a space, the text."""

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

    class FollowChanged(Message):
        """Posted when the view starts or stops following."""

        def __init__(self, view: LogView) -> None:
            super().__init__()
            self.view = view

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
        self._stale = False
        self._busy = False
        self._placing = False
        self._shift = 0
        self._frames: Timer | None = None
        self._strip = lru_cache(maxsize=1024)(self._make_strip)
        self._styles: dict[str, Style] = {}

    def on_mount(self) -> None:
        super().on_mount()
        self._frames = self.set_interval(FRAME, self._frame)
        self.set_interval(1.0, self._second)

    def on_unmount(self) -> None:
        self.lines.buffer.close()

    # --- lines

    @property
    def buffer(self) -> LineBuffer:
        return self.lines.buffer

    def write(self, lines: Sequence[bytes]) -> None:
        """Take in lines of the first source; they are drawn with the next frame."""
        if lines:
            self.lines.write(lines)
            self._wake()

    def add(self, stamps: Sequence[int], texts: Sequence[bytes], tag: int) -> None:
        """Take in lines of one source or kind, see `podtui.tui.log_tags`."""
        if texts:
            self.lines.add(stamps, texts, tag)
            self._wake()

    def mark_gap(self, text: str) -> None:
        """Add a line of our own that says what is missing at this place."""
        self.add([0], [text.encode(errors="replace")], GAP)

    def clear(self) -> None:
        """Forget all lines and what was found in them; filter and search stay."""
        self.lines.clear()
        self._cursor = None
        self._expanded.clear()
        self.match_count = self.match_number = 0
        self._shift = 0
        self._lay_out()

    def name_sources(self, names: Sequence[str]) -> None:
        """Whose lines the tags from 0 on are."""
        self._names = tuple(names)
        self._recount()

    def _wake(self) -> None:
        self._stale = True
        if self._frames is not None:
            self._frames.resume()

    # --- filter and search

    @property
    def wanted(self) -> Query:
        return self.lines.query

    def ask(
        self,
        *,
        filter: LogFilter | None = None,
        level: Level | None = None,
        events: bool | None = None,
    ) -> None:
        """Show other lines; what is not given stays. Returns at once: the lines of the past come
        as they are looked at, see `LogLines.progress`."""
        old = self.lines.query
        query = Query(
            old.filter if filter is None else filter,
            old.level if level is None else level,
            old.events if events is None else events,
        )
        if query == old:
            return
        anchor = self.current
        self.lines.query = query
        self.match_number = 0
        self._lay_out()
        if anchor is not None and not self.follow:
            self._cursor = anchor
            self._place(self._row_of(anchor) - self.size.height // 2)
        self._wake()

    def search(self, pattern: str) -> None:
        """Look for ``pattern`` in the lines that are shown, those to come included; empty ends the
        search. Returns at once: matches are counted a slice at a time, see `match_count`."""
        self.match_count = self.match_number = 0
        self.lines.search(compile_search(pattern) if pattern else None)
        self._strip.cache_clear()
        self._frame()
        self.refresh()
        self.post_message(self.SearchChanged(self))

    @property
    def searching(self) -> bool:
        return self.lines.pattern is not None

    def next_match(self) -> None:
        """Go to the first match below the current line; round at the end."""
        self._go(forward=True)

    def previous_match(self) -> None:
        self._go(forward=False)

    def _go(self, *, forward: bool) -> None:
        # Without a search the lines that passed the filter are what one looks for.
        lines = self.lines.found or self.lines.rows.shown
        here = self.current
        if lines is None or not lines.count or here is None:
            return
        rank = lines.rank(here)
        # The first look takes the line that it begins at.
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

    # --- frames

    def _frame(self) -> None:
        """Show what came since the last frame, and do a slice of the work that waits."""
        anchor = None if self.follow else self._line_at(round(self.scroll_y))
        below = 0 if anchor is None else round(self.scroll_y) - self._row_of(anchor[0])
        stale, self._stale = self._stale, False
        if stale:
            self.lines.refresh()
        until = perf_counter() + SLICE
        worked = more = self.lines.work()
        while more and perf_counter() < until:
            more = self.lines.work()
        if stale or worked:
            self._resize()
            if self.follow:
                self._place(self.virtual_size.height)
            elif anchor is not None:
                self._place(self._row_of(max(anchor[0], self.lines.buffer.first)) + below)
            self._count_matches()
            self.refresh()
        if more and not self._busy:
            self._busy = True
            self.call_later(self._go_on)
        elif not worked and not stale and self._frames is not None and self.is_mounted:
            self._frames.pause()

    def _go_on(self) -> None:
        self._busy = False
        self._frame()

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

    def _lay_out(self) -> None:
        """Begin anew with what is shown."""
        self._strip.cache_clear()
        self.lines.lay_out(*self._counting())
        self._after_layout()

    def _recount(self) -> None:
        """Begin anew with the rows: the width, the wrapping or what is folded out is other."""
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

    def _counting(self) -> tuple[RowCount | None, Callable[[Chunk], bool] | None]:
        if not (self.wrap or self.json_all or self._expanded):
            return None, None
        return self._rows_of_line, self._uneven

    def _resize(self) -> None:
        size = Size(
            self.scrollable_content_region.width or self.size.width,
            self.lines.rows.rows + self._head,
        )
        if size != self.virtual_size:
            self.virtual_size = size

    def _place(self, row: int) -> None:
        """Scroll without it counting as the user's own doing."""
        self._placing = True
        self.scroll_to(y=max(0, min(row, self.max_scroll_y)), animate=False, force=True)
        self._placing = False

    # --- lines and rows

    @property
    def _head(self) -> int:
        """Rows above the first line: one says what had to go."""
        return 1 if self.lines.buffer.dropped else 0

    def _look(self, width: int) -> Look:
        return Look(width, self.times, self.wrap, self.prefix, self._names, self._shift)

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
        return self._look(self.scrollable_content_region.width).rows_of(line, tag)

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        row = round(self.scroll_y) + y
        if row < self._head:
            return self._dropped(width)
        at = self._line_at(row)
        if at is None:
            return self._empty_line(y, width)
        cursor = not self.follow and at[0] == self.current
        return self._strip(at[0], at[1], width, cursor)

    def _dropped(self, width: int) -> Strip:
        buffer = self.lines.buffer
        why = f": {buffer.trouble}" if buffer.trouble else ""
        text = f"… {buffer.dropped:,} lines not kept{why}"
        return paint(LogRow(text.encode(), GAP), self._look(width), self._style, self.rich_style)

    def _empty_line(self, y: int, width: int) -> Strip:
        used = min(self.lines.rows.rows + self._head, self.size.height)
        said = self.empty_text if not self.lines.log_lines else ""
        if not used and len(self.lines.buffer):
            done = self.lines.progress >= 1
            said = "No line passes the filter. Esc clears it." if done else "Looking…"
        room = min(width, max(20, width - 2 * EMPTY_MARGIN))
        lines = [
            "".join(span.text for span in row).rstrip()
            for line in said.split("\n")
            for row in wrap([Span(line)], room)
        ]
        start = used + max(0, (self.size.height - used - len(lines)) // 2)
        if not start <= y < start + len(lines):
            return Strip.blank(width, self.rich_style)
        text = lines[y - start]
        text = text.center(width - width_of(text) + len(text))
        style = self.rich_style + self._style("empty")
        return Strip([Segment(text, style)])

    def _style(self, part: str) -> Style:
        found = self._styles.get(part)
        if found is None:
            found = self.get_component_rich_style(f"log-view--{part}", partial=True)
            self._styles[part] = found
        return found

    def _make_strip(self, sequence: int, inside: int, width: int, cursor: bool) -> Strip:
        base = self.rich_style
        if cursor:
            base = base + self._style("cursor")
        buffer, look = self.lines.buffer, self._look(width)
        text, tag = buffer[sequence], buffer.tag(sequence)
        rows = self._text_rows(text, tag) if self.wrap else 1
        if inside >= rows:
            folded = pretty(text)
            below = folded[inside - rows] if inside - rows < len(folded) else ()
            return paint(LogRow(text, tag, json=below), look, self._style, base)
        spans, current = self._spans(sequence, text, tag)
        row = LogRow(
            text,
            tag,
            self._time(sequence),
            self.lines.level(sequence),
            inside,
            self._is_marked(sequence),
            self.lines.is_context(sequence),
            spans,
            current,
        )
        return paint(row, look, self._style, base)

    def _time(self, sequence: int) -> str:
        buffer, above = self.lines.buffer, 0
        if self.times is Times.BETWEEN:
            before = self.lines.before(sequence)
            above = buffer.stamp(before) if before is not None else 0
        return shown_time(self.times, buffer.stamp(sequence), above, self._now())

    def _is_marked(self, sequence: int) -> bool:
        index = bisect_left(self.lines.marks, sequence)
        return index < len(self.lines.marks) and self.lines.marks[index] == sequence

    def _spans(
        self, sequence: int, text: bytes, tag: int
    ) -> tuple[tuple[tuple[int, int], ...], bool]:
        """What is marked of a line, and whether it is the current match."""
        if tag in (GAP, RULE):
            return (), False
        pattern = self.lines.pattern
        if pattern is not None:
            spans = shown_spans(text, lambda raw: spans_of(pattern, raw))
            if spans:
                return spans, bool(self.match_number) and sequence == self.current
        return shown_spans(text, self.wanted.filter.spans), False

    # --- the cursor

    @property
    def current(self) -> int | None:
        """The line that keys act on: the last while following, else the one of the cursor, which
        stays in view."""
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

    def go_to(self, sequence: int) -> None:
        """Put the cursor on a line and bring it into view, a third from the top where it was not
        in view."""
        self.follow = False
        self._cursor = sequence
        row, top, height = self._row_of(sequence), round(self.scroll_y), self.size.height
        if not top <= row < top + height:
            self._place(row - height // 3)
        self.refresh()

    def _move(self, step: int) -> None:
        here = self.current
        if here is None:
            return
        first = self._row_of(here)
        row, top, height = first - 1, round(self.scroll_y), self.size.height
        if step > 0:
            row = self._last_row(here) + 1
        at = self._line_at(row)
        if at is None:
            self.follow = step > 0
            return
        self.follow = False
        self._cursor = at[0]
        first, last = self._row_of(at[0]), self._last_row(at[0])
        if step > 0 and last >= top + height:
            # A line taller than the view is gone through row by row.
            tall = last - first >= height
            self._place(top + 1 if tall else last - height + 1)
            self._cursor = at[0] if first < top + height else here
        elif step < 0 and first < top:
            self._place(max(first, top - height + 1) if last - first < height else top - 1)
        self.refresh()

    def _last_row(self, sequence: int) -> int:
        chunk = self.lines.buffer.chunk_of(sequence)
        counting = self._counting()[0]
        rows = counting(chunk, sequence - chunk.first) if counting else 1
        return self._row_of(sequence) + rows - 1

    def on_click(self, event: events.Click) -> None:
        at = self._line_at(round(self.scroll_y) + event.y)
        if at is not None:
            self.follow = False
            self._cursor = at[0]
            self.refresh()

    def toggle_mark(self) -> None:
        """Mark the line of the cursor, or take the mark away."""
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
        """Fold out the JSON of the cursor's line, or in again; whether there is any."""
        here = self.current
        if here is None or not is_log(self.lines.buffer.tag(here)):
            return False
        if not row_count(self.lines.buffer[here]):
            return False
        self.go_to(here)
        self._expanded ^= {here}
        self._recount()
        return True

    # --- reactions

    def on_resize(self, event: events.Resize) -> None:
        self._recount()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()
        self._strip.cache_clear()

    def watch_wrap(self) -> None:
        self._shift = 0
        self._recount()

    def watch_times(self) -> None:
        self._recount()

    def watch_prefix(self) -> None:
        self._recount()

    def watch_json_all(self) -> None:
        self._recount()

    def watch_empty_text(self) -> None:
        self.refresh()

    def watch_follow(self, follow: bool) -> None:
        if follow:
            self._cursor = None
            if self.is_mounted:
                self._place(self.virtual_size.height)
        self.refresh()
        self.post_message(self.FollowChanged(self))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if not self._placing and round(old_value) != round(new_value):
            self.follow = new_value >= self.max_scroll_y

    def action_scroll_up(self) -> None:
        self._move(-1)

    def action_scroll_down(self) -> None:
        self._move(1)

    def action_scroll_home(self) -> None:
        self.follow = False
        self._place(0)
        self._cursor = self.lines.buffer.first
        self.refresh()

    def action_scroll_end(self) -> None:
        self.follow = True
        self._place(self.virtual_size.height)

    def action_pan(self, columns: int) -> None:
        """Move sideways along lines that are not wrapped."""
        if not self.wrap:
            room = self._look(self.scrollable_content_region.width).text_width
            limit = max(0, self.lines.buffer.longest - room)
            self._shift = max(0, min(self._shift + columns, limit))
            self._strip.cache_clear()
            self.refresh()
