"""The selection of table columns: the default, the wide view, or the columns the user ticked."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from podtui.tui.widgets.cells import Column, Shown


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
        if self.wide and column.shown is Shown.WIDE:
            return True
        if self.chosen is None:
            return column.shown is Shown.ALWAYS
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
