"""The tree screen: nodes, pods, containers and their details; manifest files, workloads, Services
and claims with their pods."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from podtui.api.discovery import EndpointSlice
from podtui.api.local import Manifest
from podtui.api.networking import Ingress, IngressClass
from podtui.api.storage import StorageClass
from podtui.api.v1 import (
    ConfigMap,
    Endpoints,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    Service,
)
from podtui.text.terminal_text import plural
from podtui.tui.model.model import Changes
from podtui.tui.model.objects import FollowedObjects
from podtui.tui.screens.acting_screen import ActingScreen
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.object_why_screen import ObjectWhyScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.text_screens import ManifestScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.views.tree import (
    FOLDED,
    NODES,
    OPEN,
    TREE_COLUMNS,
    Item,
    TreeView,
    fold_column,
    sign_of,
)
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Row, Span
from podtui.tui.widgets.filters import ALL, Filter, FilterError, complete_filter, parse_filter
from podtui.tui.widgets.prompt import Prompt, Purpose
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.why.inventory import WORKLOADS, find_noun

TREE_KINDS: Final[tuple[type[Any], ...]] = (
    *WORKLOADS, Service, Ingress, PersistentVolumeClaim, PersistentVolume, Endpoints, EndpointSlice,
    StorageClass, ResourceQuota, IngressClass, ConfigMap, Namespace,
)  # fmt: skip
"""The kinds that the tree shows beside those of the model, and those that explain them."""
_NOT_HERE = frozenset({"mark", "mark_range", "clear_marks", "sort_chosen"})


class TreeTable(Table):
    """A table that always keeps the order of the tree."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Toggle", key_display="enter", id="tree.turn",
                tooltip="Expand or collapse; open an item without children"),
        Binding("space", "toggle_fold", "Fold", show=False, key_display="space", id="tree.fold",
                tooltip="Expand or collapse"),
        Binding("right", "expand", "Expand", show=False, id="tree.deeper",
                tooltip="Expand, then go to the first child"),
        Binding("left,h", "collapse", "Collapse", show=False, id="tree.higher",
                tooltip="Collapse, then go to the parent"),
        Binding("plus", "fold_all(False)", "Expand all", key_display="+", id="tree.open-all",
                tooltip="Show everything"),
        Binding("minus", "fold_all(True)", "Collapse all", key_display="-", id="tree.fold-all",
                tooltip="Show only the pods"),
    ]  # fmt: skip

    class FoldToggled(Message):
        """Posted to fold or open a row."""

        def __init__(self, key: str, folded: bool) -> None:
            super().__init__()
            self.key = key
            self.folded = folded

    class AllFoldsToggled(Message):
        """Posted to fold or open all rows."""

        def __init__(self, folded: bool) -> None:
            super().__init__()
            self.folded = folded

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(TREE_COLUMNS, sort="name", id=id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action in _NOT_HERE else super().check_action(action, parameters)

    def sort_by(self, key: str) -> None:
        """Do nothing: the tree has a fixed order."""

    def action_toggle_fold(self) -> None:
        row = self.cursor_row
        if row is not None and sign_of(row) != " ":
            self.post_message(self.FoldToggled(row.key, sign_of(row) == OPEN))

    def action_open(self) -> None:
        row = self.cursor_row
        if row is not None and sign_of(row) != " ":
            self.action_toggle_fold()
        else:
            super().action_open()

    def action_expand(self) -> None:
        row = self.cursor_row
        if row is not None and sign_of(row) == FOLDED:
            self.action_toggle_fold()
        elif row is not None and sign_of(row) == OPEN:
            self.action_move(1)

    def action_collapse(self) -> None:
        row = self.cursor_row
        if row is None:
            return
        if sign_of(row) == OPEN:
            self.action_toggle_fold()
            return
        for index in range(self.set.index[row.key] - 1, -1, -1):
            above = self.set.at(index)
            if above is not None and _is_above(above, row):
                self.move_to(index)
                return

    def action_fold_all(self, folded: bool) -> None:
        self.post_message(self.AllFoldsToggled(folded))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        row = self.set.at(round(self.scroll_y) + offset.y - 1) if offset and offset.y else None
        column = fold_column(row) if row is not None else None
        # Subtract one cell for the gutter before the first column.
        if event.button == 1 and row is not None and offset and offset.x - 1 == column:
            event.stop()
            # Otherwise the base class would handle it as a click on the row.
            event.prevent_default()
            self.select(row.key)
            self.action_toggle_fold()


def _is_above(above: Row, row: Row) -> bool:
    order, whole = above.sort[0], row.sort[0]
    return len(order) < len(whole) and whole[: len(order)] == order


class TreeScreen(ActingScreen, BackScreen):
    """``wanted`` is the initial filter; the cursor begins on the pod with the key ``pod``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", id="tree.filter",
                tooltip="Filter the tree; parents of matches stay"),
        Binding("d", "open('overview')", "Describe", show=False, id="tree.describe",
                tooltip="Open the pod, or the file"),
        Binding("l", "open('logs')", "Logs", id="tree.logs", tooltip="The log of the pod"),
        Binding("y", "open('yaml')", "YAML", show=False, id="tree.yaml"),
        Binding("X", "why", "Why", id="tree.why",
                tooltip="Why the pod does not run, and how to fix it"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    TreeScreen TreeTable { height: 1fr; border: round $pane-border-focus; padding: 0 1;
        border-title-color: $pane-title-focus; background: $background; }
    """
    AUTO_FOCUS = "TreeTable"
    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset({"tree.turn", "tree.why"})

    def __init__(self, wanted: Filter = ALL, pod: str = "") -> None:
        super().__init__()
        self._wanted = wanted
        self._first = pod
        self._turns = 0
        """The number of changes of the followed objects that the rows show."""

    def compose(self) -> ComposeResult:
        self._objects = FollowedObjects(TREE_KINDS)
        self.view = TreeView(self.session.model, self._wanted, self._objects.read)
        self.table = TreeTable(id="tree")
        yield Bar(id="header")
        yield self.table
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        self.table.select(f"pod:{self._first}")
        follow = partial(self._objects.run, self.session.client, lambda: None)
        self.run_worker(follow, group="tree-objects", exclusive=True)

    # --- selection

    @property
    def item(self) -> Item | None:
        """The item under the cursor."""
        return self.view.shown.get(self.table.cursor_key)

    def chosen_pods(self) -> tuple[Pod, ...]:
        item = self.item
        pod = self.session.model.pods.get(item.pod) if item is not None else None
        return () if pod is None else (pod,)

    def chosen_manifests(self) -> tuple[Manifest, ...]:
        item = self.item
        manifest = self.session.model.manifests.get(item.manifest) if item is not None else None
        return super().chosen_manifests() if manifest is None else (manifest,)

    # --- drawing

    def publish(self, changes: Changes, now: float) -> None:
        if self.view.filter.timed:
            self.table.replace(self.view.all(now))
        else:
            rows, gone = self.view.update(changes, now)
            if rows or gone:
                self.table.change(rows, gone)
            if self._objects.turns != self._turns:
                self._turns = self._objects.turns
                self.table.change(*self.view.update_owners(now))
        self.table.tick(now)
        self._head()

    def _head(self) -> None:
        wanted = self.view.filter
        pods = len(self.session.model.pods)
        spans = (Span(f" {plural(pods, 'pod')}", "soft"),)
        if wanted.text:
            spans = (*spans, Span(f" · /{clean(wanted.text)}", "key"), Span(" · esc", "muted"))
        self.query_one("#header", Bar).show((Span(" tree ", "brand"), *spans))
        nothing = "Nothing matches." if wanted.text else "No pods yet."
        self.table.empty = ((Span(nothing, "soft"),),)

    def _redraw(self) -> None:
        """Rebuild all rows; keep the cursor on its row, or on its nearest visible ancestor."""
        before, cursor = self.view.shown, self.table.cursor_key
        self.table.replace(self.view.all(self.session.now()))
        self.table.select(self.view.nearest(cursor, before))
        self._head()
        self.refresh_bindings()

    # --- folding

    def on_tree_table_fold_toggled(self, message: TreeTable.FoldToggled) -> None:
        item = self.view.shown.get(message.key)
        self.view.fold(message.key, message.folded)
        if item is not None and item.pod and item.key.startswith("pod:"):
            # Update only this pod: there may be a thousand others.
            rows, gone = self.view.update(Changes(frozenset({item.pod})), self.session.now())
            self.table.change(rows, gone)
        else:
            self._redraw()

    def on_tree_table_all_folds_toggled(self, message: TreeTable.AllFoldsToggled) -> None:
        self.view.fold_all(message.folded)
        self._redraw()

    # --- the filter

    def action_filter(self) -> None:
        rows = self.table.set.rows
        prompt = self.query_one(Prompt)
        prompt.ask(
            Purpose.FILTER,
            self.view.filter.text,
            complete=lambda text: complete_filter(
                text, TREE_COLUMNS, lambda n: (row.values[n] for row in rows.values())
            ),
            check=_fault_of,
        )
        self.query_one(Hints).display = False

    def filter_by(self, wanted: Filter) -> None:
        self.view.filter = wanted
        self._redraw()

    def on_prompt_changed(self, message: Prompt.Changed) -> None:
        if _fault_of(message.text) is None:
            self.filter_by(parse_filter(message.text, TREE_COLUMNS))

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self._close_prompt()
        self.filter_by(parse_filter(message.text, TREE_COLUMNS))

    def on_prompt_cancelled(self, message: Prompt.Cancelled) -> None:
        self._close_prompt()
        self.filter_by(ALL)

    def _close_prompt(self) -> None:
        self.query_one(Hints).display = True
        self.set_focus(self.table)

    def action_back(self) -> None:
        if self.view.filter.text:
            self.filter_by(ALL)
        else:
            super().action_back()

    # --- opening

    def on_table_opened(self, message: Table.Opened) -> None:
        self.action_open("overview")

    def action_open(self, tab: str) -> None:
        item = self.item
        if item is None:
            return
        if item.manifest:
            self.session.push(ManifestScreen(item.manifest))
        elif item.pod:
            self.session.push(PodScreen(item.pod, tab))
        elif item.ref is not None:
            self._why_object(*item.ref)
        elif item.key.startswith(NODES):
            self.session.push(NodeScreen())

    def action_why(self) -> None:
        item = self.item
        if item is not None and item.manifest and not item.pod:
            self.session.push(WhyScreen(None, item.manifest))
        if item is not None and item.ref is not None:
            self._why_object(*item.ref)
        for pod in self.chosen_pods():
            self.session.push(WhyScreen(pod))

    def _why_object(self, kind: str, namespace: str, name: str) -> None:
        noun = find_noun(kind)
        if noun is not None:
            self.session.push(ObjectWhyScreen(noun, name, namespace))


def _fault_of(text: str) -> FilterError | None:
    try:
        parse_filter(text, TREE_COLUMNS)
    except FilterError as error:
        return error
    return None
