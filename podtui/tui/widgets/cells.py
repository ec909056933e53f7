"""What widgets draw: spans of text in a tone, and the cells, rows and columns of tables.

A tone is the name of a meaning (``running``, ``muted`` …), never a colour;
`podtui.tui.widgets.tones` says how each looks in the theme in force.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct, field
from rich.cells import cell_len, set_cell_size

from podtui.api.times import short_duration

GAP = 2
"""Blank cells between two columns."""


class Span(Struct, frozen=True, gc=False):
    text: str
    tone: str = ""


Line = tuple[Span, ...]


class Cell(Struct, frozen=True, gc=False):
    """Clean text; with ``since`` (epoch seconds) also how long ago that was.

    Ages are made when a cell is drawn: a table of a thousand pods needs no new rows each second.
    """

    text: str = ""
    tone: str = ""
    since: float | None = None

    def shown(self, now: float, *, short: bool = False) -> str:
        """``short`` leaves the age out where there is something else to show."""
        if self.since is None:
            return self.text
        if not self.text:
            return short_duration(now - self.since)
        return self.text if short else f"{self.text} ({short_duration(now - self.since)} ago)"


class Kind(Enum):
    """What a column's values are, and so how filters compare them."""

    TEXT = auto()
    COUNT = auto()
    CPU = auto()
    """Milli cores."""
    BYTES = auto()
    PERCENT = auto()
    SHARE = auto()
    """A part of one."""
    AGE = auto()
    """Epoch seconds; compared by how long ago that was."""


Value = str | float | None
"""What a filter compares; None where there is nothing to compare yet."""


class Row(Struct, frozen=True, gc=False):
    """One line of a table; ``cells``, ``sort`` and ``values`` are in the order of its columns.

    ``pin`` goes before every other order, the smallest on top. ``tail`` stands in place of all
    cells from column ``tail_from`` on. ``search`` is what a regular expression looks at. Rows of
    one ``same`` are the same thing to people: the cursor and a mark go from one that is gone to its
    successor. ``fault``: something is wrong with it. ``markable``: it can be acted on.
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
    same: str = ""
    fault: bool = False
    markable: bool = False


class Shown(Enum):
    """When a column is shown where nobody chose."""

    ALWAYS = auto()
    WIDE = auto()
    """With the wide view."""
    CHOSEN = auto()
    """Only where somebody ticks it."""


class Column(Struct, frozen=True, dict=True):
    """``rank``: the smallest goes first when there is no room. ``flexible`` columns may shrink to
    ``minimum``; one that is ``filling`` takes what the others leave."""

    key: str
    title: str
    rank: int
    minimum: int = 4
    maximum: int = 60
    align: Literal["left", "right"] = "left"
    flexible: bool = False
    filling: bool = False
    descending: bool = False
    """Whether the first click sorts the largest to the top."""
    kind: Kind = Kind.TEXT
    shown: Shown = Shown.ALWAYS
    room: int = 0
    """Cells that it takes even while its texts are shorter, where there are so many: what is usual
    in it soon, so that the others need not move then."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What a filter may call it: its title, its key, both in small letters."""
        return tuple(dict.fromkeys((self.title.lower(), self.key.lower())))


