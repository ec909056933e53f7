"""A modal list to select one of a few items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from podtui.tui.widgets.cells import Line, Span, wrap
from podtui.tui.widgets.sanitize import literal
from podtui.tui.widgets.tones import LinesView


def movement_bindings(group: str) -> list[Binding]:
    """Return bindings for ``action_move(step)`` with ids prefixed by ``group``."""
    return [
        Binding("up,k", "move(-1)", "Up", show=False, id=f"{group}.up", tooltip="Up"),
        Binding("down,j", "move(1)", "Down", show=False, id=f"{group}.down", tooltip="Down"),
        Binding("pageup,ctrl+b", "move(-10)", "Page up", show=False, id=f"{group}.page-up",
                tooltip="Ten up"),
        Binding("pagedown,ctrl+f", "move(10)", "Page down", show=False, id=f"{group}.page-down",
                tooltip="Ten down"),
        Binding("home,g", "move(-1000)", "First", show=False, id=f"{group}.first",
                tooltip="First"),
        Binding("end,G", "move(1000)", "Last", show=False, id=f"{group}.last", tooltip="Last"),
    ]  # fmt: skip


INDENT = 4


class Picker(ModalScreen[int | None]):
    """Returns the index of the selected item, or None if cancelled.

    Long lines are wrapped. A digit selects one of the first nine items directly. The cursor begins
    at ``start``.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *movement_bindings("picker"),
        Binding("enter", "choose", "Choose", id="picker.choose", tooltip="Select this item"),
        Binding("escape,q", "cancel", "Cancel", id="picker.cancel", tooltip="Cancel"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    Picker {
        align: center middle;
        & > LinesView {
            width: 90%; max-width: 90; height: auto; max-height: 90%;
            border: round $pane-border-focus; background: $background; padding: 1 1;
            border-title-color: $pane-title-focus; border-subtitle-color: $tone-muted;
        }
    }
    """

    def __init__(self, title: str, items: Sequence[Line], *, start: int = 0) -> None:
        super().__init__()
        self._title = title
        self._items = tuple(items)
        self._rows: list[int] = []
        """The item index of each drawn line."""
        self.place = start
        self.view = LinesView(id="picker")

    def compose(self) -> ComposeResult:
        self.view.border_title = literal(f" {self._title} ")
        self.view.border_subtitle = " enter selects · esc cancels "
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    def on_resize(self) -> None:
        self._draw()

    def on_key(self, event: events.Key) -> None:
        if event.character and event.character.isdecimal() and event.character.isascii():
            place = int(event.character) - 1
            if 0 <= place < len(self._items):
                event.stop()
                self.dismiss(place)

    def _draw(self) -> None:
        width = max(16, min(90, int(self.size.width * 0.9)) - 4)
        lines: list[Line] = []
        self._rows = []
        for index, item in enumerate(self._items):
            chosen = index == self.place
            for number, row in enumerate(wrap(item, width - 4, indent=INDENT)):
                sign = "❯ " if chosen and number == 0 else "  "
                digit = f"{index + 1} " if index < 9 and number == 0 else "  "
                lines.append((Span(sign, "name"), Span(digit, "hint-key"), *row))
                self._rows.append(index)
        self.view.styles.height = min(len(lines), int(self.size.height * 0.9) - 4) + 4
        self.view.show(lines)
        first = self._rows.index(self.place) if self._rows else 0
        last = len(self._rows) - 1 - self._rows[::-1].index(self.place) if self._rows else 0
        high = max(1, self.view.size.height)
        if first < self.view.scroll_y or last >= self.view.scroll_y + high:
            self.view.scroll_to(y=max(0, last - high + 1), animate=False)

    def action_move(self, step: int) -> None:
        self.place = max(0, min(len(self._items) - 1, self.place + step))
        self._draw()

    def on_click(self, event: events.Click) -> None:
        row = event.screen_y - self.view.content_region.y + round(self.view.scroll_y)
        if event.widget is self.view and 0 <= row < len(self._rows):
            again = self._rows[row] == self.place
            self.place = self._rows[row]
            self._draw()
            if again:
                self.action_choose()

    def action_choose(self) -> None:
        self.dismiss(self.place if self._items else None)

    def action_cancel(self) -> None:
        self.dismiss(None)
