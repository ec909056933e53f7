"""The node pane: resources as bars, the pods' shares, and rejected pods."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from podtui.api.v1 import Node
from podtui.tui.model.model import Changes, Model
from podtui.tui.views.node.allocation import (
    PodRequests,
    Shares,
    allocation_of,
    gauges,
    node_state,
    rejections,
    requests_of,
)
from podtui.tui.views.node.overview import node_lines
from podtui.tui.views.waiting import refused_text, waiting_text
from podtui.tui.widgets.cells import Span, wrap, wrap_all
from podtui.tui.widgets.pane import Pane
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.tones import LinesView

PAUSE: Final = 0.5
"""Minimum seconds between two updates."""


class NodePane(Pane):
    DEFAULT_CSS = """
    NodePane > LinesView { height: 1fr; background: $background; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "screen.open_node('overview')", "Open", key_display="enter",
                id="node-pane.open", tooltip="Details of the node"),
        Binding("w", "screen.open_node('what-if')", "What if", id="node-pane.what-if",
                tooltip="Check whether requests or a manifest would fit"),
    ]  # fmt: skip
    number = 4
    name_ = "Node"

    def __init__(self, model: Model, *, id: str) -> None:
        super().__init__(id=id)
        self._model = model
        self._chosen = ""
        self._start_error = ""
        self._asks: dict[str, PodRequests] = {}
        self._shares = Shares()
        self._stale = False
        self._drawn_at = 0.0
        self.view = LinesView(id="node-view")

    def compose(self) -> ComposeResult:
        yield self.view

    def on_resize(self) -> None:
        self._draw()

    @property
    def focus_target(self) -> Widget:
        return self.view

    def find(self, text: str) -> None:
        """Search for ``text``; without a text, go to the next match."""
        if text:
            self.view.search(text)
        self.view.next_match()
        if not self.view.matches:
            self.notify(f"No match for {clean(text or self.view.pattern)}", severity="warning",
                        markup=False)  # fmt: skip

    def clear_query(self) -> bool:
        searched = bool(self.view.pattern)
        if searched:
            self.view.search("")
        return searched

    def choose(self, key: str) -> None:
        """Highlight the shares of the pod under the cursor."""
        if key != self._chosen:
            self._chosen = key
            self._draw()

    def publish(self, changes: Changes, now: float, start_error: str) -> None:
        for key in changes.pods - changes.measured:
            pod = self._model.pods.get(key)
            if pod is None:
                self._asks.pop(key, None)
            else:
                self._asks[key] = requests_of(pod)
        self._start_error = start_error
        self._stale |= bool(changes.pods or changes.node or changes.usage or changes.link)
        # Throttle: adding up a thousand pods for each of two hundred changes would delay keys.
        if self._stale and not 0 <= now - self._drawn_at < PAUSE:
            self._drawn_at = now
            self._draw()

    def _draw(self) -> None:
        if not self.is_mounted or not self.display:
            return
        self._stale = False
        allocation = allocation_of(self._model, self._asks, self._model.pods.get(self._chosen))
        if allocation is None:
            waiting = waiting_text(self._model, self._start_error)
            waiting = waiting or refused_text(self._model, Node)
            lines_shown = waiting or (
                (Span("The node has not reported its status yet.", "muted"),),
            )
            self.view.show(wrap_all(lines_shown, self.content_size.width - 3))
            return
        node = allocation.node
        resources = gauges(node, allocation.asks, self._model.usage, allocation.use, self._shares)
        refused = rejections(allocation.asks, resources)
        ready, text = node_state(node)
        width = max(20, self.content_size.width - 3)
        lines = node_lines(
            resources, refused, width=width, height=self.content_size.height, selected=self._chosen
        )
        if not ready and not resources:
            # A node that was never ready has not reported its capacity.
            lines = wrap((Span(text, "warning"),), width)
        self.view.show(lines)
        detail = f"· {clean(node.metadata.name)} · {text}"
        self.set_detail(detail + (f" · {len(refused)} rejected" if refused else ""))
