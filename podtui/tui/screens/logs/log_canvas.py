"""Draw a log of millions of lines at the cost of the visible lines.

`LogCanvas` draws the lines of `LogLines` by Textual's line API. New lines are stored at once and
drawn by a timer, so that ten thousand lines per second do not delay keys, nor keys the lines.
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

from podtui.tui.screens.logs.log_drawing import LogDrawing
from podtui.tui.views.logs.line_buffer import DISK_BYTES, LineBuffer
from podtui.tui.views.logs.lines import Query
from podtui.tui.views.logs.times import Times

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


class LogCanvas(LogDrawing):
    """A widget that draws log lines as the API sends them: RFC 3339 time stamp, space, text."""

    # By default Textual would lay out and draw the whole screen again for each new line.
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
        """Add lines of one source or kind, see `podtui.tui.views.logs.log_tags`."""
        if texts:
            self.lines.add(stamps, texts, tag)
            self._came += len(texts)
            self._wake()

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
            self._go_on_soon()
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

    def _go_on_soon(self) -> None:
        if not self._busy:
            self._busy = True
            idle = self.idle()
            pause = TURN if idle >= TYPING else max(LONG_TURN, KEYS_FIRST - idle)
            # A message to the widget itself would be handled before other tasks get a turn.
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

    def _lay_out(self) -> None:
        """Rebuild the shown lines and rows, after a change of the query or the lines."""
        self._strip.cache_clear()
        self.lines.lay_out(*self._counting())
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
            self._scroll_update(size)
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
