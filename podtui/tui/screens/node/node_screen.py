"""The node screen: resources, pods, usage history, images, rejected pods, what-if."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from typing import ClassVar, Final

from msgspec import Struct
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.widget import Widget
from textual.widgets import ContentSwitcher

from podtui.api.v1 import Pod
from podtui.errors import PodtuiError
from podtui.tui.model.model import Changes
from podtui.tui.model.usage import Usage
from podtui.tui.screens.acting_screen import ActingScreen
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.screens.node.tabs import NodeHistoryView, NodeImages, WhatIfView
from podtui.tui.screens.pods.pod_screen import PodScreen
from podtui.tui.screens.tab_bar import TabBar, next_tab
from podtui.tui.views.node.allocation import (
    Gauge,
    NodeAllocation,
    PodRequests,
    RejectedPod,
    Shares,
    allocation_of,
    gauges,
    node_state,
    rejections,
    requests_of,
)
from podtui.tui.views.node.overview import overview_lines
from podtui.tui.views.node.tables import REJECTED_COLUMNS, SHARE_COLUMNS, rejected_row, share_row
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Row, Span
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table
from podtui.tui.widgets.tones import LinesView

NODE_TABS: Final = {
    "overview": "Overview",
    "pods": "Pods",
    "history": "History",
    "images": "Images",
    "rejected": "Rejected",
    "what-if": "What if",
}
PAUSE: Final = 0.5
"""Seconds between two updates: summing up a thousand pods for each change would delay keys."""
IMAGES_SECONDS: Final = 5.0
OF_PODS: Final = frozenset(
    binding.action for binding in ActingScreen.BINDINGS if isinstance(binding, Binding)
) - {"undo", "new", "journal", "trash", "forwards"}
"""Actions that are available only on tabs where a pod is selected."""
PLOTS: Final = 14
"""Minimum number of free rows below the overview to show the usage history there."""


class _ShareRow(Struct, frozen=True):
    """A cached row of a pod, and its basis: the pod's requests and usage, the node's allocatable
    resources, the pod's labels."""

    basis: tuple[PodRequests, Usage | None, dict[str, int], dict[str, str]]
    row: Row


