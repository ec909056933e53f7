"""One pod in full: overview, logs, the live object, and its manifest with what is wrong in it."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from podtui.api.v1 import Pod
from podtui.tui.bars import Bar, Hints
from podtui.tui.cells import Span, line_width
from podtui.tui.describe import describe_pod, title_of
from podtui.tui.logs_pane import LogsPane
from podtui.tui.model import Changes
from podtui.tui.prompt import Prompt, Purpose
from podtui.tui.text_screens import BackScreen, show_manifest
from podtui.tui.text_view import TextView
from podtui.tui.tones import LinesView
from podtui.tui.yaml_text import pod_yaml

TABS: Final = {"overview": "Overview", "logs": "Logs", "yaml": "YAML", "manifest": "Manifest"}


class TabBar(Bar):
    """The tabs' names; a click on one opens it."""

    def __init__(self) -> None:
        super().__init__(id="tabs")
        self._places: list[tuple[int, int, str]] = []

    def show_tabs(self, chosen: str, marked: str) -> None:
        """``marked`` stands beside the manifest's name."""
        spans: list[Span] = [Span(" ")]
        self._places = []
        for number, (tab, title) in enumerate(TABS.items(), start=1):
            text = f" {number} {title}{marked if tab == 'manifest' else ''} "
            start = line_width(spans)
            spans.append(Span(text, "tab-active" if tab == chosen else "tab"))
            self._places.append((start, line_width(spans), tab))
            spans.append(Span(" "))
        self.show(tuple(spans))

    async def on_click(self, event: events.Click) -> None:
        for left, right, tab in self._places:
            if left <= event.x < right:
                await self.screen.run_action(f"tab('{tab}')")


