"""Who connects to whom: the Services that the manifests of workloads name."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from podtui.api.discovery import EndpointSlice
from podtui.api.networking import Ingress
from podtui.api.v1 import ConfigMap, Endpoints, Namespace, Pod, Service
from podtui.errors import PodtuiError
from podtui.text.terminal_text import plural
from podtui.tui.model.model import Changes
from podtui.tui.model.objects import FollowedObjects
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.screens.object_why_screen import ObjectWhyScreen
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.views.labels import pod_label
from podtui.tui.views.map import MAP_COLUMNS, map_rows, source_name
from podtui.tui.views.why import inventory_of
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.filters import FilterError, parse_filter
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.table import Table
from podtui.why.connection_checks import check_text, fails
from podtui.why.connections import Connection, broken, connections, running_pod
from podtui.why.inventory import WORKLOADS, find_noun

MAP_KINDS: Final[tuple[type[Any], ...]] = (
    *WORKLOADS, Service, Ingress, EndpointSlice, Endpoints, ConfigMap, Namespace,
)  # fmt: skip
SECONDS: Final = 0.5
"""The least time between two computations: each reads all manifests."""


class MapScreen(BackScreen):
    """The connections of all workloads, filtered by ``text``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("X", "why", "Why", id="map.why",
                tooltip="Explain the object that names the Service; enter explains the Service"),
        Binding("t", "try", "Try it", id="map.try",
                tooltip="Look up the host from inside a pod, and connect to the port"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    MapScreen Table { height: 1fr; border: round $pane-border-focus; padding: 0 1;
        border-title-color: $pane-title-focus; background: $background; }
    """
    AUTO_FOCUS = "Table"

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = text
        self._objects = FollowedObjects(MAP_KINDS)
        self._edges: dict[str, Connection] = {}
        self._is_stale = True

    def compose(self) -> ComposeResult:
        self.table = Table(MAP_COLUMNS, sort="from", id="map")
        self.table.empty = ((Span("…", "muted"),),)
        yield Bar(id="header")
        yield self.table
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        if self._text:
            try:
                self.table.filter_by(parse_filter(self._text, MAP_COLUMNS))
            except FilterError as error:
                self.session.notify(str(error), title="Filter", severity="error")
        follow = partial(self._objects.run, self.session.client, self._mark_stale)
        self.run_worker(follow, group="map-objects", exclusive=True)
        self.set_interval(SECONDS, self._draw)
        self._draw()

    def publish(self, changes: Changes, now: float) -> None:
        if changes.pods - changes.measured:
            self._mark_stale()
        self.table.tick(now)

    def _mark_stale(self) -> None:
        self._is_stale = True

    def _draw(self) -> None:
        if not self.shown or not self._is_stale:
            return
        self._is_stale = False
        session = self.session
        inventory = inventory_of(session.model, self._objects.read, session.now())
        rows = map_rows(connections(inventory))
        self._edges = {key: edge for key, (edge, _) in rows.items()}
        self.table.replace(row for _, row in rows.values())
        if self._objects.is_complete:
            self.table.empty = (
                (Span("No manifest names a Service.", "soft"),),
                (Span("Environment, arguments, commands and ConfigMaps are read.", "muted"),),
            )
        self._show_head()
        self.refresh_bindings()

    def _show_head(self) -> None:
        edges = list(self._edges.values())
        wrong = len(broken(edges))
        spans = (
            Span(" map ", "brand"),
            Span(f" {plural(len(edges), 'connection')} in manifests", "soft"),
        )
        if wrong:
            spans = (*spans, Span(f" · {wrong} broken", "error"))
        self.query_one("#header", Bar).show(spans)
        self.show_narrowing()

    def has_target(self, action: str) -> bool:
        if action in ("why", "open", "try"):
            return bool(self._edges)
        return super().has_target(action)

    def on_table_opened(self, message: Table.Opened) -> None:
        """Explain the Service; if there is none, the object that names it."""
        edge = self._edges.get(message.key)
        if edge is not None:
            self._explain(edge.item if edge.service is None else edge.service)

    def action_why(self) -> None:
        """Explain the object that names the Service."""
        edge = self._edges.get(self.table.cursor_key)
        if edge is not None:
            self._explain(edge.item)

    def action_try(self) -> None:
        """Ask the agent to connect from inside a pod of the object that names the Service."""
        edge = self._edges.get(self.table.cursor_key)
        if edge is None:
            return
        session = self.session
        inventory = inventory_of(session.model, self._objects.read, session.now())
        pod = running_pod(inventory, edge.item)
        if pod is None:
            session.notify("No pod of it runs.", title=source_name(edge), severity="warning")
        else:
            self.run_worker(partial(self._try, edge, pod), group="map-try", exclusive=True)

    async def _try(self, edge: Connection, pod: Pod) -> None:
        meta, title = pod.metadata, f"From {pod_label(pod)}"
        check = self.session.client.check_connection
        try:
            answer = await check(meta.namespace, meta.name, edge.host, edge.port)
        except PodtuiError as error:
            self.session.notify(str(error), title=title, severity="error")
        else:
            severity = "error" if fails(answer) else "information"
            self.session.notify(f"{check_text(answer)}.", title=title, severity=severity)

    def _explain(self, item: Any) -> None:
        noun = find_noun(type(item).__name__)
        if noun is None:
            return
        if noun.plural == "pods":
            self.session.push(WhyScreen(item))
        else:
            self.session.push(ObjectWhyScreen(noun, item.metadata.name, item.metadata.namespace))
