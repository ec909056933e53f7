"""The tabs of the pod screen: probes, events, resources, timeline and YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType
from textual.message import Message

from podtui.api.insight import PodStart, ProbeReport, ProbeRun
from podtui.api.local import Manifest
from podtui.api.v1 import Event, Pod
from podtui.tui.commands.availability import is_available
from podtui.tui.model.model import Model
from podtui.tui.screens.text_screens import show_manifest
from podtui.tui.views.events import EVENT_COLUMNS, event_row
from podtui.tui.views.pods.describe import pod_yaml
from podtui.tui.views.pods.probes import Key, key_of, probe_lines
from podtui.tui.views.pods.resources import Used, resource_lines
from podtui.tui.views.pods.timeline import waterfall, waterfall_lines, with_pull
from podtui.tui.views.pulls import Pull
from podtui.tui.widgets.cells import Line, Span
from podtui.tui.widgets.chart import SPANS, USUAL, next_span
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.text_view import TextView
from podtui.tui.widgets.tones import LinesView

if TYPE_CHECKING:
    from podtui.tui.screens.live_screen import LiveScreen


class ProbesView(LinesView):
    """Posts `Ask` to request a probe run; `answer` takes its result."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "choose(1)", "Next probe", show=False, id="probes.next",
                tooltip="Go to the next probe"),
        Binding("up,k", "choose(-1)", "Previous probe", show=False, id="probes.before",
                tooltip="Go to the previous probe"),
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
            index = max(0, min(keys.index(self._chosen) + step, len(keys) - 1))
            self._chosen = keys[index]
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


class PodEvents(Table):
    """The events table of one pod, with the columns of the main screen."""

    def __init__(self, *, id: str) -> None:
        super().__init__(EVENT_COLUMNS, sort="seen", descending=True, follow_top=True, id=id)
        self.empty = ((Span("No events of this pod.", "soft"),),
                      (Span("Events are kept for an hour.", "muted"),))  # fmt: skip

    def show_pod(self, model: Model, pod: Pod, now: float) -> None:
        self.replace(event_row(event) for event in model.events_of(pod))
        self.tick(now)

    def event(self, model: Model) -> Event | None:
        """Return the event under the cursor."""
        return model.events.get(self.cursor_key)


class ResourcesView(LinesView):
    """Plots that use the available height."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("z", "scale", "Scale", id="resources.scale",
                tooltip="Scale the plots to the usage, or to requests and limits"),
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
        selected = next_span(self._span, step)
        if selected != self._span:
            self._span = selected
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


class TimelineView(LinesView):
    """The timeline of one start; ``[`` and ``]`` select an earlier or later one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "older(1)", "Previous start", key_display="[",
                id="timeline.older", tooltip="Show the previous start"),
        Binding("right_square_bracket", "older(-1)", "Next start", key_display="]", show=False,
                id="timeline.newer", tooltip="Show the next start"),
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
            message = self._problem or "No start of this pod is recorded yet."
            return [(Span(f" {message}", "muted"),)]
        start = self._starts[self._chosen]
        earlier = self._starts[self._chosen + 1 :]
        shown = waterfall(start, earlier[0] if earlier else None, self._now)
        if self._pull is not None and not self._chosen:
            shown = with_pull(shown, self._pull.image, self._pull.amount)
        return waterfall_lines(shown, width, number=self._chosen + 1, of=len(self._starts))


class YamlView(TextView):
    """The YAML of a pod; ``source`` is ``live`` or ``manifest``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("o", "switch_source", "Live or manifest", id="yaml.source",
                tooltip="Switch between the live object and its manifest"),
        Binding("m", "managed", "Managed fields", id="yaml.managed",
                tooltip="Show or hide metadata.managedFields"),
    ]  # fmt: skip

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.source = "live"
        self._managed = False
        self._pod: Pod | None = None
        self._manifest: Manifest | None = None
        self._shown: object = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        screen = cast("LiveScreen", self.screen)
        return is_available(screen.session.model.server.capabilities, action, parameters)

    def show_pod(self, pod: Pod, manifest: Manifest | None) -> None:
        """Show a pod; does nothing if it is shown already."""
        self._pod, self._manifest = pod, manifest
        wanted = (pod, self._managed) if self.source == "live" else (manifest,)
        if wanted == self._shown:
            return
        self._shown = wanted
        if self.source == "live":
            self.load(pod_yaml(pod, managed=self._managed), language="yaml")
        else:
            show_manifest(self, manifest)
        hidden = bool(pod.metadata.managedFields) and not self._managed
        title = "live object" + (", managed fields hidden" if hidden else "")
        self.border_title = title if self.source == "live" else "manifest"

    def action_switch_source(self) -> None:
        self.source = "manifest" if self.source == "live" else "live"
        self._refresh_tab()

    def action_managed(self) -> None:
        self._managed = not self._managed
        self._refresh_tab()

    def _refresh_tab(self) -> None:
        if self._pod is not None:
            self.show_pod(self._pod, self._manifest)
