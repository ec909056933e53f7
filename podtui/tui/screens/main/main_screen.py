"""The first screen: pods, events, logs and node at a glance."""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.local import Manifest
from podtui.api.v1 import Pod
from podtui.client.any_kind import ServedKind
from podtui.errors import UsageError
from podtui.explain.places import find_field
from podtui.tui.commands.agent_supervisor import AgentSupervisor
from podtui.tui.model.model import Changes, pod_key
from podtui.tui.screens.acting_screen import ActingScreen
from podtui.tui.screens.explain_screen import ExplainScreen
from podtui.tui.screens.live_screen import LiveScreen, ask_filter, filter_error
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.screens.main.events_pane import EventsPane
from podtui.tui.screens.main.layout import PANES, Body, View
from podtui.tui.screens.main.node_pane import NodePane
from podtui.tui.screens.main.pods_pane import PodsPane
from podtui.tui.screens.main.screen_memory import (
    MemoryFile,
    ScreenMemory,
    layout_of,
    recalled_view,
)
from podtui.tui.screens.map_screen import MapScreen
from podtui.tui.screens.node.node_screen import NodeScreen
from podtui.tui.screens.object_why_screen import ObjectWhyScreen
from podtui.tui.screens.objects.kind_screen import KindScreen
from podtui.tui.screens.objects.kinds_screen import KindsScreen
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.text_screens import EventScreen, ManifestScreen
from podtui.tui.screens.tree_screen import TreeScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.views.header import header, status_line
from podtui.tui.views.namespaces import NamespaceChoice
from podtui.tui.views.tree import TREE_COLUMNS
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Line, Span, line_width
from podtui.tui.widgets.delays import Settled
from podtui.tui.widgets.dialogs import Picker
from podtui.tui.widgets.filters import FilterError, column_named, parse_filter
from podtui.tui.widgets.pane import Pane
from podtui.tui.widgets.prompt import Prompt, Purpose
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.table_pane import TablePane
from podtui.why.inventory import find_noun, nearest_noun, with_long_kind

SAVE_DELAY_SECONDS: Final = 1.0
"""Seconds after a change of sizes or columns until it is saved."""

ON_CHOSEN_PODS = frozenset({"logs", "previous", "open('yaml')"})

KEPT_VIEWS: Final = 50
_OWN_VIEWS: Final = {"pods": "pods", "nodes": "node", "events": "events"}
"""The commands of the kinds that the main screen shows."""


class MainHost(Protocol):
    """The part of the app that only the main screen uses."""

    simulated: bool
    supervisor: AgentSupervisor
    theme_choice: tuple[str, str]
    memory: MemoryFile

    def remember(self, memory: ScreenMemory) -> None: ...

    def command_words(self) -> list[str]: ...

    def run_command(self, text: str) -> None: ...


class HistoryEntry(Struct, frozen=True):
    """A view: the focused pane, its filter, and the key of the pod that is open over the panes."""

    pane: str
    filter: str = ""
    pod: str = ""


class ViewHistory:
    """The views of the main screen, and the position among them."""

    def __init__(self, start: HistoryEntry) -> None:
        self._entries = [start]
        self._at = 0
        self._last: HistoryEntry | None = None

    @property
    def here(self) -> HistoryEntry:
        return self._entries[self._at]

    def visit(self, entry: HistoryEntry) -> None:
        """Add a view after the current one, and drop the later ones."""
        if entry == self.here:
            return
        self._last = self.here
        self._entries = [*self._entries[: self._at + 1], entry][-KEPT_VIEWS:]
        self._at = len(self._entries) - 1

    def step(self, by: int) -> HistoryEntry | None:
        """Go back (-1) or forward (1); return None at the end."""
        if not 0 <= self._at + by < len(self._entries):
            return None
        self._last = self.here
        self._at += by
        return self.here

    def last(self) -> HistoryEntry | None:
        """Go to the previous view; a second call returns to this one."""
        if self._last is not None:
            self.visit(self._last)
            return self.here
        return None


