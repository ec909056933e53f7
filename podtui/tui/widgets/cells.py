"""The content that widgets draw: spans of text with a tone; cells, rows and columns of tables.

A tone names a meaning (``running``, ``muted`` …), never a colour; `podtui.tui.widgets.tones` maps
it to a style of the current theme.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import Any, Literal, NamedTuple

from msgspec import Struct, field
from rich.cells import cell_len, set_cell_size

from podtui.api.times import short_duration

GAP = 2
"""Blank cells between two columns."""
MIN_MIDDLE_CUT = 9
"""Width in cells from which the ends of a text tell more than its beginning."""


class Span(Struct, frozen=True, gc=False):
    text: str
    tone: str = ""


Line = tuple[Span, ...]


class Cell(Struct, frozen=True, gc=False):
    """Sanitized text, optionally with the age of ``since`` (epoch seconds).

    The age is formatted when the cell is drawn, so a table of a thousand pods does not need new
    rows each second.
    """

    text: str = ""
    tone: str = ""
    since: float | None = None

    def shown(self, now: float, *, short: bool = False) -> str:
        """Return the text with the age; ``short`` omits the age if there is other text."""
        if self.since is None:
            return self.text
        if not self.text:
            return short_duration(now - self.since)
        return self.text if short else f"{self.text} ({short_duration(now - self.since)} ago)"


class ValueKind(Enum):
    """The type of a column's values, which determines how filters compare them."""

    TEXT = auto()
    COUNT = auto()
    CPU = auto()
    """Millicores."""
    BYTES = auto()
    PERCENT = auto()
    SHARE = auto()
    """A fraction of 1."""
    AGE = auto()
    """Epoch seconds; compared by age."""


Value = str | float | None
"""A value for filters to compare; None if there is none yet."""


class Row(Struct, frozen=True, gc=False):
    """One line of a table; ``cells``, ``sort`` and ``values`` are in the order of its columns.

    ``pin`` takes precedence over any sort order, the smallest on top. ``tail`` replaces all cells
    from column ``tail_from`` on. ``search`` is the text that a regular expression searches.
    ``identity`` survives replacement: when a row disappears, the cursor and its
    mark move to the new row with the same ``identity``. ``fault``: the object is unhealthy.
    ``markable``: actions can be applied to it. ``summary`` is the text to copy if no column is
    selected; empty for that of the column that names the row.
    """

    key: str
    cells: tuple[Cell, ...]
    sort: tuple[Any, ...]
    values: tuple[Value, ...] = ()
    search: str = ""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    pin: int = 0
    tail: Span | None = None
    tail_from: int = 0
    identity: str = ""
    fault: bool = False
    markable: bool = False
    summary: str = ""


class ColumnValue(NamedTuple):
    """The content of a row in one column: the cell, its sort key, and its value for filters."""

    cell: Cell
    sort: Any
    value: Value


def text_field(text: str, tone: str = "") -> ColumnValue:
    """Return a field that sorts and filters by its sanitized text."""
    return ColumnValue(Cell(text, tone), text, text)


class Visibility(Enum):
    """When a column is shown if the user has not chosen columns."""

    ALWAYS = auto()
    WIDE = auto()
    """In the wide view."""
    ON_REQUEST = auto()
    """Only if the user ticks it."""


def _empty_field(_: object) -> ColumnValue:
    return ColumnValue(Cell(), "", None)


class Column(Struct, frozen=True, dict=True):
    """A table column.

    ``rank``: the column with the smallest rank is removed first when space is short. A ``flexible``
    column may shrink to ``minimum``; a ``filling`` column takes the remaining width.
    """

    key: str
    title: str
    rank: int
    minimum: int = 4
    maximum: int = 60
    align: Literal["left", "right"] = "left"
    flexible: bool = False
    middle_cut: bool = False
    """True if texts that do not fit lose their middle: names often differ at their ends only."""
    filling: bool = False
    descending: bool = False
    """True if the first click sorts in descending order."""
    kind: ValueKind = ValueKind.TEXT
    shown: Visibility = Visibility.ALWAYS
    usual_width: int = 0
    """Width reserved for usual values even while the texts are shorter, if there is enough space,
    so that the other columns do not move later."""
    of: Callable[[Any], ColumnValue] = _empty_field
    """Return the field of an object; the module of the table says which type its objects have."""
    measured: bool = False
    """True if the field depends on the measured usage only."""
    optional: bool = False
    """True if the column is hidden while all its cells are empty, and shrinks to its minimum before
    other columns become too narrow for usual values."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the column in filters: its title and its key, both in lower case."""
        return tuple(dict.fromkeys((self.title.lower(), self.key.lower())))


Content = tuple[tuple[Cell, ...], tuple[Any, ...], tuple[Value, ...]]
"""The content of a `Row`: (cells, sort, values)."""


def content_of(columns: Sequence[Column], subject: object) -> Content:
    """Return the content of an object's row, by the ``of`` of the columns."""
    return in_columns([column.of(subject) for column in columns])


