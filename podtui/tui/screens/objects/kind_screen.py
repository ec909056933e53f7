"""The list of the objects of one kind, with the columns of the server's Table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import ClassVar, Final

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.markup import escape

from podtui.api.v1 import ObjectMeta
from podtui.client.any_kind import ServedKind, TableRow
from podtui.client.protocol import Changed, Delta, Lost, Removed, Synced
from podtui.tui.model.model import Changes
from podtui.tui.model.objects import FollowedObjects
from podtui.tui.screens.objects.acting import ObjectsScreen
from podtui.tui.screens.objects.object_screen import AROUND_NETWORK, ObjectScreen
from podtui.tui.views.namespaces import NamespaceChoice
from podtui.tui.views.objects.network import with_endpoints
from podtui.tui.views.objects.table_rows import NAMESPACE, table_columns, table_row
from podtui.tui.views.why import inventory_of
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Column, Line, Span
from podtui.tui.widgets.columns import ColumnChoice
from podtui.tui.widgets.dialogs import Picker
from podtui.tui.widgets.filters import FilterError, parse_filter
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.table_pane import TablePane

_FIRST_COLUMNS: Final = (Column("name", "NAME", 100),)
"""The columns until the first answer."""
ENDPOINT_SECONDS: Final = 0.5
"""The least time between two computations of all endpoints."""


class KindPane(TablePane):
    """The table with its frame."""

    DEFAULT_CSS = "KindPane { height: 1fr; } KindPane > Table { height: 1fr; }"

    def __init__(self, kind: ServedKind) -> None:
        super().__init__(id="kind")
        self.name_ = escape(clean(kind.plural))
        self.rows: dict[str, TableRow] = {}
        """The objects by the keys of their rows."""
        self._definitions: object = None
        self.table = Table(_FIRST_COLUMNS, sort="name", id="kind-table")
        self.table.choice = ColumnChoice(wide=True)
        self.table.empty = ((Span("…", "muted"),),)

    def compose(self) -> ComposeResult:
        yield self.table

    def update_title(self) -> None:
        self.set_detail(f"· {len(self.table.set):,}{self.filter_words}")

    def take(self, delta: Delta, now: float) -> bool:
        """Show a delta of the watch; return whether the table has other columns now."""
        if isinstance(delta, Lost):
            return False
        items = [item for item in delta.items if isinstance(item, TableRow)]
        is_new = bool(items) and items[0].columns != self._definitions
        if is_new:
            self._definitions = items[0].columns
            columns = table_columns(items)
            # A server may call its columns as it likes.
            named = any(column.key == "name" for column in columns)
            self.table.use_columns(columns, sort="name" if named else columns[0].key)
            self.show_scope(self.scope)
        changed = [(table_row(item, self.table.columns, now), item) for item in items]
        if isinstance(delta, Removed):
            for row, _ in changed:
                self.rows.pop(row.key, None)
            self.table.change((), [row.key for row, _ in changed])
        elif isinstance(delta, Synced):
            self.rows = {row.key: item for row, item in changed}
            self.table.replace(row for row, _ in changed)
        else:
            self.rows |= {row.key: item for row, item in changed}
            self.table.change([row for row, _ in changed])
        if len(self.namespaces) > 1 and not self.scope:
            self.table.need_columns(frozenset({NAMESPACE}))
        self.update_title()
        return is_new

    @property
    def namespaces(self) -> Counter[str]:
        """The number of objects in each namespace."""
        return Counter(row.metadata.namespace for row in self.rows.values())

    def show_scope(self, namespace: str) -> None:
        if self._definitions is None:
            self.scope = namespace
        else:
            super().show_scope(namespace)
            needed = () if namespace or len(self.namespaces) < 2 else (NAMESPACE,)
            self.table.need_columns(frozenset(needed))


class KindScreen(ObjectsScreen):
    """The objects of a kind, filtered by ``text``. ``scope`` is the namespace that the main screen
    shows; ``show_namespace`` is called when the user selects another one.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "namespace", "Namespace", id="object.namespace",
                tooltip="Show one namespace, or all"),
    ]  # fmt: skip
    AUTO_FOCUS = "Table"

    def __init__(
        self, kind: ServedKind, text: str, scope: str, show_namespace: Callable[[str], None]
    ) -> None:
        super().__init__(kind)
        self._text = text
        self._show_namespace = show_namespace
        self._lost = ""
        self._is_synced = False
        self._rows: dict[str, TableRow] = {}
        """The Services as the server has them, by name."""
        is_service = kind.qualified_name == "services"
        self._is_stale = False
        self._endpoints = FollowedObjects(AROUND_NETWORK if is_service else ())
        self.pane = KindPane(kind)
        self.pane.scope = scope if kind.namespaced else ""

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield self.pane
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        self._show_head()
        self.run_worker(self._follow, name="follow kind", group="follow kind")
        if self._endpoints.kinds:
            follow = partial(self._endpoints.run, self.session.client, self._mark_stale)
            self.run_worker(follow, name="follow endpoints", group="follow endpoints")
            self.set_interval(ENDPOINT_SECONDS, self._update_endpoints)

    async def _follow(self) -> None:
        async for delta in self.session.client.follow_table(self.kind):
            if self._endpoints.kinds:
                delta = self._with_endpoints(delta)
            self._lost = clean(delta.reason) if isinstance(delta, Lost) else ""
            had_rows = bool(len(self.pane.table.set))
            if self.pane.take(delta, self.session.now()) and self._text:
                self._filter()
            self._is_synced = self._is_synced or isinstance(delta, Synced)
            self._show_head()
            if bool(len(self.pane.table.set)) is not had_rows:
                self.refresh_bindings()

    def _with_endpoints(self, delta: Delta) -> Delta:
        """Add the column with the endpoints of Services."""
        if isinstance(delta, Lost):
            return delta
        rows = [item for item in delta.items if isinstance(item, TableRow)]
        if isinstance(delta, Synced):
            self._rows = {}
        for row in rows:
            key = f"{row.metadata.namespace}/{row.metadata.name}"
            if isinstance(delta, Removed):
                self._rows.pop(key, None)
            else:
                self._rows[key] = row
        return structs.replace(delta, items=self._with_ready(rows))

    def _with_ready(self, rows: Iterable[TableRow]) -> tuple[TableRow, ...]:
        session = self.session
        inventory = inventory_of(session.model, self._endpoints.read, session.now())
        return tuple(with_endpoints(inventory, row) for row in rows)

    def _mark_stale(self) -> None:
        self._is_stale = True

    def _update_endpoints(self) -> None:
        """Show the endpoints after a change of them."""
        if self.shown and self._rows and self._is_stale:
            self._is_stale = False
            changed = Changed(self._with_ready(self._rows.values()))
            self.pane.take(changed, self.session.now())

    def _filter(self) -> None:
        """Apply the filter that the user typed after the name of the kind."""
        try:
            self.pane.filter_by(parse_filter(self._text, self.pane.table.columns))
        except FilterError as error:
            self.session.notify(str(error), title="Filter", severity="error")
        self.show_narrowing()

    def publish(self, changes: Changes, now: float) -> None:
        if changes.pods - changes.measured:
            self._mark_stale()
        self.pane.table.tick(now)

    def _show_head(self) -> None:
        if not self.shown:
            return
        scope = self.pane.namespace
        count = len(self.pane.rows)
        if scope:
            count = self.pane.namespaces[self.pane.scope]
        head: Line = (Span(f" {clean(self.kind.plural)} ", "brand"), Span(" "))
        if self._lost:
            head = (*head, Span(f"▲ {self._lost} ", "warning"))
        if self._is_synced:
            where = f" in namespace {scope}" if scope else ""
            head = (*head, Span(f"{count:,}{where} · {clean(self.kind.api_version)}", "soft"))
        self.query_one("#header", Bar).show(head)
        nothing = f"No {clean(self.kind.plural)}{f' in namespace {scope}' if scope else ''}."
        if self._lost and not self.pane.rows:
            nothing = self._lost
        if self._is_synced or self._lost:
            self.pane.table.empty = ((Span(nothing, "soft"),),)

    # --- selection

    def chosen_objects(self) -> Sequence[ObjectMeta]:
        table, rows = self.pane.table, self.pane.rows
        keys = [row.key for row in table.marked] or [table.cursor_key]
        return [rows[key].metadata for key in keys if key in rows]

    def clear_marks(self) -> None:
        self.pane.table.action_clear_marks()

    def has_target(self, action: str) -> bool:
        if action == "open":
            return bool(self.pane.table.cursor_key)
        return super().has_target(action)

    def on_table_opened(self, message: Table.Opened) -> None:
        row = self.pane.rows.get(message.key)
        if row is not None:
            self.session.push(ObjectScreen(self.kind, row.metadata))

    # --- the namespace

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "namespace" and not self.kind.namespaced:
            return False
        return super().check_action(action, parameters)

    def action_namespace(self) -> None:
        """Ask for the namespace to show."""
        counts = self.pane.namespaces
        choice = NamespaceChoice(counts, counts.total(), "object")

        def show(index: int | None) -> None:
            if index is not None:
                namespace = choice.namespaces[index]
                self.pane.show_scope(namespace)
                self._show_namespace(namespace)
                self._show_head()

        picker = Picker("Namespace", choice.lines(), start=choice.index(self.pane.scope))
        self.session.app.push_screen(picker, show)
