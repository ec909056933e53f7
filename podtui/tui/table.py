"""A table of any number of rows that draws only those in sight, and of these only what changed.

Rows are known by key: the cursor stays on its row however the table is sorted, filtered or changed
under it. Ages run on while nothing else changes (`Table.tick`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from podtui.tui.cells import GAP, Cell, Column, Fitted, Row, Span, fit, line_width, sized
from podtui.tui.filters import Filter
from podtui.tui.row_set import RowSet
from podtui.tui.tones import COMPONENTS, Toned


class Table(Toned, ScrollView, can_focus=True):
    """The first line holds the columns' titles and never scrolls; a click on one sorts by it."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(COMPONENTS)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="table.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="table.page-up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="table.page-down"),
        Binding("home,g", "jump(0)", "First", show=False, id="table.first"),
        Binding("end,G", "jump(-1)", "Last", show=False, id="table.last"),
        Binding("enter", "open", "Open", key_display="enter", id="table.open"),
    ]

    now: reactive[float] = reactive(0.0, repaint=False)
    empty: reactive[tuple[tuple[Span, ...], ...]] = reactive(())
    """Lines to show in the middle when there is no row."""

    class CursorMoved(Message):
        """Posted when another row, or none, is under the cursor."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            return self.table

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, Table.CursorMoved) and message.table is self.table

    class Opened(Message):
        """Posted for Enter and for a click on the row under the cursor."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            return self.table

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        sort: int,
        descending: bool = False,
        follow_top: bool = False,
        home_pin: int = 0,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.columns = columns
        self.set = RowSet(columns, sort, descending=descending)
        self.cursor_key = ""
        self.repaints = 0
        """Lines drawn since the start; what tests count instead of time."""
        self._follow_top = follow_top
        self._home_pin = home_pin
        self._touched = False
        self._same = ""
        self._gone = ""
        self._position = 0
        self._fitted: tuple[Fitted, ...] = ()
        self._ages: dict[str, tuple[str, ...]] = {}

    # --- rows

    def change(self, changed: Iterable[Row], removed: Iterable[str] = ()) -> None:
        """Take in new and changed rows, forget removed ones; draw what that changes."""
        before = len(self.set)
        difference = self.set.apply(changed, removed)
        if difference.moved:
            self._settle()
            if len(self.set) != before:
                self._resize()
        if difference.resized:
            self._fit()
        if difference.moved or difference.resized:
            self.refresh()
            return
        for key in difference.touched:
            self._refresh_row(self.set.index[key])

    def replace(self, rows: Iterable[Row]) -> None:
        fresh = {row.key: row for row in rows}
        self.change(fresh.values(), [key for key in self.set.rows if key not in fresh])

    def filter_by(self, wanted: Filter) -> None:
        self.set.filter_by(wanted)
        self._settle()
        self._resize()
        self._fit()
        self.refresh()

    def sort_by(self, key: str) -> None:
        """Sort by a column; by the same again turns the order round."""
        index = next(i for i, column in enumerate(self.columns) if column.key == key)
        same = index == self.set.sort
        descending = not self.set.descending if same else self.columns[index].descending
        self.set.sort_by(index, descending=descending)
        self._settle()
        self.refresh()

    def tick(self, now: float) -> None:
        """Let time go on: draw the rows in sight whose ages read otherwise now."""
        self.now = now
        for position in self._in_sight():
            row = self.set.at(position)
            if row is not None and self._ages.get(row.key) != self._ages_of(row):
                self._refresh_row(position)

    @property
    def cursor_row(self) -> Row | None:
        return self.set.rows.get(self.cursor_key)

    def move_to(self, position: int) -> None:
        """Put the cursor on a row and bring it into sight."""
        if not len(self.set):
            self._point("")
            return
        self._touched = True
        self._gone = ""
        position = max(0, min(position, len(self.set) - 1))
        self._refresh_row(self._position)
        self._position = position
        self._refresh_row(position)
        self._point(self.set.order[position])
        self._show_cursor()

    def select(self, key: str) -> bool:
        """Put the cursor on the row of ``key``; False where it is not shown."""
        if key not in self.set.index:
            return False
        self.move_to(self.set.index[key])
        return True

    def _point(self, key: str) -> None:
        row = self.set.rows.get(key)
        self._same = row.same if row is not None else ""
        if key != self.cursor_key:
            self.cursor_key = key
            self.post_message(self.CursorMoved(self, key))

    def _settle(self) -> None:
        """Find the cursor's row again after rows moved; its neighbour where it is gone."""
        at_top = self._follow_top and self._position == 0
        position = None if at_top else self.set.index.get(self.cursor_key)
        if position is not None and not self._touched:
            row = self.set.at(position)
            if row is not None and row.pin != self._home_pin:
                position = None
        if position is None or self._gone:
            position = self._successor(position)
        if position is None:
            position = self._home() if not self._touched else self._position
            position = 0 if at_top else max(0, min(position, len(self.set) - 1))
            self._point(self.set.order[position] if len(self.set) else "")
        if position != self._position:
            self._position = position
            self.call_after_refresh(self._show_cursor)

    def _successor(self, position: int | None) -> int | None:
        """The row that took the place of the one that the cursor lost, once it is there."""
        if position is None and not self._gone:
            self._gone = self._same
        if self._gone:
            for index, key in enumerate(self.set.order):
                if self.set.rows[key].same == self._gone:
                    self._gone = ""
                    self._point(key)
                    return index
        return position

    def _home(self) -> int:
        """Where the cursor stands until it is moved: the first row of the pin that matters."""
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

    def _resize(self) -> None:
        self.virtual_size = self.size.with_height(len(self.set) + 1)

    def _fit(self) -> None:
        self._fitted = fit(
            self.columns, self.set.natural, self.set.short, max(1, self.size.width - 2)
        )

    def _show_cursor(self) -> None:
        top = round(self.scroll_y)
        high = self._rows_high()
        if self._position < top:
            self.scroll_to(y=self._position, animate=False)
        elif self._position >= top + high:
            self.scroll_to(y=self._position - high + 1, animate=False)

    def _refresh_row(self, position: int) -> None:
        y = position - round(self.scroll_y) + 1
        if 1 <= y < self.size.height:
            self.refresh(Region(0, y, self.size.width, 1))

    def on_resize(self) -> None:
        self._resize()
        self._fit()
        self.call_after_refresh(self._show_cursor)

    # --- drawing

    def render_line(self, y: int) -> Strip:
        self.repaints += 1
        width = self.size.width
        base = self.rich_style
        if not len(self.set):
            return self._empty_line(y, width, base)
        if y == 0:
            return self._titles(width, base)
        row = self.set.at(round(self.scroll_y) + y - 1)
        if row is None:
            return Strip.blank(width, base)
        return self._row_strip(row, width, base)

    def _empty_line(self, y: int, width: int, base: Style) -> Strip:
        start = max(0, (self.size.height - len(self.empty)) // 2)
        if not start <= y < start + len(self.empty):
            return Strip.blank(width, base)
        line = self.empty[y - start]
        indent = max(0, (width - line_width(line)) // 2)
        segments = [Segment(" " * indent, base), *self.segments(line, base)]
        return Strip(segments).crop_extend(0, width, base)

    def _titles(self, width: int, base: Style) -> Strip:
        segments = [Segment(" ", base)]
        for fitted in self._fitted:
            column = self.columns[fitted.index]
            chosen = fitted.index == self.set.sort
            arrow = ("↓" if self.set.descending else "↑") if chosen else ""
            style = base + self.tone("sorted" if chosen else "heading")
            text = sized(column.title + arrow, fitted.width, column.align)
            segments += [Segment(text, style), Segment(" " * GAP, base)]
        return Strip(segments).crop_extend(0, width, base)

    def _row_strip(self, row: Row, width: int, base: Style) -> Strip:
        self._ages[row.key] = self._ages_of(row)
        if row.key == self.cursor_key:
            base = base + self.tone("cursor" if self.has_focus else "cursor-blurred")
        mark = "▌" if row.key == self.cursor_key else " "
        segments = [Segment(mark, base + self.tone("sorted"))]
        used = 1
        for fitted in self._fitted:
            if row.tail is not None and fitted.index >= row.tail_from:
                text = sized(row.tail.text, max(0, width - used - 1))
                segments.append(Segment(text, base + self.tone(row.tail.tone)))
                break
            cell = row.cells[fitted.index]
            text = sized(self._text(cell, fitted), fitted.width, self.columns[fitted.index].align)
            segments += [
                Segment(text, base + self.tone(cell.tone)),
                Segment(" " * GAP, base),
            ]
            used += fitted.width + GAP
        return Strip(segments).crop_extend(0, width, base)

    def _text(self, cell: Cell, fitted: Fitted) -> str:
        return cell.shown(self.now, short=fitted.short)

    def _ages_of(self, row: Row) -> tuple[str, ...]:
        return tuple(
            self._text(row.cells[fitted.index], fitted)
            for fitted in self._fitted
            if row.cells[fitted.index].since is not None
        )

    def watch_empty(self) -> None:
        if not len(self.set):
            self.refresh()

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self._refresh_row(self._position)

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

    def on_click(self, event: events.Click) -> None:
        event.stop()
        offset = event.get_content_offset(self)
        if offset is None or not len(self.set):
            return
        if offset.y == 0:
            column = self._column_at(offset.x)
            if column is not None:
                self.sort_by(column.key)
            return
        position = round(self.scroll_y) + offset.y - 1
        if position < len(self.set):
            again = self.set.order[position] == self.cursor_key and event.chain > 1
            self.move_to(position)
            if again:
                self.action_open()

    def _column_at(self, x: int) -> Column | None:
        left = 1
        for fitted in self._fitted:
            if left <= x < left + fitted.width + GAP:
                return self.columns[fitted.index]
            left += fitted.width + GAP
        return None
