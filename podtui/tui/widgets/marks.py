"""The marked rows of a table, for actions on several objects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from podtui.tui.widgets.cells import Row

FORGET: Final = 30.0
"""Seconds that the mark of a removed row is kept: long enough for an edited pod to return under its
name, but not for an unrelated pod that gets the same name later."""


class Marks:
    """Marks by `Row.same`, or by key if it is empty, so that a replaced pod keeps its mark."""

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
        return tuple([row for row in rows if (row.same or row.key) in seen]) if seen else ()

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
    return row.same or row.key
