"""The tab with what the pod's containers use, over time."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from podtui.api.insight import UsageSeries
from podtui.api.v1 import Pod
from podtui.tui.resource_lines import resource_lines
from podtui.tui.tones import LinesView


class ResourcesView(LinesView):
    """Plots that are as high as the room allows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "scale", "Scale", id="resources.scale",
                tooltip="Scale the plots to what is used, or up to requests and limits"),
    ]  # fmt: skip

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._whole = False
        self._known: tuple[Pod, tuple[UsageSeries, ...], float] | None = None

    def show_usage(self, pod: Pod, usage: tuple[UsageSeries, ...], now: float) -> None:
        self._known = (pod, usage, now)
        self._draw()

    def action_scale(self) -> None:
        self._whole = not self._whole
        self._draw()

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        if self._known is not None:
            width, height = max(40, self.size.width - 1), max(8, self.size.height)
            self.show(resource_lines(*self._known, width, height, whole=self._whole))