class PodScreen(BackScreen):
    """Opens on ``tab``; stays on the pod that comes after when its manifest is edited."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('overview')", "Overview", show=False, id="pod.overview"),
        Binding("2,l", "tab('logs')", "Logs", key_display="l", id="pod.logs"),
        Binding("3,y", "tab('yaml')", "YAML", key_display="y", id="pod.yaml"),
        Binding("4,m", "tab('manifest')", "Manifest", key_display="m", id="pod.manifest"),
        Binding("d", "tab('overview')", "Describe", id="pod.describe"),
        Binding("tab", "cycle(1)", "Next tab", show=False, id="pod.next"),
        Binding("shift+tab", "cycle(-1)", "Tab before", show=False, id="pod.before"),
        Binding("slash", "search", "Search", id="pod.search"),
        Binding("n", "match(1)", "Next match", show=False, id="pod.next-match"),
        Binding("N", "match(-1)", "Match before", show=False, id="pod.match-before"),
        Binding("r", "retry", "Start afresh", show=False, id="pod.retry"),
    ]
    DEFAULT_CSS = """
    PodScreen {
        #tabs { background: $background; }
        #content { height: 1fr; }
        #overview, #yaml, #manifest {
            border: round $pane-border; padding: 0 1; background: $background;
            &:focus { border: round $pane-border-focus; }
        }
        #overview, #logs, #yaml, #manifest { height: 1fr; }
    }
    """
    AUTO_FOCUS = ""

    def __init__(self, key: str, tab: str) -> None:
        super().__init__()
        self._key = key
        self._tab = tab
        self._last: Pod | None = None
        self._yaml_of: Pod | None = None

    def compose(self) -> ComposeResult:
        app = self.podtui
        yield Bar(id="header")
        yield TabBar()
        self.logs = LogsPane(app.model, app.client, tail=None, id="logs")
        with Container(id="content"), ContentSwitcher(initial=self._tab):
            yield LinesView(id="overview")
            yield self.logs
            yield TextView(id="yaml")
            yield TextView(line_numbers=True, id="manifest")
        yield Hints()
        yield Prompt()

    def on_mount(self) -> None:
        super().on_mount()
        self.action_tab(self._tab)

    @property
    def pod(self) -> Pod | None:
        """The pod, or as it was last seen."""
        model = self.podtui.model
        found = model.pods.get(self._key)
        if found is None and self._last is not None:
            name, namespace = self._last.metadata.name, self._last.metadata.namespace
            for key, pod in model.pods.items():
                if pod.metadata.name == name and pod.metadata.namespace == namespace:
                    self._key, found = key, pod
                    self.logs.choose(pod, at_once=self._tab == "logs")
                    break
        if found is not None:
            self._last = found
        return self._last

    def publish(self, changes: Changes, now: float) -> None:
        if self.opened:
            self._draw(now)

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(lambda: self._draw(self.podtui.now()))

    def _draw(self, now: float) -> None:
        model = self.podtui.model
        pod = self.pod
        if pod is None or not self.shown:
            return
        gone = self._key not in model.pods
        head = (Span(" pod ", "brand"), Span(" "), *title_of(pod))
        if gone:
            head = (*head, Span("  · removed; this is how it was last seen", "warning"))
        self.query_one("#header", Bar).show(head)
        manifest = model.manifest_of(pod)
        remarks = len(manifest.status.diagnostics) if manifest is not None else 0
        self.query_one(TabBar).show_tabs(self._tab, f" ▲{remarks}" if remarks else "")
        if self._tab == "overview":
            view = self.query_one("#overview", LinesView)
            view.show(
                describe_pod(
                    pod,
                    events=model.events_of(pod),
                    manifest=manifest,
                    usage=model.usage.get((pod.metadata.namespace, pod.metadata.name)),
                    now=now,
                    width=max(20, view.size.width - 1),
                )
            )
        elif self._tab == "yaml" and pod is not self._yaml_of:
            self._yaml_of = pod
            self.query_one("#yaml", TextView).load(pod_yaml(pod), language="yaml")
        elif self._tab == "manifest":
            self._show_manifest(pod)
        self.logs.publish(pod if not gone else None)

    def _show_manifest(self, pod: Pod) -> None:
        manifest = self.podtui.model.manifest_of(pod)
        view = self.query_one("#manifest", TextView)
        shown = (manifest.spec, manifest.status) if manifest is not None else None
        if getattr(self, "_manifest_of", ()) != shown:
            self._manifest_of = shown
            show_manifest(view, manifest)

    # --- tabs

    def action_tab(self, tab: str) -> None:
        self._tab = tab
        self.query_one(ContentSwitcher).current = tab
        if tab == "logs":
            self.logs.choose(self.pod, at_once=True)
        self._draw(self.podtui.now())
        self.call_after_refresh(lambda: self._draw(self.podtui.now()))
        self._body().focus()
        self.refresh_bindings()

    def _body(self) -> Widget:
        return self.logs.view if self._tab == "logs" else self.query_one(f"#{self._tab}")

    def action_cycle(self, step: int) -> None:
        names = list(TABS)
        self.action_tab(names[(names.index(self._tab) + step) % len(names)])

    def action_retry(self) -> None:
        pod = self.pod
        if pod is not None:
            self.podtui.retry(pod)

    # --- search

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("search", "match"):
            return self._tab != "overview"
        return True

    def action_search(self) -> None:
        self.query_one(Prompt).ask(Purpose.SEARCH)
        self.query_one(Hints).display = False

    def action_match(self, step: int) -> None:
        if self._tab in ("yaml", "manifest"):
            view = self.query_one(f"#{self._tab}", TextView)
            if step > 0:
                view.next_match()
            else:
                view.previous_match()

    def on_prompt_submitted(self, message: Prompt.Submitted) -> None:
        self._searched()
        if self._tab == "logs":
            self.logs.search(message.text)
            self.logs.action_match(-1)
        else:
            self.query_one(f"#{self._tab}", TextView).search(message.text)
            self.action_match(1)

    def on_prompt_cancelled(self, message: Prompt.Cancelled) -> None:
        self._searched()

    def _searched(self) -> None:
        self.query_one(Hints).display = True
        self._body().focus()