def in_columns(fields: Iterable[ColumnValue]) -> Content:
    """Return fields, in the order of the columns, as the content of a row."""
    cells, sort, values = zip(*fields, strict=True)
    return cells, sort, values


def most_important(columns: Sequence[Column]) -> int:
    """Return the index of the column with the highest rank, which is always shown.

    It identifies the row, usually by name.
    """
    return max(range(len(columns)), key=lambda index: columns[index].rank)


class Fitted(Struct, frozen=True):
    """A shown column: its index among all columns, its width, and True if its cells are short."""

    index: int
    width: int
    short: bool


def fit(
    columns: Sequence[Column],
    natural: Sequence[int],
    short: Sequence[int],
    available: int,
    *,
    shown: Sequence[int] | None = None,
    wanted: Collection[int] = (),
    ticked: Collection[int] = (),
    permanent: Collection[int] = (),
) -> tuple[Fitted, ...]:
    """Select the columns for a table of ``available`` cells and compute their widths.

    ``natural`` and ``short`` are the widths that the long and the short cells of each column need.
    If space is short, cells are shortened first, then flexible columns shrink down to their
    minimum, then whole columns are removed by rank. Only columns of ``shown`` are considered. If
    the user has ``ticked`` columns, all others except the one with the highest rank are removed
    before them; columns of ``wanted`` and the one with the highest rank are removed last. Columns
    of ``permanent`` count as always shown.
    """
    # If the columns do not all fit, they are removed in three steps, from the cheapest loss to the
    # dearest: columns that are neither ticked nor shown by default, then columns less important
    # than an optional one, then any column except one. Within a step, `rank` decides. Columns that
    # are shown only because they are ticked (+500), and those that are selected, sort the table or
    # name the rows (+1000), outrank all others.
    kept = list(range(len(columns)) if shown is None else shown)
    kept = [i for i in kept if natural[i] or not columns[i].optional or i in wanted]
    added = {i for i in kept if i in ticked and columns[i].shown is not Visibility.ALWAYS}
    first = max(kept, key=lambda i: columns[i].rank, default=0)
    rank = {
        i: columns[i].rank + 1000 * (i in wanted or i == first) + 500 * (i in added) for i in kept
    }
    # Three widths of each column: for all of its text, without ages, and the least that it needs.
    wide = {i: _clamp(columns[i], max(natural[i], columns[i].usual_width)) for i in kept}
    least_of = {i: columns[i].minimum for i in kept if columns[i].optional}
    tight = {i: _clamp(columns[i], short[i]) for i in kept} | least_of
    least = {i: columns[i].minimum if columns[i].flexible else tight[i] for i in kept}
    extra = [
        i
        for i in kept
        if i != first
        and i not in added
        and (
            (bool(ticked) and i not in ticked)
            or (columns[i].shown is not Visibility.ALWAYS and i not in (*wanted, *permanent))
        )
    ]
    while extra and max(_total(tight, kept), _total(least, kept)) > available:
        # Remove optional columns before shrinking permanent ones.
        extra.remove(least_ranked := min(extra, key=lambda i: rank[i]))
        kept.remove(least_ranked)
    for optional in least_of.keys() & kept:
        # Remove less important columns before cutting names for it.
        usual = {i: _usual(columns[i], tight[i]) for i in kept}
        while _total(usual, kept) > available and (
            others := [i for i in kept if rank[i] < rank[optional]]
        ):
            kept.remove(min(others, key=lambda i: rank[i]))
    while len(kept) > 1 and _total(least, kept) > available:
        kept.remove(min(kept, key=lambda i: rank[i]))
    # From here on the set of columns is fixed; only their widths change.
    is_short = dict.fromkeys(kept, False)
    widths = {i: wide[i] for i in kept}
    for index in least_of.keys() & kept:
        # Long values of other columns are cut before the optional column.
        for other in (i for i in kept if i != index and columns[i].flexible):
            over = max(0, _total(widths, kept) - available)
            widths[other] -= min(over, widths[other] - _usual(columns[other], widths[other]))
        over = max(0, _total(widths, kept) - available)
        widths[index] = max(least[index], widths[index] - over)
    # Leave out the ages of one column after the other, the least important one first.
    for index in sorted(kept, key=lambda i: rank[i]):
        if _total(widths, kept) <= available:
            break
        widths[index] = min(widths[index], tight[index])
        is_short[index] = tight[index] < wide[index]
    _shrink(columns, widths, _total(widths, kept) - available)
    spare = available - _total(widths, kept)
    filling = [i for i in kept if columns[i].filling]
    if filling and spare > 0:
        widths[filling[-1]] += spare
    elif spare > 0 and len(kept) > 1:
        # Add space between columns, but not so much that a row is hard to follow.
        each = min(4, spare // (len(kept) - 1))
        for index in kept[:-1]:
            widths[index] += each
    return tuple(Fitted(i, min(widths[i], available), is_short[i]) for i in kept)


def _shrink(columns: Sequence[Column], widths: dict[int, int], over: int) -> None:
    """Take ``over`` cells from the flexible columns, always from the widest that can still shrink.

    A filling column may be twice as wide as the others.
    """
    while over > 0:
        # Cut the widest column down to the second widest, then both of them, and so on: long texts
        # are cut before short ones. Each round takes at least one cell, so that the loop ends.
        giving = [i for i, w in widths.items() if columns[i].flexible and w > columns[i].minimum]
        if not giving:
            return
        index = max(giving, key=lambda i: widths[i] / (1 + columns[i].filling))
        least = max((widths[i] / (1 + columns[i].filling) for i in giving if i != index), default=0)
        share = widths[index] - int(least * (1 + columns[index].filling))
        given = min(over, max(1, share), widths[index] - columns[index].minimum)
        widths[index] -= given
        over -= given


def _clamp(column: Column, width: int) -> int:
    return max(len(column.title) + 1, min(width, column.maximum))


def _usual(column: Column, width: int) -> int:
    """Return the width that shows usual values in full."""
    return min(width, column.usual_width or 2 * column.minimum) if column.flexible else width


def _total(widths: Mapping[int, int], kept: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + GAP * (len(kept) - 1)


def width_of(text: str) -> int:
    """Return the width of a sanitized text in terminal cells."""
    return len(text) if text.isascii() else cell_len(text)


def sized(text: str, width: int, align: str = "left") -> str:
    """Pad ``text`` to exactly ``width`` cells, or cut its end with an ellipsis."""
    cells = width_of(text)
    if cells > width:
        return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""
    return " " * (width - cells) + text if align == "right" else text + " " * (width - cells)


def sized_in_middle(text: str, width: int) -> str:
    """Pad ``text`` to exactly ``width`` cells, or cut its middle with an ellipsis."""
    if width_of(text) <= width or width < MIN_MIDDLE_CUT:
        return sized(text, width)
    tail = (width - 1) // 2
    return sized(f"{prefix(text, width - 1 - tail)}…{suffix(text, tail)}", width)


def line_width(line: Iterable[Span]) -> int:
    return sum(width_of(span.text) for span in line)


def wrap(line: Iterable[Span], width: int, *, indent: int = 0) -> list[Line]:
    """Wrap a line at blanks into rows of at most ``width`` cells; indent all rows but the first."""
    width = max(2, width)
    margin = " " * min(indent, width // 2 - 1)
    rows: list[list[Span]] = [[]]
    used = start = 0
    for span in line:
        for word in _words(span.text):
            if used > start and not _fits(word, width - used):
                rows.append([Span(margin)] if margin else [])
                used = start = len(margin)
            # A word that is wider than a whole row is broken at the edge.
            while not _fits(word, width - used):
                head = prefix(word, width - used)
                rows[-1].append(Span(head, span.tone))
                word = word[len(head) :]
                rows.append([Span(margin)] if margin else [])
                used = start = len(margin)
            cells = width_of(word)
            if used + cells > width:
                # Drop trailing blanks that do not fit; the next word begins a new row.
                word, cells = word.rstrip(" "), width - used
            if word:
                rows[-1].append(Span(word, span.tone))
            used += cells
    return [tuple(row) for row in rows]


def wrap_all(lines: Iterable[Line], width: int) -> list[Line]:
    """Wrap each line into rows of at most ``width`` cells; an empty line is an empty row."""
    return [row for line in lines for row in wrap(line, width)]


def prefix(text: str, room: int) -> str:
    """Return the longest prefix that fits into ``room`` cells, without separating combining marks.

    The prefix has at least one character, so that callers in a loop make progress.
    """
    used = 0
    for position, character in enumerate(text):
        cells = width_of(character)
        used += cells
        # Combining marks have no width and stay with their letter: a prefix ends before a wide
        # character only.
        if cells and used > room and position:
            return text[:position]
    return text


def suffix(text: str, room: int) -> str:
    """Return the longest suffix that fits into ``room`` cells, without a leading combining mark."""
    used, start = 0, len(text)
    for position in range(len(text) - 1, -1, -1):
        cells = width_of(text[position])
        used += cells
        if used > room:
            break
        if cells:
            start = position
    return text[start:]


def _fits(word: str, room: int) -> bool:
    """Return True if a word fits, ignoring trailing blanks; stop measuring once it does not."""
    used = 0
    for character in word.rstrip(" "):
        used += width_of(character)
        if used > room:
            return False
    return True


def _words(text: str) -> list[str]:
    """Split a text into words, each with its trailing blanks and combining marks on them."""
    pieces: list[str] = []
    start = 0
    for position in range(1, len(text)):
        here = text[position]
        # A combining mark after a blank belongs to that blank; no row may begin with it.
        if text[position - 1] == " " and here != " " and width_of(here):
            pieces.append(text[start:position])
            start = position
    if text:
        pieces.append(text[start:])
    return pieces


def level(part: int, whole: int) -> str:
    """Return the tone for a share, with the thresholds of k9s: 70 % and 90 %."""
    if whole <= 0 or part < 0.7 * whole:
        return "good"
    return "warning" if part < 0.9 * whole else "error"
