"""A table: rows are drawn by the line, and only the changed ones again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, cast

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from podtui.tui.widgets.cells import (
    GAP,
    Column,
    Fitted,
    Row,
    Span,
    fit,
    line_width,
    most_important,
    wrap_all,
)
from podtui.tui.widgets.columns import ColumnChoice
from podtui.tui.widgets.filters import Filter
from podtui.tui.widgets.row_set import Marks, RowSet
from podtui.tui.widgets.table_lines import DrawnRows, cell_text, gutter, plain_text, title_spans
from podtui.tui.widgets.tones import Toned

KEEP: Final = 1.0
"""Seconds between two checks for marked rows that no longer exist."""
SUCCEEDS_SECONDS: Final = 5.0
"""Seconds in which a row that replaces the cursor's lost row gets the cursor."""


NO_MATCH: Final = (
    (Span("No row matches the filter.", "soft"),),
    (Span("Esc clears it.", "muted"),),
)


class _OfRow(Message):
    """A message about the row ``key`` of a table; empty for none."""

    def __init__(self, table: Table, key: str) -> None:
        super().__init__()
        self.table = table
        self.key = key

    @property
    def control(self) -> Table:
        return self.table


class Table(Toned, ScrollView, can_focus=True):
    """Rows with a cursor, marks and sorting; a click on a title sorts by its column.

    The first line shows the column titles and does not scroll. The cursor belongs to an object, not
    to a position: it stays on its row wherever that row moves. With ``follow_top``, new rows appear
    on top, and the table stays scrolled to them until a key or a click selects a row.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="table.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="table.page-up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="table.page-down"),
        Binding("home,g", "jump(0)", "First", show=False, id="table.first"),
        Binding("end,G", "jump(-1)", "Last", show=False, id="table.last"),
        Binding("enter", "open", "Open", key_display="enter", id="table.open"),
        Binding("space", "mark", "Mark", show=False, key_display="space", id="table.mark",
                tooltip="Mark the row, to act on several at once"),
        Binding("ctrl+@,ctrl+space", "mark_range", "Mark range", show=False,
                key_display="ctrl+space", id="table.mark-range",
                tooltip="Mark all rows from the last marked one"),
        Binding("ctrl+backslash", "clear_marks", "Clear marks", show=False,
                id="table.clear-marks", tooltip="Remove all marks"),
        Binding("shift+right", "column(1)", "Next column", show=False, id="table.next-column",
                tooltip="Select the next column, to sort by it or copy from it"),
        Binding("shift+left", "column(-1)", "Previous column", show=False,
                id="table.column-before", tooltip="Select the previous column"),
        Binding("O", "sort_chosen", "Sort", show=False, id="table.sort",
                tooltip="Sort by the selected column; again to reverse the order"),
        Binding("ctrl+w", "wide", "Wide", show=False, id="table.wide",
                tooltip="Toggle the wide view"),
        Binding("c", "copy", "Copy", show=False, id="table.copy",
                tooltip="Copy the cell of the selected column, or the name"),
    ]  # fmt: skip

    now: reactive[float] = reactive(0.0, repaint=False)
    empty: reactive[tuple[tuple[Span, ...], ...]] = reactive(())
    """Lines shown in the middle if there are no rows."""

    class CursorMoved(_OfRow):
        """Posted when the cursor moved to another row, or to none."""

        def can_replace(self, message: Message) -> bool:
            # A held key moves the cursor faster than other panes can follow: of the messages that
            # wait, only the last one counts.
            return isinstance(message, Table.CursorMoved) and message.table is self.table

    class Opened(_OfRow):
        """Posted for Enter and for a double click on a row."""

    class MarksChanged(Message):
        """Posted when rows were marked or lost their marks."""

    class Arranged(Message):
        """Posted when the user sorted the table or changed its columns."""

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        sort: str,
        descending: bool = False,
        follow_top: bool = False,
        home_pin: int = 0,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.columns = columns
        self.set = RowSet(columns, self.column_index(sort), descending=descending)
        self.cursor_key = ""
        self.marks = Marks()
        self.choice = ColumnChoice()
        self.needed: frozenset[str] = frozenset()
        """Keys of columns that the objects need, such as the namespace of pods in several."""
        self.column_cursor: str = ""
        """Key of the column that key actions apply to; empty until one is selected."""
        self.no_match: tuple[tuple[Span, ...], ...] = NO_MATCH
        """Lines shown if there are rows, but none passes the filter; empty to show ``empty``."""
        # Until the first key or click (`_touched`), a table with ``follow_top`` shows its top rows.
        self._follow_top = follow_top
        self._home_pin = home_pin
        self._touched = False
        self._anchor = ""
        """Key of the row that the user moved to: a filter that hides and shows it returns to it."""
        # The identity of the cursor's row, kept because the row may vanish. `_gone` is the identity
        # for which the cursor waits since `_gone_at`; empty if it waits for none.
        self._identity = ""
        self._gone = ""
        self._gone_at = 0.0
        self._position = 0
        self._kept_at = 0.0
        self.fitted: tuple[Fitted, ...] = ()
        """The columns that are drawn, with their widths."""
        self.drawn = DrawnRows(columns)

    # --- rows

    def use_columns(self, columns: Sequence[Column], *, sort: str) -> None:
        """Replace the columns; the rows, the filter and the sort order are dropped."""
        self.columns = columns
        self.set = RowSet(columns, self.column_index(sort))
        self.drawn = DrawnRows(columns)
        self.column_cursor = ""
        self._resize()
        self._fit()
        self.refresh()

    def change(self, changed: Iterable[Row], removed: Iterable[str] = ()) -> None:
        """Add or replace changed rows, delete removed ones, and redraw the affected cells."""
        before, in_sight = len(self.set), (self.cursor_key, self._keys_in_sight())
        gone = tuple(removed)
        difference = self.set.apply(changed, gone)
        self.drawn.forget(gone)
        if difference.moved:
            self._settle()
            if len(self.set) != before:
                self._resize()
        fitted = difference.resized and self._fit()
        # The whole table is drawn only if the widths, the keys in view or the cursor's row changed.
        # Rows that come, go or move outside of the view cost nothing here.
        if fitted or (difference.moved and (self.cursor_key, self._keys_in_sight()) != in_sight):
            self.refresh()
            return
        self._refresh_cells(
            position
            for key in difference.touched
            if (position := self.set.index.get(key)) is not None
        )

    def replace(self, rows: Iterable[Row]) -> None:
        fresh = {row.key: row for row in rows}
        self.change(fresh.values(), [key for key in self.set.rows if key not in fresh])

    def filter_by(
        self, wanted: Filter, *, faults_only: bool = False, scope: Filter | None = None
    ) -> None:
        """Show the rows that pass the filter, and ``scope``, which remains until it is replaced.
        The cursor stays on its row, or goes to the first."""
        if self._anchor not in self.set.rows:
            self._anchor = self.cursor_key
        self.set.filter_by(wanted, faults_only=faults_only, scope=scope)
        if len(self.set):
            # A table that follows its newest rows goes on doing so.
            row = self._home() if self._follows else self.set.index.get(self._anchor, self._home())
            self._put_cursor(row)
            self.call_after_refresh(self.show_cursor)
        self._settle()
        self._resize()
        self._fit()
        self.refresh()

    def order_by(self, key: str, descending: bool) -> None:
        """Sort by a column in the given direction."""
        self.set.sort_by(self.column_index(key), descending=descending)
        self._settle()
        self._fit()
        self.refresh()

    def show_columns(self, choice: ColumnChoice) -> None:
        """Show the chosen columns, as far as they fit."""
        if choice != self.choice:
            self.choice = choice
            self._fit()
            self.refresh()

    @property
    def left_out(self) -> int:
        """The number of chosen columns that do not fit."""
        shown = [
            index
            for index in self.shown_columns()
            if self.set.natural[index] or not self.columns[index].optional
        ]
        return max(0, len(shown) - len(self.fitted)) if self.fitted else 0

    @property
    def marked(self) -> tuple[Row, ...]:
        """The marked rows that pass the filter, in table order."""
        return self.marks.among(map(self.set.rows.__getitem__, self.set.order))

    def column_index(self, key: str) -> int:
        return next(i for i, column in enumerate(self.columns) if column.key == key)

    def need_columns(self, needed: frozenset[str]) -> None:
        """Show these columns, unless the user chose others."""
        if needed != self.needed:
            self.needed = needed
            self._fit()
            self.refresh()

    def shown_columns(self) -> tuple[int, ...]:
        return self.choice.shown(self.columns, self.set.sort, self.needed)

    def shows(self, key: str) -> bool:
        """Return whether a column is drawn; before the first layout, whether it is chosen."""
        shown = [column.index for column in self.fitted] or self.shown_columns()
        return self.column_index(key) in shown

    def tick(self, now: float) -> bool:
        """Advance the time and redraw the visible ages that changed.

        Returns True if rows appeared or disappeared due to a filter on ages.
        """
        self.now = now
        if not 0 <= now - self._kept_at < KEEP:
            self._kept_at = now
            self.marks.keep(self.set.rows.values(), now)
        if self.set.advance_time(now):
            self._settle()
            self._resize()
            self.refresh()
            return True
        # Ages are formatted when a row is composed, so that rows outside of the view need no
        # update.
        self._refresh_cells(self._in_sight())
        return False

    @property
    def cursor_row(self) -> Row | None:
        return self.set.rows.get(self.cursor_key)

    def move_to(self, position: int) -> None:
        """Move the cursor to a row and scroll it into view."""
        if not len(self.set):
            self._point("")
            return
        self._touched = True
        self._put_cursor(max(0, min(position, len(self.set) - 1)))
        self._anchor = self.cursor_key
        self.show_cursor()

    def on_key(self) -> None:
        self._touch()

    def _touch(self) -> None:
        """Prepare for a key: it must not act on a row that is out of sight."""
        self._gone = ""
        hidden = len(self.set) > 0 and not self.cursor_in_sight
        if hidden and self._follows:
            # The user sees the newest rows, and has selected none of the others.
            self._put_cursor(0)
        elif hidden:
            self.show_cursor()
        self._touched = True

    @property
    def _follows(self) -> bool:
        """True while the table stays scrolled to its newest rows."""
        return self._follow_top and not self._touched

    @property
    def cursor_in_sight(self) -> bool:
        """True if the row under the cursor is visible."""
        return self._position in self._in_sight()

    def _put_cursor(self, position: int) -> None:
        self._gone = ""
        self._refresh_row(self._position)
        self._position = position
        self._refresh_row(position)
        self._point(self.set.order[position])

    def select(self, key: str) -> bool:
        """Move the cursor to the row of ``key``. Returns False if it is not shown."""
        if key not in self.set.index:
            return False
        self.move_to(self.set.index[key])
        return True

    def _point(self, key: str) -> None:
        row = self.set.rows.get(key)
        self._identity = row.identity if row is not None else ""
        if key != self.cursor_key:
            self.cursor_key = key
            self.post_message(self.CursorMoved(self, key))

    def _settle(self) -> None:
        """Find the cursor's row again after rows moved, or its neighbour if the row is gone."""
        # In this order: the row of the cursor, the row that replaces it, the row that is now at its
        # position. A table that never had a cursor begins at its home row.
        position = self.set.index.get(self.cursor_key)
        if position is None or self._gone:
            position = self._successor(position)
        if position is None:
            position = min(self._position, len(self.set) - 1) if self.cursor_key else self._home()
            position = max(0, position)
            self._point(self.set.order[position] if len(self.set) else "")
        if position != self._position:
            self._position = position
            if not self._follows:
                self.call_after_refresh(self.show_cursor)

    def _successor(self, position: int | None) -> int | None:
        """Return the position of the row that replaced the cursor's lost row, once it exists."""
        if position is None and not self._gone:
            self._gone, self._gone_at = self._identity, self.now
        if self.now - self._gone_at > SUCCEEDS_SECONDS:
            # By then the user has seen the cursor on its new row.
            self._gone = ""
        if self._gone:
            # This search is linear, but happens only while a row is missing.
            for index, key in enumerate(self.set.order):
                if self.set.rows[key].identity == self._gone:
                    self._gone = ""
                    self._point(key)
                    return index
        return position

    def _home(self) -> int:
        """Return the initial cursor position: the first row with the pin ``home_pin``."""
        for position, key in enumerate(self.set.order):
            if self.set.rows[key].pin == self._home_pin:
                return position
        return 0

    # --- geometry

    def _rows_high(self) -> int:
        return max(1, self.size.height - 1)

    def _in_sight(self) -> range:
        top = round(self.scroll_y)
        return range(top, min(len(self.set), top + self._rows_high()))

    def _keys_in_sight(self) -> list[str]:
        seen = self._in_sight()
        return self.set.order[seen.start : seen.stop]

    def _resize(self) -> None:
        self.virtual_size = self.size.with_height(len(self.set) + 1)

    def _fit(self) -> bool:
        """Compute the column widths. Returns True if any changed."""
        selected = self.column_index(self.column_cursor) if self.column_cursor else self.set.sort
        width = self.size.width
        ticked = self.choice.ticked(self.columns)
        self.fitted = fit(
            self.columns,
            self.set.natural,
            self.set.short,
            max(1, width - 2),
            shown=self.shown_columns(),
            wanted=[n for n in (self.set.sort, selected) if ticked is None or n in ticked],
            ticked=ticked or (),
            permanent=[n for n, column in enumerate(self.columns) if column.key in self.needed],
        )
        return self.drawn.set_layout(self.fitted, max(0, width - 2))

    def show_cursor(self) -> None:
        """Scroll the row under the cursor into view."""
        top = round(self.scroll_y)
        high = self._rows_high()
        # Force scrolling: after rows were added, the scroll bar may not exist yet, and Textual
        # does not scroll without one.
        if self._position < top:
            self.scroll_to(y=self._position, animate=False, force=True)
        elif self._position >= top + high:
            self.scroll_to(y=self._position - high + 1, animate=False, force=True)

    def _refresh_row(self, position: int) -> None:
        y = position - round(self.scroll_y) + 1
        if 1 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def _refresh_cells(self, positions: Iterable[int]) -> None:
        """Redraw the cells that changed since their rows were last composed."""
        seen = self._in_sight()
        regions: list[Region] = []
        for position in positions:
            if position in seen:
                row = self.set.rows[self.set.order[position]]
                changed = self.drawn.change(row, self.now, marked=row in self.marks)
                if changed is not None:
                    # The gutter is one cell at the left, the titles are one line at the top.
                    start, end = changed
                    regions.append(Region(1 + start, position - seen.start + 1, end - start, 1))
        if regions:
            self.refresh(*regions)

    def on_resize(self) -> None:
        self._resize()
        if self._fit():
            self.refresh()
        if not self._follows:
            self.call_after_refresh(self.show_cursor)

    # --- drawing

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        base = self.base
        if not len(self.set):
            return self._empty_line(y, width, base)
        if y == 0:
            return self._titles(width, base)
        row = self.set.at(round(self.scroll_y) + y - 1)
        if row is None:
            return Strip.blank(width, base)
        return self._row_strip(row, width, base)

    def _empty_line(self, y: int, width: int, base: Style) -> Strip:
        hidden = bool(self.set.rows) and bool(self.no_match)
        lines = wrap_all(self.no_match if hidden else self.empty, width - 2)
        start = max(0, (self.size.height - len(lines)) // 2)
        if not start <= y < start + len(lines):
            return Strip.blank(width, base)
        line = lines[y - start]
        indent = max(0, (width - line_width(line)) // 2)
        segments = [Segment(" " * indent, base), *self.segments(line, base)]
        return Strip(segments).crop_extend(0, width, base)

    def _titles(self, width: int, base: Style) -> Strip:
        segments = [Segment(" ", base)]
        titles = title_spans(
            self.columns, self.fitted, self.set.sort, descending=self.set.descending
        )
        for fitted, span in zip(self.fitted, titles, strict=True):
            style = base + self.tone(span.tone)
            if self.columns[fitted.index].key == self.column_cursor:
                style += Style(underline=True)
            segments += [Segment(span.text, style), Segment(" " * GAP, base)]
        return Strip(segments).crop_extend(0, width, base)

    def _row_strip(self, row: Row, width: int, base: Style) -> Strip:
        cursor, marked = row.key == self.cursor_key, row in self.marks
        if cursor:
            base = base + self.tone("cursor" if self.has_focus else "cursor-blurred")
        # A cached line does not depend on the cursor. Moving the cursor changes the gutter and the
        # background only, so that two strips are made again, and no line.
        line = self.drawn.line(row, self.now, marked=marked)
        sign = gutter(cursor=cursor, marked=marked)
        strip = self.drawn.strip(row.key, sign.text, base)
        if strip is None:
            segments = self.segments((sign, *line), base)
            strip = Strip(segments).crop_extend(0, width, base)
            self.drawn.keep_strip(row.key, sign.text, base, strip)
        return strip

    def forget_tones(self) -> None:
        super().forget_tones()
        self.drawn.forget_styles()

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        # The rows may have been scrolled before the scroll bar existed.
        if shown:
            self.vertical_scrollbar.position = self.scroll_y

    def watch_empty(self) -> None:
        if not len(self.set):
            self.refresh()

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self._refresh_row(self._position)

    def sort_by(self, key: str) -> None:
        """Sort by a column; reverse the order if the table is already sorted by it."""
        index = self.column_index(key)
        same = index == self.set.sort
        self.order_by(key, not self.set.descending if same else self.columns[index].descending)
        self.post_message(self.Arranged())

    def text(self) -> str:
        """Return all rows of the table as text."""
        rows = (self.set.rows[key] for key in self.set.order)
        return plain_text(rows, self.columns, self.shown_columns(), self.now)

    # --- keys and mouse

    def action_move(self, rows: int) -> None:
        self.move_to(self._position + rows)

    def action_page(self, pages: int) -> None:
        self.move_to(self._position + pages * max(1, self._rows_high() - 1))

    def action_jump(self, position: int) -> None:
        self.move_to(position if position >= 0 else len(self.set) - 1)

    def action_open(self) -> None:
        if self.cursor_key:
            self.post_message(self.Opened(self, self.cursor_key))

    def action_mark(self) -> None:
        row = self.cursor_row
        if row is not None and row.markable:
            self.marks.toggle(row, self.now)
            self._refresh_row(self._position)
            self.post_message(self.MarksChanged())
            self.move_to(self._position + 1)

    def action_mark_range(self) -> None:
        if self.cursor_row is not None:
            rows = [self.set.rows[key] for key in self.set.order]
            self.marks.extend(rows, self._position, self.now)
            self.refresh()
            self.post_message(self.MarksChanged())

    def action_clear_marks(self) -> None:
        if len(self.marks):
            self.marks.clear()
            self.refresh()
            self.post_message(self.MarksChanged())

    def action_column(self, step: int) -> None:
        keys = [self.columns[index].key for index in self.shown_columns()]
        here = self.column_cursor or self.columns[self.set.sort].key
        index = keys.index(here) if here in keys else 0
        self.column_cursor = keys[(index + step) % len(keys)]
        self._fit()
        self.refresh()

    def action_sort_chosen(self) -> None:
        self.sort_by(self.column_cursor or self.columns[self.set.sort].key)

    def action_wide(self) -> None:
        self.show_columns(self.choice.widened())
        self.post_message(self.Arranged())

    def action_copy(self) -> None:
        row = self.cursor_row
        if row is None:
            return
        key = self.column_cursor
        if row.summary and not key:
            cast("App[Any]", cast("Any", self).app).copy_to_clipboard(row.summary)
            self.notify(row.summary, title="Copied", timeout=2, markup=False)
            return
        index = self.column_index(key) if key else most_important(self.columns)
        tail = row.tail if row.tail is not None and index >= row.tail_from else None
        text = tail.text if tail is not None else cell_text(row.cells[index], self.now)
        cast("App[Any]", cast("Any", self).app).copy_to_clipboard(text)
        self.notify(text, title=f"Copied {self.columns[index].title}", timeout=2, markup=False)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        left = event.button == 1
        if left:
            # Let other buttons bubble to the screen, which opens the menu of the clicked row.
            event.stop()
        if offset is None or not len(self.set):
            return
        if offset.y == 0:
            if not left:
                return
            column = self._column_at(offset.x)
            if column is not None:
                self.sort_by(column.key)
            return
        position = round(self.scroll_y) + offset.y - 1
        if position < len(self.set):
            again = left and self.set.order[position] == self.cursor_key and event.chain > 1
            self.move_to(position)
            if again:
                self.action_open()

    def _column_at(self, x: int) -> Column | None:
        left = 1
        for fitted in self.fitted:
            if left <= x < left + fitted.width + GAP:
                return self.columns[fitted.index]
            left += fitted.width + GAP
        return None
