"""The events pane: newest event first, of all pods or of the selected one."""

from __future__ import annotations

from textual.app import ComposeResult

from podtui.api.v1 import Event, Pod
from podtui.tui.model.model import Changes, Model, is_about
from podtui.tui.views.events import (
    EVENT_COLUMNS,
    ROUTINE_KEY,
    event_row,
    is_routine,
    is_warning,
    routine_row,
)
from podtui.tui.views.labels import pod_label
from podtui.tui.views.waiting import refused_text, waiting_text
from podtui.tui.widgets.cells import Line, Row, Span
from podtui.tui.widgets.filters import Filter
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
        self._routine: dict[str, Event] = {}
        """The shown events of normal starts by key, folded or not."""
        self._warnings: set[str] = set()
        """The keys of the shown warnings."""
        self._expanded = False
        """True if the user wants each event of a normal start in a row of its own."""
        self._folded = False
        self.table = Table(
            EVENT_COLUMNS, sort="seen", descending=True, follow_top=True, id="events-table"
        )
        self.table.no_match = ()  # `_empty` says more

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
            wanted = event is not None and self._wanted(event)
            self._routine.pop(key, None)
            self._warnings.discard(key)
            if event is not None and wanted:
                if is_routine(event):
                    self._routine[key] = event
                if is_warning(event):
                    self._warnings.add(key)
            if event is None or not wanted or (self._folded and is_routine(event)):
                removed.append(key)
            else:
                changed.append(event_row(event))
        if changed or removed:
            self.table.change(changed, removed)
            self._arrange_routine()
        came = self.table.tick(now)
        if not len(self.table.set):
            self.table.empty = self._empty(start_error)
        if changes or came:
            self.update_title()

    def _arrange_routine(self) -> None:
        """Fold the events of normal starts into one row, if they would hide warnings."""
        # A filter must find each event.
        narrowed = self._only or bool(self.table.set.filter.text)
        hides = bool(self._warnings) and len(self._routine) > 1 and not narrowed
        folded = hides and not self._expanded
        changed: list[Row] = []
        removed: list[str] = []
        if hides:
            changed.append(routine_row(list(self._routine.values()), expanded=self._expanded))
        else:
            removed.append(ROUTINE_KEY)
        if folded and not self._folded:
            removed += self._routine
        elif self._folded and not folded:
            changed += map(event_row, self._routine.values())
        self._folded = folded
        self.table.change(changed, removed)

    @property
    def is_on_routine(self) -> bool:
        """True if the cursor is on the row that stands for the events of normal starts."""
        return self.table.cursor_key == ROUTINE_KEY

    def toggle_routine(self) -> None:
        """List the events of normal starts, or fold them again."""
        self._expanded = not self._expanded
        self._arrange_routine()
        self.update_title()

    def filter_by(self, wanted: Filter) -> None:
        super().filter_by(wanted)
        self._arrange_routine()
        self.update_title()

    def clear_filter(self) -> None:
        super().clear_filter()
        self._arrange_routine()
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
        events = {key: event for key, event in self._model.events.items() if self._wanted(event)}
        self._routine = {key: event for key, event in events.items() if is_routine(event)}
        self._warnings = {key for key, event in events.items() if is_warning(event)}
        self._folded = False
        self.table.replace(map(event_row, events.values()))
        self._arrange_routine()
        self.table.empty = self._empty("")
        self.update_title()

    def show_scope(self, namespace: str) -> None:
        super().show_scope(namespace)
        # The row of normal starts stands for events of the namespace only.
        self._fill()

    def _wanted(self, event: Event) -> bool:
        if self.scope and event.involvedObject.namespace != self.scope:
            return False
        return not self._only or (self._pod is not None and is_about(event, self._pod))

    def update_title(self) -> None:
        scope = "" if self.scope else "· all "
        if self._only:
            label = pod_label(self._pod) if self._pod is not None else clean(self._file) or "no pod"
            scope = f"· {label} "
        count = sum(key in self._model.events for key in self.table.set.order)
        count += len(self._routine) if self._folded else 0
        self.set_detail(f"{scope}· {count:,}{self.filter_words}")

    def _empty(self, start_error: str) -> tuple[Line, ...]:
        waiting = waiting_text(self._model, start_error) or refused_text(self._model, Event)
        if waiting and not self._model.events:
            return waiting
        if self.table.set.is_filtered and self.table.set.rows:
            return ((Span("No event matches the filter. Esc clears it.", "muted"),),)
        if self.namespace and not self._only:
            return ((Span(f"No events in namespace {self.namespace}.", "muted"),),)
        if self._only:
            message = "No events of this pod."
            if self._pod is None:
                file = clean(self._file)
                message = f"{file} is not a pod." if file else "No pod is selected."
            return (
                (Span(message, "soft"),),
                (Span("E", "hint-key"), Span(" shows the events of all pods", "muted")),
            )
        return ((Span("No events yet.", "muted"),),)
