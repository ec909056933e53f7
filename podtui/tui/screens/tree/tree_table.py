"""The table of the tree: keys and clicks fold items instead of marking and sorting rows."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from podtui.tui.views.tree.rows import FOLDED, OPEN, TREE_COLUMNS, fold_column, sign_of
from podtui.tui.widgets.cells import Row
from podtui.tui.widgets.table import Table

_NOT_HERE = frozenset({"mark", "mark_range", "clear_marks", "sort_chosen"})


class TreeTable(Table):
    """A table that always keeps the order of the tree."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open, fold", key_display="enter", id="tree.turn",
                tooltip="Expand or collapse; open an item without children"),
        Binding("space", "turn", "Fold", show=False, key_display="space", id="tree.fold",
                tooltip="Expand or collapse"),
        Binding("right", "deeper", "Deeper", show=False, id="tree.deeper",
                tooltip="Expand, then go to the first child"),
        Binding("left,h", "higher", "Higher", show=False, id="tree.higher",
                tooltip="Collapse, then go to the parent"),
        Binding("plus", "turn_all(False)", "Open all", key_display="+", id="tree.open-all",
                tooltip="Show everything"),
        Binding("minus", "turn_all(True)", "Fold all", key_display="-", id="tree.fold-all",
                tooltip="Show the pods alone"),
    ]  # fmt: skip

    class Turned(Message):
        """Posted to fold or open a row."""

        def __init__(self, key: str, folded: bool) -> None:
            super().__init__()
            self.key = key
            self.folded = folded

    class AllTurned(Message):
        """Posted to fold or open all rows."""

        def __init__(self, folded: bool) -> None:
            super().__init__()
            self.folded = folded

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(TREE_COLUMNS, sort="name", id=id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action in _NOT_HERE else super().check_action(action, parameters)

    def sort_by(self, key: str) -> None:
        """Do nothing: the tree has a fixed order."""

    def action_turn(self) -> None:
        row = self.cursor_row
        if row is not None and sign_of(row) != " ":
            self.post_message(self.Turned(row.key, sign_of(row) == OPEN))

    def action_open(self) -> None:
        row = self.cursor_row
        if row is not None and sign_of(row) != " ":
            self.action_turn()
        else:
            super().action_open()

    def action_deeper(self) -> None:
        row = self.cursor_row
        if row is not None and sign_of(row) == FOLDED:
            self.action_turn()
        elif row is not None and sign_of(row) == OPEN:
            self.action_move(1)

    def action_higher(self) -> None:
        row = self.cursor_row
        if row is None:
            return
        if sign_of(row) == OPEN:
            self.action_turn()
            return
        for place in range(self.set.index[row.key] - 1, -1, -1):
            above = self.set.at(place)
            if above is not None and _is_above(above, row):
                self.move_to(place)
                return

    def action_turn_all(self, folded: bool) -> None:
        self.post_message(self.AllTurned(folded))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        row = self.set.at(round(self.scroll_y) + offset.y - 1) if offset and offset.y else None
        column = fold_column(row) if row is not None else None
        # Subtract one cell for the gutter before the first column.
        if event.button == 1 and row is not None and offset and offset.x - 1 == column:
            event.stop()
            # Otherwise the base class would handle it as a click on the row.
            event.prevent_default()
            self.select(row.key)
            self.action_turn()


def _is_above(above: Row, row: Row) -> bool:
    order, whole = above.sort[0], row.sort[0]
    return len(order) < len(whole) and whole[: len(order)] == order