class PromptedScreen(LiveScreen):
    """A separate base, so that its key is listed before those of `ActingScreen`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", tooltip="Filter the table, or search the text",
                id="main.filter"),
    ]  # fmt: skip


class MainScreen(ActingScreen, PromptedScreen):
    """The main screen. ``active`` is the focused pane; `Body` arranges the panes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "open('overview')", "Describe", show=False, id="main.describe"),
        Binding("l", "logs", "Logs", tooltip="Go to the log of the pod", id="main.logs"),
        Binding("p", "previous", "Previous log", show=False, id="main.previous",
                tooltip="The log before the container's last restart"),
        Binding("y", "open('yaml')", "YAML", id="main.yaml"),
        Binding("X", "why", "Why", id="main.why",
                tooltip="Why the pod does not run, and how to fix it"),
        Binding("E", "events", "Events", id="main.events",
                tooltip="Events of all pods, or of the selected one"),
        Binding("1", "pane('pods')", "Pods", show=False, id="main.pods"),
        Binding("2", "pane('events')", "Events pane", show=False, id="main.events-pane"),
        Binding("3", "pane('logs')", "Logs pane", show=False, id="main.logs-pane"),
        Binding("4", "pane('node')", "Node pane", show=False, id="main.node-pane"),
        Binding("tab", "cycle(1)", "Next pane", key_display="tab", id="main.next"),
        Binding("shift+tab", "cycle(-1)", "Previous pane", show=False, id="main.before"),
        Binding("plus", "zoom(True)", "Zoom", key_display="+", id="main.zoom"),
        Binding("underscore", "zoom(False)", "Unzoom", show=False, key_display="_",
                id="main.unzoom"),
        Binding("greater_than_sign", "resize(1, False)", "Wider", show=False, id="main.wider",
                tooltip="Make the pane wider, or taller if panes only differ in height"),
        Binding("less_than_sign", "resize(-1, False)", "Narrower", show=False,
                id="main.narrower",
                tooltip="Make the pane narrower, or shorter if panes only differ in height"),
        Binding("alt+up", "resize(1, True)", "Taller", show=False, id="main.taller",
                tooltip="Make the pane taller, or wider if panes only differ in width"),
        Binding("alt+down", "resize(-1, True)", "Lower", show=False, id="main.lower",
                tooltip="Make the pane shorter, or narrower if panes only differ in width"),
        Binding("equals_sign", "reset_sizes", "Reset sizes", show=False,
                id="main.reset-sizes", tooltip="Show all panes in their default sizes"),
        Binding("backslash", "hide", "Hide pane", show=False, id="main.hide",
                tooltip="Hide the focused pane; its number shows it again"),
        Binding("minus", "last_view", "Last view", show=False, id="main.last-view",
                tooltip="Toggle between the last two views"),
        Binding("alt+left", "view(-1)", "Previous view", show=False, id="main.view-before",
                tooltip="Back to earlier views"),
        Binding("alt+right", "view(1)", "Next view", show=False, id="main.view-after",
                tooltip="Forward to later views"),
        Binding("escape", "back", "Back", show=False, id="main.back"),
        Binding("ctrl+r", "refresh_all", "Redraw", show=False, id="main.refresh"),
    ]  # fmt: skip
    DEFAULT_CSS = "MainScreen { layout: vertical; background: $background; }"
    AUTO_FOCUS = "#pods-table"
    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset({"main.why"})

    def __init__(self, host: MainHost) -> None:
        super().__init__()
        self._host = host
        self._history = ViewHistory(HistoryEntry("pods"))
        self._layout_settled = Settled(
            self, SAVE_DELAY_SECONDS, lambda: self._host.remember(self.memory)
        )
        self._choosing = False
        """True after the cursor has moved, until the other panes are updated."""
        self._followed: tuple[str, ...] = ()
        """Keys of the pods whose logs were last requested."""

    def compose(self) -> ComposeResult:
        session, supervisor = self.session, self._host.supervisor
        yield Bar(id="header")
        self.pods = PodsPane(
            session.model, lambda: supervisor.folder(session.model.node),
            lambda: session.folder_is_missing, id="pods",
        )  # fmt: skip
        self.events = EventsPane(session.model, id="events")
        self.logs = LogsPane(session.model, session.client, id="logs")
        self.node = NodePane(session.model, id="node")
        self.body = Body((self.pods, self.events, self.logs, self.node))
        yield self.body
        yield Hints()
        yield Prompt()
        yield Bar(id="status")

    def on_mount(self) -> None:
        layout = self._host.memory.memory.layout
        for name, pane in self._tables.items():
            if name in layout.tables:
                pane.recall(layout.tables[name])
        with self.prevent(Body.Arranged):
            self.body.show_view(recalled_view(layout))
        self.body.fit(self.size.width, self.size.height)

    # --- selection

    def chosen_pods(self) -> tuple[Pod, ...]:
        """Return the pods to act on: the marked pods that pass the filter, in the order of the
        table; if there are none, the pod under the cursor.
        """
        return self.pods.chosen

    def chosen_manifests(self) -> tuple[Manifest, ...]:
        manifest = self.pods.manifest
        return (manifest,) if manifest is not None else super().chosen_manifests()

    def why_nothing(self) -> str:
        return "this row stands for several files: enter lists them" * self.pods.is_on_files

    def show_selection(self) -> None:
        """Show the pods and the row under the cursor, if they are out of sight."""
        if "pods" not in self.body.shown and self.body.view.zoomed:
            self.action_zoom(False)
        if "pods" not in self.body.shown:
            self._show_pane("pods")
        if not self.pods.table.cursor_in_sight:
            self.pods.table.show_cursor()

    def _follow_choice(self) -> None:
        """Show the logs of the selected pods if the selection has changed, by cursor, marks, filter
        or the end of a pod.
        """
        selected = self.chosen_pods()
        keys = tuple(pod_key(pod) for pod in selected)
        if keys != self._followed:
            self._followed = keys
            self.logs.choose_all(selected)

    def clear_marks(self) -> None:
        """Remove all marks after an action on the marked pods."""
        self.pods.table.action_clear_marks()

    # --- display

    def publish(self, changes: Changes, now: float) -> None:
        if not self.opened:
            return
        error = self._host.supervisor.start_error
        self.pods.publish(changes, now, error)
        self.events.publish(changes, now, error)
        self.node.publish(changes, now, error)
        self._follow_choice()
        self.logs.publish(self.pods.pod)
        if self.pods.table.cursor_key in changes.pods - changes.measured:
            self.refresh_bindings()
        if changes:
            self._update_bars()

    def _update_bars(self) -> None:
        host, model = self._host, self.session.model
        width = self.size.width
        left, right = header(model, self.pods.totals, width, self.pods.scope)
        self.query_one("#header", Bar).show(left, right)
        hidden = [self.body.pane(name) for name in PANES if name in self.body.view.hidden]
        names = " ".join(f"{pane.number} {pane.name_}" for pane in hidden)
        note: Line = (Span(f" hidden: {names} ", "muted"),) if names else ()
        if self.session.readonly:
            note = (*note, Span(" read-only ", "warning"))
        room = width - line_width(note)
        line = status_line(
            model, self.session.client.target, host.supervisor.folder(model.node), room,
            simulated=host.simulated, other=host.supervisor.other_folder,
        )  # fmt: skip
        self.query_one("#status", Bar).show(line, note)

    # --- panes

    @property
    def active(self) -> str:
        return self.body.view.active

    @property
    def _tables(self) -> dict[str, TablePane]:
        return {"pods": self.pods, "events": self.events}

    @property
    def active_table(self) -> TablePane | None:
        return self._tables.get(self.active)

    def on_resize(self, event: events.Resize) -> None:
        self.body.fit(self.size.width, self.size.height)
        self._update_bars()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        pane = next((w for w in event.widget.ancestors_with_self if isinstance(w, Pane)), None)
        if pane is not None and pane.id is not None and pane.id != self.active:
            self.body.show_view(self.body.view.go(pane.id))
            self.refresh_bindings()

    def action_pane(self, name: str) -> None:
        """Focus a pane, and show it if it was hidden or shares a place."""
        self._show_pane(name)
        self.add_to_history()

    def _show_pane(self, name: str) -> None:
        self.body.show_view(self.body.view.go(name))
        self.set_focus(self.body.pane(name).focus_target)
        self.publish(Changes(), self.session.now())

    def action_cycle(self, step: int) -> None:
        panes = self.body.view.panes
        self.action_pane(panes[(panes.index(self.active) + step) % len(panes)])

    def action_zoom(self, zoomed: bool) -> None:
        self.body.show_view(replace(self.body.view, zoomed=zoomed))
        self.refresh_bindings()

    def action_resize(self, step: int, stacked: bool) -> None:
        self.body.resize_active(step, stacked=stacked)

    def action_reset_sizes(self) -> None:
        self.body.show_view(View(self.active, self.body.view.lower))
        self._update_bars()

    def action_hide(self, name: str = "") -> None:
        """Hide a pane, by default the focused one."""
        pane = self._named(name) if name else self.active
        if pane is None:
            return
        if self.body.view.panes == (pane,):
            self.notify("The last pane cannot be hidden.", severity="warning")
            return
        self.body.show_view(self.body.view.without(pane))
        self._show_pane(self.active)

    def action_go_to(self, name: str) -> None:
        """Focus a pane by its name or the beginning of it."""
        pane = self._named(name)
        if pane is not None:
            self.action_pane(pane)

    def _named(self, name: str) -> str | None:
        pane = next((pane for pane in PANES if name and pane.startswith(name.lower())), None)
        if pane is None:
            self.notify(f"The panes are {', '.join(PANES)}.", severity="warning")
        return pane

    # --- the prompt

    def action_filter(self) -> None:
        prompt = self.query_one(Prompt)
        pane = self.active_table
        if pane is None:
            prompt.ask(Purpose.SEARCH)
        else:
            ask_filter(prompt, pane.table)
        self._prompting(prompt.is_open)

    def ask_command(self) -> None:
        """Open the prompt for a command."""
        prompt = self.query_one(Prompt)
        prompt.ask(Purpose.COMMAND, candidates=self._host.command_words())
        self._prompting(True)

    def _prompting(self, on: bool) -> None:
        self.query_one(Hints).display = not on
        if not on:
            self.set_focus(self.body.pane(self.active).focus_target)

    # --- answers

    def filter_table(self, text: str) -> None:
        """Filter the focused table, by default the pods. Raises `FilterError`."""
        pane = self.active_table or self.pods
        pane.filter_by(parse_filter(text, pane.table.columns))
        self.publish(Changes(), self.session.now())

    def on_prompt_changed(self, message: Prompt.Changed) -> None:
        pane = self.active_table
        if (
            message.purpose is Purpose.FILTER
            and pane is not None
            and filter_error(message.text, pane.table) is None
        ):
            self.filter_table(message.text)

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self._prompting(False)
        if message.purpose is Purpose.FILTER:
            self.filter_table(message.text)
            self.add_to_history()
        elif message.purpose is Purpose.SEARCH:
            searched = self.node if self.active == "node" else self.logs
            searched.find(message.text)
        else:
            self._host.run_command(message.text)

    def on_prompt_cancelled(self, message: Prompt.Cancelled) -> None:
        self._prompting(False)
        if message.purpose is Purpose.FILTER:
            self.filter_table("")
        elif self.active == "node":
            self.node.view.search("")

    # --- commands

    def action_go(self, pane: str, text: str = "") -> None:
        """Focus a pane; filter its table by ``text`` unless that is empty."""
        self.action_pane(pane)
        if text and self.active_table is not None:
            try:
                self.filter_table(text)
            except FilterError as error:
                self.notify(str(error), severity="error", title="Filter", markup=False)
            else:
                self.add_to_history()

    def action_namespace(self, name: str) -> None:
        """Show only the pods and events of a namespace, or of all; without a name, ask for one."""
        choice = NamespaceChoice(self.pods.namespaces, len(self.session.model.pods))
        namespace = choice.named(name)
        if namespace is not None:
            self._show_namespace(namespace)
        elif name:
            self.notify(f"No pod is in the namespace {clean(name)}; choose from {choice.names}",
                        severity="warning", markup=False)  # fmt: skip
        else:

            def show(index: int | None) -> None:
                if index is not None:
                    self._show_namespace(choice.namespaces[index])

            picker = Picker("Namespace", choice.lines(), start=choice.index(self.pods.scope))
            self.session.app.push_screen(picker, show)

    def _show_namespace(self, namespace: str) -> None:
        for pane in self._tables.values():
            pane.show_scope(namespace)
        self.publish(Changes(), self.session.now())
        self._update_bars()

    def action_sort_by(self, column: str) -> None:
        """Sort the table by a column, given by any of its names."""
        table = (self.active_table or self.pods).table
        index = column_named(column, table.columns)
        if index is None:
            names = " ".join(c.names[0] for c in table.columns)
            self.notify(f"The columns are {names}", severity="warning", markup=False)
        else:
            table.sort_by(table.columns[index].key)

    def action_choose_columns(self) -> None:
        (self.active_table or self.pods).action_columns()

    # --- view history

    def _history_entry(self, pod: str = "") -> HistoryEntry:
        table = self.active_table
        return HistoryEntry(
            self.active, table.table.set.filter.text if table is not None else "", pod
        )

    def add_to_history(self) -> None:
        """Add the current view to the history."""
        self._history.visit(self._history_entry())

    def on_screen_resume(self) -> None:
        if self.opened:
            self.add_to_history()

    def action_view(self, step: int) -> None:
        self._return_to(self._history.step(step))

    def action_last_view(self) -> None:
        self._return_to(self._history.last())

    def _return_to(self, entry: HistoryEntry | None) -> None:
        if entry is None:
            return
        self._show_pane(entry.pane)
        if self.active_table is not None:
            self.filter_table(entry.filter)
        if entry.pod and self.pods.table.select(entry.pod):
            self.session.push(PodScreen(entry.pod, "overview"))

    # --- persistence

    def on_body_arranged(self) -> None:
        self._update_bars()
        self.remember_soon()

    def on_table_arranged(self) -> None:
        self.remember_soon()

    def remember_soon(self) -> None:
        self._layout_settled.touch()

    @property
    def memory(self) -> ScreenMemory:
        tables = {name: pane.memory for name, pane in self._tables.items()}
        theme, over = self._host.theme_choice
        return ScreenMemory(layout_of(self.body.view, tables), theme, over)

    # --- the row under the cursor

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if message.table is self.pods.table and not self._choosing:
            self._choosing = True
            # Draw the cursor first: updating all panes takes longer than a key press should.
            self.call_after_refresh(self._show_choice)

    def _show_choice(self) -> None:
        """Update all panes for the row under the cursor."""
        self._choosing = False
        if not self.opened:
            return
        self.pods.explain()
        manifest = self.pods.manifest
        self.events.choose(self.pods.pod, manifest.metadata.name if manifest is not None else "")
        self.node.choose(self.pods.table.cursor_key)
        self._follow_choice()
        self.refresh_bindings()

    def on_table_marks_changed(self) -> None:
        self._follow_choice()
        self.refresh_bindings()

    def has_target(self, action: str) -> bool:
        if action in ON_CHOSEN_PODS:
            return bool(self.chosen_pods())
        if action in ("open", "open('overview')"):
            table = self.active_table or self.pods
            return bool(table.table.cursor_key)
        return super().has_target(action)

    def on_table_opened(self, message: Table.Opened) -> None:
        if message.table is self.pods.table:
            self.action_open("overview")
        elif self.events.is_on_routine:
            self.events.toggle_routine()
        else:
            event = self.events.event
            if event is not None:
                self.session.push(EventScreen(event))

    def action_open_node(self, tab: str, query: str = "") -> None:
        """Open the node screen; ``query`` is the first what-if question."""
        if self.active != "node":
            self.action_pane("node")
        self.session.push(NodeScreen(tab, query, self.pods.table.cursor_key))

    def action_kinds(self) -> None:
        """Open the list of all kinds of objects."""
        self.session.push(KindsScreen(self.pods.scope, self._open_kind))

    def action_kind(self, name: str, text: str = "") -> None:
        """Open the list of the objects of a kind, filtered by ``text``."""
        kind = self.session.model.kind_named(name)
        if kind is not None:
            self._open_kind(kind, text)

    def _open_kind(self, kind: ServedKind, text: str = "") -> None:
        own = _OWN_VIEWS.get(kind.qualified_name)
        if own is None:
            scope = self.pods.scope
            self.session.push(KindScreen(kind, text, scope, self._show_namespace))
            return
        self.session.app.pop_screen()
        self._host.run_command(own)

    def action_explain(self, field: str = "") -> None:
        """Show the documentation of a field of any kind, by default of the Pod itself."""
        try:
            self.session.push(ExplainScreen(find_field(with_long_kind(field))))
        except UsageError as error:
            self.notify(clean(str(error)), title="Explain", severity="warning", markup=False)

    def action_why_object(self, text: str = "") -> None:
        """Explain an object that is named as in kubectl (``deploy/web``, ``deploy web``); without a
        name, the pod or file under the cursor."""
        parts = text.replace("/", " ", 1).split()
        noun = find_noun(parts[0]) if parts else None
        if not parts:
            self.action_why()
        elif noun is None or len(parts) != 2:
            near = nearest_noun(parts[0])
            hint = f"; did you mean {near}?" if noun is None and near else ""
            why = f"KIND/NAME is expected, such as deploy/web{hint}"
            self.notify(clean(why), title="Why", severity="warning", markup=False)
        elif noun.struct is Pod:
            pods = [p for p in self.session.model.pods.values() if p.metadata.name == parts[1]]
            if pods:
                self.session.push(WhyScreen(pods[-1]))
            else:
                text = f"there is no pod named {parts[1]}"
                self.notify(clean(text), title="Why", severity="warning", markup=False)
        else:
            self.session.push(ObjectWhyScreen(noun, parts[1], self.session.model.namespace or ""))

    def action_tree(self, text: str = "") -> None:
        """Open the tree of pods, filtered by ``text``."""
        try:
            wanted = parse_filter(text, TREE_COLUMNS)
        except FilterError as error:
            self.notify(clean(str(error)), title="Filter", severity="warning", markup=False)
        else:
            self.session.push(TreeScreen(wanted, self.pods.table.cursor_key))

    def action_map(self, text: str = "") -> None:
        """Open the list of who connects to whom, filtered by ``text``."""
        self.session.push(MapScreen(text))

    def action_open(self, tab: str) -> None:
        pod, manifest = self.pods.pod, self.pods.manifest
        if pod is not None:
            self._history.visit(self._history_entry(pod_key(pod)))
            self.session.push(PodScreen(pod_key(pod), tab))
        elif manifest is not None:
            self.session.push(ManifestScreen(manifest.metadata.name))
        elif self.pods.is_on_files:
            self.pods.toggle_files()

    def action_why(self) -> None:
        pod, manifest = self.pods.pod, self.pods.manifest
        if pod is not None:
            self.session.push(WhyScreen(pod))
        elif manifest is not None:
            self.session.push(WhyScreen(None, manifest.metadata.name))

    def open_pod(self, key: str) -> None:
        """Select a pod and open it."""
        if self.pods.table.select(key):
            self.action_open("overview")

    def action_logs(self) -> None:
        """Show the log of the selected pod, or the merged log of all marked pods."""
        self._show_choice()
        self.logs.choose_all(self.chosen_pods(), at_once=True)
        self.action_pane("logs")

    def action_previous(self) -> None:
        self._show_choice()
        self.logs.choose(self.pods.pod, at_once=True)
        self.logs.show_previous()
        self.action_pane("logs")

    def action_events(self) -> None:
        self._show_choice()
        self.events.toggle()
        if self.body.view.lower != "events" and self.body.shares_place:
            self.action_pane("events")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "zoom" and parameters == (False,):
            return self.is_mounted and self.body.view.zoomed
        if action == "why":
            return self.opened and bool(self.pods.pod or self.pods.manifest)
        return super().check_action(action, parameters)

    def action_refresh_all(self) -> None:
        self.refresh(layout=True)
        self.publish(self.session.model.all_changes(), self.session.now())

    def action_back(self) -> None:
        """Clear the filter, the search or the zoom, in this order; otherwise focus the pods."""
        if self.body.pane(self.active).clear_query():
            self.publish(Changes(), self.session.now())
        elif self.body.view.zoomed:
            self.action_zoom(False)
        else:
            self.action_pane("pods" if "pods" in self.body.view.panes else self.active)
