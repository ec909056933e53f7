"""The log widget: filter, search, cursor, marks and JSON on top of the drawing canvas."""

from __future__ import annotations

from textual import events

from podtui.tui.screens.logs.log_canvas import LogCanvas
from podtui.tui.screens.logs.log_rows import Spans, marked_spans
from podtui.tui.views.logs.filters import LogFilter, compile_search
from podtui.tui.views.logs.json_rows import row_count
from podtui.tui.views.logs.levels import Level
from podtui.tui.views.logs.lines import Query
from podtui.tui.views.logs.log_tags import is_log


class LogView(LogCanvas):
    """A widget for log lines as the API sends them: RFC 3339 time stamp, space, text."""

    _origin: tuple[tuple[int, int] | None, int | None] = (None, None)
    """The position where a search began: the value of `_top` and the cursor line, each None while
    following."""

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
        self._frame()

    def search(self, pattern: str) -> None:
        """Search the shown lines, including future ones, for ``pattern``; empty ends the search.

        Returns at once: matches are counted in slices, see `match_count`.
        """
        wanted = compile_search(pattern) if pattern else None
        before = self._marked()
        self.match_number = 0
        if wanted != self.lines.pattern:
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
            self.match_number = found.rank(cursor) + 1
            self.post_message(self.SearchChanged(self))
        self.refresh()

    def _take_match(self) -> None:
        found = self.lines.found
        if not self._seeking or found is None:
            return
        if found.count:
            cursor = self._origin[1]
            begin = self.lines.buffer.first if cursor is None else cursor
            rank = found.rank(max(begin, self.lines.buffer.first)) % found.count
            if found.at(rank) != self._cursor or self.match_number != rank + 1:
                self._strip.cache_clear()
                self.go_to(found.at(rank))
                self.match_count, self.match_number = found.count, rank + 1
                self.post_message(self.SearchChanged(self))
        # The newest lines are searched first: an earlier match may still be found.
        self._seeking = self.lines.progress < 1

    def _count_matches(self) -> None:
        super()._count_matches()
        self._take_match()

    def _marked(self) -> dict[int, tuple[Spans, bool]]:
        """Return the highlighted ranges by screen row, and True if they are the current match."""
        found: dict[int, tuple[Spans, bool]] = {}
        here = self.current if self.match_number else None
        buffer = self.lines.buffer
        for y in range(self.size.height):
            at = self._line_at(round(self.scroll_y) + y)
            if at is not None:
                sequence = at[0]
                spans, searched = marked_spans(self.lines, buffer[sequence], buffer.tag(sequence))
                found[y] = spans, searched and sequence == here
        return found

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
        self.follow = False
        self._place(0)
        self._cursor = self.lines.buffer.first
        self.refresh()

    def action_scroll_end(self) -> None:
        self.follow = True
        self._place(self.virtual_size.height)

    def action_pan(self, columns: int) -> None:
        """Scroll sideways, if lines are not wrapped."""
        if not self.wrap:
            room = self._look(self.shown_width).text_width
            limit = max(0, self.lines.buffer.longest - room)
            self._shift = max(0, min(self._shift + columns, limit))
            self._strip.cache_clear()
            self.refresh()
