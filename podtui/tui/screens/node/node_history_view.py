"""The tab with the node's usage history, recorded by the agent or else by this screen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from textual.binding import Binding, BindingType
from textual.worker import Worker

from podtui.api.insight import InsightQuery, NodeInsight
from podtui.errors import ApiError, PodtuiError
from podtui.tui.commands.session import Session, session_of
from podtui.tui.views.node.allocation import Gauge
from podtui.tui.views.node.plot import history_lines, observed_usage, recorded_usage
from podtui.tui.widgets.cells import Line
from podtui.tui.widgets.chart import SPANS, USUAL, next_span
from podtui.tui.widgets.tones import LinesView

WAIT_SECONDS: Final = 30.0
RETRY_SECONDS: Final = 5.0
LEAST_SECONDS: Final = 1.0


class NodeHistoryView(LinesView):
    """Polls the agent while it exists; a request waits until there is new data."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "span(-1)", "Shorter", key_display="[",
                id="node-history.shorter", tooltip="Show less of the past, down to 15 minutes"),
        Binding("right_square_bracket", "span(1)", "Longer", key_display="]",
                id="node-history.longer", tooltip="Show more of the past, up to 7 days"),
    ]  # fmt: skip

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._span = USUAL
        self._insight: NodeInsight | None = None
        self._gauges: Sequence[Gauge] = ()
        self._asking: Worker[None] | None = None

    @property
    def session(self) -> Session:
        return session_of(self)

    def on_mount(self) -> None:
        self._request()

    def show_gauges(self, gauges: Sequence[Gauge]) -> None:
        """Update the node's resources."""
        self._gauges = gauges
        self._draw()

    def history(self, width: int, height: int) -> list[Line]:
        """Return the plots for another widget, without the key hints."""
        return self._lines(width, height, keys=False)

    def _lines(self, width: int, height: int, *, keys: bool = True) -> list[Line]:
        now = self.session.now()
        if self._insight is not None:
            past = recorded_usage(self._insight)
        else:
            past = observed_usage(tuple(self.session.model.node_history.samples), now, self._span)
        return history_lines(self._gauges, past, now, self._span, width, height, keys=keys)

    def action_span(self, step: int) -> None:
        selected = next_span(self._span, step)
        if selected != self._span:
            self._span = selected
            self._request()
            self._draw()

    def on_resize(self) -> None:
        super().on_resize()
        self._draw()

    def _draw(self) -> None:
        if self.size.width:
            self.show(self._lines(max(20, self.size.width - 1), max(8, self.size.height)))

    def _request(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
        self._asking = self.run_worker(partial(self._poll, SPANS[self._span]), name="node history")

    async def _poll(self, span: float) -> None:
        """Poll forever; return only if the server keeps no history."""
        seen = ""
        while True:
            wait = WAIT_SECONDS if seen else 0.0
            query = InsightQuery(span=span, seen=seen, wait=wait)
            try:
                found = await self.session.client.node_insight(query)
            except PodtuiError as error:
                if isinstance(error, ApiError) and error.code in (404, 405, 501):
                    return
                seen = ""
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if found is not None:
                self._insight, seen = found, found.version
                self._draw()
            await asyncio.sleep(LEAST_SECONDS)
