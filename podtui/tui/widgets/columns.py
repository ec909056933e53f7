"""A dialog to select the columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from podtui.tui.widgets.cells import Column, Line, Span, Visibility, sized
from podtui.tui.widgets.tones import LinesView


class ColumnChoice(Struct, frozen=True):
    """``chosen``: keys of the ticked columns, None for the default."""

    chosen: tuple[str, ...] | None = None
    wide: bool = False

    def shown(self, columns: Sequence[Column], sort: int | None = None) -> tuple[int, ...]:
        """Return the indexes of the columns to show, in table order, including the sort column."""
        first = most_important(columns)
        return tuple(
            index
            for index, column in enumerate(columns)
            if index == sort or self._shows(column, first=index == first)
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


def most_important(columns: Sequence[Column]) -> int:
    """Return the index of the column with the highest rank, which is always shown.

    It identifies the row, usually by name.
    """
    return max(range(len(columns)), key=lambda index: columns[index].rank)


class ColumnsScreen(ModalScreen[ColumnChoice | None]):
    """Returns the choice, or None if cancelled."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False, id="columns.up"),
        Binding("down,j", "move(1)", "Down", show=False, id="columns.down"),
        Binding("space", "tick", "Tick", id="columns.tick", tooltip="Show or hide the column"),
        Binding("r", "reset", "Reset", id="columns.reset", tooltip="Reset to the default"),
        Binding("enter", "apply", "Use", id="columns.apply", tooltip="Show these columns"),
        Binding("escape,q", "cancel", "Cancel", id="columns.cancel", tooltip="Cancel"),
    ]
    DEFAULT_CSS = """
    ColumnsScreen {
        align: center middle;
        & > LinesView {
            width: 48; height: auto; max-height: 90%;
            border: round $pane-border-focus; background: $background; padding: 0 1;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
    }
    """

    def __init__(self, columns: Sequence[Column], choice: ColumnChoice) -> None:
        super().__init__()
        self._columns = columns
        self.choice = choice
        self._place = 0

    def compose(self) -> ComposeResult:
        view = LinesView(id="columns")
        view.border_title = " Columns "
        view.border_subtitle = " space · enter · r resets · esc "
        yield view

    def on_mount(self) -> None:
        self.view.styles.height = len(self._columns) + 2
        self._draw()

    @property
    def view(self) -> LinesView:
        return self.query_one(LinesView)

    def _draw(self) -> None:
        self.view.show(column_lines(self._columns, self.choice, self._place))
        self.view.scroll_to(y=max(0, self._place - self.view.size.height + 1), animate=False)

    def action_move(self, step: int) -> None:
        self._place = max(0, min(len(self._columns) - 1, self._place + step))
        self._draw()

    def action_tick(self) -> None:
        self.choice = self.choice.toggled(self._columns[self._place].key, self._columns)
        self._draw()

    def action_reset(self) -> None:
        self.choice = ColumnChoice()
        self._draw()

    def action_apply(self) -> None:
        self.dismiss(self.choice)

    def action_cancel(self) -> None:
        self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self.view)
        if offset is None:
            return
        place = offset.y + round(self.view.scroll_y)
        if 0 <= place < len(self._columns):
            self._place = place
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
