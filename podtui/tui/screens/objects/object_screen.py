"""The screen of one object of any kind, with a tab for each aspect that it has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from podtui.api.discovery import EndpointSlice
from podtui.api.lenient import lenient_convert
from podtui.api.names import MANIFEST_PATH
from podtui.api.networking import Ingress
from podtui.api.v1 import Endpoints, Event, ObjectMeta, Pod, Service
from podtui.client.any_kind import AnyObject, ServedKind
from podtui.client.protocol import Delta, Lost, Removed, Synced
from podtui.tui.commands.objects import object_label, roll_back
from podtui.tui.commands.open_url import show_url
from podtui.tui.model.model import Changes, pod_key
from podtui.tui.model.objects import FollowedObjects
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.screens.objects.acting import ObjectsScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.tab_bar import TabBar
from podtui.tui.screens.tabbed_screen import TabbedScreen
from podtui.tui.screens.text_screens import EventScreen
from podtui.tui.views.events import EVENT_COLUMNS, event_row
from podtui.tui.views.objects.content import DATA_COLUMNS, Entry, data_row, entries, object_yaml
from podtui.tui.views.objects.network import (
    NETWORK_COLUMNS,
    NETWORK_KINDS,
    NetworkEntry,
    network_entries,
    network_rows,
)
from podtui.tui.views.objects.workloads import (
    BETWEEN,
    HISTORIES,
    OWNING,
    REVISION_COLUMNS,
    Revision,
    has_pods,
    owned_by,
    owner_in,
    pods_of,
    revision_row,
    revisions,
    rollout_lines,
)
from podtui.tui.views.pods.rows import CLUSTER_COLUMNS, POD_COLUMNS, pod_row
from podtui.tui.views.why import inventory_of
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean, literal
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.text_view import TextView
from podtui.tui.widgets.tones import LinesView

OBJECT_TABS: Final = {
    "pods": "Pods",
    "rollout": "Rollout",
    "events": "Events",
    "logs": "Logs",
    "yaml": "YAML",
    "data": "Data",
    "network": "Network",
}
AROUND_NETWORK: Final[tuple[type[Any], ...]] = (Service, EndpointSlice, Endpoints)
"""The kinds that tell how a Service or an Ingress is reached, beside the pods."""
_WITH_DATA: Final = frozenset({"configmaps", "secrets"})


def tabs_of(kind: ServedKind) -> list[str]:
    """Return the tabs that objects of a kind have."""
    tabs = ["events", "yaml"]
    if has_pods(kind.kind):
        tabs.append("pods")
    if kind.kind in OWNING:
        tabs.append("logs")
    if kind.kind in HISTORIES:
        tabs.append("rollout")
    if kind.qualified_name in _WITH_DATA:
        tabs.append("data")
    if kind.qualified_name in NETWORK_KINDS:
        tabs.append("network")
    return [tab for tab in OBJECT_TABS if tab in tabs]


class DataTable(Table):
    """The keys of a ConfigMap or a Secret."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "screen.reveal", "Show value", id="object.reveal",
                tooltip="Show or hide the value of the selected key"),
        Binding("c", "screen.copy_value", "Copy value", id="object.copy-value",
                tooltip="Copy the decoded value of the selected key"),
    ]  # fmt: skip


