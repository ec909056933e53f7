"""The events pane: newest event first, of all pods or of the selected one."""

from __future__ import annotations

from textual.app import ComposeResult

from podtui.api.v1 import Event, Pod
from podtui.tui.model.model import Changes, Model, is_about
from podtui.tui.views.events import EVENT_COLUMNS, event_row
from podtui.tui.views.labels import pod_label
from podtui.tui.views.waiting import refused_text, waiting_text
from podtui.tui.widgets.cells import Line, Row, Span
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.table_pane import TablePane


class EventsPane(TablePane):
    DEFAULT_CSS = "EventsPane > Table { height: 1fr; }"
    number = 2
    name_ = "Events"

    def __init__(self, model: Model, *, id: str) -> None:
        super().__init__(id=id)
        self._model = model
        self._pod: Pod | None = None
        self._file = ""
        """The manifest under the cursor, if it defines no pod."""
        self._only = False
        self.table = Table(
            EVENT_COLUMNS, sort="seen", descending=True, follow_top=True, id="events-table"
        )

    def compose(self) -> ComposeResult:
        yield self.table

    @property
    def event(self) -> Event | None:
        """The event under the cursor."""
        return self._model.events.get(self.table.cursor_key)

    def publish(self, changes: Changes, now: float, start_error: str) -> None:
        changed: list[Row] = []
        removed: list[str] = []
        for key in changes.events:
            event = self._model.events.get(key)
            if event is None or not self._wanted(event):
                removed.append(key)
            else:
                changed.append(event_row(event))
        if changed or removed:
            self.table.change(changed, removed)
        came = self.table.tick(now)
        if not len(self.table.set):
            self.table.empty = self._empty(start_error)
        if changes or came:
            self.update_title()

    def choose(self, pod: Pod | None, file: str = "") -> None:
        """Set the pod under the cursor, or the manifest that defines no pod."""
        before, self._pod, self._file = self._pod, pod, file
        same = (
            before is not None
            and pod is not None
            and before.metadata.name == pod.metadata.name
            and before.metadata.namespace == pod.metadata.namespace
        )
        if self._only and not same:
            self._fill()

    def toggle(self) -> None:
        """Toggle between the events of all pods and of the selected one."""
        self._only = not self._only
        self._fill()

    def _fill(self) -> None:
        self.table.replace(event_row(e) for e in self._model.events.values() if self._wanted(e))
        self.table.empty = self._empty("")
        self.update_title()

    def _wanted(self, event: Event) -> bool:
        return not self._only or (self._pod is not None and is_about(event, self._pod))

    def update_title(self) -> None:
        scope = "all"
        if self._only:
            scope = pod_label(self._pod) if self._pod is not None else clean(self._file) or "no pod"
        self.set_detail(f"· {scope} · {len(self.table.set):,}{self.filter_words}")

    def _empty(self, start_error: str) -> tuple[Line, ...]:
        waiting = waiting_text(self._model, start_error) or refused_text(self._model, Event)
        if waiting and not self._model.events:
            return waiting
        if self.table.set.is_filtered and self.table.set.rows:
            return ((Span("No event matches the filter. Esc clears it.", "muted"),),)
        if self._only:
            words = "No events of this pod."
            if self._pod is None:
                file = clean(self._file)
                words = f"{file} is not a pod." if file else "No pod is selected."
            return (
                (Span(words, "soft"),),
                (Span("E", "hint-key"), Span(" shows the events of all pods", "muted")),
            )
        return ((Span("No events yet.", "muted"),),)
