"""The rows of the tree: select the visible items by folding and filter, and format them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from podtui.tui.views.tree.tree import Item
from podtui.tui.widgets.cells import Cell, Column, Kind, Row, Span
from podtui.tui.widgets.filters import Filter

TREE_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=24, maximum=72, flexible=True),
    Column("status", "STATUS", 95, minimum=18, maximum=28, flexible=True, room=12),
    Column("restarts", "RESTARTS", 70, align="right", kind=Kind.COUNT),
    Column("detail", "WHAT", 80, minimum=12, maximum=400, flexible=True, filling=True),
    Column("age", "AGE", 60, align="right", kind=Kind.AGE, room=5),
)
OPEN: Final = "▾"
FOLDED: Final = "▸"
INDENT: Final = 2
_NOTHING: Final = Cell("", "muted")

Folds = Mapping[str, bool]
"""The items that the user folded (True) or opened (False), by path."""


def is_folded(item: Item, folds: Folds) -> bool:
    return item.parent_of_others and folds.get(item.path, item.folded)


def sign_of(row: Row) -> str:
    """Return `OPEN`, `FOLDED`, or a blank for an item without children."""
    return row.cells[0].text.lstrip(" ")[:1] if fold_column(row) is not None else " "


def fold_column(row: Row) -> int | None:
    """Return the column of the fold sign in its row; None if there is none."""
    text = row.cells[0].text
    column = len(text) - len(text.lstrip(" "))
    return column if text[column : column + 1] in (OPEN, FOLDED) else None


def tree_row(item: Item, folded: bool) -> Row:
    """Return the row of an item, with the cells of `TREE_COLUMNS`."""
    sign = (FOLDED if folded else OPEN) if item.parent_of_others else " "
    label = f"{' ' * (INDENT * item.depth)}{sign} {item.label}"
    count = item.restarts
    cells = (
        Cell(label, item.tone),
        Cell(item.state, item.state_tone) if item.state else _NOTHING,
        Cell(str(count), "warning" if count else "muted") if count is not None else _NOTHING,
        Cell(item.detail, "soft" if item.parent_of_others else "muted"),
        Cell("", "muted", item.since) if item.since is not None else _NOTHING,
    )
    # Without restarts and age, the detail may use their columns as well.
    bare = count is None and item.since is None
    tail = Span(item.detail, cells[3].tone) if bare and item.detail else None
    word = item.state.partition(" ")[2]
    values = (item.label, word, None if count is None else float(count), item.detail, item.since)
    return Row(
        item.key,
        cells,
        (item.order,) * len(TREE_COLUMNS),
        values,
        search=f"{item.label} {word} {item.detail}",
        labels=item.labels,
        tail=tail,
        tail_from=2 if item.state else 1,
        same=item.path,
        fault=item.fault,
    )


def rows_in_sight(
    items: Sequence[Item],
    folds: Folds,
    wanted: Filter,
    now: float,
    make: Callable[[Item, bool], Row],
) -> list[tuple[Item, Row]]:
    """Return the visible items of a subtree with their rows, parents first.

    ``make`` is `tree_row` or a cached version. An item that matches the filter is shown with all
    its ancestors, which are opened unless the user folded them, and with its visible children.
    """
    hits, above = _matches(items, wanted, now, make) if wanted.text else (set[str](), set[str]())
    parents = {item.key for item in items}
    opened: set[str] = set()
    found: list[tuple[Item, Row]] = []
    for item in items:
        if item.parent in parents and item.parent not in opened:
            continue
        if wanted.text:
            if item.parent in hits:
                hits.add(item.key)
            if item.key not in hits and item.key not in above:
                continue
        folded = is_folded(item, folds)
        if folded and item.key in above and item.path not in folds:
            folded = False
        if not folded:
            opened.add(item.key)
        found.append((item, make(item, folded)))
    return found


def _matches(
    items: Sequence[Item], wanted: Filter, now: float, make: Callable[[Item, bool], Row]
) -> tuple[set[str], set[str]]:
    """Return (keys that match, keys of their ancestors)."""
    up = {item.key: item.parent for item in items}
    hits = {i.key for i in items if wanted.matches(make(i, False), now)}
    above: set[str] = set()
    for key in hits:
        parent = up[key]
        while parent in up and parent not in above:
            above.add(parent)
            parent = up[parent]
    return hits, above
