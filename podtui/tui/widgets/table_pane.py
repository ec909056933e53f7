"""A pane with a table: filter, faults only, columns, sort order, and saving to a file."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, cast

import msgspec
from textual.binding import Binding, BindingType
from textual.widget import Widget

from podtui.text.terminal_text import plural
from podtui.tui.widgets.columns import ColumnChoice, ColumnsScreen
from podtui.tui.widgets.filters import ALL, Filter, parse_filter
from podtui.tui.widgets.pane import Pane
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table


class TableMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """The saved state of a table. ``columns`` is None if the user chose none; an empty ``sort``
    means the table's default.
    """

    sort: str = ""
    descending: bool = False
    columns: tuple[str, ...] | None = None
    wide: bool = False


class TablePane(Pane):
    """Base class; a subclass creates ``table`` and updates the title in `update_title`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "faults", "Unhealthy", show=False, id="table.faults",
                tooltip="Only unhealthy"),
        Binding("W", "columns", "Columns", show=False, id="table.columns",
                tooltip="Select the columns"),
        Binding("ctrl+s", "save", "Save", show=False, id="table.save",
                tooltip="Write the table to a text file"),
    ]  # fmt: skip

    table: Table

    @property
    def focus_target(self) -> Widget:
        return self.table

    def clear_query(self) -> bool:
        filtered = self.table.set.is_filtered
        if filtered:
            self.clear_filter()
        return filtered

    def update_title(self) -> None:
        """Update the title from the table."""

    def filter_by(self, wanted: Filter) -> None:
        self.table.filter_by(wanted, faults_only=self.table.set.faults_only)
        self.update_title()

    @property
    def filter_words(self) -> str:
        """The filter for the title; empty if there is none."""
        table = self.table.set
        scope = f" · namespace {self.namespace}" if self.namespace else ""
        faults = " · ▲ unhealthy only" if table.faults_only else ""
        return scope + faults + (f" · /{clean(table.filter.text)}" if table.filter.text else "")

    scope = ""
    """The only namespace that is shown; empty for all."""

    @property
    def namespace(self) -> str:
        """The only namespace that is shown, cleaned."""
        return clean(self.scope)

    def show_scope(self, namespace: str) -> None:
        """Show only the rows of a namespace; empty for all."""
        self.scope = namespace
        quoted = f'namespace="{namespace}"'
        scope = parse_filter(quoted, self.table.columns) if namespace else ALL
        table = self.table.set
        self.table.filter_by(table.filter, faults_only=table.faults_only, scope=scope)
        self.update_title()

    def clear_filter(self) -> None:
        """Remove all filters."""
        self.table.filter_by(ALL)
        self.update_title()

    # --- remembered state

    @property
    def memory(self) -> TableMemory:
        table = self.table
        return TableMemory(
            table.columns[table.set.sort].key,
            table.set.descending,
            table.choice.chosen,
            table.choice.wide,
        )

    def recall(self, memory: TableMemory) -> None:
        """Restore the sort order and the columns, ignoring unknown columns."""
        keys = {column.key for column in self.table.columns}
        selected = None
        if memory.columns is not None:
            selected = tuple(key for key in memory.columns if key in keys)
        self.show_columns(ColumnChoice(selected, memory.wide))
        if memory.sort in keys:
            self.table.order_by(memory.sort, memory.descending)

    def show_columns(self, choice: ColumnChoice) -> None:
        self.table.show_columns(choice)

    def on_table_arranged(self) -> None:
        self.update_title()

    # --- actions

    def action_faults(self) -> None:
        table = self.table
        table.filter_by(table.set.filter, faults_only=not table.set.faults_only)
        self.update_title()

    def action_columns(self) -> None:
        def chosen(choice: ColumnChoice | None) -> None:
            if choice is not None:
                self.show_columns(choice)
                self.post_message(Table.Arranged())

        cast("Any", self).app.push_screen(
            ColumnsScreen(self.table.columns, self.table.choice), chosen
        )

    async def action_save(self) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        path = Path(f"podtui-{self.id}-{stamp}.txt")
        count = len(self.table.set)
        try:
            await asyncio.to_thread(path.write_text, self.table.text(), "utf-8")
        except OSError as error:
            self.notify(f"{path}: {error.strerror}", severity="error", title="Not saved",
                        markup=False)  # fmt: skip
        else:
            self.notify(str(path), title=f"Saved {plural(count, 'row')}", markup=False)
