"""The screen that podtui opens with: pods, events, logs and node at a glance."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.widget import Widget

from podtui.api.v1 import Pod
from podtui.tui.bars import Bar, Hints
from podtui.tui.chrome import header, status_line
from podtui.tui.events_pane import EventsPane
from podtui.tui.filters import FilterError, parse_filter
from podtui.tui.layout import CHROME, PANES, Body, PanesLayout, Shape, panes_in, shape_of
from podtui.tui.live_screen import LiveScreen
from podtui.tui.logs_pane import LogsPane
from podtui.tui.model import Changes
from podtui.tui.node_pane import NodePane
from podtui.tui.pane import Pane
from podtui.tui.pod_rows import STATUS
from podtui.tui.pod_screen import PodScreen
from podtui.tui.pod_status import Family, is_rejected
from podtui.tui.pods_pane import PodsPane
from podtui.tui.prompt import Prompt, Purpose
from podtui.tui.rows import pod_key
from podtui.tui.table import Table
from podtui.tui.text_screens import EventScreen, ManifestScreen

FAMILIES = {family.value: family for family in Family}


class MainScreen(LiveScreen):
    """``active`` is the pane with the keyboard; `PanesLayout` says where it stands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", tooltip="Filter the table, or search the log",
                id="main.filter"),
        Binding("d", "open('overview')", "Describe", show=False, id="main.describe"),
        Binding("l", "logs", "Logs", tooltip="Go to the log of the pod", id="main.logs"),
        Binding("p", "previous", "Previous log", show=False, id="main.previous",
                tooltip="The log of the container before its last restart"),
        Binding("y", "open('yaml')", "YAML", id="main.yaml"),
        Binding("e", "events", "Events", id="main.events",
                tooltip="Events of all pods, or of the chosen one"),
        Binding("r", "retry", "Start afresh", id="main.retry",
                tooltip="Have a rejected pod admitted again"),
        Binding("1", "pane('pods')", "Pods", show=False, id="main.pods"),
        Binding("2", "pane('events')", "Events pane", show=False, id="main.events-pane"),
        Binding("3", "pane('logs')", "Logs pane", show=False, id="main.logs-pane"),
        Binding("4", "pane('node')", "Node pane", show=False, id="main.node-pane"),
        Binding("tab", "cycle(1)", "Next pane", key_display="tab", id="main.next"),
        Binding("shift+tab", "cycle(-1)", "Pane before", show=False, id="main.before"),
        Binding("plus", "zoom(True)", "Zoom", key_display="+", id="main.zoom"),
        Binding("underscore", "zoom(False)", "Unzoom", show=False, key_display="_",
                id="main.unzoom"),
        Binding("escape", "back", "Back", show=False, id="main.back"),
        Binding("ctrl+r", "refresh_all", "Draw anew", show=False, id="main.refresh"),
    ]  # fmt: skip
    DEFAULT_CSS = "MainScreen { layout: vertical; background: $background; }"
    AUTO_FOCUS = "#pods-table"

    def __init__(self) -> None:
        super().__init__()
        self._layout_ = PanesLayout()
        self._shape = Shape.NARROW
        self._shown: dict[str, Region] = {}

    def compose(self) -> ComposeResult:
        app = self.podtui
        yield Bar(id="header")
        self.pods = PodsPane(app.model, app.folder, id="pods")
        self.events = EventsPane(app.model, id="events")
        self.logs = LogsPane(app.model, app.client, id="logs")
        self.node = NodePane(app.model, id="node")
        with Body(self._layout_):
            yield from (self.pods, self.events, self.logs, self.node)
        yield Hints()
        yield Prompt()
        yield Bar(id="status")

    def on_mount(self) -> None:
        self._place()
        super().on_mount()

    # --- what is chosen

    def chosen_pods(self) -> tuple[Pod, ...]:
        """The pods to act on: those that are marked and in sight of the filter, in the order of the
        table; where none is, the one under the cursor."""
        return self.pods.chosen

    def clear_marks(self) -> None:
        """Take all marks away: what they were for is done."""
        self.pods.table.action_clear_marks()

    # --- what is shown

    def publish(self, changes: Changes, now: float) -> None:
        if not self.opened:
            return
        error = self.podtui.start_error
        self.pods.publish(changes, now, error)
        self.events.publish(changes, now, error)
        self.node.publish(changes, now, error)
        self.logs.publish(self.pods.pod)
        if self.pods.table.cursor_key in changes.pods:
            self.refresh_bindings()
        self._chrome()

    def _chrome(self) -> None:
        app = self.podtui
        counts: dict[Family, int] = {}
        for row in self.pods.table.set.rows.values():
            family = FAMILIES.get(row.cells[STATUS].tone) if row.pin == 1 else None
            if family is not None:
                counts[family] = counts.get(family, 0) + 1
        width = self.size.width
        left, right = header(app.model, counts, width)
        self.query_one("#header", Bar).show(left, right)
        line = status_line(app.model, app.client.target, app.folder, width, simulated=app.simulated)
        self.query_one("#status", Bar).show(line)

    # --- panes

    @property
    def active(self) -> str:
        return self._layout_.active

    def on_resize(self, event: events.Resize) -> None:
        self._place()
        self._chrome()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        pane = next((w for w in event.widget.ancestors_with_self if isinstance(w, Pane)), None)
        if pane is not None and pane.id is not None and pane.id != self._layout_.active:
            self._layout_.active = pane.id
            if pane.id != "pods":
                self._layout_.lower = pane.id
            self._place()

    def _place(self) -> None:
        """Put the panes where they belong and name those that share a place."""
        width, height = self.size.width, max(1, self.size.height - CHROME)
        self._shape = shape_of(width, self.size.height)
        layout = self._layout_
        shown = panes_in(width, height, layout.active, layout.lower, layout.zoomed)
        panes = {name: self._pane(name) for name in PANES}
        if self._shape is Shape.SINGLE or layout.zoomed:
            shared = tuple(panes.values())
        elif self._shape in (Shape.NARROW, Shape.FLAT):
            shared = tuple(panes[name] for name in PANES[1:])
        else:
            shared = ()
        for name, pane in panes.items():
            pane.display = name in shown
            pane.share_with(shared if pane in shared else ())
        self.query_one("#body").refresh(layout=True)
        if shown != self._shown:
            self._shown = shown
            self.call_after_refresh(self._tell_sizes)

    def _tell_sizes(self) -> None:
        """Make sure that every widget knows its size. Textual compares layouts to learn which
        widgets to tell, and tells nobody when somebody asked for a place between the two."""
        for name in self._shown:
            pane = self._pane(name)
            for widget in (pane, *pane.children):
                widget.post_message(
                    events.Resize(widget.size, widget.virtual_size, widget.container_size)
                )

    def _pane(self, name: str) -> Pane:
        return self.query_one(f"#{name}", Pane)

    def _focus_of(self, name: str) -> Widget:
        return {
            "pods": self.pods.table,
            "events": self.events.table,
            "logs": self.logs.view,
            "node": self.node.view,
        }[name]

    def action_pane(self, name: str) -> None:
        """Give a pane the keyboard, and its place where it shares one."""
        self._layout_.active = name
        if name != "pods":
            self._layout_.lower = name
        self._place()
        self.set_focus(self._focus_of(name))
        self.publish(self.podtui.model.everything() if name == "node" else Changes(),
                     self.podtui.now())  # fmt: skip

    def action_cycle(self, step: int) -> None:
        place = PANES.index(self._layout_.active)
        self.action_pane(PANES[(place + step) % len(PANES)])

    def action_zoom(self, zoomed: bool) -> None:
        self._layout_.zoomed = zoomed
        self._place()

    # --- the chosen row

    def on_table_cursor_moved(self, message: Table.CursorMoved) -> None:
        if message.table is not self.pods.table:
            return
        pod = self.pods.pod
        self.pods.explain()
        self.events.choose(pod)
        self.node.choose(message.key)
        self.logs.choose(pod)
        self.refresh_bindings()

    def on_table_opened(self, message: Table.Opened) -> None:
        if message.table is self.pods.table:
            self.action_open("overview")
        else:
            event = self.events.event
            if event is not None:
                self.podtui.push_screen(EventScreen(event))

    def action_open(self, tab: str) -> None:
        pod, manifest = self.pods.pod, self.pods.manifest
        if pod is not None:
            self.podtui.push_screen(PodScreen(pod_key(pod), tab))
        elif manifest is not None:
            self.podtui.push_screen(ManifestScreen(manifest.metadata.name))

    def open_pod(self, key: str) -> None:
        """Go to a pod and open it."""
        if self.pods.table.select(key):
            self.podtui.push_screen(PodScreen(key, "overview"))

    def action_logs(self) -> None:
        self.logs.choose(self.pods.pod, at_once=True)
        self.action_pane("logs")

    def action_previous(self) -> None:
        self.logs.choose(self.pods.pod, at_once=True)
        self.logs.show_previous()
        self.action_pane("logs")

    def action_events(self) -> None:
        self.events.toggle()
        if self._layout_.lower != "events" and self._shape in (Shape.NARROW, Shape.FLAT):
            self.action_pane("events")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "retry":
            pod = self.pods.pod if self.is_mounted else None
            return pod is not None and is_rejected(pod)
        if action == "zoom" and parameters == (False,):
            return self._layout_.zoomed
        return True

    def action_retry(self) -> None:
        pod = self.pods.pod
        if pod is not None:
            self.podtui.retry(pod)

    def action_refresh_all(self) -> None:
        self.refresh(layout=True)
        self.publish(self.podtui.model.everything(), self.podtui.now())

    # --- filters, searches, commands

    def action_filter(self) -> None:
        prompt = self.query_one(Prompt)
        if self.active == "logs":
            prompt.ask(Purpose.SEARCH)
        elif self.active in ("pods", "events"):
            table = self.pods.table if self.active == "pods" else self.events.table
            prompt.ask(Purpose.FILTER, table.set.filter.text)
        self._prompting(prompt.is_open)

    def ask_command(self) -> None:
        """Open the prompt for a command."""
        prompt = self.query_one(Prompt)
        prompt.ask(Purpose.COMMAND, words=self.podtui.command_words())
        self._prompting(True)

    def _prompting(self, on: bool) -> None:
        self.query_one(Hints).display = not on
        if not on:
            self.set_focus(self._focus_of(self.active))

    def _filter(self, text: str, *, strict: bool) -> None:
        pane = self.events if self.active == "events" else self.pods
        try:
            wanted = parse_filter(text, pane.table.columns)
        except FilterError as error:
            if strict:
                self.notify(str(error), severity="error", title="Filter", markup=False)
            return
        pane.filter_by(wanted)
        self.publish(Changes(), self.podtui.now())

    def filter_active(self, text: str) -> None:
        """Filter the table that has the keyboard."""
        if self.active in ("pods", "events"):
            self._filter(text, strict=True)

    def on_prompt_changed(self, message: Prompt.Changed) -> None:
        if message.purpose is Purpose.FILTER:
            self._filter(message.text, strict=False)

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self._prompting(False)
        if message.purpose is Purpose.FILTER:
            self._filter(message.text, strict=True)
        elif message.purpose is Purpose.SEARCH:
            self.logs.search(message.text)
            self.logs.action_match(-1)
        else:
            self.podtui.run_command(message.text)

    def on_prompt_cancelled(self, message: Prompt.Cancelled) -> None:
        self._prompting(False)
        if message.purpose is Purpose.FILTER:
            self._filter("", strict=False)

    def action_back(self) -> None:
        """Undo the nearest thing: filter, search, zoom; else go back to the pods."""
        table = {"pods": self.pods.table, "events": self.events.table}.get(self.active)
        if table is not None and table.set.filter.text:
            self._filter("", strict=False)
        elif self.active == "logs" and self.logs.view.match_count:
            self.logs.search("")
        elif self._layout_.zoomed:
            self.action_zoom(False)
        else:
            self.action_pane("pods")
