"""The sorted and filtered rows of a table, updated incrementally.

This module does not draw. `RowSet.apply` returns the effect of a change on the screen: the rows
whose cells changed, and whether any row moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from msgspec import Struct

from podtui.tui.widgets.cells import Cell, Column, Row, most_important, width_of
from podtui.tui.widgets.filters import ALL, Filter


class Difference(Struct, frozen=True):
    """The effect of a change.

    ``touched``: keys of shown rows whose cells changed. ``moved``: rows were added, removed or
    reordered. ``resized``: a column needs another width.
    """

    touched: frozenset[str] = frozenset()
    moved: bool = False
    resized: bool = False


class RowSet:
    """Rows by key. ``order`` lists the keys of the rows that pass the filter."""

    def __init__(self, columns: Sequence[Column], sort: int, *, descending: bool = False) -> None:
        self.columns = columns
        self._name = most_important(columns)
        """Index of the column that names the rows."""
        self.rows: dict[str, Row] = {}
        self.order: list[str] = []
        self.index: dict[str, int] = {}
        self.sort = sort
        self.descending = descending
        self.filter: Filter = ALL
        self.scope: Filter = ALL
        """A second filter, which outlasts the first one."""
        self.faults_only = False
        self.now = 0.0
        """Epoch seconds, for filters on ages."""
        self.natural = [0] * len(columns)
        self.short = [0] * len(columns)

    def __len__(self) -> int:
        return len(self.order)

    def at(self, position: int) -> Row | None:
        return self.rows[self.order[position]] if 0 <= position < len(self.order) else None

    def apply(self, changed: Iterable[Row], removed: Iterable[str] = ()) -> Difference:
        """Add or replace changed rows and delete removed ones."""
        touched: set[str] = set()
        moved = resized = False
        for key in removed:
            if self.rows.pop(key, None) is not None and key in self.index:
                moved = True
        for row in changed:
            before = self.rows.get(row.key)
            if before is row or before == row:
                continue
            self.rows[row.key] = row
            shown = row.key in self.index
            # A row that was hidden, or that a timed filter let through later, was not measured.
            measured = before is not None and shown and not self.filter.timed
            resized |= self._measure(row, before.cells if before and measured else ())
            if shown != self.passes(row):
                moved = True
            elif shown:
                touched.add(row.key)
                moved |= before is None or self._place(before) != self._place(row)
        if moved:
            self._arrange()
        return Difference(frozenset(touched), moved, resized)

    def replace(self, rows: Iterable[Row]) -> Difference:
        """Replace all rows."""
        fresh = {row.key: row for row in rows}
        return self.apply(fresh.values(), [key for key in self.rows if key not in fresh])

    def sort_by(self, column: int, *, descending: bool) -> None:
        self.sort, self.descending = column, descending
        self._arrange()

    def filter_by(
        self, wanted: Filter, *, faults_only: bool = False, scope: Filter | None = None
    ) -> None:
        self.filter, self.faults_only = wanted, faults_only
        if scope is not None:
            self.scope = scope
        self.natural = [0] * len(self.columns)
        self.short = [0] * len(self.columns)
        for row in self.rows.values():
            if self.passes(row):
                self._measure(row, ())
        self._arrange()

    @property
    def is_filtered(self) -> bool:
        return bool(self.filter.text) or self.faults_only

    @property
    def is_narrowed(self) -> bool:
        """True if a filter or a scope hides rows."""
        return self.is_filtered or bool(self.scope.text)

    def passes(self, row: Row) -> bool:
        """Return True if a row passes the filter."""
        return (
            (row.fault or not self.faults_only)
            and self.filter.matches(row, self.now)
            and self.scope.matches(row, self.now)
        )

    def advance_time(self, now: float) -> bool:
        """Set the time. Returns True if rows appeared or disappeared due to a filter on ages."""
        self.now = now
        if not self.filter.timed:
            return False
        if all(self.passes(row) == (key in self.index) for key, row in self.rows.items()):
            return False
        self._arrange()
        return True

    def _place(self, row: Row) -> tuple[int, Any, Any]:
        return row.pin, row.sort[self.sort], row.sort[self._name]

    def _arrange(self) -> None:
        shown = [row for row in self.rows.values() if self.passes(row)]
        # Stable sorts, the most significant last: equal rows are in the order of their names.
        shown.sort(key=lambda row: row.key)
        shown.sort(key=lambda row: row.sort[self._name])
        shown.sort(key=lambda row: row.sort[self.sort], reverse=self.descending)
        shown.sort(key=lambda row: row.pin)
        self.order = [row.key for row in shown]
        self.index = {key: position for position, key in enumerate(self.order)}

    def _measure(self, row: Row, before: Sequence[Cell]) -> bool:
        """Update the column widths from a row. Returns True if a width grew.

        Widths only grow until the filter changes, because columns that resize with each change are
        tiring to read. Cells that are unchanged from ``before`` are skipped.
        """
        grew = False
        last = row.tail_from if row.tail is not None else len(row.cells)
        for position, cell in enumerate(row.cells[:last]):
            if position < len(before) and cell is before[position]:
                continue
            short = width_of(cell.text)
            natural = short + _age_width(cell)
            if cell.since is not None and not cell.text:
                short = natural
            if natural > self.natural[position] or short > self.short[position]:
                self.natural[position] = max(natural, self.natural[position])
                self.short[position] = max(short, self.short[position])
                grew = True
        return grew


def _age_width(cell: Cell) -> int:
    """Return the width reserved for an age: that of its longest usual form, since ages grow."""
    if cell.since is None:
        return 0
    return len(" (9m59s ago)") if cell.text else len("9m59s")


FORGET: Final = 30.0
"""Seconds that the mark of a removed row is kept: long enough for an edited pod to return under its
name, but not for an unrelated pod that gets the same name later."""


class Marks:
    """Marks by `Row.identity`, or by key if it is empty, so that a replaced pod keeps its mark."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._anchor = ""

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, row: Row) -> bool:
        return _name(row) in self._seen

    def among(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Return the marked ones of these rows."""
        seen = self._seen
        return tuple([row for row in rows if (row.identity or row.key) in seen]) if seen else ()

    def toggle(self, row: Row, now: float) -> bool:
        """Mark or unmark a row, if it is markable. Returns True if it is marked now."""
        if not row.markable:
            return False
        name = _name(row)
        if name in self._seen:
            del self._seen[name]
            return False
        self._seen[name] = now
        self._anchor = name
        return True

    def extend(self, rows: Sequence[Row], position: int, now: float) -> None:
        """Mark all rows from the last marked one to the one at ``position``.

        Without a last marked row among ``rows``, mark only the row at ``position``.
        """
        start = next((n for n, row in enumerate(rows) if _name(row) == self._anchor), position)
        for row in rows[min(start, position) : max(start, position) + 1]:
            if row.markable:
                self._seen[_name(row)] = now
        if rows[position].markable:
            self._anchor = _name(rows[position])

    def clear(self) -> None:
        self._seen.clear()
        self._anchor = ""

    def keep(self, rows: Iterable[Row], now: float) -> None:
        """Remove the marks of rows that have been missing for `FORGET` seconds."""
        if not self._seen:
            return
        for row in rows:
            if row in self:
                self._seen[_name(row)] = now
        self._seen = {name: at for name, at in self._seen.items() if now - at < FORGET}


def _name(row: Row) -> str:
    return row.identity or row.key
