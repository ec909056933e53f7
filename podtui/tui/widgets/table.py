"""A table with key bindings: move, mark, sort, select columns, copy."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

from podtui.tui.widgets.cells import GAP, Column
from podtui.tui.widgets.column_choice import most_important
from podtui.tui.widgets.row_table import RowTable
from podtui.tui.widgets.table_lines import cell_text, plain_text


class Table(RowTable):
    """A `RowTable` with keys and mouse; a click on a title sorts by its column."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="table.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="table.down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="table.page-up"),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False, id="table.page-down"),
        Binding("home,g", "jump(0)", "First", show=False, id="table.first"),
        Binding("end,G", "jump(-1)", "Last", show=False, id="table.last"),
        Binding("enter", "open", "Open", key_display="enter", id="table.open"),
        Binding("space", "mark", "Mark", show=False, key_display="space", id="table.mark",
                tooltip="Mark the row, to act on several together"),
        Binding("ctrl+@,ctrl+space", "mark_range", "Mark range", show=False,
                key_display="ctrl+space", id="table.mark-range",
                tooltip="Mark all rows from the one marked last"),
        Binding("ctrl+backslash", "clear_marks", "Clear marks", show=False,
                id="table.clear-marks", tooltip="Take all marks away"),
        Binding("shift+right", "column(1)", "Next column", show=False, id="table.next-column",
                tooltip="Choose the next column, to sort by it or to copy from it"),
        Binding("shift+left", "column(-1)", "Column before", show=False,
                id="table.column-before", tooltip="Choose the column before"),
        Binding("O", "sort_chosen", "Sort", show=False, id="table.sort",
                tooltip="Sort by the chosen column; once more turns the order round"),
        Binding("ctrl+w", "wide", "Wide", show=False, id="table.wide",
                tooltip="More columns, or as they were"),
        Binding("c", "copy", "Copy", show=False, id="table.copy",
                tooltip="Copy the cell of the chosen column, else the name"),
    ]  # fmt: skip

    class Opened(Message):
        """Posted for Enter and for a double click on a row."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table = table
            self.key = key

        @property
        def control(self) -> Table:
            return self.table

    class MarksChanged(Message):
        """Posted when rows were marked or lost their marks."""

    class Arranged(Message):
        """Posted when the user sorted the table or changed its columns."""

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
        here = self.chosen_column or self.columns[self.set.sort].key
        place = keys.index(here) if here in keys else 0
        self.chosen_column = keys[(place + step) % len(keys)]
        self._fit()
        self.refresh()

    def action_sort_chosen(self) -> None:
        self.sort_by(self.chosen_column or self.columns[self.set.sort].key)

    def action_wide(self) -> None:
        self.show_columns(self.choice.widened())
        self.post_message(self.Arranged())

    def action_copy(self) -> None:
        row = self.cursor_row
        if row is None:
            return
        key = self.chosen_column
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
        for fitted in self._fitted:
            if left <= x < left + fitted.width + GAP:
                return self.columns[fitted.index]
            left += fitted.width + GAP
        return None
