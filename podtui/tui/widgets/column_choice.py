"""Which columns of a table are shown: as it is at first, widened, or as somebody ticked them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from podtui.tui.widgets.cells import Column, Shown


class ColumnChoice(Struct, frozen=True):
    """``chosen``: keys that were ticked, None where nobody chose."""

    chosen: tuple[str, ...] | None = None
    wide: bool = False

    def shown(self, columns: Sequence[Column], sort: int | None = None) -> tuple[int, ...]:
        """Places of the columns to show, in their own order; the one sorted by is among them."""
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
        """Places of the columns that the user ticked, None where nobody chose."""
        if self.chosen is None:
            return None
        return frozenset(n for n, column in enumerate(columns) if column.key in self.chosen)

    def toggled(self, key: str, columns: Sequence[Column]) -> ColumnChoice:
        """With one column ticked or not."""
        shown = [columns[index].key for index in self.shown(columns)]
        kept = [k for k in shown if k != key] if key in shown else [*shown, key]
        order = [column.key for column in columns]
        return ColumnChoice(tuple(sorted(kept, key=order.index)))

    def widened(self) -> ColumnChoice:
        """Wide, or as it was before."""
        return replace(self, wide=not self.wide)


def most_important(columns: Sequence[Column]) -> int:
    """The column without which a row is nobody's: it cannot be left out."""
    return max(range(len(columns)), key=lambda index: columns[index].rank)
