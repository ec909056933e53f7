"""Build and draw the rows of a log: only visible rows, and of these only the changed ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import ClassVar

from msgspec import Struct
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region
from textual.reactive import reactive
from textual.strip import Strip

from podtui.tui.screens.logs.log_paint import PARTS, LogRow, Look, Prefix, paint
from podtui.tui.screens.logs.log_rows import centred, log_row
from podtui.tui.views.logs.json_rows import row_count
from podtui.tui.views.logs.line_buffer import DISK_BYTES, Chunk
from podtui.tui.views.logs.lines import LogLines
from podtui.tui.views.logs.log_tags import GAP, is_log
from podtui.tui.views.logs.row_index import RowCount
from podtui.tui.views.logs.times import Times
from podtui.tui.widgets.scrolled_text import ScrolledText

LineRow = tuple[int, int, bool]
"""A line, the index of the row within the line, and True if the cursor is on the line."""
Row = LineRow | str
"""The content of a screen row: a row of a line, or a message."""


class Shown(Struct, frozen=True):
    """The values that all rows of one frame share."""

    width: int
    look: Look
    cursor: int | None
    """The line of the cursor; None while following, when no line is highlighted."""


class LogDrawing(ScrolledText):
    """Draws the lines of `LogLines`. A subclass decides when."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"log-view--{part}" for part in PARTS}
    DEFAULT_CSS = """
    LogDrawing {
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
        self.repaints = 0
        """Number of rows drawn since the start; tests check it instead of the time."""

    def _counting(self) -> tuple[RowCount | None, Callable[[Chunk], bool] | None]:
        if not (self.wrap or self.json_all or self._expanded):
            return None, None
        return self._rows_of_line, self._uneven

    # --- lines and rows

    @property
    def _head(self) -> int:
        """The number of rows above the first line: one if lines were dropped, to report that."""
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
        """The background style. `visual_style` is cached; `rich_style` is not."""
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
        """Return the message text in a row without a log line."""
        used = min(self.lines.rows.rows + self._head, self.size.height)
        said = self.empty_text if not self.lines.log_lines else ""
        if not used and len(self.lines.buffer):
            done = self.lines.progress >= 1
            said = "No line passes the filter. Esc clears it." if done else "Looking…"
        lines = centred(said, width)
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