class Fitted(Struct, frozen=True):
    """A column that is shown: its place among all columns, its width, whether cells are short."""

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
) -> tuple[Fitted, ...]:
    """Which columns a table of ``available`` cells shows, and how wide.

    ``natural`` and ``short`` are the widths that the cells of each column want. Long cells give way
    first, then flexible columns down to their minimum, then whole columns by rank. Only those of
    ``shown`` are considered. Where the user has ``ticked`` columns, all others but the first by
    rank go before them; those of ``wanted`` and the first by rank are the last to go.
    """
    kept = list(range(len(columns)) if shown is None else shown)
    added = {i for i in kept if i in ticked and columns[i].shown is not Shown.ALWAYS}
    first = max(kept, key=lambda i: columns[i].rank, default=0)
    rank = {
        i: columns[i].rank + 1000 * (i in wanted or i == first) + 500 * (i in added) for i in kept
    }
    wide = {i: _clamp(columns[i], max(natural[i], columns[i].room)) for i in kept}
    tight = {i: _clamp(columns[i], short[i]) for i in kept}
    least = {i: columns[i].minimum if columns[i].flexible else tight[i] for i in kept}
    extra = [
        i
        for i in kept
        if i != first
        and i not in added
        and (
            (bool(ticked) and i not in ticked)
            or (columns[i].shown is not Shown.ALWAYS and i not in wanted)
        )
    ]
    while extra and max(_total(tight, kept), _total(least, kept)) > available:
        # Before anything that is always there is cut.
        extra.remove(least_ranked := min(extra, key=lambda i: rank[i]))
        kept.remove(least_ranked)
    while len(kept) > 1 and _total(least, kept) > available:
        kept.remove(min(kept, key=lambda i: rank[i]))
    is_short = dict.fromkeys(kept, False)
    widths = {i: wide[i] for i in kept}
    for index in sorted(kept, key=lambda i: rank[i]):
        if _total(widths, kept) <= available:
            break
        widths[index], is_short[index] = tight[index], tight[index] < wide[index]
    _shrink(columns, widths, _total(widths, kept) - available)
    spare = available - _total(widths, kept)
    filling = [i for i in kept if columns[i].filling]
    if filling and spare > 0:
        widths[filling[-1]] += spare
    elif spare > 0 and len(kept) > 1:
        # Air between columns, but not so much that the eye loses its line.
        each = min(4, spare // (len(kept) - 1))
        for index in kept[:-1]:
            widths[index] += each
    return tuple(Fitted(i, min(widths[i], available), is_short[i]) for i in kept)


def _shrink(columns: Sequence[Column], widths: dict[int, int], over: int) -> None:
    """Take ``over`` cells from the flexible columns, always from the widest that may still give;
    one that fills the line may be twice as wide as the others."""
    while over > 0:
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


def _total(widths: Mapping[int, int], kept: Sequence[int]) -> int:
    return sum(widths[i] for i in kept) + GAP * (len(kept) - 1)


def width_of(text: str) -> int:
    """Terminal cells of a clean text."""
    return len(text) if text.isascii() else cell_len(text)


def sized(text: str, width: int, align: str = "left") -> str:
    """``text`` in exactly ``width`` cells, its end cut with an ellipsis."""
    cells = width_of(text)
    if cells > width:
        return set_cell_size(text, max(0, width - 1)) + "…" if width > 0 else ""
    return " " * (width - cells) + text if align == "right" else text + " " * (width - cells)


def line_width(line: Iterable[Span]) -> int:
    return sum(width_of(span.text) for span in line)


def wrap(line: Iterable[Span], width: int, *, indent: int = 0) -> list[Line]:
    """A line in rows of at most ``width`` cells, broken at blanks; later rows are indented."""
    width = max(2, width)
    margin = " " * min(indent, width // 2 - 1)
    rows: list[list[Span]] = [[]]
    used = start = 0
    for span in line:
        for word in _words(span.text):
            if used > start and not _fits(word, width - used):
                rows.append([Span(margin)] if margin else [])
                used = start = len(margin)
            while not _fits(word, width - used):
                head = prefix(word, width - used)
                rows[-1].append(Span(head, span.tone))
                word = word[len(head) :]
                rows.append([Span(margin)] if margin else [])
                used = start = len(margin)
            cells = width_of(word)
            if used + cells > width:
                # Blanks that have no room end the row: nothing is put where they were.
                word, cells = word.rstrip(" "), width - used
            if word:
                rows[-1].append(Span(word, span.tone))
            used += cells
    return [tuple(row) for row in rows]


def wrap_all(lines: Iterable[Line], width: int) -> list[Line]:
    """Each line in rows of at most ``width`` cells; an empty one is an empty row."""
    return [row for line in lines for row in wrap(line, width)]


def prefix(text: str, room: int) -> str:
    """As much of a text as fits into ``room`` cells, a letter with all of its marks; one letter at
    least, so that there is an end."""
    used = 0
    for position, character in enumerate(text):
        cells = width_of(character)
        used += cells
        if cells and used > room and position:
            return text[:position]
    return text


def suffix(text: str, room: int) -> str:
    """As much of the end of a text as fits into ``room`` cells; no mark without its letter."""
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
    """Whether a word fits, without the blanks behind it; looks no further than it must."""
    used = 0
    for character in word.rstrip(" "):
        used += width_of(character)
        if used > room:
            return False
    return True


def _words(text: str) -> list[str]:
    """Words with the blanks that follow them; marks on a blank stay with it."""
    words: list[str] = []
    start = 0
    for position in range(1, len(text)):
        here = text[position]
        if text[position - 1] == " " and here != " " and width_of(here):
            words.append(text[start:position])
            start = position
    if text:
        words.append(text[start:])
    return words
