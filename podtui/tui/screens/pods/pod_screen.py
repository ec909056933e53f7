"""The screen of one pod, with a tab for each aspect: state, start, events, logs, manifest,
usage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import ContentSwitcher
from textual.worker import Worker

from podtui.api.insight import (
    InsightPart,
    InsightQuery,
    NetworkSeries,
    PodInsight,
    PodStart,
    ProbeReport,
    UsageSeries,
)
from podtui.api.v1 import Pod
from podtui.client.protocol import Client
from podtui.errors import ApiError, PodtuiError
from podtui.tui.model.model import Changes
from podtui.tui.screens.acting_screen import ActingScreen
from podtui.tui.screens.logs.logs_pane import LogsPane
from podtui.tui.screens.pods.tabs import (
    PodEvents,
    ProbesView,
    ResourcesView,
    TimelineView,
    YamlView,
)
from podtui.tui.screens.tab_bar import TabBar
from podtui.tui.screens.tabbed_screen import TabbedScreen
from podtui.tui.screens.text_screens import EventScreen, explain_line, show_manifest
from podtui.tui.screens.why_screen import WhyScreen
from podtui.tui.views.labels import pod_label
from podtui.tui.views.pods.describe import describe_pod, title_of
from podtui.tui.views.pods.probes import Key
from podtui.tui.views.pods.resources import Used
from podtui.tui.views.pulls import pull_of
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Span
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.text_view import ManifestText
from podtui.tui.widgets.tones import LinesView

POD_TABS: Final = {
    "overview": "Overview",
    "timeline": "Timeline",
    "events": "Events",
    "logs": "Logs",
    "yaml": "YAML",
    "manifest": "Manifest",
    "resources": "Resources",
    "probes": "Probes",
}
TABS_ASKED: Final = {
    "timeline": InsightPart.STARTS,
    "resources": InsightPart.USAGE,
    "probes": InsightPart.PROBES,
}
"""The part of the insight that each tab shows."""

WAIT_SECONDS: Final = 30.0
"""Maximum seconds that the agent holds a query until it has news (long polling)."""


class PodInsightCache:
    """The last answers of the agent about a pod. They are kept if a later query fails. ``problem``
    is the reason of the failure; empty if the agent merely does not know the pod.
    """

    def __init__(self, client: Client, now: Callable[[], float]) -> None:
        self._client = client
        self._now = now
        self._insight: dict[InsightPart, PodInsight] = {}
        self._seen: tuple[str, str, InsightPart, float, str] | None = None
        self.problem = ""
        self.asked_at = 0.0

    @property
    def starts(self) -> tuple[PodStart, ...]:
        return self._of(InsightPart.STARTS).starts

    @property
    def probes(self) -> tuple[ProbeReport, ...]:
        return self._of(InsightPart.PROBES).probes

    @property
    def usage(self) -> tuple[UsageSeries, ...]:
        return self._of(InsightPart.USAGE).usage

    @property
    def network(self) -> NetworkSeries:
        return self._of(InsightPart.USAGE).network

    @property
    def unmeasured(self) -> dict[str, str]:
        return self._of(InsightPart.USAGE).unmeasured

    def _of(self, part: InsightPart) -> PodInsight:
        return self._insight.get(part, PodInsight(time=0.0))

    async def ask(self, pod: Pod, tab: str, span: float) -> bool:
        """Query the part shown by ``tab`` (one of `TABS_ASKED`) for the last ``span`` seconds. If
        that part is known, wait until the agent has news. Return whether the agent answered.
        """
        namespace, name = pod.metadata.namespace, pod.metadata.name
        part = TABS_ASKED[tab]
        seen = ""
        if self._seen is not None and self._seen[:-1] == (namespace, name, part, span):
            seen = self._seen[-1]
        wait = WAIT_SECONDS if seen else 0.0
        query = InsightQuery(part=part, span=span, seen=seen, wait=wait)
        try:
            insight = await self._client.insight(namespace, name, query)
        except PodtuiError as error:
            unknown = isinstance(error, ApiError) and error.code == 404
            self.problem = "" if unknown else clean(str(error))
            self._seen = None
            return False
        self.problem = ""
        if insight is not None:
            self._insight[part] = insight
            self._seen = (namespace, name, part, span, insight.version)
            self.asked_at = self._now()
        return True


RETRY_SECONDS = 2.0
LEAST_SECONDS = 0.3
"""Minimum seconds between two answers; this limits how often the screen is updated."""


class PodScreen(ActingScreen, TabbedScreen):
    """Opens on ``tab``. When the manifest is edited, the screen follows the pod's replacement."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1,d", "tab('overview')", "Overview", key_display="d", id="pod.overview",
                tooltip="State and details of the pod and its containers"),
        Binding("2", "tab('timeline')", "Timeline", show=False, id="pod.timeline",
                tooltip="Steps of the pod's start, compared with the previous one"),
        Binding("3", "tab('events')", "Events", show=False, id="pod.events",
                tooltip="The events of this pod"),
        Binding("4,l", "tab('logs')", "Logs", key_display="l", id="pod.logs",
                tooltip="Logs of its containers"),
        Binding("5,y", "tab('yaml')", "YAML", key_display="y", id="pod.yaml",
                tooltip="The live object, or its manifest"),
        Binding("6,m", "tab('manifest')", "Manifest", key_display="m", id="pod.manifest",
                tooltip="The manifest, with diagnostics below its lines"),
        Binding("7", "tab('resources')", "Resources", show=False, id="pod.resources",
                tooltip="Usage, from minutes to a week"),
        Binding("8", "tab('probes')", "Probes", show=False, id="pod.probes",
                tooltip="States and results of its probes"),
        Binding("X", "why", "Why", id="pod.why",
                tooltip="Why the pod does not run, and how to fix it"),
        Binding("x", "explain", "Explain", id="pod.explain",
                tooltip="Explain the field on this line"),
        Binding("tab", "cycle(1)", "Next tab", show=False, id="pod.next",
                tooltip="Go to the next tab"),
        Binding("shift+tab", "cycle(-1)", "Previous tab", show=False, id="pod.before",
                tooltip="Go to the previous tab"),
        Binding("slash", "find", "Search", id="pod.search",
                tooltip="Search in the text, or filter the events"),
        Binding("n", "match(1)", "Next match", show=False, id="pod.next-match",
                tooltip="Go to the next match"),
        Binding("N", "match(-1)", "Previous match", show=False, id="pod.match-before",
                tooltip="Go to the previous match"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    PodScreen {
        #tabs { background: $background; }
        #content { height: 1fr; }
        .part {
            border: round $pane-border; padding: 0 1; background: $background;
            border-title-color: $pane-title; border-title-background: $background;
            &:focus { border: round $pane-border-focus; }
        }
        .part, #logs { height: 1fr; }
    }
    """
    AUTO_FOCUS = ""
    FIRST_HINTS: ClassVar[frozenset[str]] = frozenset({"pod.explain"})

    TABS: ClassVar[Mapping[str, str]] = POD_TABS

    def __init__(self, key: str, tab: str) -> None:
        super().__init__()
        self._key = key
        self.tab = tab
        self._last: Pod | None = None
        self._asking: Worker[None] | None = None

    def compose(self) -> ComposeResult:
        session = self.session
        self._cache = PodInsightCache(session.client, session.now)
        yield Bar(id="header")
        yield TabBar(POD_TABS)
        # Keep references: while the screen closes, queries no longer find its widgets.
        self._overview = LinesView(id="overview")
        self._timeline = TimelineView(id="timeline")
        self._events = PodEvents(id="events")
        self.logs = LogsPane(session.model, session.client, tail=None, id="logs")
        self._yaml = YamlView(id="yaml")
        self._manifest = ManifestText(line_numbers=True, id="manifest")
        self._resources = ResourcesView(id="resources")
        self._probes = ProbesView(id="probes")
        with Container(id="content"), ContentSwitcher(initial=self.tab):
            yield _part(self._overview)
            yield _part(self._timeline)
            yield _part(self._events)
            yield self.logs
            yield _part(self._yaml)
            yield _part(self._manifest)
            yield _part(self._resources)
            yield _part(self._probes)
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        self.action_tab(self.tab)

    @property
    def pod(self) -> Pod | None:
        """The pod, or its last known state after its removal."""
        model = self.session.model
        current = model.pods.get(self._key)
        if current is None and self._last is not None:
            name, namespace = self._last.metadata.name, self._last.metadata.namespace
            for key, pod in model.pods.items():
                if pod.metadata.name == name and pod.metadata.namespace == namespace:
                    self._key, current = key, pod
                    self.logs.choose(pod, at_once=self.tab == "logs")
                    break
        if current is not None:
            self._last = current
        return self._last

    def publish(self, changes: Changes, now: float) -> None:
        self._draw(now)

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(lambda: self._draw(self.session.now()))

    def _draw(self, now: float) -> None:
        model = self.session.model
        pod = self.pod
        if pod is None or not self.shown:
            return
        gone = self._key not in model.pods
        head = (Span(" pod ", "brand"), Span(" "), *title_of(pod, now))
        if gone:
            head = (*head, Span("  · deleted; last known state", "warning"))
        self.query_one("#header", Bar).show(head)
        self.show_narrowing()
        manifest = model.manifest_of(pod)
        remarks = len(manifest.status.diagnostics) if manifest is not None else 0
        marks = {"manifest": f" ▲{remarks}"} if remarks else {}
        self.query_one(TabBar).show_tabs(self.tab, marks)
        if self.tab == "overview":
            self._overview.show(
                describe_pod(
                    pod,
                    events=model.events_of(pod),
                    manifest=manifest,
                    usage=model.usage.get((pod.metadata.namespace, pod.metadata.name)),
                    now=now,
                    in_cluster=bool(model.member_of),
                    width=max(20, self._overview.size.width - 1),
                    pull=pull_of(pod, model.pods.values()),
                )
            )
        elif self.tab == "timeline":
            pull = pull_of(pod, model.pods.values())
            self._timeline.show_starts(self._cache.starts, self._cache.problem, now, pull)
        elif self.tab == "events":
            self._events.show_pod(model, pod, now)
        elif self.tab == "yaml":
            self._yaml.show_pod(pod, manifest)
        elif self.tab == "resources":
            cache = self._cache
            self._resources.show_usage(Used(pod, cache.usage, cache.network, cache.unmeasured), now)
        elif self.tab == "probes":
            cache = self._cache
            self._probes.show_reports(pod, cache.probes, cache.problem, cache.asked_at, now)
        elif self.tab == "manifest":
            self._show_manifest(pod)
        self.logs.publish(pod if not gone else None)

    def _show_manifest(self, pod: Pod) -> None:
        manifest = self.session.model.manifest_of(pod)
        shown = (manifest.spec, manifest.status) if manifest is not None else None
        if getattr(self, "_manifest_of", ()) != shown:
            self._manifest_of = shown
            show_manifest(self._manifest, manifest)

    # --- queries to the agent

    def _request_insight(self) -> None:
        """Query the data of the open tab, and cancel the query of the previous one."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None
        if self.tab in TABS_ASKED:
            self._asking = self.run_worker(
                partial(self._poll_insight, self.tab), name="ask", group="ask"
            )

    async def _poll_insight(self, tab: str) -> None:
        """Query until the screen is closed; the agent answers as soon as it has news."""
        while True:
            pod = self.pod
            span = self._resources.span
            answered = pod is not None and await self._cache.ask(pod, tab, span)
            self._draw(self.session.now())
            await asyncio.sleep(LEAST_SECONDS if answered else RETRY_SECONDS)

    def on_resources_view_wider(self, message: ResourcesView.Wider) -> None:
        self._request_insight()

    def on_probes_view_ask(self, message: ProbesView.Ask) -> None:
        pod = self.pod
        if pod is not None:
            self.run_worker(
                partial(self._run_probe, pod, message.key), group="probe", exclusive=True
            )

    async def _run_probe(self, pod: Pod, key: Key) -> None:
        meta = pod.metadata
        try:
            run = await self.session.client.run_probe(meta.namespace, meta.name, *key)
        except PodtuiError as error:
            self.notify(clean(str(error)), title=pod_label(pod), severity="error", markup=False)
        else:
            self._probes.answer(key, run)

    # --- tabs

    def action_tab(self, tab: str) -> None:
        self.tab = tab
        self._request_insight()
        self.query_one(ContentSwitcher).current = tab
        if tab == "logs":
            self.logs.choose(self.pod, at_once=True)
        self._draw(self.session.now())
        self.call_after_refresh(lambda: self._draw(self.session.now()))
        self.body_of_tab().focus()
        self.refresh_bindings()

    def chosen_pods(self) -> tuple[Pod, ...]:
        return () if self.pod is None else (self.pod,)

    def has_target(self, action: str) -> bool:
        if action == "ask":
            return self._probes.has_probes
        return super().has_target(action)

    def action_why(self) -> None:
        if self.pod is not None:
            self.session.push(WhyScreen(self.pod))

    def action_explain(self) -> None:
        if self.pod is not None:
            line = self._manifest.line
            explain_line(self.session, self.session.model.manifest_of(self.pod), line)

    # --- search

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "explain":
            return self.tab == "manifest"
        return super().check_action(action, parameters)

    def on_table_opened(self, message: Table.Opened) -> None:
        event = self._events.event(self.session.model)
        if event is not None:
            self.session.push(EventScreen(event))


def _part(widget: Widget) -> Widget:
    return widget.add_class("part")
