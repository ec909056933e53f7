"""Draws millions of log lines at the cost of those in sight.

`LogCanvas` draws by Textual's line API what `LogLines` holds. What arrives is taken in at once and
shown by a timer, so that neither ten thousand lines a second nor a key waits for the other.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.timer import Timer

from podtui.tui.logs.line_buffer import DISK_BYTES, LineBuffer
from podtui.tui.logs.log_drawing import LogDrawing
from podtui.tui.logs.log_lines import Query
from podtui.tui.logs.log_time import Times

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


class LogCanvas(LogDrawing):
    """Lines as the API sends them: an RFC 3339 time stamp, a space, the text."""

    # Textual would lay out the whole screen, and draw all of it, for each line that comes.
    virtual_size = Reactive(Size(0, 0), layout=False, repaint=False)

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
        super().__init__(disk_bytes=disk_bytes, now=now, id=id, classes=classes)
        self.idle: Callable[[], float] = lambda: math.inf
        """Seconds since somebody pressed a key."""
        # A line and its place on the screen, to be kept until the filter has looked at all.
        self._hold: tuple[int, int] | None = None
        self._seeking = False
        """Whether the view goes to the first match as soon as the search finds it."""
        self._stale = False
        self._busy = False
        self._placing = False
        self._frames: Timer | None = None
        self._framed_at = 0.0
        self._came = 0
        """Lines since the last frame."""
        self._worked = False
        """Whether work was done of which nothing is shown yet."""

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
        # Not Textual's way: that draws all rows, also those that only moved with what is above.
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        if round(old_value) != round(new_value):
            self._refresh_rows()
        if not self._placing and round(old_value) != round(new_value):
            self._hold = None
            self._seeking = False
            self.follow = new_value >= self.max_scroll_y
