"""A dialog to select the columns of a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.binding import Binding, BindingType

from podtui.tui.widgets.cells import Column, Line, Span, Visibility, most_important, sized
from podtui.tui.widgets.dialogs import ListDialog, movement_bindings


class ColumnChoice(Struct, frozen=True):
    """``chosen``: keys of the ticked columns, None for the default."""

    chosen: tuple[str, ...] | None = None
    wide: bool = False

    def shown(
        self,
        columns: Sequence[Column],
        sort: int | None = None,
        needed: Collection[str] = (),
    ) -> tuple[int, ...]:
        """Return the indexes of the columns to show, in table order, including the sort column.
        Columns with the keys ``needed`` are shown unless the user chose others.
        """
        first = most_important(columns)
        return tuple(
            index
            for index, column in enumerate(columns)
            if index == sort
            or (self.chosen is None and column.key in needed)
            or self._shows(column, first=index == first)
        )

    def _shows(self, column: Column, *, first: bool) -> bool:
        if self.wide and column.shown is Visibility.WIDE:
            return True
        if self.chosen is None:
            return column.shown is Visibility.ALWAYS
        return first or column.key in self.chosen

    def ticked(self, columns: Sequence[Column]) -> frozenset[int] | None:
        """Return the indexes of the ticked columns, None for the default."""
        if self.chosen is None:
            return None
        return frozenset(n for n, column in enumerate(columns) if column.key in self.chosen)

    def toggled(self, key: str, columns: Sequence[Column]) -> ColumnChoice:
        """Return the choice with one column ticked or unticked."""
        shown = [columns[index].key for index in self.shown(columns)]
        kept = [k for k in shown if k != key] if key in shown else [*shown, key]
        order = [column.key for column in columns]
        return ColumnChoice(tuple(sorted(kept, key=order.index)))

    def widened(self) -> ColumnChoice:
        """Return the choice with the wide view toggled."""
        return replace(self, wide=not self.wide)


class ColumnsScreen(ListDialog[ColumnChoice]):
    """Returns the choice, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *movement_bindings("columns"),
        Binding("space", "tick", "Tick", id="columns.tick", tooltip="Show or hide the column"),
        Binding("r", "reset", "Reset", id="columns.reset", tooltip="Reset to the default"),
        Binding("enter", "choose", "Use", id="columns.apply", tooltip="Show these columns"),
        Binding("escape,q", "cancel", "Cancel", id="columns.cancel", tooltip="Cancel"),
    ]
    DEFAULT_CSS = "ColumnsScreen > LinesView { width: 48; padding: 0 1; }"
    FOOTER = "space · enter · r resets · esc"

    def __init__(self, columns: Sequence[Column], choice: ColumnChoice) -> None:
        super().__init__("Columns", len(columns))
        self._columns = columns
        self.choice = choice

    def draw(self) -> None:
        self.rows = list(range(len(self._columns)))
        self.view.styles.height = min(len(self._columns) + 2, int(self.room.height * 0.9))
        self.view.show(column_lines(self._columns, self.choice, self.place))

    def action_tick(self) -> None:
        self.choice = self.choice.toggled(self._columns[self.place].key, self._columns)
        self.draw()

    def action_reset(self) -> None:
        self.choice = ColumnChoice()
        self.draw()

    def action_choose(self) -> None:
        self.dismiss(self.choice)

    def on_click(self, event: events.Click) -> None:
        item = self.item_at(event)
        if event.widget is self.view and item is not None:
            self.place = item
            self.action_tick()


def column_lines(columns: Sequence[Column], choice: ColumnChoice, cursor: int) -> list[Line]:
    """Return a line for each column: a check box, its title, its name in filters."""
    shown, fixed = set(choice.shown(columns)), most_important(columns)
    lines: list[Line] = []
    for index, column in enumerate(columns):
        box = "[x]" if index in shown else "[ ]"
        here = "▌" if index == cursor else " "
        lines.append(
            (
                Span(here, "sorted"),
                Span(f" {box} ", "muted" if index == fixed else "key"),
                Span(sized(column.title, 12), "name" if index in shown else "soft"),
                Span("always shown" if index == fixed else column.names[-1], "muted"),
            )
        )
    return lines