class NetworkTable(Table):
    """The URLs, names, ports and endpoints of a Service or an Ingress."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", key_display="enter", id="object.open-network",
                tooltip="Open the URL in a browser, or the pod of the endpoint"),
    ]  # fmt: skip


class ObjectScreen(ObjectsScreen, TabbedScreen):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('pods')", "Pods", show=False, id="object.pods",
                tooltip="The pods of the object"),
        Binding("2", "tab('rollout')", "Rollout", show=False, id="object.rollout",
                tooltip="State of the rollout, and revisions"),
        Binding("3", "tab('events')", "Events", show=False, id="object.events",
                tooltip="Events of the object, and of what it owns"),
        Binding("4,l", "tab('logs')", "Logs", key_display="l", id="object.logs",
                tooltip="The logs of its pods, merged"),
        Binding("5,y", "tab('yaml')", "YAML", key_display="y", id="object.yaml",
                tooltip="The live object, without the values of a Secret"),
        Binding("6", "tab('data')", "Data", show=False, id="object.data",
                tooltip="Keys and values of a ConfigMap or a Secret"),
        Binding("7", "tab('network')", "Network", show=False, id="object.network",
                tooltip="URLs, names, ports and endpoints of a Service or an Ingress"),
        Binding("b", "roll_back", "Roll back", id="object.rollback",
                tooltip="Roll back to the selected revision"),
        Binding("o", "owner", "Owner", id="object.owner",
                tooltip="Open the object that owns this one"),
        Binding("tab", "cycle(1)", "Next tab", show=False, id="object.next",
                tooltip="Go to the next tab"),
        Binding("shift+tab", "cycle(-1)", "Previous tab", show=False, id="object.before",
                tooltip="Go to the previous tab"),
        Binding("n", "match(1)", "Next match", show=False, id="object.next-match",
                tooltip="Go to the next match"),
        Binding("N", "match(-1)", "Previous match", show=False, id="object.match-before",
                tooltip="Go to the previous match"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    ObjectScreen {
        #tabs { background: $background; }
        #content { height: 1fr; }
        .part {
            border: round $pane-border; padding: 0 1; background: $background;
            border-title-color: $pane-title; border-title-background: $background;
            &:focus, &:focus-within { border: round $pane-border-focus; }
        }
        .part, #logs { height: 1fr; }
        #rollout-text { height: auto; min-height: 2; background: $background; margin-bottom: 1; }
        #revisions { height: 1fr; background: $background; }
    }
    """
    AUTO_FOCUS = ""
    TABS: ClassVar[Mapping[str, str]] = OBJECT_TABS
    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset(
        {
            "object.rollback",
            "object.reveal",
            "object.copy-value",
            "object.open-url",
            "object.forward",
        }
    )

    def __init__(self, kind: ServedKind, meta: ObjectMeta) -> None:
        super().__init__(kind)
        self.meta = meta
        self._tabs = tabs_of(kind)
        self.tab = next((tab for tab in ("data", "network") if tab in self._tabs), self._tabs[0])
        self.item: AnyObject | None = None
        """The object, or its last known state after its removal; None until the first answer."""
        self._is_gone = False
        self._lost = ""
        self._owned: dict[str, AnyObject] = {}
        """The objects between this one and its pods, or those that have its revisions, by UID."""
        self._pods: dict[str, Pod] = {}
        self._revisions: dict[str, Revision] = {}
        self._entries: dict[str, Entry] = {}
        self._revealed: set[str] = set()
        self._network: dict[str, NetworkEntry] = {}
        self._around = FollowedObjects(AROUND_NETWORK if "network" in self._tabs else ())
        self._logged: tuple[str, ...] = ()
        self._yaml_of: AnyObject | None = None

    def compose(self) -> ComposeResult:
        session = self.session
        yield Bar(id="header")
        yield TabBar(OBJECT_TABS)
        # Keep references: while the screen closes, queries no longer find its widgets.
        columns = CLUSTER_COLUMNS if session.model.server.is_cluster else POD_COLUMNS
        self.pods_table = Table(columns, sort="name", id="pods")
        self.pods_table.empty = ((Span("No pods.", "soft"),),)
        self.rollout_text = LinesView(id="rollout-text")
        self.rollout_text.can_focus = False
        self.revision_table = Table(
            REVISION_COLUMNS, sort="revision", descending=True, id="revisions"
        )
        self.revision_table.empty = ((Span("No revisions yet.", "soft"),),)
        self.events_table = Table(
            EVENT_COLUMNS, sort="seen", descending=True, follow_top=True, id="events"
        )
        self.events_table.empty = ((Span("No events.", "soft"),),
                                   (Span("Events are kept for an hour.", "muted"),))  # fmt: skip
        self.logs = LogsPane(session.model, session.client, id="logs")
        self.yaml_view = TextView(id="yaml")
        self.data_table = DataTable(DATA_COLUMNS, sort="key", id="data")
        self.data_table.empty = ((Span("No data.", "soft"),),)
        self.network_table = NetworkTable(NETWORK_COLUMNS, sort="what", id="network")
        self.network_table.empty = ((Span("…", "muted"),),)
        with Container(id="content"), ContentSwitcher(initial=self.tab):
            for widget in (
                self.pods_table,
                Vertical(self.rollout_text, self.revision_table, id="rollout"),
                self.events_table,
                self.logs,
                self.yaml_view,
                self.data_table,
                self.network_table,
            ):
                yield widget if widget is self.logs else widget.add_class("part")
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        client, meta = self.session.client, self.meta
        self._watch("object", client.follow_objects(self.kind, meta.namespace, meta.name),
                    self._take_object)  # fmt: skip
        name = HISTORIES.get(self.kind.kind) or BETWEEN.get(self.kind.kind, "")
        kind = self.session.model.kind_named(name)
        if kind is not None:
            self._watch("owned", client.follow_objects(kind, meta.namespace), self._take_owned)
        if self._around.kinds:
            follow = partial(self._around.run, client, self._update)
            self.run_worker(follow, name="follow the network", group="network")
        self.action_tab(self.tab)

    def _watch(
        self, name: str, deltas: AsyncGenerator[Delta], take: Callable[[Delta], None]
    ) -> None:
        async def follow() -> None:
            async for delta in deltas:
                take(delta)
                self._update()

        self.run_worker(follow, name=f"follow {name}", group=name)

    def _take_object(self, delta: Delta) -> None:
        self._lost = clean(delta.reason) if isinstance(delta, Lost) else ""
        if isinstance(delta, Lost):
            return
        if isinstance(delta, Removed) or not delta.items:
            self._is_gone = True
            return
        for item in delta.items:
            if isinstance(item, AnyObject):
                self.item, self.meta, self._is_gone = item, item.metadata, False

    def _take_owned(self, delta: Delta) -> None:
        if isinstance(delta, Lost):
            return
        items = {i.metadata.uid: i for i in delta.items if isinstance(i, AnyObject)}
        if isinstance(delta, Synced):
            self._owned = items
        elif isinstance(delta, Removed):
            for uid in items:
                self._owned.pop(uid, None)
        else:
            self._owned |= items

    # --- display

    def publish(self, changes: Changes, now: float) -> None:
        if changes.pods or changes.events:
            self._update()
        else:
            self._tick(now)

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(self._update)

    def _tick(self, now: float) -> None:
        for table in (self.pods_table, self.events_table, self.revision_table, self.network_table):
            table.tick(now)
        self.logs.publish(None)

    def _update(self) -> None:
        """Show what is known now."""
        if not self.shown:
            return
        self._show_head()
        self.query_one(TabBar).show_tabs(self.tab, {})
        item, now = self.item, self.session.now()
        if item is None:
            return
        had_objects = bool(self._revisions or self._entries)
        model = self.session.model
        owned = owned_by(item.metadata, self._owned.values())
        if has_pods(self.kind.kind):
            pods = pods_of(item, owned, model.pods.values())
            self._pods = {pod_key(pod): pod for pod in pods}
            usage = model.usage
            self.pods_table.replace(
                pod_row(pod, usage.get((pod.metadata.namespace, pod.metadata.name)), now=now)
                for pod in pods
            )
        if self.kind.kind in HISTORIES:
            self.rollout_text.show(rollout_lines(item))
            self._revisions = {each.name: each for each in revisions(item, owned)}
            self.revision_table.replace(
                revision_row(each, self._pods.values()) for each in self._revisions.values()
            )
        self.events_table.replace(map(event_row, self._events(item, owned)))
        if "data" in self._tabs:
            self._entries = {entry.key: entry for entry in entries(item)}
            self._show_data()
        if "network" in self._tabs:
            self._show_network(item)
        if self.tab == "yaml" and item is not self._yaml_of:
            self._yaml_of = item
            self.yaml_view.load(object_yaml(item), language="yaml")
            self.yaml_view.border_title = literal("live object, managed fields hidden")
        self._tick(now)
        self._choose_logs()
        if bool(self._revisions or self._entries) is not had_objects:
            self.refresh_bindings()

    def _show_head(self) -> None:
        head: Line = (
            Span(f" {clean(self.kind.singular or self.kind.kind.lower())} ", "brand"),
            Span(f" {object_label(self.kind, self.meta).partition(' ')[2]}", "name"),
        )
        owner, path = owner_in(self.meta), self.meta.annotations.get(MANIFEST_PATH)
        if owner is not None:
            text = f"  owned by {clean(owner.kind)} {clean(owner.name)}"
            head = (*head, Span(text, "soft"))
        if path:
            head = (*head, Span(f"  from {clean(path)}", "soft"))
        if self._is_gone:
            head = (*head, Span("  · deleted; last known state", "warning"))
        elif self.meta.deletionTimestamp:
            head = (*head, Span("  · terminating", "warning"))
        if self._lost:
            head = (*head, Span(f"  ▲ {self._lost}", "warning"))
        self.query_one("#header", Bar).show(head)
        self.show_narrowing()

    def _events(self, item: AnyObject, owned: Sequence[AnyObject]) -> list[Event]:
        """Return the events of the object, of what it owns, and of its pods if it owns them."""
        about = {item.metadata.uid, *(each.metadata.uid for each in owned)}
        pods = self._pods.values() if self.kind.kind in OWNING else ()
        names = {(pod.metadata.namespace, pod.metadata.name) for pod in pods}
        return [
            event
            for event in self.session.model.events.values()
            if event.involvedObject.uid in about
            or (
                event.involvedObject.kind == "Pod"
                and (event.involvedObject.namespace, event.involvedObject.name) in names
            )
        ]

    def _choose_logs(self) -> None:
        """Show the logs of the pods, once the tab is open and the set of pods has changed."""
        keys = tuple(sorted(self._pods))
        if self.tab == "logs" and keys != self._logged:
            self._logged = keys
            self.logs.choose_all([self._pods[key] for key in keys], at_once=True)

    # --- tabs

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "tab" and str(parameters[0]) not in self._tabs:
            return False
        if action == "roll_back":
            if self.tab != "rollout":
                return False
            return True if self.session.changes_objects else None
        if action == "owner":
            return owner_in(self.meta) is not None
        return super().check_action(action, parameters)

    def action_tab(self, tab: str) -> None:
        self.tab = tab
        self.query_one(ContentSwitcher).current = tab
        self._update()
        self.body_of_tab().focus()
        self.refresh_bindings()

    def body_of_tab(self) -> Widget:
        return self.revision_table if self.tab == "rollout" else super().body_of_tab()

    def chosen_objects(self) -> Sequence[ObjectMeta]:
        return () if self._is_gone else (self.meta,)

    def has_target(self, action: str) -> bool:
        if action == "roll_back":
            return bool(self._revisions)
        if action in ("screen.reveal", "screen.copy_value"):
            return bool(self._entries)
        return super().has_target(action)

    def on_table_opened(self, message: Table.Opened) -> None:
        model, key = self.session.model, message.key
        if message.table is self.pods_table and key in model.pods:
            self.session.push(PodScreen(key, "overview"))
        elif message.table is self.events_table and key in model.events:
            self.session.push(EventScreen(model.events[key]))
        elif message.table is self.revision_table:
            self.action_roll_back()
        elif message.table is self.data_table and key in self._entries:
            self.session.push(ValueScreen(self._entries[key]))
        elif message.table is self.network_table and key in self._network:
            self._open_network(self._network[key])

    def action_roll_back(self) -> None:
        """Roll back to the revision under the cursor."""
        item, to = self.item, self._revisions.get(self.revision_table.cursor_key)
        current = next((each for each in self._revisions.values() if each.current), None)
        if item is not None and to is not None:
            self.session.start(
                "Roll back", partial(roll_back, self.session, self.kind, item, to, current)
            )

    def action_owner(self) -> None:
        """Open the object that owns this one."""
        owner = owner_in(self.meta)
        kind = self.session.model.kind_of(owner) if owner is not None else None
        if owner is not None and kind is not None:
            meta = ObjectMeta(name=owner.name, namespace=self.meta.namespace, uid=owner.uid)
            self.session.push(ObjectScreen(kind, meta))
        elif owner is not None:
            self.notify(f"The kind {clean(owner.kind)} is not served.", severity="warning",
                        markup=False)  # fmt: skip

    # --- network

    def _show_network(self, item: AnyObject) -> None:
        session = self.session
        inventory = inventory_of(session.model, self._around.read, session.now())
        kind = Ingress if self.kind.kind == "Ingress" else Service
        rows = network_rows(network_entries(inventory, lenient_convert(item.content, kind)))
        self._network = {key: entry for key, (entry, _) in rows.items()}
        self.network_table.replace(row for _, row in rows.values())

    def _open_network(self, entry: NetworkEntry) -> None:
        if entry.url:
            show_url(self.session, entry.url)
        elif entry.pod in self.session.model.pods:
            self.session.push(PodScreen(entry.pod, "overview"))

    # --- data

    def _show_data(self) -> None:
        self.data_table.replace(
            data_row(entry, revealed=entry.key in self._revealed)
            for entry in self._entries.values()
        )

    def action_reveal(self) -> None:
        """Show or hide the value under the cursor."""
        key = self.data_table.cursor_key
        if key in self._entries:
            self._revealed ^= {key}
            self._show_data()

    def action_copy_value(self) -> None:
        """Copy the decoded value under the cursor; the notification does not repeat it."""
        entry = self._entries.get(self.data_table.cursor_key)
        if entry is None:
            return
        if entry.text is None:
            self.notify(f"{clean(entry.key)} is not text.", severity="warning", markup=False)
            return
        self.session.app.copy_to_clipboard(entry.text)
        self.session.notify(f"The value of {entry.key}", title="Copied")


class ValueScreen(BackScreen):
    """The decoded value of a key."""

    DEFAULT_CSS = """
    ValueScreen TextView { height: 1fr; border: round $pane-border-focus; padding: 0 1;
        background: $background; }
    """
    AUTO_FOCUS = "TextView"

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self._entry = entry

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield TextView()
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        head = (Span(" value ", "brand"), Span(f" {clean(self._entry.key)} ", "name"))
        self.query_one("#header", Bar).show(head)
        text = self._entry.text
        language = "yaml" if self._entry.key.endswith((".yaml", ".yml")) else ""
        self.query_one(TextView).load("(binary data)" if text is None else text, language=language)