class NodeScreen(ActingScreen, BackScreen):
    """Opens on ``tab``; with several nodes, shows the node of the pod with the key ``pod``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "tab('overview')", "Overview", show=False, id="node.overview",
                tooltip="Resources, conditions, the machine"),
        Binding("2", "tab('pods')", "Pods", show=False, id="node.pods",
                tooltip="Requests and usage of each pod"),
        Binding("3", "tab('history')", "History", show=False, id="node.history",
                tooltip="Usage of the node, from minutes to a week"),
        Binding("4", "tab('images')", "Images", show=False, id="node.images",
                tooltip="The images on the engine's disk"),
        Binding("5", "tab('rejected')", "Rejected", show=False, id="node.rejected",
                tooltip="Rejected pods, and the resources they lack"),
        Binding("6,w", "tab('what-if')", "What if", key_display="w", id="node.what-if",
                tooltip="Check whether requests or a manifest would fit"),
        Binding("tab", "cycle(1)", "Next tab", show=False, id="node.next",
                tooltip="Go to the next tab"),
        Binding("shift+tab", "cycle(-1)", "Previous tab", show=False, id="node.before",
                tooltip="Go to the previous tab"),
    ]  # fmt: skip
    DEFAULT_CSS = """
    NodeScreen {
        #tabs { background: $background; }
        #content { height: 1fr; }
        .part {
            height: 1fr; border: round $pane-border; padding: 0 1; background: $background;
            border-subtitle-color: $tone-muted; border-subtitle-background: $background;
            &:focus { border: round $pane-border-focus; }
        }
    }
    """
    SHOWS_PULLS = True
    AUTO_FOCUS = ""

    def __init__(self, tab: str = "overview", query: str = "", pod: str = "") -> None:
        super().__init__()
        self._pod = pod
        self.tab = tab
        self._query = query
        self._asks: dict[str, PodRequests] = {}
        self._uses: dict[str, Usage | None] = {}
        """By pod key, as far as published: new usage of very many pods arrives in parts."""
        self._allocatable: dict[str, int] = {}
        self._share_rows: dict[str, _ShareRow] = {}
        self._changed: set[str] = set()
        """Keys of pods whose rows in the table may be outdated."""
        self._shares = Shares()
        self._allocation: NodeAllocation | None = None
        self._gauges: tuple[Gauge, ...] = ()
        self._rejections: tuple[RejectedPod, ...] = ()
        self._stale = True
        self._drawn_at = 0.0
        self._images_due = asyncio.Event()

    def compose(self) -> ComposeResult:
        self.pods = Table(SHARE_COLUMNS, sort="cpu-requested", descending=True, id="pods")
        self.rejected = Table(REJECTED_COLUMNS, sort="name", id="rejected")
        self.rejected.empty = ((Span("✔ No pod is rejected.", "good"),),)
        self.images = NodeImages(id="images")
        self.what_if = WhatIfView(id="what-if")
        yield Bar(id="header")
        yield TabBar(NODE_TABS)
        with Container(id="content"), ContentSwitcher(initial=self.tab):
            yield LinesView(id="overview", classes="part")
            yield _part(self.pods)
            yield _part(NodeHistoryView(id="history"))
            yield _part(self.images)
            yield _part(self.rejected)
            yield self.what_if
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        self.action_tab(self.tab)
        self.run_worker(self._request_images, name="images", group="images")

    # --- selection

    def chosen_pods(self) -> tuple[Pod, ...]:
        table = {"pods": self.pods, "rejected": self.rejected}.get(self.tab)
        pod = self.session.model.pods.get(table.cursor_key) if table is not None else None
        return () if pod is None else (pod,)

    def chosen_image(self) -> str:
        image = self.images.chosen if self.tab == "images" else None
        return "" if image is None else next(iter(image.names), image.id)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in OF_PODS and self.tab not in ("pods", "rejected"):
            return False
        return super().check_action(action, parameters)

    def on_table_opened(self, message: Table.Opened) -> None:
        if message.table in (self.pods, self.rejected):
            self.session.push(PodScreen(message.key, "overview"))

    # --- drawing

    def publish(self, changes: Changes, now: float) -> None:
        model = self.session.model
        for key in changes.pods:
            pod = model.pods.get(key)
            if pod is None:
                for records in (self._asks, self._uses, self._share_rows):
                    records.pop(key, None)
                continue
            if key not in changes.measured:
                self._asks[key] = requests_of(pod)
            self._uses[key] = model.usage.get((pod.metadata.namespace, pod.metadata.name))
        self._changed |= changes.pods
        self._stale |= bool(changes.pods or changes.node or changes.usage or changes.link)
        if not 0 <= now - self._drawn_at < PAUSE:
            self._draw(now)
        elif changes.pods and self._allocation is not None and not self._has_several_nodes:
            # Update a few rows with each change: all rows of half a second at once would cause a
            # noticeable delay.
            self._show_rows()

    def on_resize(self, event: events.Resize) -> None:
        self.call_after_refresh(lambda: self._draw(self.session.now()))

    def _draw(self, now: float) -> None:
        if not self.shown:
            return
        self._drawn_at = now
        if self._stale:
            self._recompute(now)
        self._head()
        if self.tab == "overview":
            self._overview(now)
        elif self.tab == "history":
            self.query_one(NodeHistoryView).show_gauges(self._gauges)
        elif self.tab == "images":
            self.images.show_pulls(self.session.model.pods.values(), self.session.pulls)
        for table in (self.pods, self.images, self.rejected):
            table.tick(now)

    def _recompute(self, now: float) -> None:
        """Recompute all sums and update the tables."""
        self._stale = False
        model = self.session.model
        self._allocation = allocation = allocation_of(model, self._asks, model.pods.get(self._pod))
        if allocation is None:
            return
        self._gauges = gauges(
            allocation.node, allocation.asks, model.usage, allocation.use, self._shares
        )
        self._rejections = rejections(allocation.asks, self._gauges)
        allocatable = {gauge.resource: gauge.allocatable for gauge in self._gauges}
        if allocatable != self._allocatable or self._has_several_nodes:
            self._allocatable = allocatable
            self._changed.clear()
            self.pods.replace(self._share_row(ask) for ask in allocation.asks if self._counts(ask))
        else:
            self._show_rows()
        self.rejected.replace(
            rejected_row(model.pods[rejection.key], rejection)
            for rejection in self._rejections
            if rejection.key in model.pods
        )
        if self.tab == "what-if":
            self.what_if.node_changed(now)

    @property
    def _has_several_nodes(self) -> bool:
        """True if there are several nodes: then the shown set of pods may change completely."""
        return self.session.model.server.capabilities.several_nodes

    def _show_rows(self) -> None:
        """Update the rows of changed pods."""
        asks = [(key, self._asks.get(key)) for key in self._changed]
        self._changed.clear()
        self.pods.change(
            [self._share_row(ask) for _, ask in asks if ask is not None and self._counts(ask)],
            [key for key, ask in asks if ask is None or not self._counts(ask)],
        )

    def _counts(self, ask: PodRequests) -> bool:
        return ask.active and ask.key in self.session.model.pods

    def _share_row(self, ask: PodRequests) -> Row:
        """Return the row of a pod; rebuild it only if its basis changed."""
        pod, use = self.session.model.pods[ask.key], self._uses.get(ask.key)
        basis = ask, use, self._allocatable, pod.metadata.labels
        kept = self._share_rows.get(ask.key)
        if kept is None or kept.basis != basis:
            kept = _ShareRow(basis, share_row(pod, ask, use, self._allocatable))
            self._share_rows[ask.key] = kept
        return kept.row

    def _head(self) -> None:
        node = self._allocation.node if self._allocation is not None else None
        if node is None:
            head = (Span(" node ", "brand"), Span(" no status reported yet", "muted"))
        else:
            ready, state = node_state(node)
            head = (
                Span(" node ", "brand"),
                Span(f" {clean(node.metadata.name)} ", "name"),
                Span("● " if ready else "✖ ", "good" if ready else "error"),
                Span(state, "muted" if ready else "error"),
            )
        self.query_one("#header", Bar).show(head)
        self.show_narrowing()
        count = len(self._rejections)
        self.query_one(TabBar).show_tabs(self.tab, {"rejected": f" ✖{count}"} if count else {})

    def _overview(self, now: float) -> None:
        if self._allocation is not None:
            node = self._allocation.node
            view = self.query_one("#overview", LinesView)
            width, height = max(20, view.size.width - 1), view.size.height
            count = len(self._rejections)
            lines = overview_lines(node, self._gauges, count, now, width, height)
            room = height - len(lines) - 1
            if room >= PLOTS and not self._has_several_nodes:
                past = self.query_one(NodeHistoryView)
                past.show_gauges(self._gauges)
                lines += [(), *past.history(width, room)]
            view.show(lines)

    async def _request_images(self) -> None:
        """Poll the images forever, while the images tab is open."""
        while True:
            self._images_due.clear()
            here = self.tab == "images"
            if here:
                try:
                    self.images.show_images(await self.session.client.images())
                except PodtuiError as error:
                    self.images.show_problem(str(error))
            try:
                async with asyncio.timeout(IMAGES_SECONDS if here else None):
                    await self._images_due.wait()
            except TimeoutError:
                continue

    def on_node_images_changed(self, message: NodeImages.Changed) -> None:
        self._images_due.set()

    # --- tabs

    def action_tab(self, tab: str) -> None:
        if tab == "what-if":
            self.what_if.open(self._initial_question())
        self.tab = tab
        self._images_due.set()
        self.query_one(ContentSwitcher).current = tab
        self._body().focus()
        self._draw(self.session.now())
        self.call_after_refresh(lambda: self._draw(self.session.now()))
        self.refresh_bindings()

    def _initial_question(self) -> str:
        """Return the initial question: the given query, or the manifest file of the rejected pod
        under the cursor."""
        query, self._query = self._query, ""
        if not query and self.tab == "rejected":
            for pod in self.chosen_pods():
                manifest = self.session.model.manifest_of(pod)
                query = "" if manifest is None else PurePosixPath(manifest.spec.path).name
        return query

    def _body(self) -> Widget:
        return self.what_if.input if self.tab == "what-if" else self.query_one(f"#{self.tab}")

    def action_cycle(self, step: int) -> None:
        self.action_tab(next_tab(NODE_TABS, self, self.tab, step))


def _part(widget: Widget) -> Widget:
    return widget.add_class("part")
