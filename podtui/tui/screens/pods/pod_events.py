"""The tab with the events of one pod, the newest first."""

from __future__ import annotations

from podtui.api.v1 import Event, Pod
from podtui.tui.model.model import Model
from podtui.tui.views.events import EVENT_COLUMNS, event_row
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.table import Table


class PodEvents(Table):
    """The events table of one pod, with the columns of the main screen."""

    def __init__(self, *, id: str) -> None:
        super().__init__(EVENT_COLUMNS, sort="seen", descending=True, follow_top=True, id=id)
        self.empty = ((Span("No events of this pod are on record.", "soft"),),
                      (Span("They are kept for an hour.", "muted"),))  # fmt: skip

    def show_pod(self, model: Model, pod: Pod, now: float) -> None:
        self.replace(event_row(event) for event in model.events_of(pod))
        self.tick(now)

    def event(self, model: Model) -> Event | None:
        """Return the event under the cursor."""
        return model.events.get(self.cursor_key)
