"""Draws millions of log lines at the cost of those in sight.

`LogCanvas` draws by Textual's line API what `LogLines` holds. What arrives is taken in at once and
shown by a timer, so that neither ten thousand lines a second nor a key waits for the other.
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

from podtui.tui.logs.line_buffer import DISK_BYTES, Chunk, LineBuffer
from podtui.tui.logs.log_json import row_count
from podtui.tui.logs.log_lines import LogLines, Query
from podtui.tui.logs.log_paint import PARTS, LogRow, Look, Prefix, paint
from podtui.tui.logs.log_rows import centred, log_row
from podtui.tui.logs.log_tags import GAP, is_log
from podtui.tui.logs.log_time import Times
from podtui.tui.widgets.row_index import RowCount
from podtui.tui.widgets.scrolled_text import ScrolledText

FRAME: Final = 1 / 15
FLOOD: Final = 250
"""Lines in a frame which nobody can read: then drawing all frames would only hold up the lines."""
FLOOD_FRAME: Final = 1 / 4
SLICE: Final = 0.004
"""Seconds of filtering, searching and counting between two looks at the keyboard."""
TURN: Final = 0.001
"""Seconds that all others have between two slices."""
KEYS_FIRST: Final = 0.03
"""Seconds after a key in which such work and frames are put off: first what it does is drawn."""
LONGEST: Final = 0.5
"""Seconds that a frame is put off at most: a key may be held down."""
TYPING: Final = 0.12
"""Seconds after a key in which another is to be expected: then the work leaves most of the time to
the threads that read keys and write what is drawn, which a search keeps waiting."""
SHORT_SLICE: Final = 0.0015
LONG_TURN: Final = 0.005
"""The same two meanwhile."""
EMPTY_MARGIN: Final = 3


LineRow = tuple[int, int, bool]
"""A line, which of its rows, and whether the cursor is on it."""
Row = LineRow | str
"""What a row of the screen says: a line, or these words."""


class Shown(Struct, frozen=True):
    """What is the same for all rows of one drawing."""

    width: int
    look: Look
    cursor: int | None
    """The line of the cursor; None while following, when none stands out."""


class LogCanvas(ScrolledText):
    """Lines as the API sends them: an RFC 3339 time stamp, a space, the text."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log-view--{part}" for part in PARTS}
    DEFAULT_CSS = """
    LogCanvas {
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

    # Textual would lay out the whole screen, and draw all of it, for each line that comes.
    virtual_size = Reactive(Size(0, 0), layout=False, repaint=False)

    follow: reactive[bool] = reactive(True)
    wrap: reactive[bool] = reactive(False)
    times: reactive[Times] = reactive(Times.OFF)
    prefix: reactive[Prefix] = reactive(Prefix.LOCKED)
    json_all: reactive[bool] = reactive(False)
    empty_text: reactive[str] = reactive("")

    class FollowChanged(Message):
        """Posted when the view starts or stops following."""

        def __init__(self, view: LogCanvas) -> None:
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
        self.idle: Callable[[], float] = lambda: math.inf
        """Seconds since somebody pressed a key."""
        self._names: tuple[str, ...] = ()
        self._cursor: int | None = None
        # A line and its place on the screen, to be kept until the filter has looked at all.
        self._hold: tuple[int, int] | None = None
        self._expanded: set[int] = set()
        self._stale = False
        self._busy = False
        self._placing = False
        self._shift = 0
        self._frames: Timer | None = None
        self._framed_at = 0.0
        self._came = 0
        """Lines since the last frame."""
        self._worked = False
        """Whether work was done of which nothing is shown yet."""
        self._strip = lru_cache(maxsize=1024)(self._make_strip)
        self._styles: dict[str, Style] = {}
        self._drawing = False
        self._shown_now: Shown | None = None
        self._drawn: dict[int, Row] = {}
        """What each row of the screen said when it was drawn last."""
        self.repaints = 0
        """Rows drawn since the start; what tests count instead of time."""

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
        """Take in lines of the first source; they are drawn with the next frame."""
        if lines:
            self.lines.write(lines)
            self._wake()

    def add(self, stamps: Sequence[int], texts: Sequence[bytes], tag: int) -> None:
        """Take in lines of one source or kind, see `podtui.tui.logs.log_tags`."""
        if texts:
            self.lines.add(stamps, texts, tag)
            self._came += len(texts)
            self._wake()

    def clear(self) -> None:
        """Forget all lines and what was found in them; filter and search stay."""
        self.lines.clear()
        self._cursor = self._hold = None
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

    @property
    def wanted(self) -> Query:
        return self.lines.query

    # --- frames

    def _due(self) -> None:
        now = perf_counter()
        since = now - self._framed_at
        if self.idle() < KEYS_FIRST and since < LONGEST:
            return
        if self._came < FLOOD or since >= FLOOD_FRAME:
            self._came, self._framed_at = 0, now
            self._frame()

    def _frame(self) -> None:
        """Show what came since the last frame and what was found, and go on with the work."""
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
            self._go_on_soon()
        elif not worked and not stale and self._frames is not None and self.is_mounted:
            self._frames.pause()

    def _work(self) -> bool:
        """Do a slice of the work that waits; whether there is more."""
        now = perf_counter()
        until = now + (SLICE if self.idle() >= TYPING else SHORT_SLICE)
        more = self.lines.work()
        self._worked |= more
        while more and perf_counter() < until:
            more = self.lines.work()
        return more

    def _go_on_soon(self) -> None:
        if not self._busy:
            self._busy = True
            idle = self.idle()
            pause = TURN if idle >= TYPING else max(LONG_TURN, KEYS_FIRST - idle)
            # A message to oneself would be taken before the loop looks at anybody else.
            self.set_timer(pause, self._go_on)

    def _go_on(self) -> None:
        self._busy = False
        top, rows = self._top(), self.lines.rows.rows
        more = self._work()
        if self.lines.rows.rows != rows:
            self._settle(top)
        if more:
            self._go_on_soon()

    def _top(self) -> tuple[int, int] | None:
        """The line at the top and how many of its rows are above; None while following."""
        row = round(self.scroll_y)
        at = None if self.follow else self._line_at(row)
        return None if at is None else (at[0], row - self._row_of(at[0]))

    def _settle(self, top: tuple[int, int] | None) -> None:
        """Rows came or went: keep what is read in its place, and draw the rows that are others."""
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
        size = Size(self.shown_width, self.lines.rows.rows + self._head)
        if size != self.virtual_size:
            self.virtual_size = size
            self._placing = True
            self._scroll_update(size)
            self._placing = False

    def _place(self, row: int) -> None:
        """Scroll without it counting as the user's own doing."""
        self._placing = True
        y = max(0, min(row, self.max_scroll_y))
        self.scroll_to(y=y, animate=False, force=True, immediate=True)
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
        return self._look(self.shown_width).rows_of(line, tag)

    # --- drawing

    @property
    def _base(self) -> Style:
        """What everything is drawn on. Textual works `rich_style` out anew each time."""
        return self.visual_style.rich_style

    def _shown(self) -> Shown:
        width = self.shown_width
        return Shown(width, self._look(width), None if self.follow else self.current)

    def _row(self, y: int, shown: Shown) -> Row:
        row = round(self.scroll_y) + y
        if row < self._head:
            return self._dropped()
        at = self._line_at(row)
        if at is None:
            return self._said(y, shown.width)
        return at[0], at[1], at[0] == shown.cursor

    def _dropped(self) -> str:
        buffer = self.lines.buffer
        why = f": {buffer.trouble}" if buffer.trouble else ""
        return f"… {buffer.dropped:,} lines not kept{why}"

    def _said(self, y: int, width: int) -> str:
        """What stands in a row without a line."""
        used = min(self.lines.rows.rows + self._head, self.size.height)
        said = self.empty_text if not self.lines.log_lines else ""
        if not used and len(self.lines.buffer):
            done = self.lines.progress >= 1
            said = "No line passes the filter. Esc clears it." if done else "Looking…"
        lines = centred(said, width)
        start = used + max(0, (self.size.height - used - len(lines)) // 2)
        return lines[y - start] if start <= y < start + len(lines) else ""

    def _refresh_rows(self) -> None:
        """Draw the rows that say something else than when they were drawn last."""
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
        self.repaints += 1
        if not isinstance(row, str):
            return self._strip(row, shown.look)
        if round(self.scroll_y) + y < self._head:
            return paint(LogRow(row.encode(), GAP), shown.look, self._style, self._base)
        if not row:
            return Strip.blank(shown.width, self._base)
        return Strip([Segment(row, self._base + self._style("empty"))])

    def _style(self, part: str) -> Style:
        found = self._styles.get(part)
        if found is None:
            found = self.get_component_rich_style(f"log-view--{part}", partial=True)
            self._styles[part] = found
        return found

    def _make_strip(self, row: LineRow, look: Look) -> Strip:
        sequence, inside, cursor = row
        base = self._base
        if cursor:
            base = base + self._style("cursor")
        match = self.current if self.match_number else None
        drawn = log_row(self.lines, sequence, inside, look, now=self._now(), match=match)
        return paint(drawn, look, self._style, base)

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
        # Not Textual's way: that draws all rows, also those that only moved with what is above.
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        if round(old_value) != round(new_value):
            self._refresh_rows()
        if not self._placing and round(old_value) != round(new_value):
            self._hold = None
            self.follow = new_value >= self.max_scroll_y
