"""Which rows of a table are marked, to be acted on together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from podtui.tui.widgets.cells import Row

FORGET: Final = 30.0
"""Seconds after which the mark of a row that is gone is forgotten: time for an edited pod to come
back under its name, too short for another that gets the name by chance tomorrow."""


class Marks:
    """Marks go by `Row.same` where rows have one: a pod that is replaced keeps its mark."""

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._anchor = ""

    def __len__(self) -> int:
        return len(self._seen)

    def __contains__(self, row: Row) -> bool:
        return _name(row) in self._seen

    def among(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Those that are marked."""
        seen = self._seen
        return tuple([row for row in rows if (row.same or row.key) in seen]) if seen else ()

    def toggle(self, row: Row, now: float) -> bool:
        """Whether the row is marked now; one that cannot be acted on never is."""
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
        """Mark all from the row marked last to the one at ``position``; that one alone where none
        was, or where it is not among ``rows``."""
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
        """Forget marks of rows that have been gone for long."""
        if not self._seen:
            return
        for row in rows:
            if row in self:
                self._seen[_name(row)] = now
        self._seen = {name: at for name, at in self._seen.items() if now - at < FORGET}


def _name(row: Row) -> str:
    return row.same or row.key
