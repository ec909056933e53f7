"""The tab with the pod's resource usage over time."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from podtui.tui.views.pods.resources import Used, resource_lines
from podtui.tui.widgets.time_span import SPANS, USUAL, other_span
from podtui.tui.widgets.tones import LinesView


class ResourcesView(LinesView):
    """Plots that use the available height."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "scale", "Scale", id="resources.scale",
                tooltip="Scale the plots to what is used, or up to requests and limits"),
        Binding("left_square_bracket", "span(-1)", "Shorter", key_display="[",
                id="resources.shorter", tooltip="Show less of the past, down to 15 minutes"),
        Binding("right_square_bracket", "span(1)", "Longer", key_display="]",
                id="resources.longer", tooltip="Show more of the past, up to 7 days"),
    ]  # fmt: skip

    class Wider(Message):
        """Posted when the user selects another time span."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._whole = False
        self._span = USUAL
        self._known: tuple[Used, float] | None = None

    @property
    def span(self) -> float:
        """The displayed time span in seconds."""
        return SPANS[self._span]

    def show_usage(self, used: Used, now: float) -> None:
        self._known = (used, now)
        self._draw()

    def action_scale(self) -> None:
        self._whole = not self._whole
        self._draw()

    def action_span(self, step: int) -> None:
        chosen = other_span(self._span, step)
        if chosen != self._span:
            self._span = chosen
            self.post_message(self.Wider())
            self._draw()

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        if self._known is None:
            return
        used, now = self._known
        width, height = max(40, self.size.width - 1), max(8, self.size.height)
        self.show(resource_lines(used, now, self._span, width, height, whole=self._whole))
