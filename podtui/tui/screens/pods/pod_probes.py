"""The tab with the pod's probes; ``r`` runs the selected one."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from podtui.api.insight import ProbeReport, ProbeRun
from podtui.api.v1 import Pod
from podtui.tui.views.pods.probes import Key, key_of, probe_lines
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.tones import LinesView


class ProbesView(LinesView):
    """Posts `Ask` to request a probe run; `answer` takes its result."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "choose(1)", "Next probe", show=False, id="probes.next",
                tooltip="Go to the next probe"),
        Binding("up,k", "choose(-1)", "Probe before", show=False, id="probes.before",
                tooltip="Go to the probe before"),
        Binding("r", "ask", "Run now", id="probes.run",
                tooltip="Run the selected probe now; the result does not count"),
    ]  # fmt: skip

    class Ask(Message):
        """Posted to run a probe."""

        def __init__(self, key: Key) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._reports: tuple[ProbeReport, ...] = ()
        self._answers: dict[Key, ProbeRun] = {}
        self._chosen: Key = ("", "")
        self._pod: Pod | None = None
        self._now = 0.0
        self._asked_at = 0.0
        self._places: dict[Key, int] = {}

    def show_reports(
        self, pod: Pod, reports: tuple[ProbeReport, ...], problem: str, asked_at: float, now: float
    ) -> None:
        """Show the reports. ``asked_at`` (Unix seconds) is the time of the agent's answer;
        ``problem`` is the reason why there is no answer.
        """
        if bool(reports) is not self.has_probes:
            self.call_after_refresh(self.screen.refresh_bindings)
        self._pod, self._reports, self._now, self._asked_at = pod, reports, now, asked_at
        if problem and not reports:
            self.show([(Span(f" {problem}", "muted"),)])
            return
        keys = [key_of(report) for report in reports]
        if keys and self._chosen not in keys:
            self._chosen = keys[0]
        self._draw()

    def answer(self, key: Key, run: ProbeRun) -> None:
        self._answers[key] = run
        self._draw()

    @property
    def has_probes(self) -> bool:
        return bool(self._reports)

    def action_choose(self, step: int) -> None:
        keys = [key_of(report) for report in self._reports]
        if self._chosen in keys:
            place = max(0, min(keys.index(self._chosen) + step, len(keys) - 1))
            self._chosen = keys[place]
            self._draw()
            top = self._places.get(self._chosen, 0)
            if not self.scroll_y <= top < self.scroll_y + self.size.height - 4:
                self.scroll_to(y=top, animate=False)

    def action_ask(self) -> None:
        if self._chosen in map(key_of, self._reports):
            self.post_message(self.Ask(self._chosen))
        else:
            self.notify("There is no probe to run.", severity="warning")

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        if self._pod is not None:
            lines, self._places = probe_lines(
                self._pod,
                self._reports,
                self._chosen,
                self._answers,
                now=self._now,
                elapsed=max(0.0, self._now - self._asked_at),
                width=max(40, self.size.width - 1),
            )
            self.show(lines)
