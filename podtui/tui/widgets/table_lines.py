"""Format a table: titles and rows as spans, and the whole table as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct
from rich.style import Style
from textual.strip import Strip

from podtui.api.times import short_duration_until
from podtui.tui.widgets.cells import (
    GAP,
    Cell,
    Column,
    Fitted,
    Line,
    Row,
    Span,
    line_width,
    sized,
    sized_in_middle,
    width_of,
)

CURSOR, MARK, MARKED_CURSOR = "▌", "◆", "◈"


def title_spans(
    columns: Sequence[Column], fitted: Sequence[Fitted], sort: int, *, descending: bool
) -> list[Span]:
    """Return one span per shown column."""
    spans: list[Span] = []
    for fit in fitted:
        column = columns[fit.index]
        selected = fit.index == sort
        arrow = ("↓" if descending else "↑") if selected else ""
        text = sized(column.title + arrow, fit.width, column.align)
        spans.append(Span(text, "sorted" if selected else "heading"))
    return spans


def gutter(*, cursor: bool, marked: bool) -> Span:
    """Return the cell before a row."""
    if marked:
        return Span(MARKED_CURSOR if cursor else MARK, "sorted")
    return Span(CURSOR if cursor else " ", "sorted")


def row_line(
    row: Row,
    columns: Sequence[Column],
    fitted: Sequence[Fitted],
    *,
    now: float,
    width: int,
    marked: bool,
) -> Line:
    """Return the line of a row, without its gutter, for ``width`` cells."""
    spans: list[Span] = []
    used = 0
    for fit in fitted:
        if row.tail is not None and fit.index >= row.tail_from:
            spans.append(Span(sized(row.tail.text, max(0, width - used)), row.tail.tone))
            break
        cell = row.cells[fit.index]
        column, text = columns[fit.index], cell.shown(now, short=fit.short)
        if column.middle_cut:
            text = sized_in_middle(text, fit.width)
        else:
            text = sized(text, fit.width, column.align)
        tone = "key" if marked and cell.tone == "name" else cell.tone
        spans += [Span(text, tone), Span(" " * GAP)]
        used += fit.width + GAP
    return tuple(spans)


def changed_cells(before: Line, after: Line) -> tuple[int, int] | None:
    """Return the range of cells in which two lines differ, or None if they are equal.

    The end is exclusive.
    """
    if before == after:
        return None
    if len(before) != len(after):
        return 0, max(line_width(before), line_width(after))
    differ = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    first, last = differ[0], differ[-1]
    if any(width_of(before[n].text) != width_of(after[n].text) for n in differ):
        last = len(after) - 1
    start, behind = line_width(after[:first]), slice(first, last + 1)
    return start, start + max(line_width(before[behind]), line_width(after[behind]))


def valid_until(row: Row, fitted: Sequence[Fitted], now: float) -> float:
    """Return the epoch seconds until which the ages of a row stay the same."""
    until = inf
    for fit in fitted:
        cell = row.cells[fit.index]
        if cell.since is not None and not (fit.short and cell.text):
            until = min(until, cell.since + short_duration_until(now - cell.since))
    return until


def plain_text(
    rows: Iterable[Row], columns: Sequence[Column], shown: Sequence[int], now: float
) -> str:
    """Return the whole table as text, without truncation."""
    lines = [[columns[index].title for index in shown]]
    for row in rows:
        cells: list[str] = []
        for index in shown:
            if row.tail is not None and index >= row.tail_from:
                cells.append(row.tail.text)
                break
            cells.append(row.cells[index].shown(now))
        lines.append(cells)
    widths = [
        max((width_of(line[n]) for line in lines if n < len(line) - 1 or n == 0), default=0)
        for n in range(len(shown))
    ]
    padded = (
        (" " * GAP).join(
            cell if n == len(line) - 1 else sized(cell, widths[n], columns[shown[n]].align)
            for n, cell in enumerate(line)
        )
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded) + "\n"


def cell_text(cell: Cell, now: float) -> str:
    """Return the text of a cell for copying, without a leading symbol."""
    text = cell.shown(now)
    head, blank, rest = text.partition(" ")
    return rest if blank and len(head) == 1 and not head.isalnum() else text


class _CachedRow(Struct):
    """A cached row, composed ``at`` a time; its ages are valid ``until`` a time (epoch seconds)."""

    row: Row
    marked: bool
    at: float
    until: float
    line: Line
    strip: Strip | None = None
    appearance: tuple[str, Style] | None = None
    """The gutter text and the base style of ``strip``."""


class DrawnRows:
    """Composed lines by row key."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._fitted: tuple[Fitted, ...] = ()
        self._width = 0
        self._cache: dict[str, _CachedRow] = {}

    def set_layout(self, fitted: tuple[Fitted, ...], width: int) -> bool:
        """Set the columns and the total width in cells. Returns True if they changed."""
        if (fitted, width) == (self._fitted, self._width):
            return False
        self._fitted, self._width = fitted, width
        self._cache.clear()
        return True

    def forget(self, keys: Iterable[str]) -> None:
        """Remove rows from the cache."""
        for key in keys:
            self._cache.pop(key, None)

    def forget_styles(self) -> None:
        """Drop all strips, after a change of colours."""
        for kept in self._cache.values():
            kept.strip = None

    def line(self, row: Row, now: float, *, marked: bool) -> Line:
        """Return the line of a row, without its gutter."""
        return self._compose(row, now, marked).line

    def change(self, row: Row, now: float, *, marked: bool) -> tuple[int, int] | None:
        """Compose a row and return the range of cells that changed since it was last composed.

        The end of the range is exclusive. Returns the whole width for a new row, None if nothing
        changed.
        """
        before = self._cache.get(row.key)
        if before is None:
            self._compose(row, now, marked)
            return 0, self._width
        after = self._compose(row, now, marked)
        return None if after is before else changed_cells(before.line, after.line)

    def strip(self, key: str, gutter: str, base: Style) -> Strip | None:
        """Return the strip of the last composed line if it has this gutter and style, else None."""
        kept = self._cache[key]
        return kept.strip if kept.appearance == (gutter, base) else None

    def keep_strip(self, key: str, gutter: str, base: Style, strip: Strip) -> None:
        """Store the strip of the last composed line."""
        kept = self._cache[key]
        kept.strip, kept.appearance = strip, (gutter, base)

    def _compose(self, row: Row, now: float, marked: bool) -> _CachedRow:
        kept = self._cache.get(row.key)
        if (
            kept is not None
            and kept.row is row
            and kept.marked is marked
            and kept.at <= now < kept.until
        ):
            return kept
        until = valid_until(row, self._fitted, now)
        line = row_line(row, self._columns, self._fitted, now=now, width=self._width, marked=marked)
        if kept is not None and kept.line == line:
            kept.row, kept.marked, kept.at, kept.until = row, marked, now, until
            return kept
        fresh = self._cache[row.key] = _CachedRow(row, marked, now, until, line)
        return fresh
