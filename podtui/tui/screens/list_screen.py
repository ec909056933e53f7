"""The base of full-screen tables of what the user's actions left: forwards, journal, trash."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.worker import Worker

from podtui.errors import PodtuiError
from podtui.tui.model.model import Changes
from podtui.tui.screens.live_screen import BackScreen
from podtui.tui.widgets.bars import Bar, Hints
from podtui.tui.widgets.cells import Column, Line, Row, Span
from podtui.tui.widgets.prompt import Prompt
from podtui.tui.widgets.sanitize import clean
from podtui.tui.widgets.table import Table


class ListScreen(BackScreen):
    """A screen with one table. It loads the rows when it opens and then every `SECONDS`."""

    SECONDS: ClassVar[float] = 1.0
    DESCENDING: ClassVar[bool] = True
    COLUMNS: ClassVar[Sequence[Column]] = ()
    SORT: ClassVar[str] = ""
    NAME: ClassVar[str] = ""
    NO_HINTS: ClassVar[frozenset[str]] = frozenset({"table.open"})
    """Enter does the same as one of the screen's own keys, so its hint "open" would mislead."""
    NOTHING: ClassVar[Sequence[str]] = ()
    ON_ROWS: ClassVar[frozenset[str]] = frozenset()
    """The actions on the row under the cursor."""
    DEFAULT_CSS = """
    ListScreen Table { height: 1fr; border: round $pane-border-focus; padding: 0 1;
        border-title-color: $pane-title-focus; background: $background; }
    """
    AUTO_FOCUS = "Table"

    def __init__(self) -> None:
        super().__init__()
        descends = self.DESCENDING
        self.table = Table(self.COLUMNS, sort=self.SORT, descending=descends, follow_top=descends)
        self._asking: Worker[None] | None = None

    def compose(self) -> ComposeResult:
        yield Bar(id="header")
        yield self.table
        yield Hints()
        yield Prompt()

    def begin(self) -> None:
        self.table.empty = tuple((Span(text, "soft" if not n else "muted"),)
                                 for n, text in enumerate(self.NOTHING))  # fmt: skip
        self.set_interval(self.SECONDS, self._poll)
        self.ask()

    def publish(self, changes: Changes, now: float) -> None:
        self.table.tick(now)

    def _poll(self) -> None:
        # Wait for a slow answer: restarting the query every second would never finish it.
        if self._asking is None or self._asking.is_finished:
            self.ask()

    def ask(self) -> None:
        """Reload the rows now; a pending query is cancelled."""
        self._asking = self.run_worker(self._ask, group="list", exclusive=True)

    async def _ask(self) -> None:
        try:
            rows = list(await self.rows())
        except PodtuiError as error:
            self.head((Span(f" ▲ {clean(str(error))} ", "warning"),))
            return
        had_rows = bool(len(self.table.set))
        self.table.replace(rows)
        if bool(rows) is not had_rows:
            self.refresh_bindings()
        self.head(self.summary(len(rows)))

    def has_target(self, action: str) -> bool:
        return action not in self.ON_ROWS or bool(len(self.table.set))

    async def rows(self) -> Iterable[Row]:
        """Return the rows of the table. Raises `PodtuiError`."""
        raise NotImplementedError

    def summary(self, count: int) -> Line:
        """Return the header text after the screen's name."""
        return (Span(f"{count:,}", "soft"),)

    def head(self, spans: Line) -> None:
        # An answer may arrive while the screen closes, when it has no header any more.
        for header in self.query("#header").results(Bar):
            header.show((Span(f" {self.NAME} ", "brand"), Span(" "), *spans))
