"""The rows of the tree: select the visible items by folding and filter, and format them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from podtui.api.v1 import Pod
from podtui.tui.model.model import Changes, Model
from podtui.tui.views.tree.tree import (
    FILES,
    NOWHERE,
    Item,
    file_items,
    files_item,
    node_item,
    pod_head,
    pod_items,
    pod_order,
)
from podtui.tui.widgets.cells import (
    Cell,
    Column,
    ColumnValue,
    Row,
    Span,
    Value,
    ValueKind,
    content_of,
)
from podtui.tui.widgets.filters import ALL, Filter

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


class _Entry(Struct, frozen=True):
    """The object of `TREE_COLUMNS`. All columns sort by the order of the tree."""

    item: Item
    folded: bool

    def field(self, cell: Cell, value: Value) -> ColumnValue:
        return ColumnValue(cell, self.item.order, value)


def _name(one: _Entry) -> ColumnValue:
    item = one.item
    sign = (FOLDED if one.folded else OPEN) if item.parent_of_others else " "
    label = f"{' ' * (INDENT * item.depth)}{sign} {item.label}"
    return one.field(Cell(label, item.tone), item.label)


def _status_word(item: Item) -> str:
    return item.state.partition(" ")[2]


def _status(one: _Entry) -> ColumnValue:
    item = one.item
    cell = Cell(item.state, item.state_tone) if item.state else _NOTHING
    return one.field(cell, _status_word(item))


def _restarts(one: _Entry) -> ColumnValue:
    count = one.item.restarts
    if count is None:
        return one.field(_NOTHING, None)
    return one.field(Cell(str(count), "warning" if count else "muted"), float(count))


def _detail_tone(item: Item) -> str:
    return "soft" if item.parent_of_others else "muted"


def _since(one: _Entry) -> ColumnValue:
    since = one.item.since
    return one.field(Cell("", "muted", since) if since is not None else _NOTHING, since)


TREE_COLUMNS: Final = (
    Column("name", "NAME", 100, minimum=24, maximum=72, flexible=True, of=_name),
    Column("status", "STATUS", 95, minimum=18, maximum=28, flexible=True, usual_width=12,
           of=_status),
    Column("restarts", "RESTARTS", 70, align="right", kind=ValueKind.COUNT, of=_restarts),
    Column("detail", "WHAT", 80, minimum=12, maximum=400, flexible=True, filling=True,
           of=lambda one: one.field(Cell(one.item.detail, _detail_tone(one.item)),
                                    one.item.detail)),
    Column("age", "AGE", 60, align="right", kind=ValueKind.AGE, usual_width=5, of=_since),
)  # fmt: skip


def tree_row(item: Item, folded: bool) -> Row:
    """Return the row of an item, with the cells of `TREE_COLUMNS`."""
    # Without restarts and age, the detail may use their columns as well.
    bare = item.restarts is None and item.since is None
    tail = Span(item.detail, _detail_tone(item)) if bare and item.detail else None
    return Row(
        item.key,
        *content_of(TREE_COLUMNS, _Entry(item, folded)),
        search=f"{item.label} {_status_word(item)} {item.detail}",
        labels=item.labels,
        tail=tail,
        tail_from=2 if item.state else 1,
        identity=item.path,
        fault=item.fault,
    )


def visible_rows(
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


class TreeView:
    """The tree rows of a `Model`. ``shown`` contains the visible items by key."""

    def __init__(self, model: Model, wanted: Filter = ALL) -> None:
        self._model = model
        self.filter = wanted
        self.folds: dict[str, bool] = {}
        self.shown: dict[str, Item] = {}
        self._of: dict[str, tuple[str, ...]] = {}
        """The keys of the visible rows, by pod; those of the files under `FILES`, those of the
        nodes under `NOWHERE`."""
        self._heads: dict[str, Item] = {}
        self._items: dict[str, tuple[Pod, str, tuple[Item, ...]]] = {}
        """By pod key: the pod and the node name on which the items are based, and the items."""
        self._rows: dict[tuple[str, bool], tuple[Item, Row]] = {}
        """By item key and folded state: the row, and the item on which it is based."""

    # --- changes

    def update(self, changes: Changes, now: float) -> tuple[list[Row], list[str]]:
        """Return (new and changed rows, keys of removed rows)."""
        rows: list[Row] = []
        gone: list[str] = []
        for key in changes.pods:
            self._take(key, list(self._pod(key, now)), rows, gone)
        if changes.pods or changes.manifests:
            self._take(FILES, list(self._files(now)), rows, gone)
        if changes.pods or changes.node:
            self._take(NOWHERE, list(self._nodes()), rows, gone)
        return rows, gone

    def all(self, now: float) -> list[Row]:
        """Rebuild and return all visible rows."""
        self.shown, self._of, self._heads = {}, {}, {}
        return self.update(self._model.all_changes(), now)[0]

    def _take(
        self, name: str, found: list[tuple[Item, Row]], rows: list[Row], gone: list[str]
    ) -> None:
        keys = tuple(item.key for item, _ in found)
        kept = set(keys)
        for key in self._of.get(name, ()):
            if key not in kept:
                gone.append(key)
                self.shown.pop(key, None)
        self._of[name] = keys
        for item, row in found:
            self.shown[item.key] = item
            rows.append(row)

    # --- parts

    def _node_of(self, pod: Pod) -> str:
        """Return the node name of a pod; all pods of an agent, even not yet admitted ones, are on
        its node."""
        home = self._model.home_of(pod)
        return home.metadata.name if home is not None else pod.spec.nodeName

    def _pod(self, key: str, now: float) -> Iterator[tuple[Item, Row]]:
        pod = self._model.pods.get(key)
        if pod is None:
            self._forget(key)
            return
        node = self._node_of(pod)
        head = self._heads[key] = pod_head(pod, NOWHERE + node, pod_order(pod, node), now)
        if self.is_folded_away(head.parent):
            return
        # Without a filter, do not build the children of a folded pod.
        bare = not self.filter.text and is_folded(head, self.folds)
        items = (head,) if bare else self._all_of(key, pod, node, now)
        yield from self._visible(items, now)

    def _all_of(self, key: str, pod: Pod, node: str, now: float) -> tuple[Item, ...]:
        known, fault = self._items.get(key), self._heads[key].fault
        if (
            known is None
            or known[0] is not pod
            or known[1] != node
            or known[2][0].fault is not fault
        ):
            known = self._items[key] = (pod, node, pod_items(pod, node, now))
        return known[2]

    def _forget(self, key: str) -> None:
        self._heads.pop(key, None)
        for item in self._items.pop(key, (None, "", ()))[2]:
            for folded in (False, True):
                self._rows.pop((item.key, folded), None)

    def _visible(self, items: Sequence[Item], now: float) -> list[tuple[Item, Row]]:
        return visible_rows(items, self.folds, self.filter, now, self._row)

    def _row(self, item: Item, folded: bool) -> Row:
        known = self._rows.get((item.key, folded))
        if known is None or known[0] is not item:
            known = self._rows[item.key, folded] = (item, tree_row(item, folded))
        return known[1]

    def is_folded_away(self, node: str) -> bool:
        return self.folds.get(node.removeprefix(NOWHERE), False)

    def _nodes(self) -> Iterator[tuple[Item, Row]]:
        pods = Counter(head.parent for head in self._heads.values())
        faults = Counter(head.parent for head in self._heads.values() if head.fault)
        names = {NOWHERE + name for name in self._model.nodes} | pods.keys()
        for key in names:
            name = key.removeprefix(NOWHERE)
            item = node_item(name, self._model.nodes.get(name), pods[key], faults[key])
            yield item, tree_row(item, is_folded(item, self.folds))

    def _files(self, now: float) -> Iterator[tuple[Item, Row]]:
        manifests = self._model.manifests
        if not manifests:
            return
        head = files_item(len(manifests))
        if not self.filter.text and is_folded(head, self.folds):
            yield head, tree_row(head, True)
            return
        by_name = {(p.metadata.namespace, p.metadata.name): p for p in self._model.pods.values()}
        items = [head]
        for manifest in manifests.values():
            status = manifest.status
            pod = self._model.pods.get(status.podUID)
            pod = pod or by_name.get((status.podNamespace, status.podName))
            items += file_items(manifest, pod, now)
        yield from self._visible(items, now)

    # --- folding

    def fold(self, key: str, folded: bool) -> None:
        item = self.shown.get(key)
        if item is not None:
            self.folds[item.path] = folded

    def fold_all(self, folded: bool) -> None:
        """Open all items, or fold all pods so that only pods and the manifest folder are shown."""
        self.folds = {}
        for head in self._heads.values():
            self.folds[head.path] = folded
        if not folded:
            self.folds[FILES] = False

    def nearest(self, key: str, before: dict[str, Item]) -> str:
        """Return the key if its row is visible, otherwise that of its nearest visible ancestor."""
        while key and key not in self.shown:
            item = before.get(key)
            key = item.parent if item is not None else ""
        return key
