"""The tab with the timelines of the pod's current and earlier starts."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from podtui.api.insight import PodStart
from podtui.tui.views.pods.timeline import waterfall, waterfall_lines, with_pull
from podtui.tui.views.pulls import Pull
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.tones import LinesView


class TimelineView(LinesView):
    """The timeline of one start; ``[`` and ``]`` select an earlier or later one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "older(1)", "Start before", key_display="[",
                id="timeline.older", tooltip="Show the start before this one"),
        Binding("right_square_bracket", "older(-1)", "Start after", key_display="]", show=False,
                id="timeline.newer", tooltip="Show the start after this one"),
    ]  # fmt: skip

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._starts: tuple[PodStart, ...] = ()
        self._chosen = 0
        self._now = 0.0
        self._problem = ""
        self._pull: Pull | None = None

    def show_starts(
        self, starts: tuple[PodStart, ...], problem: str, now: float, pull: Pull | None = None
    ) -> None:
        """Show starts, the newest first. ``problem`` is the agent's reason if there are none;
        ``pull`` is the current image pull.
        """
        newest = bool(starts and self._starts and starts[0].began != self._starts[0].began)
        if newest and self._chosen:
            # Keep showing the same start, which has moved back by one.
            self._chosen += 1
        self._starts, self._problem, self._now, self._pull = starts, problem, now, pull
        self._chosen = max(0, min(self._chosen, len(starts) - 1))
        self._draw()

    def action_older(self, step: int) -> None:
        self._chosen = max(0, min(self._chosen + step, len(self._starts) - 1))
        self.scroll_home(animate=False)
        self._draw()

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        self.show(self._lines(max(40, self.size.width - 1)))

    def _lines(self, width: int) -> list[Line]:
        if not self._starts:
            said = self._problem or "Nothing is known yet of how this pod started."
            return [(Span(f" {said}", "muted"),)]
        start = self._starts[self._chosen]
        earlier = self._starts[self._chosen + 1 :]
        found = waterfall(start, earlier[0] if earlier else None, self._now)
        if self._pull is not None and not self._chosen:
            found = with_pull(found, self._pull.image, self._pull.amount)
        return waterfall_lines(found, width, number=self._chosen + 1, of=len(self._starts))
